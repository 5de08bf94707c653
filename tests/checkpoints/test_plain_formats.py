"""Files without a layout of their own: what PyTorch, pickle, NumPy and tar write, whole and cut off."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path

import pytest
from tests.checkpoints.places import START, Memory

from costguard_vm.checkpoints.layouts.formats import problem_of
from costguard_vm.checkpoints.layouts.pickles import step_inside
from costguard_vm.model.checkpoint import StoredFile

REAL = Path(__file__).parent / "real"
LEGACY = ("legacy.pt", "legacy-protocol4.pt")
OBJECT = 137  # where the object's pickle begins in legacy.pt
WEIGHTS = bytes(range(256)) * 8


def problem(name: str, body: bytes) -> str:
    place = Memory([(name, body)])
    return problem_of(place.listing.files[name], place)


def tar(*sizes: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as opened:
        for number, size in enumerate(sizes):
            member = tarfile.TarInfo(("sys_info", "pickle", "tensors", "storages")[number])
            member.size = size
            opened.addfile(member, io.BytesIO(bytes(size)))
    return made.getvalue()


@pytest.mark.parametrize("name", LEGACY)
def test_no_beginning_of_a_legacy_file_is_whole(name: str) -> None:
    """The file is refused by torch.load too: cut in its pickles, its list of keys or its storages."""
    body = (REAL / name).read_bytes()
    assert problem("a.pt", body) == ""
    assert [cut for cut in range(1, len(body)) if not problem("a.pt", body[:cut])] == []


@pytest.mark.parametrize("name", LEGACY)
def test_a_legacy_file_says_what_it_lacks(name: str) -> None:
    """Bytes of its storages, or the STOP of its pickle."""
    body = (REAL / name).read_bytes()
    assert problem("a.pt", body[:-1]) == f"a.pt is {len(body) - 1} bytes long, and its storages need {len(body)}."
    assert "ends before the STOP of its pickle" in problem("a.pt", body[:700])
    assert problem("a.pt", body[:60]) == "a.pt ends within its first bytes."


@pytest.mark.parametrize("name", LEGACY)
def test_a_legacy_file_is_known_under_any_name(name: str) -> None:
    """The magic number decides: people call it model.pth.tar, weights.model or state."""
    body = (REAL / name).read_bytes()
    assert problem("state", body) == ""
    assert "its storages need" in problem("model.pth.tar", body[:-1])


@pytest.mark.parametrize("name", LEGACY)
def test_the_step_of_a_legacy_file(name: str) -> None:
    """Lightning's files of before PyTorch 1.6 are ordered by the step in their pickle."""
    place = Memory([("last.ckpt", (REAL / name).read_bytes())])
    assert step_inside(place.listing.files["last.ckpt"], place) == 120


def test_a_legacy_file_of_which_nothing_is_called() -> None:
    """A hostile object in its place is read past, and never loaded."""
    body = (REAL / "legacy.pt").read_bytes()
    hostile = body[:OBJECT] + b"\x80\x02cos\nsystem\n(X\x05\x00\x00\x00falsetR.\x80\x02]."
    assert problem("a.pt", hostile) == ""


def test_weights_are_not_read() -> None:
    """The pickles before storages of a gigabyte alone are read."""
    body = (REAL / "legacy.pt").read_bytes()
    place = Memory([("a.pt", body)])
    huge = StoredFile("a.pt", 1 << 40, "", START)

    class Beginning(Memory):
        def read(self, file: StoredFile, start: int, length: int) -> bytes:
            self.asked.append((file.path, start, length))
            return (body + bytes(length))[start : start + length] if start < len(body) else bytes(length)

    place = Beginning([])
    assert problem_of(huge, place) == ""
    assert sum(length for _, _, length in place.asked) < 1 << 18


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_ends_in_its_stop(protocol: int) -> None:
    """The pickle is torn at each cut but that between two pickles of one file."""
    first = pickle.dumps({"weights": WEIGHTS, "name": "end."}, protocol)
    both = first + pickle.dumps([1.5, "more."], protocol)
    whole = [cut for cut in range(1, len(both) + 1) if not problem("a.pkl", both[:cut])]
    assert whole == [len(first), len(both)]


def test_a_pickle_with_raw_arrays_in_it_ends_in_a_stop() -> None:
    """joblib writes the bytes of arrays between opcodes; its last byte is a STOP all the same."""
    odd = pickle.dumps({"a": 1})[:-1] + b"\xff" * 64
    assert problem("model.joblib", odd + b".") == ""
    assert "ends before the STOP" in problem("model.joblib", odd)


def test_numpy_tells_its_size() -> None:
    """The size is by type and shape in its header; a real file is whole at its own length alone."""
    body = (REAL / "array.npy").read_bytes()
    assert problem("a.npy", body) == ""
    assert problem("a.npy", body[:-1]) == f"a.npy is {len(body) - 1} bytes long, and its header tells {len(body)}."
    assert [cut for cut in range(8, len(body)) if not problem("a.npy", body[:cut])] == []


@pytest.mark.parametrize(
    ("described", "count", "width"),
    [("<M8[ns]", 3, 8), ("|b1", 5, 1), ("<U10", 2, 40), ("|S7", 2, 7), (">c16", 1, 16)],
)
def test_numpy_types_have_their_widths(described: str, count: int, width: int) -> None:
    """Letters of unicode take four bytes; the unit of a time is not its width."""
    header = f"{{'descr': '{described}', 'fortran_order': False, 'shape': ({count},), }}\n".encode()
    begin = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    assert problem("a.npy", begin + bytes(count * width)) == ""
    assert f"its header tells {len(begin) + count * width}" in problem("a.npy", begin + bytes(count * width - 1))


@pytest.mark.parametrize("header", [b"{", b"[1]", b"{'descr': '<f4', 'shape': 'x'}", b"{'descr': '<f4'}"])
def test_a_numpy_header_that_cannot_be_read(header: bytes) -> None:
    """It is torn, whatever stands in it; nothing in it is run."""
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    assert problem("a.npy", body) == "a.npy has a header that cannot be read."


def test_a_tar_ends_in_its_mark() -> None:
    """PyTorch saved so before 0.1.10, with these four members; it pads the end, and needs none of that."""
    body = tar(10, 700, 0, 5000)
    mark = 512 + 512 + 512 + 1024 + 512 + 512 + 5120
    torn = [cut for cut in range(300, len(body) + 1, 100) if problem("model.pt", body[:cut])]
    assert torn == [cut for cut in range(300, len(body) + 1, 100) if cut < mark + 512]
    assert "ends without the mark of its end" in problem("model.pt", body[:mark])
