"""Archives of code that were made to harm, and archives that Python's tarfile and GNU tar wrote."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from costguard.jobs.submit.code import check_archive
from costguard_vm.agent.transfers.code import unpack
from costguard_vm.model.code_archive import FILE, LINK, MOST_FILES, WrongArchive
from costguard_vm.model.tar_stream import MOST_HEADER, GzipStream, TarStream

END = bytes(1024)
LONG = "/".join(["folder" * 10] * 6) + "/ä file.py"


def header(name: str = "a", kind: bytes = b"0", size: int = 0, target: str = "", size_field: bytes = b"") -> bytes:
    """Makes a header block, of which the checksum is right whatever it says."""
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, size, target
    block = bytearray(member.tobuf(tarfile.USTAR_FORMAT)[:512])
    if size_field:
        block[124:136] = size_field
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def files(*names: str) -> bytes:
    return b"".join(header(name) for name in names)


def links(**targets: str) -> bytes:
    return b"".join(header(name.replace("_", "/"), b"2", target=target) for name, target in targets.items())


def extended(content: bytes, kind: bytes = b"x") -> bytes:
    return header("header", kind, len(content)) + content + bytes(-len(content) % 512)


def record(key: str, value: str) -> bytes:
    text = f" {key}={value}\n".encode()
    length = len(text) + len(str(len(text) + 2))
    return str(length).encode() + text


def checked(plain: bytes, packed: bytes | None = None) -> None:
    check_archive(io.BytesIO(gzip.compress(plain, 1) if packed is None else packed), hashlib.sha256(plain).hexdigest())


HOSTILE = {
    "a header of 300 MB": (header("h", b"x", 300 << 20) + END, "header of 314,572,800 bytes"),
    "a long name of 300 MB": (header("h", b"L", 300 << 20) + END, "header of 314,572,800 bytes"),
    "a long link of 300 MB": (header("h", b"K", 300 << 20) + END, "header of 314,572,800 bytes"),
    "a header just above the limit": (extended(b"x" * (MOST_HEADER + 1)) + END, "are allowed"),
    "a negative size": (header(size_field=b"\xff" * 12) + END, "a number of a header"),
    "a size in base 256": (header(size_field=b"\x80" + bytes(10) + b"\x01") + END, "a number of a header"),
    "a size below zero in octal": (header(size_field=b"-0000000777\0") + END, "a number of a header"),
    "a file of 8 GiB": (header(size_field=b"77777777777\0") + END, "larger"),
    "a size in an extended header": (extended(record("size", "99999999999")) + files("a") + END, "'size'"),
    "a sparse file of GNU tar": (header("s", b"S") + END, "neither a file nor a link"),
    "a sparse file in an extended header": (
        extended(record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0")) + files("a") + END,
        "GNU.sparse.major",
    ),
    "a hard link": (header("h", b"1", target="a") + END, "neither a file nor a link"),
    "a device": (header("d", b"3") + END, "neither a file nor a link"),
    "a pipe": (header("p", b"6") + END, "neither a file nor a link"),
    "a folder": (header("f", b"5") + END, "neither a file nor a link"),
    "a global header": (extended(record("path", "b"), b"g") + files("a") + END, "neither a file nor a link"),
    "a continued file": (header("c", b"7") + END, "neither a file nor a link"),
    "a link with content": (header("l", b"2", 512, "a") + bytes(512) + END, "a link with content"),
    "a name that the extended header changes": (extended(record("path", "../up")) + files("a") + END, "no path inside"),
    "a target that the extended header changes": (
        extended(record("linkpath", "/etc/passwd")) + links(l="a") + END,
        "leads out",
    ),
    "a name with a NUL in it": (extended(record("path", "a\0b")) + files("a") + END, "no path inside"),
    "a length that is wrong": (extended(b"99 path=b\n") + files("a") + END, "cannot be read"),
    "a length of nothing": (extended(b"0 path=b\n") + files("a") + END, "cannot be read"),
    "a header that belongs to no file": (extended(record("path", "b")) + END, "belongs to no file"),
    "a name twice": (files("a", "b", "a") + END, "a is in it twice"),
    "a file and a folder": (files("a", "a/b") + END, "a is a folder in it"),
    "a link and a folder": (links(a="b") + files("b/c", "a/x") + END, "a is a folder in it"),
    "an escape in a name": (files("\x1b[2Jrun.py") + END, "cannot be shown"),
    "a turned name": (files("run\u202eyp.sh") + END, "cannot be shown"),
    "a name that is no UTF-8": (header("\udcff") + END, "no name in UTF-8"),
    "2,000 levels": (extended(record("path", "d/" * 2_000 + "f")) + files("a") + END, "2001 folders deep"),
    "a part that Linux cannot have": (extended(record("path", "x" * 300)) + files("a") + END, "too long"),
    "a link through a link": (links(p_q_r_s="../../..", out="p/q/r/s/../../etc") + END, "out is a link that leads out"),
    "a link through two links": (
        links(a_b_c="../..", a_d="b/c", out="a/d/../x") + END,
        "out is a link that leads out",
    ),
    "a link to itself": (links(a="b", b="a") + END, "leads to itself"),
    "a hidden member after the end": (files("a") + END + files("b") + END, "something follows its end"),
    "a number that is none": (header()[:148] + b"8" * 8 + header()[156:] + END, "a number of a header"),
    "a wrong checksum": (header()[:148] + b"0000017\0" + header()[156:] + END, "checksum"),
    "no end": (files("a"), "cut off"),
    "content that is cut off": (header(size=1000) + bytes(512), "cut off"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archive_is_refused_in_little_memory(name: str) -> None:
    """The guard refuses it, before money is spent on a VM."""
    plain, words = HOSTILE[name]
    tracemalloc.start()
    try:
        with pytest.raises(WrongArchive, match=words):
            checked(plain)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_links_that_tangle_are_refused_in_little_time() -> None:
    """Each step is cheap, and there are few thousand links of forty steps each."""
    tangled = {f"l{number}": "x/../" * 19 + "y" for number in range(11_000)}
    with pytest.raises(WrongArchive, match="too many others"):
        checked(links(**tangled) + END)


def test_what_follows_the_gzip_is_refused() -> None:
    """Another gzip, of which there may be millions without content, and anything else."""
    plain = files("a") + END
    for after in (gzip.compress(b""), b"x"):
        with pytest.raises(WrongArchive, match="something follows its end"):
            checked(plain, gzip.compress(plain) + after)
    with pytest.raises(WrongArchive, match="no gzipped tar"):
        checked(plain, gzip.compress(plain)[:-8] + bytes(8))


def test_more_files_than_are_allowed_are_refused() -> None:
    """The limit holds also for as many headers without a file."""
    many = b"".join(header(f"f{number}") for number in range(MOST_FILES + 1))
    with pytest.raises(WrongArchive, match="more than 20,000 files"):
        checked(many + END)


def seen(plain: bytes) -> list[tuple[str, str, str, bytes]]:
    stream = TarStream(GzipStream(io.BytesIO(gzip.compress(plain))).read)
    return [(member.name, member.kind, member.target, b"".join(stream.pieces())) for member in stream]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_pythons_tarfile_writes_is_read(form: int) -> None:
    """Names and targets that are long or not in ASCII, in each of its formats."""
    contents: dict[str, Any] = {"a": b"", "b/c.py": b"x" * 513, "d": b"y" * 2_000_000}
    if form != tarfile.USTAR_FORMAT:
        contents[LONG] = b"z" * 512
    plain = io.BytesIO()
    with tarfile.open(mode="w", fileobj=plain, format=form) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1.5
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("b/link")
        link.type, link.linkname = tarfile.SYMTYPE, f"../{list(contents)[-1]}"
        archive.addfile(link)
    checked(plain.getvalue())
    expected = [(name, FILE, "", content) for name, content in contents.items()]
    assert seen(plain.getvalue()) == [*expected, ("b/link", LINK, link.linkname, b"")]


@pytest.mark.parametrize("form", ["gnu", "pax", "ustar"])
def test_what_gnu_tar_writes_is_read(tmp_path: Path, form: str) -> None:
    """A program that nobody here wrote."""
    if (tar := shutil.which("tar")) is None:
        pytest.skip("There is no tar on this computer.")
    name = LONG if form != "ustar" else "folder/file.py"
    (tmp_path / "in" / name).parent.mkdir(parents=True)
    (tmp_path / "in" / name).write_text("print('step 1')")
    (tmp_path / "in" / "link").symlink_to(name)
    command = [tar, "-C", str(tmp_path / "in"), f"--format={form}", "-cf", str(tmp_path / "a.tar"), name, "link"]
    subprocess.run(command, check=True)
    plain = (tmp_path / "a.tar").read_bytes()
    checked(plain)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(plain))
    unpack(str(tmp_path / "a.tar.gz"), str(tmp_path / "out"))
    assert (tmp_path / "out" / "link").read_text() == "print('step 1')"


def test_agent_unpacks_no_link_that_leads_out(tmp_path: Path) -> None:
    """The link is refused also where the guard did not look."""
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(HOSTILE["a link through a link"][0]))
    with pytest.raises(WrongArchive, match="leads out"):
        unpack(str(tmp_path / "a.tar.gz"), str(tmp_path / "out"))
    assert not list((tmp_path / "out").rglob("out"))
