"""The four patterns of slow data, as stacks show them, by the names of functions and files.

The names are those of pandas 1.0 to 3.1 (`iloc`, `loc`, `at` and `iat` are `__getitem__` in `pandas/core/indexing.py`,
`df[...]` and `iterrows` are in `pandas/core/frame.py` in all of them), NumPy 1.x and 2.x (`npyio.py`, since 2.0
`_npyio_impl.py`, both with `format.py` or `_format_impl.py`), PyTorch 1.0 to 2.13 (a dataset is called from
`torch/utils/data/_utils/fetch.py`, a worker runs `_worker_loop`), Pillow, and Python's own library. py-spy puts the
class before the name where Python has it (3.11 and later), so that a function is compared by its own name.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from costguard_vm.profile.frames import Frame, Stack


class Pattern(StrEnum):
    """A reason why data comes late. The values are those that the API gives."""

    ROWS = "rows"  # a data frame is indexed by rows
    ONCE = "once"  # an item is decoded, parsed or tokenised again each time
    VALIDATION = "validation"  # the validation data is read again at each evaluation
    READS = "reads"  # each item is a small file of its own


class PatternMatch(NamedTuple):
    """A stack in a pattern. `hot` is the project's own function above the library's; `is_named`: what it does is known
    by name.
    """

    pattern: Pattern
    hot: Frame
    is_named: bool = True


_NAMELESS = re.compile(r"<(?:listcomp|genexpr|dictcomp|setcomp|lambda)>$")
_FETCH = re.compile(r"torch/utils/data/_utils/fetch\.py$|torch/utils/data/dataset\.py$")
_ITEM = re.compile(r"__getitems?__$")
_LOADED = re.compile(r"torch/utils/data/")

_ROW = re.compile(r"__getitem__$|iterrows$|itertuples$|query$|xs$|loc$|iloc$|i?at$|_ixs$|__getattr__$")
_PANDAS = re.compile(r"^pandas/core/")
_INDEXING = re.compile(r"^pandas/core/indexing\.py$")

_OPENS = re.compile(
    r"(?:open|_open|read_bytes|read_text|read_file|fromfile|stat|lstat|exists|isfile|is_file|getsize|scandir|listdir)$"
)
_OPENING = re.compile(
    r"^(?:pathlib|codecs|genericpath|posixpath|os|io|tempfile|zipfile)(?:/|\.py|$)"
    r"|^<frozen (?:genericpath|posixpath|os|codecs)>"
    r"|^(?:fsspec|gcsfs|s3fs|smart_open|aiohttp|google/cloud/storage|botocore)/"
)
_ARRAY_FILE = re.compile(
    r"^numpy/lib/(?:_?npyio|_?format)|^torch/serialization\.py$|^torch/_weights_only|^h5py/|^safetensors/"
)
_ARRAY_READS = re.compile(
    r"load$|__init__$|File$|read_array|_read_array_header|_check_version|read_magic|_read_bytes|open"
)
_READS_BY_NAME = re.compile(
    r"_?(?:read|open|fetch)(?:_?(?:sample|item|file|blob|object|bytes|raw|one|image|array))?\w*$"
)

_DECODES = re.compile(
    r"^PIL/|^cv2/|^imageio/|^skimage/|^torchvision/io/|^torchvision/transforms/(?:v2/)?_?functional|^torchaudio/|^librosa/"
    r"|^soundfile|^scipy/(?:io|signal)/|^nibabel/|^pydicom/|^rasterio/|^av/|^decord/"
    r"|^json/|^csv\.py$|^xml/|^html/|^yaml/|^ast\.py$|^pickle\.py$|^gzip\.py$|^base64\.py$|^re(?:/|\.py)|^sre_"
    r"|^pandas/io/|^numpy/lib/_?npyio|^transformers/(?:tokenization|models/\w+/tokenization|feature_extraction|image_processing)"
    r"|^tokenizers/|^sentencepiece/|^tiktoken/|^spacy/|^nltk/|^datasets/features/"
)
_DECODES_BY_NAME = re.compile(
    r"_?(?:decode|parse|tokeni[sz]e|encode|preprocess|featuri[sz]e|extract|deseriali[sz]e|normali[sz]e|clean|resize|"
    r"spectrogram|unpack|convert)\w*$"
)
_RANDOM = re.compile(
    r"augment|random|jitter|crop|flip|rotat|mixup|cutmix|perturb|noise|dropout|sample_negative|get_params"
)
_RANDOM_FILE = re.compile(r"^random\.py$|^albumentations/|^imgaug/|^audiomentations/")

_EVALUATES = re.compile(
    r"(?:eval|_?evaluate\w*|eval_\w+|evaluation_\w+|_?validat\w*|_?run_(?:validation|eval)\w*|val_\w+|_?val|"
    r"(?:load|read|get|make|build)_(?:val|valid|eval|dev|test)\w*|on_validation\w*|test_(?:epoch|step|loop))$"
)
_PARSES = re.compile(
    r"^pandas/io/|^numpy/lib/_?(?:npyio|format)|^pyarrow/|^h5py/|^torch/serialization\.py$|^torch/_weights_only|^json/|^csv\.py$"
    r"|^pickle\.py$|^gzip\.py$|^zipfile|^xml/|^PIL/|^datasets/(?:load|builder|arrow_dataset|io/)|^fsspec/|^soundfile|^librosa/"
)
_READS_WHOLE = re.compile(r"_?(?:load|read|parse|decode|open|tokeni[sz]e)(?:_\w+)?$")


def pattern_of(stack: Stack, ran: bool) -> PatternMatch | None:
    """Names the pattern that a stack is in; None for none. `ran`: in most looks at it the thread did not sleep."""
    item = _item(stack)
    if item is None:
        return _rereads(stack) or _rows_of_a_loop(stack)
    under = stack[item:]
    if not under or any(_RANDOM.search(one.name.lower()) or _RANDOM_FILE.search(one.file) for one in under):
        return None
    hot, library = _hot(under)
    if library and _PANDAS.match(library[0].file) and _ROW.match(library[0].name):
        return PatternMatch(Pattern.ROWS, hot)
    if any(_INDEXING.match(one.file) for one in library):
        return PatternMatch(Pattern.ROWS, hot)
    if _is_reading(library, hot, ran):
        return PatternMatch(Pattern.READS, hot)
    named = any(_DECODES.search(one.file) for one in library)
    if named or any(one.is_own and _DECODES_BY_NAME.match(one.name) for one in under):
        return PatternMatch(Pattern.ONCE, hot)
    helper = len([one for one in under if one.is_own]) > 1
    return PatternMatch(Pattern.ONCE, hot, is_named=False) if helper and ran else None


def is_item(stack: Stack) -> bool:
    """Says whether it prepares an item of a dataset."""
    return _item(stack) is not None


def _item(stack: Stack) -> int | None:
    """Returns the place of the first frame of a dataset's own work on an item."""
    place = None
    for number, frame in enumerate(stack):
        if _FETCH.search(frame.file):
            place = number + 1
        elif place is None and frame.is_own and _ITEM.match(frame.name):
            place = number
    return place if place is not None and place < len(stack) else None


def _hot(stack: Stack) -> tuple[Frame, Stack]:
    """Returns the innermost function of the project's own that has a name, and the library's frames below it."""
    own = [number for number, frame in enumerate(stack) if frame.is_own]
    if not own:
        return stack[0], stack[1:]
    named = [number for number in own if not _NAMELESS.match(stack[number].name)]
    return stack[(named or own)[-1]], stack[own[-1] + 1 :]


def _is_reading(library: Stack, hot: Frame, ran: bool) -> bool:
    opens = (one.name == "open" or (_OPENS.match(one.name) and _OPENING.search(one.file)) for one in library)
    arrays = (_ARRAY_FILE.match(one.file) and _ARRAY_READS.search(one.name) for one in library)
    text = any(one.name in ("loadtxt", "genfromtxt", "_read") and "npyio" in one.file for one in library)
    if (any(opens) or any(arrays)) and not text:
        return True
    if library and any(_DECODES.search(one.file) for one in library):
        return not ran and library[0].file.startswith("PIL/")  # it decodes as it reads
    return not library and (bool(_READS_BY_NAME.match(hot.name)) or not ran)


def _rows_of_a_loop(stack: Stack) -> PatternMatch | None:
    """Recognises a training that goes over a data frame by itself, without a dataset."""
    if any(_LOADED.search(one.file) for one in stack) or any(_EVALUATES.match(one.name) for one in stack):
        return None
    hot, library = _hot(stack)
    if not library or not hot.is_own:
        return None
    goes = _PANDAS.match(library[0].file) and library[0].name in ("iterrows", "itertuples")
    return PatternMatch(Pattern.ROWS, hot) if goes or any(_INDEXING.match(one.file) for one in library) else None


def _rereads(stack: Stack) -> PatternMatch | None:
    """Recognises an evaluation that reads and parses a whole file, and no batch of a loader."""
    if any(_LOADED.search(one.file) for one in stack):
        return None
    begins = next((n for n, one in enumerate(stack) if _EVALUATES.match(one.name)), None)
    if begins is None:
        return None
    inside = stack[begins:]
    parses = any(_PARSES.match(one.file) for one in inside)
    hot, library = _hot(inside)
    own = [one for one in inside[1:] if one.is_own]
    reads = not library and any(_READS_WHOLE.match(one.name) or one.name == "__init__" for one in own)
    return PatternMatch(Pattern.VALIDATION, hot) if parses or reads else None
