"""Local files of an export: their forms, and what is wrong with them."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bill.exports import HOUR, NOON, row

from costguard.bill.export_file import rows_of_file
from costguard.bill.export_row import read_row
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
    """As `SELECT project.number AS ..., TO_JSON_STRING(credits) AS credits` writes it, flat."""
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
    """What a file is shows in its first bytes; its name does not matter."""
    path = tmp_path / "export"
    write(path)
    assert list(rows_of_file(path)) == [read_row(one) for one in ROWS]


def test_a_long_list_is_read_piece_by_piece(tmp_path: Path) -> None:
    """Rows that lie across the ends of what is read at a time are whole."""
    rows = [row(vm, labels=[{"key": "filler", "value": "x" * 5000}]) for vm in range(600)]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(rows), "utf-8")
    assert [one.resource.resource_id for one in rows_of_file(path)] == [str(vm) for vm in range(600)]


def test_a_number_in_json_keeps_its_digits(tmp_path: Path) -> None:
    """Costs that are JSON numbers, not texts, are what was printed."""
    path = tmp_path / "export.jsonl"
    path.write_text(json.dumps(row()).replace('"cost": "0.021811"', '"cost": 0.021811'), "utf-8")
    (one,) = rows_of_file(path)
    assert one.cost_nanos == 21_811_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{not json}\n", "row 1"),
        (json.dumps(row()).encode() + b'\n{"usage_start_time": "x", "cost": 1}\n', "row 2: usage_start_time"),
        (b"[1]", "a row is a JSON object"),
        (json.dumps([row()]).encode()[:-5], "breaks off"),
        (b"Billing account name,Cost\nAcme,1\n", "The console's cost table names no resources"),
        (b"usage_start_time,cost\n2026-01-01T00:00:00Z,1,2\n", "3 fields, where the first line names 2"),
        (gzip.compress(json.dumps(row()).encode() * 50)[:-30], "breaks off or is damaged"),
        (b"{" + b"\xff" * 9, "row 1"),
    ],
    ids=["no json", "second row", "no object", "list breaks off", "console table", "csv", "gzip breaks off", "no text"],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, content: bytes, message: str) -> None:
    """The error names the file and the row, and nothing is stored."""
    path = tmp_path / "export"
    path.write_bytes(content)
    with pytest.raises(Invalid, match=message) as wrong:
        list(rows_of_file(path))
    assert str(path) in wrong.value.message


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    """An export of a quiet day may be empty."""
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"")
    assert not list(rows_of_file(path))
