"""Rows of an export from local files: JSON lines, a JSON array, or CSV, each also compressed by gzip.

A file is read from beginning to end and never held whole; nor is a row that is too long to be one. CSV has no records:
columns are named by their path, as `project.number` or `project_number`, and lists such as `credits` hold JSON.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any, cast

import orjson

from costguard.bill.export_fields import UnreadableRow, shown
from costguard.bill.export_row import Judged, judged
from costguard.errors import Invalid

_CHUNK = 1 << 20
_MOST_ROW = 1 << 20  # bytes; the longest recorded row, with its labels and credits, has 4 KiB
_TOO_LONG = UnreadableRow(f"it is longer than {_MOST_ROW // 1024:,} KiB.")
_BLANK = b"\xef\xbb\xbf \t\r\n"
_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_MARKS, _IN_TEXT = re.compile(rb'["{}\[\],]'), re.compile(rb'["\\]')
_GZIP = b"\x1f\x8b"
_OTHER_FORMATS = {  # what `bq extract`, a spreadsheet and PowerShell's redirection write
    b"PAR1": "Parquet",
    b"Obj\x01": "Avro",
    b"PK\x03\x04": "a workbook or an archive",
    b"\xff\xfe": "in UTF-16",
    b"\xfe\xff": "in UTF-16",
}
_COMPUTE_ENGINE = "6F81-5844-456A"
_RECORDS = (
    *("service", "sku", "project", "location", "resource", "usage", "price", "invoice"),
    *("consumption_model", "adjustment_info", "subscription"),
)


def rows_of_file(path: Path, before: datetime | None = None) -> Iterator[Judged]:
    """Each row, or why it is left out, by the file's name and its number. Usage after `before` is refused.

    Raises Invalid for a file that breaks off, is damaged, or is no export, and OSError.
    """
    number, unnamed, named = 0, 0, 0
    try:
        with _opened(path) as stream:
            for row in _records_of(stream):
                number += 1
                read = row if isinstance(row, UnreadableRow) else judged(row, before)
                if isinstance(read, UnreadableRow):
                    read = UnreadableRow(f"{path}, row {number}: {read.message}", read.what_next)
                elif read.terms.service_id == _COMPUTE_ENGINE and " running in " in read.terms.sku_text:
                    has_name = bool(read.resource.resource_name or read.resource.resource_id or read.terms.product)
                    unnamed, named = unnamed + (not has_name), named + has_name
                yield read
        if unnamed and not named:
            raise _NoExport(
                "it is of the standard usage export, which names no VMs. "
                "Let Cloud Billing export its detailed usage cost, and read that table."
            )
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise Invalid(
            f"{path} breaks off or is damaged after row {number}: {error}.", "Nothing was stored. Fetch it again."
        ) from None
    except _BreaksOff as error:
        raise Invalid(f"{path} breaks off after row {number}: {error}", "Nothing was stored. Fetch it again.") from None
    except _NoExport as error:
        raise Invalid(f"{path}: {error}", "Nothing was stored.") from None


class _BreaksOff(Exception):
    """The file ends within a row."""


class _NoExport(Exception):
    """The file is of another kind."""


_Found = Mapping[str, Any] | UnreadableRow


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        is_compressed = stream.read(2) == _GZIP
    return cast("IO[bytes]", gzip.open(path)) if is_compressed else path.open("rb")


def _records_of(stream: IO[bytes]) -> Iterator[_Found]:
    """Reads records by the first characters of the file: a name says little."""
    peeked = cast("io.BufferedReader", stream)  # a gzip file has the same methods
    begun = peeked.peek(64)
    for mark, kind in _OTHER_FORMATS.items():
        if begun.startswith(mark):
            raise _NoExport(f"it is {kind}. Export the table as JSON lines or CSV, in UTF-8.")
    first = begun.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if first == b"{":
        yield from map(_object, _lines(peeked))
    elif first == b"[":
        yield from map(_object, _elements(peeked))
    elif first:
        yield from _csv(peeked)


def _lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Each line that is not blank; None for one that is too long to be a row."""
    while line := stream.readline(_MOST_ROW + 1):
        if len(line) > _MOST_ROW:
            while line and not line.endswith(b"\n"):
                line = stream.readline(_CHUNK)
            yield None
        elif stripped := line.strip(_BLANK):
            if not line.endswith(b"\n") and not _is_json(stripped):
                raise _BreaksOff("its last line is not whole.")
            yield stripped


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True


def _elements(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Each element of a JSON list, as its bytes; None for one that is too long to be a row.

    The marks of JSON alone are looked at, so that one element's error is its own.
    """
    buffer, place = stream.read(_CHUNK), 0
    place = buffer.index(b"[") + 1
    while True:
        begin = _BETWEEN.match(buffer, place)
        place = begin.end() if begin else place
        if place == len(buffer):
            buffer, place = stream.read(_CHUNK), 0
            if not buffer:
                raise _BreaksOff("the list of rows has no end.")
            continue
        if buffer[place : place + 1] == b"]":
            return
        element = _Element()
        is_too_long = False
        begun = place
        while (end := element.end(buffer, place)) is None:
            is_too_long = is_too_long or len(buffer) - begun > _MOST_ROW
            kept = b"" if is_too_long else buffer[begun:]
            more = stream.read(_CHUNK)
            if not more:
                raise _BreaksOff("the list of rows has no end.")
            buffer, begun, place = kept + more, 0, len(kept)
        yield None if is_too_long or end - begun > _MOST_ROW else buffer[begun:end]
        place = end


class _Element:
    """Where an element of a list ends, told piece by piece."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._is_escaped = False  # the piece ended with a backslash in a text

    def end(self, buffer: bytes, place: int) -> int | None:
        """The place after it; None where the buffer ends within it. Every byte is given once."""
        if self._is_escaped:
            self._is_escaped = False
            place += 1
        while mark := (_IN_TEXT if self._in_text else _MARKS).search(buffer, place):
            place = mark.end()
            match mark.group():
                case b'"':
                    self._in_text = not self._in_text
                case b"{" | b"[":
                    self._depth += 1
                case b"}" | b"]" | b"," if not self._depth:
                    return mark.start()
                case b"}" | b"]":
                    self._depth -= 1
                case b"\\":
                    self._is_escaped = place == len(buffer)
                    place += 1
        return None


def _object(text: bytes | None) -> _Found:
    if text is None:
        return _TOO_LONG
    try:
        value = orjson.loads(text)
    except ValueError as error:
        return UnreadableRow(f"it is not JSON: {error}.")
    if not isinstance(value, dict):
        return UnreadableRow(f"a row is a JSON object, and this is {shown(value)}.")
    if "usage_start_time" in value and "sku" not in value:  # flat, as `bq query` prints a view without records
        return _nested([_path_of(name) for name in value], list(value.values()))
    return value


def _csv(stream: IO[bytes]) -> Iterator[_Found]:
    csv.field_size_limit(_MOST_ROW)
    lines = _TextLines(stream)
    reader = csv.reader(lines)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise _NoExport(f"its first line cannot be read: {error}.") from None
    paths = [_path_of(name.strip()) for name in header]
    if not {"usage_start_time", "ChargePeriodStart"} & {one[-1] for one in paths}:
        raise _NoExport(
            "it has neither a column usage_start_time nor ChargePeriodStart. "
            "The console's cost table names no resources; export the BigQuery table."
        )
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield UnreadableRow(f"{error}.")
            continue
        if lines.was_too_long():
            yield _TOO_LONG
        elif len(cells) == len(paths):
            yield _cells(paths, cells)
        elif cells:
            yield UnreadableRow(f"{len(cells)} fields, where the first line names {len(paths)}.")


class _TextLines:
    """Lines of a file as texts; one that is too long to be a row is empty. What is no UTF-8 is replaced."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._encoding = "utf-8-sig"
        self._is_too_long = False

    def __iter__(self) -> _TextLines:
        return self

    def __next__(self) -> str:
        line = self._stream.readline(_MOST_ROW + 1)
        if not line:
            raise StopIteration
        if len(line) > _MOST_ROW:
            self._is_too_long = True
            while line and not line.endswith(b"\n"):
                line = self._stream.readline(_CHUNK)
            return "\n"
        encoding, self._encoding = self._encoding, "utf-8"
        return line.decode(encoding, "replace")

    def was_too_long(self) -> bool:
        """Says whether any line was too long since the last call."""
        was, self._is_too_long = self._is_too_long, False
        return was


def _path_of(name: str) -> tuple[str, ...]:
    """`project.number` and `project_number` alike are the field `number` of the record `project`."""
    if "." in name:
        return tuple(name.split("."))
    for one in _RECORDS:
        if name.startswith(f"{one}_"):
            inner = name.removeprefix(f"{one}_")
            # usage_start_time and usage_end_time are columns of their own.
            return (name,) if inner in ("start_time", "end_time") else (one, inner)
    return (name,)


def _cells(paths: list[tuple[str, ...]], cells: list[str]) -> _Found:
    """A row of CSV; lists and records in it are JSON."""
    try:
        values = [orjson.loads(cell) if cell[:1] in ("[", "{") else cell for cell in cells]
    except ValueError as error:
        return UnreadableRow(f"a field of it is not JSON: {error}.")
    return _nested(paths, values)


def _nested(paths: list[tuple[str, ...]], values: list[Any]) -> _Found:
    row: dict[str, Any] = {}
    for path, value in zip(paths, values, strict=True):
        if value == "":
            continue
        if len(path) == 1:
            row[path[0]] = value
        elif isinstance(within := row.setdefault(path[0], {}), dict):
            within[path[1]] = value
    return row
