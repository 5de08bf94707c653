"""Local files of an export: their forms, and what is wrong with them."""

from __future__ import annotations

import csv
import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bill.exports import HOUR, NOON, row

from costguard.bill.export_fields import UnreadableRow
from costguard.bill.export_file import rows_of_file
from costguard.bill.export_row import ExportRow, read_row
from costguard.errors import Invalid

CREDITS = [{"type": "PROMOTION", "name": "p", "id": "p", "amount": "-0.5"}]
ROWS = [row(1, credits=CREDITS), row(2, NOON + HOUR, cost="1.5E-5"), row(3, cost_at_list=None)]


def _lines(path: Path) -> None:
    path.write_text("\n".join(json.dumps(one) for one in ROWS) + "\n", "utf-8")


def _list(path: Path) -> None:
    path.write_text(json.dumps(ROWS, indent=1), "utf-8")


def _gzipped(path: Path) -> None:
    path.write_bytes(gzip.compress("\n".join(json.dumps(one) for one in ROWS).encode()))


def _csv(path: Path, separator: str = ".") -> None:
    """Writes flat CSV as `SELECT project.number AS ..., TO_JSON_STRING(credits) AS credits` does."""
    flat = [_flat(one, separator) for one in ROWS]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(flat[0]))
        writer.writeheader()
        writer.writerows(flat)


def _csv_with_underscores(path: Path) -> None:
    _csv(path, "_")


def _flat(fields: dict[str, Any], separator: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat |= {f"{name}{separator}{inner}": text for inner, text in value.items()}
        else:
            flat[name] = json.dumps(value) if isinstance(value, list) else value
    return flat


@pytest.mark.parametrize("write", [_lines, _list, _gzipped, _csv, _csv_with_underscores])
def test_every_form_of_a_file_gives_the_same_rows(tmp_path: Path, write: Callable[[Path], None]) -> None:
    """The first bytes of a file show its form; its name does not matter."""
    path = tmp_path / "export"
    write(path)
    assert list(rows_of_file(path)) == [read_row(one) for one in ROWS]


def test_a_long_list_is_read_piece_by_piece(tmp_path: Path) -> None:
    """Rows that lie across the ends of what is read at a time are whole."""
    rows = [row(vm, labels=[{"key": "filler", "value": "x" * 5000}]) for vm in range(600)]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(rows), "utf-8")
    read = [one for one in rows_of_file(path) if isinstance(one, ExportRow)]
    assert [one.resource.resource_id for one in read] == [str(vm) for vm in range(600)]


def test_a_number_in_json_keeps_its_digits(tmp_path: Path) -> None:
    """Costs that are JSON numbers, not texts, are what was printed."""
    path = tmp_path / "export.jsonl"
    path.write_text(json.dumps(row()).replace('"cost": "0.021811"', '"cost": 0.021811'), "utf-8")
    (one,) = rows_of_file(path)
    assert isinstance(one, ExportRow)
    assert one.cost_nanos == 21_811_000


GOOD = json.dumps(row()).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps([row()]).encode()[:-5], "breaks off"),
        (GOOD + b"\n" + GOOD[:-5], "breaks off after row 1"),
        (b"Billing account name,Cost\nAcme,1\n", "The console's cost table names no resources"),
        (gzip.compress(GOOD * 50)[:-30], "breaks off or is damaged"),
    ],
    ids=["list breaks off", "last line", "console table", "gzip breaks off"],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, content: bytes, message: str) -> None:
    """The error names the file and the row, and nothing is stored."""
    path = tmp_path / "export"
    path.write_bytes(content)
    with pytest.raises(Invalid, match=message) as wrong:
        list(rows_of_file(path))
    assert str(path) in wrong.value.message


MANY_BRACKETS = b'{"usage_start_time": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
LONG = b'{"usage_start_time": "' + b"x" * 3_000_000 + b'"}'


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"{not json}", "it is not JSON"),
        (b'{"usage_start_time": "x", "cost": 1}', "usage_start_time is not a time: 'x'"),
        (b"1", "a row is a JSON object, and this is '1'"),
        (b'{"usage_start_time": "2026-01-01T00:00:00Z", "cost": 1e400}', "it is not JSON"),
        (b'{"usage_start_time": "2026-01-01T00:00:00Z", "cost": "1e400"}', "cost is no number that a bill can have"),
        (MANY_BRACKETS, "it is not JSON"),
        (LONG, "it is longer than 1,024 KiB"),
        (b'{"x": "\xff\xfe"}', "it is not JSON"),
    ],
    ids=["no json", "no time", "no object", "infinite", "1e400", "brackets", "long", "no text"],
)
@pytest.mark.parametrize("as_list", [False, True], ids=["lines", "list"])
def test_a_bad_row_is_named_and_the_others_are_read(tmp_path: Path, bad: bytes, message: str, as_list: bool) -> None:
    """Rows are judged one by one; the error is short, whatever the row is."""
    path = tmp_path / "export"
    content = [GOOD, bad, GOOD]
    path.write_bytes(b"[" + b" ,\n".join(content) + b"]" if as_list else b"\n".join(content))
    first, wrong, last = rows_of_file(path)
    assert isinstance(wrong, UnreadableRow)
    assert first == last == read_row(row())
    assert wrong.message.startswith(f"{path}, row 2: {message}")
    assert len(wrong.message) < len(str(path)) + 200


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"2026-01-01T00:00:00Z,1,2", "3 fields, where the first line names 2"),
        (b"2026-01-01T00:00:00Z,[[", "a field of it is not JSON"),
        (b"2026-01-01T00:00:00Z," + b"[" * 100_000, "a field of it is not JSON"),
        (b"2026-01-01T00:00:00Z," + b"9" * 3_000_000, "it is longer than 1,024 KiB"),
        (b"2026-01-01T00:00:00Z,\xff", "cost is not a number"),
    ],
    ids=["fields", "json", "brackets", "long", "no text"],
)
def test_a_bad_line_of_csv_is_named_and_the_others_are_read(tmp_path: Path, bad: bytes, message: str) -> None:
    """The result is the same as of JSON. A blank line is none."""
    path = tmp_path / "export.csv"
    good = b"2026-01-01T00:00:00Z,1.5"
    path.write_bytes(b"\n".join([b"usage_start_time,cost", good, bad, b"", good, b""]))
    first, wrong, last = rows_of_file(path)
    assert isinstance(wrong, UnreadableRow)
    assert f"row 2: {message}" in wrong.message
    assert first == last


def test_a_long_line_takes_little_memory(tmp_path: Path) -> None:
    """A line of 64 MiB is passed over, not held."""
    path = tmp_path / "export.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(GOOD + b'\n{"x": "')
        for _ in range(64):
            stream.write(b"x" * (1 << 20))
        stream.write(b'"}\n' + GOOD)
    tracemalloc.start()
    try:
        read = list(rows_of_file(path))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [isinstance(one, UnreadableRow) for one in read] == [False, True, False]
    assert most < 8 << 20


def test_pieces_of_a_list_may_end_anywhere(tmp_path: Path) -> None:
    """A piece may end behind a backslash in a text, or between two elements."""
    rows = [row(vm, labels=[{"key": "k", "value": '\\"]},' * size}]) for vm, size in enumerate((1, 7, 40_000, 120_000))]
    for padding in range(6):
        path = tmp_path / f"export-{padding}.json"
        path.write_text(json.dumps([{"pad": "x" * (2**20 - 30 + padding)}, *rows]), "utf-8")
        assert list(rows_of_file(path))[1:] == [read_row(one) for one in rows]


def test_usage_to_come_is_left_out(tmp_path: Path) -> None:
    """A bill says nothing of a day to come."""
    path = tmp_path / "export.jsonl"
    path.write_text(json.dumps(row(hour=NOON + 48 * HOUR)), "utf-8")
    (one,) = rows_of_file(path, NOON + 47 * HOUR)
    assert isinstance(one, UnreadableRow)
    assert "its usage is still to come" in one.message


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    """An export of a quiet day may be empty."""
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"")
    assert not list(rows_of_file(path))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PAR1" + bytes(90), "Parquet"),
        (b"Obj\x01" + bytes(90), "Avro"),
        (b"PK\x03\x04" + bytes(90), "a workbook or an archive"),
        (json.dumps(ROWS).encode("utf-16"), "in UTF-16"),
    ],
)
def test_a_file_of_another_format_is_named(tmp_path: Path, content: bytes, kind: str) -> None:
    """BigQuery extracts these formats too, and Windows PowerShell redirects in UTF-16: no column is to blame."""
    path = tmp_path / "export"
    path.write_bytes(content)
    with pytest.raises(Invalid, match=f"it is {kind}") as refused:
        list(rows_of_file(path))
    assert "JSON lines or CSV, in UTF-8" in refused.value.message


def test_the_standard_export_is_refused(tmp_path: Path) -> None:
    """It has the same columns but `resource`: read, it would say of every VM that the bill does not have it."""
    standard = [{key: value for key, value in one.items() if key != "resource"} for one in ROWS]
    path = tmp_path / "standard.json"
    path.write_text("\n".join(json.dumps(one) for one in standard) + "\n")
    with pytest.raises(Invalid, match="standard usage export"):
        list(rows_of_file(path))
    path.write_text("\n".join(json.dumps(one) for one in [*standard, ROWS[0]]) + "\n")
    assert len(list(rows_of_file(path))) == len(ROWS) + 1
