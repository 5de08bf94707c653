"""Rows of the bill that are left out: counted, named, and no harm to the others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.bill.exports import row

from costguard.bill.export_row import judged
from costguard.bill.export_sums import ExportSums
from costguard.bill.reading import read_files
from costguard.errors import Invalid

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize("exponent", [0, 1, 3])
def test_rows_that_are_left_out_are_counted_and_named(sqlite_url: str, tmp_path: Path, exponent: int) -> None:
    """The others are stored, and the sentence names the first five."""
    good = [row(vm) for vm in range(24)]
    bad = [{**good[0], "currency_conversion_rate": "0"} for _ in range(10**exponent)]
    path = tmp_path / "export.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in [*good, *bad]), "utf-8")
    done = read_files(sqlite_url, [path], NOW)
    assert (done.row_count, done.left_out.row_count) == (len(good), len(bad))
    assert len(done.left_out.reasons) == min(len(bad), 5)
    assert f"{path}, row {len(good) + 1}: currency_conversion_rate is no rate" in done.left_out.words
    assert len(done.left_out.words) < 5 * (len(str(path)) + 120)


def test_a_file_without_a_readable_row_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    """It is another file than its reader thinks."""
    path = tmp_path / "export.jsonl"
    path.write_text('{"usage_start_time": "x"}\n{"usage_start_time": "y"}\n', "utf-8")
    with pytest.raises(Invalid, match=r"no row that can be read. 2 rows could not be read and are left out"):
        read_files(sqlite_url, [path], NOW)


def test_costs_that_no_database_holds_are_left_out() -> None:
    """The second of two rows that add up to more than 2^63 nanos is left out."""
    sums = ExportSums()
    sums.add(judged(row(cost="4e9")) for _ in range(3))
    assert (sums.row_count, sums.left_out.row_count) == (2, 1)
