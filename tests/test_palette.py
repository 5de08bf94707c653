"""Pictures made small, and still the same pictures."""

from __future__ import annotations

import struct
import zlib

import pytest
from tests.palette import with_palette

RED, BLACK, WHITE = b"\xff\x00\x00", b"\x00\x00\x00", b"\xff\xff\xff"


def png(rows: list[bytes], width: int, kind: int = 2) -> bytes:
    """A picture of rows that are filtered already, each behind its filter's number."""
    header = struct.pack(">IIBBBBB", width, len(rows), 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )


def pixels(picture: bytes) -> list[list[bytes]]:
    """Returns what a picture with a palette shows, row by row."""
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(picture):
        length, name = struct.unpack(">I4s", picture[at : at + 8])
        chunks[name] = picture[at + 8 : at + 8 + length]
        at += 12 + length
    width = struct.unpack(">I", chunks[b"IHDR"][:4])[0]
    lines, colours = zlib.decompress(chunks[b"IDAT"]), chunks[b"PLTE"]
    rows = [lines[begin + 1 : begin + 1 + width] for begin in range(0, len(lines), width + 1)]
    return [[colours[3 * one : 3 * one + 3] for one in row] for row in rows]


def test_every_filter_is_understood() -> None:
    """The same row five times, each written by another of PNG's filters."""
    row = RED + WHITE + BLACK
    left = RED + bytes((0, 255, 255)) + bytes((1, 1, 1))
    same = bytes(9)
    average = bytes((128, 0, 0, 0, 128, 128, 129, 129, 129))
    rows = [b"\0" + row, b"\1" + left, b"\2" + same, b"\3" + average, b"\4" + same]
    assert pixels(with_palette(png(rows, 3))) == [[RED, WHITE, BLACK]] * 5


def test_many_colours_become_the_nearest_of_256() -> None:
    """Black and white, of which text is made, stay as they are; rare colours become those that are most like them."""
    levels = range(0, 256, 17)
    shades = [bytes((red, green, blue)) for red in levels for green in levels for blue in (0, 255)]
    picture = with_palette(png([b"\0" + b"".join(shades), b"\0" + (BLACK + WHITE) * (len(shades) // 2)], len(shades)))
    first, second = pixels(picture)
    assert len({*first, *second}) == 256
    assert second == [BLACK, WHITE] * (len(shades) // 2)
    assert first[:100] == shades[:100]


def test_other_kinds_of_pictures_are_refused() -> None:
    """Rather than garbled."""
    with pytest.raises(ValueError, match="only plain pictures"):
        with_palette(png([b"\0" + bytes(12)], 3, kind=6))
