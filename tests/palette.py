"""Making a PNG of a page small: few colours are enough for text, and each pixel is then one byte."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_COLOURS = 256
# Sixteen shades of each colour; black and white stay what they are.
_ROUNDED = bytes(17 * round(value / 17) for value in range(256))


def with_palette(png: bytes, is_rounded: bool = True) -> bytes:
    """The same picture in at most 256 colours; for pictures of 8 bits, red, green and blue.

    Without rounding faint colours stay what they are, and the picture is somewhat larger.
    """
    chunks = list(_chunks(png))
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[0][1])
    if kind != [8, 2, 0, 0, 0]:
        raise ValueError(f"only plain pictures in red, green and blue can be read, not {kind}")
    raw = zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT"))
    rows = [row.translate(_ROUNDED) if is_rounded else row for row in _unfiltered(raw, 3 * width)]
    pixels = [[row[at : at + 3] for at in range(0, len(row), 3)] for row in rows]
    counted = Counter(pixel for row in pixels for pixel in row)
    colours = [colour for colour, _ in counted.most_common(_MOST_COLOURS)]
    index = {colour: min(range(len(colours)), key=lambda n: _distance(colours[n], colour)) for colour in counted}
    lines = b"".join(b"\0" + bytes(index[pixel] for pixel in row) for row in pixels)
    return _SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(colours)),
            _chunk(b"IDAT", zlib.compress(lines, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        yield name, png[at + 8 : at + 8 + length]
        at += 12 + length


def _unfiltered(raw: bytes, stride: int) -> Iterator[bytes]:
    """https://www.w3.org/TR/png-3/#9Filters, for pixels of three bytes."""
    above = bytes(stride)
    for begin in range(0, len(raw), stride + 1):
        kind, row = raw[begin], bytearray(raw[begin + 1 : begin + 1 + stride])
        for at in range(stride) if kind else ():
            left, corner = (row[at - 3], above[at - 3]) if at > 2 else (0, 0)
            guess = (
                _paeth(left, above[at], corner) if kind == 4 else (0, left, above[at], (left + above[at]) // 2)[kind]
            )
            row[at] = (row[at] + guess) & 255
        above = bytes(row)
        yield above


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
