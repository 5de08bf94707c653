"""Judges whether a single file is whole, by what its format says about its own size.

A few range reads, never all of it.
"""

from __future__ import annotations

import ast
import json
import re
import struct
from collections.abc import Sequence
from math import prod

from costguard_vm.checkpoints.layouts.base import Lacking, Problems, RangeReader, TooLarge, Vouching, Window
from costguard_vm.checkpoints.layouts.pickles import MARK, PERSISTENT, STOP, Named, UnknownOpcode, Value, end_of, tokens
from costguard_vm.model.checkpoint import StoredFile

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
    """Recognises the legacy format by the first bytes of a file.

    A protocol of 4 and later puts a frame before the number.
    """
    return begin[:1] == b"\x80" and _MAGIC in begin[1:40]


def legacy_problem(file: StoredFile, name: str, reader: RangeReader) -> str:
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
            sizes.update(_storage_size(named))
        elif token.value is not None and len(named) < _MOST_NAMED:
            named.append(token.value)
    return sizes, None


def _storage_size(named: list[Value]) -> dict[str, int]:
    """Nothing for other persistent ids. The class stands second; with protocol 4 its two names stand before it."""
    if not named or named[0] != "storage":
        return {}
    for at, kind in enumerate(named):
        if isinstance(kind, Named):
            key, _, count, *_ = (*named[at + 1 :], None, None, None)
            return {key: count * _WIDTHS.get(kind.name, 1)} if isinstance(key, str) and isinstance(count, int) else {}
    return {}


NUMPY = b"\x93NUMPY"
_TYPE = re.compile(r"[<>|=]?[?biufcmMSUV]([0-9]*)(?:\[[^\]]*\])?")
_BLOCK = 512  # of a tar
_MOST_NUMPY_HEADER = 1 << 20
_MOST_MEMBERS = 10_000


def is_tar(begin: bytes) -> bool:
    return begin[257:262] == b"ustar"


def pickle_problem(file: StoredFile, name: str, reader: RangeReader) -> str:
    """Pickles one after another. What follows the last of them, and is none, is left alone."""
    source = Window(file, reader)
    at: int | None = 0
    try:
        while at is not None and at < file.size and source.part(at, at + 1) == b"\x80":
            at = end_of(source, at)
    except (UnknownOpcode, TooLarge):  # joblib puts raw arrays within its pickle; its last opcode is STOP all the same
        at = file.size if source.part(file.size - 1, file.size) == b"." else None
    return "" if at is not None else f"{name} ends before the STOP of its pickle: it was cut off, or is still written."


def numpy_problem(file: StoredFile, name: str, reader: RangeReader) -> str:
    """The header tells type and shape. Source: numpy/lib/format.py, "Format Version 1.0" and later."""
    source = Window(file, reader)
    start = source.part(0, 12)
    wide = 2 if start[6:7] == b"\x01" else 4
    length = int.from_bytes(start[8 : 8 + wide], "little")
    begin = 8 + wide + length
    if len(start) < 12 or begin > file.size:
        return f"{name} ends within its header."
    if length > _MOST_NUMPY_HEADER:
        return f"{name} has a header that cannot be read."
    try:
        header = ast.literal_eval(source.part(8 + wide, begin).decode("latin-1").strip())
        described, shape = header["descr"], header["shape"]
        count = prod(int(size) for size in shape)
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError):
        return f"{name} has a header that cannot be read."
    matched = _TYPE.fullmatch(described) if isinstance(described, str) else None
    if matched is None:  # objects are pickled, and fields have widths of their own
        return ""
    width = int(matched[1] or 1) * (4 if "U" in described else 1)
    whole = begin + width * count
    return "" if file.size >= whole else f"{name} is {file.size} bytes long, and its header tells {whole}."


def tar_problem(file: StoredFile, name: str, reader: RangeReader) -> str:
    """Each member tells its size; two empty blocks end it. PyTorch saved so before 0.1.10."""
    source = Window(file, reader)
    at = 0
    for _ in range(_MOST_MEMBERS):
        block = source.part(at, at + _BLOCK)
        if len(block) < _BLOCK:
            return f"{name} ends without the mark of its end: it was cut off, or is still written."
        if not any(block):
            return ""
        size = _tar_size(block[124:136])
        if size is None:
            return f"{name} has a member at {at} that cannot be read."
        at += _BLOCK + -(-size // _BLOCK) * _BLOCK
    return ""


def _tar_size(field: bytes) -> int | None:
    """Octal digits; past 8 GiB a number with its first bit set."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ((1 << 95) - 1)
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        return None


_ZIP_END = b"PK\x05\x06"
_ZIP_END_SIZE = 22
_ZIP64_END = b"PK\x06\x06"
_ZIP64_SIZE = 76  # the two records that may stand before the end where a file is large
_HDF5 = b"\x89HDF\r\n\x1a\n"
_MOST_HEADER = 100_000_000  # what the safetensors library accepts
_UNSET = (1 << 64) - 1
_SUPERBLOCK = 52
_BEGIN = 512  # bytes that show what a file is
_PICKLES = (".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle", ".joblib", ".tar")  # `model.pth.tar` is one too
_WRITERS = (
    ((".pt", ".pth", ".ckpt", ".bin"), "torch.save"),
    ((".h5", ".hdf5", ".h5.bkp"), "HDF5"),
    ((".npy", ".npz"), "NumPy"),
    ((".keras",), "Keras"),
)
_HDF5_END = {0: (13, 40), 1: (13, 44), 2: (9, 28), 3: (9, 28)}  # by version: where the address width and the end stand


def problems_of(files: Sequence[StoredFile], reader: RangeReader) -> Problems:
    """Lists the problems of these files, in their order."""
    problems = reader.each(lambda file: problem_of(file, reader), files)
    return [Lacking.of(problem, file.path.rpartition("/")[2]) for problem, file in zip(problems, files) if problem]


def problem_of(file: StoredFile, reader: RangeReader) -> str:
    """Empty when it is whole, or of a format that does not tell."""
    name = file.path.rpartition("/")[2]
    if isinstance(reader, Vouching) and (problem := reader.problem(file)) is not None:
        return problem
    if not file.size:
        return f"{name} is empty."
    if name.endswith(".safetensors"):
        return _safetensors(file, name, reader)
    begin = reader.read(file, 0, min(file.size, _BEGIN))
    if begin.startswith(b"PK"):
        return _zip(file, name, reader)
    if begin.startswith(_HDF5):
        return _hdf5(file, name, begin[:_SUPERBLOCK])
    if begin.startswith(NUMPY):
        return numpy_problem(file, name, reader)
    if is_tar(begin):
        return tar_problem(file, name, reader)
    if is_legacy(begin):
        try:
            return legacy_problem(file, name, reader)
        except (UnknownOpcode, TooLarge):
            return f"{name} has pickles that cannot be followed, so nothing shows that it is whole."
    if begin.startswith(b"\x80") and name.endswith(_PICKLES):
        return pickle_problem(file, name, reader)
    writer = next((writer for suffixes, writer in _WRITERS if name.endswith(suffixes)), "")
    return f"{name} does not begin as {writer} writes it." if writer else ""


def _zip(file: StoredFile, name: str, reader: RangeReader) -> str:
    """torch.save writes a ZIP without a comment, so its end record is the last thing in it."""
    if file.size < _ZIP_END_SIZE:
        return f"{name} ends before its end record: it is {file.size} bytes long."
    tail = min(file.size, _ZIP_END_SIZE + _ZIP64_SIZE)
    end = reader.read(file, file.size - tail, tail)
    if not end.startswith(_ZIP_END, tail - _ZIP_END_SIZE):
        return f"{name} has no end record: it was cut off, or is still written."
    size, begin = struct.unpack("<II", end[-10:-2])
    ends_at = file.size - _ZIP_END_SIZE
    if end.startswith(_ZIP64_END) and tail > _ZIP64_SIZE:  # the true figures of a file of 4 GB and more stand there
        size, begin = struct.unpack("<QQ", end[40:56])
        ends_at -= _ZIP64_SIZE
    off = abs(ends_at - begin - size)
    return f"{name} is {off} bytes away from the size that its directory tells." if off else ""


def _safetensors(file: StoredFile, name: str, reader: RangeReader) -> str:
    if file.size < 8:
        return f"{name} ends within its header."
    (length,) = struct.unpack("<Q", reader.read(file, 0, 8))
    if length > _MOST_HEADER:
        return f"{name} does not begin with a safetensors header."
    if 8 + length > file.size:
        return f"{name} ends within its header."
    try:
        header = json.loads(reader.read(file, 8, length))
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
        whole = 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return f"{name} has a header that cannot be read."
    return "" if whole == file.size else f"{name} is {file.size} bytes long, and its header tells {whole}."


def _hdf5(file: StoredFile, name: str, begin: bytes) -> str:
    """The superblock says where the file ends: HDF5 refuses a shorter one.

    It is written last, as the file is closed, so that a longer one was never closed: what it names is not there yet.
    """
    if len(begin) < _SUPERBLOCK:
        return f"{name} ends within its superblock."
    version = begin[8]
    width_at, end_at = _HDF5_END.get(version, (0, 0))
    if not end_at or begin[width_at] != 8:
        return ""  # a later version, or narrow addresses: it does not tell us
    (end,) = struct.unpack("<Q", begin[end_at : end_at + 8])
    if end == _UNSET:
        return f"{name} was never closed."
    if end < file.size:
        return f"{name} is {file.size} bytes long, and its superblock says {end}: it was never closed."
    return f"{name} is {file.size} bytes long, and should be {end}." if end > file.size else ""
