"""On which line of a TOML file a key stands. The standard library's reader does not tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_PATH = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*\[\[?\s*({_PATH})\s*\]")
_KEY = re.compile(rf"\s*({_PATH})\s*=")

Path = tuple[str, ...]


def key_lines(text: str) -> dict[Path, int]:
    """Each key's and table's first line, counted from 1. Keys inside inline tables are not listed."""
    found: dict[Path, int] = {}
    table: Path = ()
    inside: str | None = None  # the quotes of a text that goes on over lines
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is None:
            if head := _TABLE.match(line):
                table = _split(head[1])
                _note(found, (), table, number)
            elif key := _KEY.match(line):
                _note(found, table, _split(key[1]), number)
        for quotes in re.findall('"""|' + "'''", line):
            inside = quotes if inside is None else None if quotes == inside else inside
    return found


def line_of(path: Sequence[str | int], lines: Mapping[Path, int]) -> int | None:
    """The line of the key, or of the nearest table around it that stands in the file."""
    parts = tuple(str(part) for part in path)
    return next((lines[parts[:end]] for end in range(len(parts), 0, -1) if parts[:end] in lines), None)


def _split(path: str) -> Path:
    return tuple(part.strip("\"'") for part in re.findall(_PART, path))


def _note(found: dict[Path, int], table: Path, key: Path, number: int) -> None:
    for end in range(1, len(key) + 1):
        found.setdefault((*table, *key[:end]), number)
