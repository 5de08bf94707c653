"""What torch.save wrote before 1.6, and still writes when it is asked to: pickles one after another, then raw storages.

Source: `_legacy_save` and `_legacy_load` in torch/serialization.py of PyTorch 2.15. Five pickles (a magic number, a
protocol, facts about the system, the object, the keys of its storages), then for each key eight bytes that hold the
number of elements, and the elements. The object names each storage by a persistent id: `("storage", class, key,
location, number of elements, view)`. Loading one that was cut off within its storages fails only there.
"""

from __future__ import annotations

from costguard.checkpoints.layouts.base import Reader
from costguard.checkpoints.layouts.pickles import MARK, PERSISTENT, STOP, Named, Value, end_of, tokens
from costguard.checkpoints.layouts.ranges import Window
from costguard.model.checkpoint import StoredFile

# The first pickle: protocol 2 or later, and 0x1950a86a20f9469cfc6c as a LONG1 of ten bytes.
_MAGIC = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_BEFORE_OBJECT = 3
_COUNT = 8  # bytes before each storage
_MOST_NAMED = 10  # of a persistent id
_WIDTHS = {
    "ByteStorage": 1, "CharStorage": 1, "BoolStorage": 1, "QInt8Storage": 1, "QUInt8Storage": 1,
    "QUInt4x2Storage": 1, "QUInt2x4Storage": 1, "UntypedStorage": 1,
    "ShortStorage": 2, "HalfStorage": 2, "BFloat16Storage": 2,
    "IntStorage": 4, "FloatStorage": 4, "QInt32Storage": 4,
    "LongStorage": 8, "DoubleStorage": 8, "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16,
}  # fmt: skip


def is_legacy(begin: bytes) -> bool:
    """By the first bytes of a file. A protocol of 4 and later puts a frame before the number."""
    return begin[:1] == b"\x80" and _MAGIC in begin[1:40]


def problem(file: StoredFile, name: str, reader: Reader) -> str:
    """Empty where it is whole. Raises UnknownOpcode and TooLarge where its pickles cannot be followed."""
    source = Window(file, reader)
    at: int | None = 0
    for _ in range(_BEFORE_OBJECT):
        at = end_of(source, at) if at is not None else None
    if at is None:
        return f"{name} ends within its first bytes."
    sizes, at = _storages(source, at)
    keys = end_of(source, at) if at is not None else None
    if keys is None:
        return f"{name} ends before the STOP of its pickle: it was cut off, or is still written."
    whole = keys + sum(_COUNT + size for size in sizes.values())
    if file.size < whole:
        return f"{name} is {file.size} bytes long, and its storages need {whole}."
    return ""


def _storages(source: Window, at: int) -> tuple[dict[str, int], int | None]:
    """The bytes of each storage by its key, and where the object's pickle ends; None: it is cut off."""
    sizes: dict[str, int] = {}
    named: list[Value] = []  # since the last mark: a persistent id is a tuple that begins at one
    for token in tokens(source, at):
        if token.end > source.size:
            return sizes, None
        if token.code == STOP:
            return sizes, token.end
        if token.code == MARK:
            named = []
        elif token.code == PERSISTENT:
            sizes.update(_size(named))
        elif token.value is not None and len(named) < _MOST_NAMED:
            named.append(token.value)
    return sizes, None


def _size(named: list[Value]) -> dict[str, int]:
    """Nothing for other persistent ids. The class stands second; with protocol 4 its two names stand before it."""
    if not named or named[0] != "storage":
        return {}
    for at, kind in enumerate(named):
        if isinstance(kind, Named):
            key, _, count, *_ = (*named[at + 1 :], None, None, None)
            return {key: count * _WIDTHS.get(kind.name, 1)} if isinstance(key, str) and isinstance(count, int) else {}
    return {}
