"""Whether a single file is whole, by what its format says about its own size. A few range reads, never all of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

from costguard.checkpoints.layouts import plain_formats, torch_legacy
from costguard.checkpoints.layouts.base import Problems, Reader
from costguard.checkpoints.layouts.pickles import UnknownOpcode
from costguard.checkpoints.layouts.ranges import TooLarge
from costguard.model.checkpoint import StoredFile

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


def problems_of(files: Sequence[StoredFile], reader: Reader) -> Problems:
    """What is wrong with these files, in their order."""
    return [found for found in reader.each(lambda file: problem_of(file, reader), files) if found]


def problem_of(file: StoredFile, reader: Reader) -> str:
    """Empty when it is whole, or of a format that does not tell."""
    name = file.path.rpartition("/")[2]
    if not file.size:
        return f"{name} is empty."
    if name.endswith(".safetensors"):
        return _safetensors(file, name, reader)
    begin = reader.read(file, 0, min(file.size, _BEGIN))
    if begin.startswith(b"PK"):
        return _zip(file, name, reader)
    if begin.startswith(_HDF5):
        return _hdf5(file, name, begin[:_SUPERBLOCK])
    if begin.startswith(plain_formats.NUMPY):
        return plain_formats.numpy_problem(file, name, reader)
    if plain_formats.is_tar(begin):
        return plain_formats.tar_problem(file, name, reader)
    if torch_legacy.is_legacy(begin):
        try:
            return torch_legacy.problem(file, name, reader)
        except (UnknownOpcode, TooLarge):
            return f"{name} has pickles that cannot be followed, so nothing shows that it is whole."
    if begin.startswith(b"\x80") and name.endswith(_PICKLES):
        return plain_formats.pickle_problem(file, name, reader)
    writer = next((writer for suffixes, writer in _WRITERS if name.endswith(suffixes)), "")
    return f"{name} does not begin as {writer} writes it." if writer else ""


def _zip(file: StoredFile, name: str, reader: Reader) -> str:
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


def _safetensors(file: StoredFile, name: str, reader: Reader) -> str:
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
