"""Rows of an export from local files: JSON lines, a JSON array, or CSV, each also compressed by gzip.

A file is read from beginning to end and never held whole. CSV has no records: columns are named by their path, as
`project.number` or `project_number`, and lists such as `credits` hold JSON.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, cast

import orjson

from costguard.bill.export_fields import UnreadableRow
from costguard.bill.export_row import ExportRow, read_row
from costguard.errors import Invalid

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_RECORDS = (
    *("service", "sku", "project", "location", "resource", "usage", "price", "invoice"),
    *("consumption_model", "adjustment_info", "subscription"),
)


def rows_of_file(path: Path) -> Iterator[ExportRow]:
    """Raises Invalid, which names the file and the row, and OSError."""
    number = 0
    try:
        with _opened(path) as stream:
            for row in _records_of(path, stream):
                number += 1
                yield read_row(row)
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise Invalid(
            f"{path} breaks off or is damaged after row {number}: {error}.", "Nothing was stored. Fetch it again."
        ) from None
    except (UnreadableRow, ValueError) as error:
        message = error.message if isinstance(error, UnreadableRow) else f"{error}"
        what_next = error.what_next if isinstance(error, UnreadableRow) else ""
        raise Invalid(f"{path}, row {max(number, 1)}: {message}", what_next or "Nothing was stored.") from None


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        is_compressed = stream.read(2) == _GZIP
    return cast("IO[bytes]", gzip.open(path)) if is_compressed else path.open("rb")


def _records_of(path: Path, stream: IO[bytes]) -> Iterator[Mapping[str, Any]]:
    """By what the file begins with: a name says little."""
    peeked = cast("io.BufferedReader", stream)  # a gzip file has the same methods
    first = peeked.peek(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if first == b"{":
        yield from _json_lines(peeked)
    elif first == b"[":
        with io.TextIOWrapper(peeked, "utf-8-sig") as text:
            yield from _json_array(text)
    elif first:
        with io.TextIOWrapper(peeked, "utf-8-sig", newline="") as text:
            yield from _csv(path, text)


def _json_lines(stream: IO[bytes]) -> Iterator[Mapping[str, Any]]:
    for line in stream:
        if line := line.strip(b"\xef\xbb\xbf \t\r\n"):
            yield _object(orjson.loads(line))


def _json_array(stream: IO[str]) -> Iterator[Mapping[str, Any]]:
    decoder = json.JSONDecoder(parse_float=Decimal)
    text, place = stream.read(_CHUNK).lstrip(), 1
    while True:
        while text[place : place + 1] and text[place] in " \t\r\n,":
            place += 1
        if text[place : place + 1] == "]":
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError:
            more = stream.read(_CHUNK)
            if not more:
                raise ValueError("the list of rows breaks off, or is not JSON.") from None
            text, place = text[place:] + more, 0
            continue
        yield _object(value)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a row is a JSON object, and this is {str(value)[:60]!r}.")
    return value


def _csv(path: Path, stream: IO[str]) -> Iterator[Mapping[str, Any]]:
    csv.field_size_limit(_CHUNK)
    reader = csv.reader(stream)
    header = next(reader, [])
    paths = [_path_of(name.strip()) for name in header]
    if not {"usage_start_time", "ChargePeriodStart"} & {one[-1] for one in paths}:
        raise ValueError(
            f"{path.name} has neither a column usage_start_time nor ChargePeriodStart. "
            "The console's cost table names no resources; export the BigQuery table."
        )
    for cells in reader:
        if len(cells) != len(paths):
            raise ValueError(f"{len(cells)} fields, where the first line names {len(paths)}.")
        yield _nested(paths, cells)


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


def _nested(paths: list[tuple[str, ...]], cells: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for path, cell in zip(paths, cells, strict=True):
        if cell == "":
            continue
        value: Any = json.loads(cell, parse_float=Decimal) if cell[0] in "[{" else cell
        if len(path) == 1:
            row[path[0]] = value
        else:
            row.setdefault(path[0], {})[path[1]] = value
    return row
