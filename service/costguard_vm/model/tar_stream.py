"""Reads a gzipped tar as a stream, and takes nothing of it but files, symbolic links and long names.

Python's own reader takes more than an archive of code needs, at the price of the archive's author: headers of any size
are read whole, sparse files unpack to any size, and negative sizes read again. The guard judges and the agent unpacks
with this one, so that both see the same members. It travels with the agent: Python 3.8 must do.

The format: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block"; long names as GNU tar's manual has
them ("Basic Tar Format"); gzip as RFC 1952.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from costguard_vm.model.code_archive import FILE, LINK, MOST_BYTES, MOST_FILES, MOST_UNPACKED, WrongArchive

_BLOCK = 512
MOST_HEADER = 64 << 10  # bytes of one header: a path has at most 4 KiB
_PIECE = 1 << 20
_PACKED = 64 << 10  # bytes that are unpacked at once
_OCTAL = b"01234567"
_LINK, _PAX, _LONG_NAME, _LONG_TARGET = b"2", b"x", b"L", b"K"
_FILES = (b"0", b"\0")


class TarMember(NamedTuple):
    """`kind` is FILE, LINK, or the type of what is neither. `size` is in bytes, `target` a link's."""

    name: str
    kind: str
    size: int = 0
    mode: int = 0
    target: str = ""


class GzipStream:
    """Reads the contents of one gzip member.

    Raises WrongArchive where it is broken, cut off, or followed by anything.
    """

    def __init__(self, file: IO[bytes], most: int = MOST_UNPACKED) -> None:
        self._file, self._left = file, most
        self._unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self._packed = b""

    def read(self, size: int) -> bytes:
        """Exactly so much, or less at the end alone."""
        parts = []
        while size > 0 and not self._unpacker.eof:
            part = self._unpacked(size)
            size -= len(part)
            parts.append(part)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        self._left -= len(content)
        if self._left < 0:
            raise WrongArchive(f"it is larger than {MOST_UNPACKED >> 20} MiB when it is unpacked")
        return content

    def _unpacked(self, size: int) -> bytes:
        try:
            content = self._unpacker.decompress(self._packed, size)
        except zlib.error as broken:
            raise WrongArchive(f"it is no gzipped tar ({broken})") from None
        self._packed = self._unpacker.unconsumed_tail
        if self._unpacker.eof:
            if self._unpacker.unused_data or self._file.read(1):
                raise WrongArchive("it is no gzipped tar (something follows its end)")
        elif not content and not self._packed:
            self._packed = self._file.read(_PACKED)
            if not self._packed:
                raise WrongArchive("it is no gzipped tar (it is cut off)")
        return content


class TarStream:
    """The members of a plain tar, in order. `pieces` is the content of the file that came last; unread, it is skipped.

    `read` gives exactly so many bytes, or less at the end alone. Raises WrongArchive for everything else than files,
    links and long names, for what is inconsistent, and for what is cut off.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._left = self._padding = 0

    def __iter__(self) -> Iterator[TarMember]:
        extended: dict[str, str] = {}
        headers = 0
        while True:
            self._skip()
            block = self._exactly(_BLOCK)
            if block.count(0) == _BLOCK:
                break
            headers += 1
            if headers > 4 * MOST_FILES:
                raise WrongArchive(f"it has more than {MOST_FILES:,} files")
            header = _Header(block)
            if header.kind in (_PAX, _LONG_NAME, _LONG_TARGET):
                self._extend(header, extended)
                continue
            yield self._member(header, extended)
            extended.clear()
        if extended:
            raise WrongArchive("it ends with a header that belongs to no file")
        self._check_end()

    def pieces(self) -> Iterator[bytes]:
        while self._left:
            content = self._read(min(self._left, _PIECE))
            if not content:
                raise WrongArchive("it is no gzipped tar (it is cut off)")
            self._left -= len(content)
            yield content

    def _member(self, header: _Header, extended: dict[str, str]) -> TarMember:
        name = extended.get("path") or header.name
        if header.kind == _LINK:
            if header.size:
                raise WrongArchive(f"{name!r} is a link with content")
            return TarMember(name, LINK, target=extended.get("linkpath") or header.target)
        if header.kind not in _FILES:
            return TarMember(name.rstrip("/"), f"type {header.kind!a}")
        if header.size > MOST_BYTES:
            raise WrongArchive(f"{name!r} is larger than {MOST_BYTES >> 20} MiB")
        self._left, self._padding = header.size, -header.size % _BLOCK
        return TarMember(name, FILE, header.size, header.mode)

    def _extend(self, header: _Header, extended: dict[str, str]) -> None:
        if header.size > MOST_HEADER:
            raise WrongArchive(f"it has a header of {header.size:,} bytes, and {MOST_HEADER:,} are allowed")
        content = self._exactly(header.size)
        self._exactly(-header.size % _BLOCK)
        if header.kind == _PAX:
            extended.update(_records(content))
        else:
            extended["path" if header.kind == _LONG_NAME else "linkpath"] = _text(content.rstrip(b"\0"))

    def _skip(self) -> None:
        for _ in self.pieces():
            pass
        self._exactly(self._padding)
        self._padding = 0

    def _exactly(self, size: int) -> bytes:
        content = self._read(size) if size else b""
        if len(content) < size:
            raise WrongArchive("it is no gzipped tar (it is cut off)")
        return content

    def _check_end(self) -> None:
        """Zeros alone follow: what a reader might take for another member is refused."""
        while content := self._read(_PIECE):
            if content.count(0) < len(content):
                raise WrongArchive("something follows its end")


class _Header:
    """A header block of a tar file. Raises WrongArchive."""

    def __init__(self, block: bytes) -> None:
        said = _number(block[148:156])
        if said != sum(block[:148]) + sum(block[156:]) + 8 * ord(" "):
            raise WrongArchive("it is no gzipped tar (a header's checksum is wrong)")
        self.kind = block[156:157]
        self.size = _number(block[124:136])
        self.mode = _number(block[100:108]) & 0o777
        self.name, self.target = _field(block[0:100]), _field(block[157:257])
        prefix = _field(block[345:500]) if block[257:263] == b"ustar\0" else ""
        if prefix:
            self.name = f"{prefix}/{self.name}"


def _number(field: bytes) -> int:
    """Octal digits alone. The base-256 form is for negative numbers, and for files beyond 8 GiB."""
    digits = field.strip(b" \0")
    if digits.strip(_OCTAL):
        raise WrongArchive("it is no gzipped tar (a number of a header is none, or is too large)")
    return int(digits or b"0", 8)


def _field(field: bytes) -> str:
    return _text(field.partition(b"\0")[0])


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise WrongArchive(f"{content[:80]!r} is no name in UTF-8") from None


def _records(content: bytes) -> dict[str, str]:
    """`LENGTH KEY=VALUE` and a line feed, again and again; the length counts all of it."""
    records: dict[str, str] = {}
    at = 0
    while at < len(content):
        digits, space, _ = content[at : at + 8].partition(b" ")
        if not space or not digits.isdigit():
            raise WrongArchive("it has an extended header that cannot be read")
        end = at + int(digits)
        record = content[at + len(digits) + 1 : end]
        key, equals, value = record.partition(b"=")
        if not int(digits) or end > len(content) or not equals or not value.endswith(b"\n"):
            raise WrongArchive("it has an extended header that cannot be read")
        name = _text(key)
        if name in ("size", "hdrcharset") or name.startswith("GNU."):
            raise WrongArchive(f"it has an extended header {name!r}, which an archive of code does not need")
        if name in ("path", "linkpath"):
            records[name] = _text(value[:-1])
        at = end
    return records
