"""Single files tell their own size."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checkpoints.places import START, Memory
from tests.checkpoints.writers import dcp_metadata, hdf5, safetensors, torch_zip

from costguard_vm.checkpoints.layouts.formats import problem_of
from costguard_vm.checkpoints.layouts.pickles import shards_of, step_inside, values
from costguard_vm.model.checkpoint import StoredFile


def problem(name: str, body: bytes) -> str:
    place = Memory([(name, body)])
    return problem_of(place.listing.files[name], place)


def header(content: object) -> bytes:
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("a.pt", torch_zip()),
        ("a.safetensors", safetensors()),
        ("a.safetensors", header({})),
        ("a.h5", hdf5(version=0)),
        ("a.h5", hdf5(version=1)),
        ("a.h5", hdf5(version=3)),
        ("a.h5", hdf5(version=9)),
        ("plain.pt", pickle.dumps({"epoch": 3})),
        ("anything.dat", b"numpy"),
    ],
)
def test_whole_files_have_no_problem(name: str, body: bytes) -> None:
    """A size that a format does not tell is no problem either."""
    assert problem(name, body) == ""


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("a.pt", b"", "is empty"),
        ("a.pt", b"PK\x03\x04", "ends before its end record"),
        ("a.pt", torch_zip()[:-5], "has no end record"),
        ("a.pt", torch_zip()[9:], "does not begin as torch.save writes it"),
        ("a.pt", torch_zip() + torch_zip(), "bytes away from the size"),
        ("a.pt", bytes(500), "does not begin as torch.save writes it"),
        ("a.pt", b"\x80\x02 what torch.save never wrote", "ends before the STOP of its pickle"),
        ("a.safetensors", b"1234", "ends within its header"),
        ("a.safetensors", safetensors()[:40], "ends within its header"),
        ("a.safetensors", safetensors() + b"more", "bytes long, and its header tells"),
        ("a.safetensors", safetensors()[:-1], "bytes long, and its header tells"),
        ("a.safetensors", b"\xff" * 40, "does not begin with a safetensors header"),
        ("a.safetensors", struct.pack("<Q", 3) + b"{]}", "cannot be read"),
        ("a.safetensors", header([1]), "cannot be read"),
        ("a.safetensors", header({"w": {"data_offsets": ["a", "b"]}}), "cannot be read"),
        ("a.h5", hdf5()[:30], "ends within its superblock"),
        ("a.h5", hdf5()[:-1], "is 199 bytes long, and should be 200"),
        ("a.h5", hdf5(version=0)[:60], "should be 200"),
        ("a.h5", hdf5(version=1)[:60], "should be 200"),
    ],
)
def test_what_is_wrong_is_named(name: str, body: bytes, why: str) -> None:
    """The problem has the file's name, and the figures where there are any."""
    sentence = problem(name, body)
    assert why in sentence
    assert sentence.startswith(name)


@pytest.mark.parametrize(("name", "why"), [("whole", ""), ("killed", "its superblock says 2048: it was never closed")])
def test_hdf5_that_keras_wrote(name: str, why: str) -> None:
    """Keras, killed before it closed its file, leaves one of full length that HDF5 cannot open."""
    body = gzip.decompress((Path(__file__).parent / "real" / f"{name}.weights.h5.gz").read_bytes())
    assert len(body) == 274376
    sentence = problem("latest.weights.h5", body)
    assert why in sentence
    assert bool(sentence) == bool(why)


def test_hdf5_that_was_never_closed() -> None:
    """An end that was never written is reported as such."""
    body = bytearray(hdf5())
    body[28:36] = b"\xff" * 8
    assert problem("a.h5", bytes(body)) == "a.h5 was never closed."


def zip64_end(size: int, extra: int = 0) -> bytes:
    """The records that torch.save ends a file of this size with."""
    directory = 1000
    begin = size - 98 - directory + extra
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 30, 45, 0, 0, 4, 4, directory, begin)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, size - 98, 1)
    return end64 + locator + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 4, 4, directory, min(begin, 0xFFFFFFFF), 0)


class Large(Memory):
    """A file that holds nothing but its beginning and its end."""

    def __init__(self, size: int, end: bytes) -> None:
        super().__init__([])
        self.file, self.end = StoredFile("a.pt", size, "", START), end

    def read(self, file: StoredFile, start: int, length: int) -> bytes:
        whole = b"PK\x03\x04" + bytes(60) if not start else self.end[start - file.size :]
        return whole[:length]


@pytest.mark.parametrize("size", [5000, 13 << 30])
def test_large_files_of_torch(size: int) -> None:
    """torch.save always writes the records of large files; past 4 GB only those have the true figures."""
    whole, short = Large(size, zip64_end(size)), Large(size, zip64_end(size, 7))
    assert problem_of(whole.file, whole) == ""
    assert "7 bytes away from the size that its directory tells" in problem_of(short.file, short)


def test_little_is_read() -> None:
    """A gigabyte of weights costs two small ranges."""
    place = Memory([("a.pt", torch_zip()), ("b.safetensors", safetensors(10**6))])
    for file in place.listing.files.values():
        assert problem_of(file, place) == ""
    assert sum(length for _, _, length in place.asked) < 1000


@pytest.mark.parametrize("body", [b"", b"PK\x05\x06", torch_zip()[:-1], bytes(1000), torch_zip({"epoch": 1})])
def test_a_step_that_cannot_be_read_is_none(body: bytes) -> None:
    """Broken, cut off, or without one."""
    place = Memory([("last.ckpt", body)])
    assert step_inside(place.listing.files["last.ckpt"], place) is None


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_values_of_a_pickle_in_their_order(protocol: int) -> None:
    """Texts, numbers of every width, repeats, and whatever class stands between them; nothing is loaded."""
    content = [Fraction(1, 3), {"global_step": 7, "a": -5}, "a", 300, 70_000, 1 << 40, "é" * 300, b"bytes", ("a", 1.5)]
    noise = ("fractions", "Fraction", "bytes", "latin1")  # what stands there for the classes, by protocol
    read = [value for value in values(pickle.dumps(content, protocol)) if value not in noise]
    assert read == [1, 3, "global_step", 7, "a", -5, "a", 300, 70_000, 1 << 40, "é" * 300, "a"]


@given(st.binary(max_size=200))
def test_no_pickle_breaks_the_reading(body: bytes) -> None:
    """The reading ends, whatever bytes there are."""
    assert len(list(values(body))) <= len(body)


def test_no_beginning_of_a_metadata_tells_its_shards() -> None:
    """A beginning that ends in a full stop does not either: names are full of them, and a pickle ends in one as
    well.
    """
    whole, sizes = dcp_metadata({"__0_0.distcp": 40}), {"__0_0.distcp": 40}
    for cut in range(1, len(whole) + 1):
        place = Memory([(".metadata", whole[:cut])])
        shards = shards_of(place.listing.files[".metadata"], place)
        assert shards == (sizes if cut == len(whole) else None)


def test_a_metadata_that_is_written_again_is_read_again() -> None:
    """A metadata is remembered by its bytes: twenty others of the same length between two readings change nothing."""

    def shards(size: int) -> object:
        place = Memory([(".metadata", dcp_metadata({"__0_0.distcp": size}))])
        return shards_of(place.listing.files[".metadata"], place)

    sizes = [*range(40, 60), 40, 59, 40]
    assert [shards(size) for size in sizes] == [{"__0_0.distcp": size} for size in sizes]
