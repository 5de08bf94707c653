"""`costguard spend --focus`: charges in the format of FOCUS, as a file."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyarrow import parquet
from tests.api import rows
from tests.api.rows import NOW
from tests.cli.conftest import Run
from tests.within import charge_due

from costguard.db.transaction import Database

DAYS = ("--from", "2026-11-18", "--to", "2026-11-20")


@pytest.fixture
def fleet(sqlite_database: Database) -> None:
    with sqlite_database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "forgotten")
        rows.lifetime(connection, vm, NOW - timedelta(hours=50))
        rows.storage(connection, vm, NOW - timedelta(hours=50))
        rows.lifetime(connection, rows.instance(connection, "dear", **rows.H100), NOW - timedelta(hours=1), **rows.H100)
        charge_due(connection, NOW)


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_all_days_stand_under_one_head(run: Run, tmp_path: Path, ending: str) -> None:
    """The costs add up to what `spend` shows; what has no price is counted; nothing else is left in the folder."""
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / f"charges.{ending}"
    written = run("spend", *DAYS, "--focus", str(path))
    assert written.returncode == 0, written.stderr
    assert "NOT PRICED, and so without a row: 1 lifetime or disk." in written.stdout
    if ending == "csv":
        costs = [Decimal(line["BilledCost"]) for line in csv.DictReader(path.read_text().splitlines())]
    else:
        costs = parquet.read_table(path)["BilledCost"].to_pylist()
    spent = json.loads(run("spend", *DAYS, "--json").stdout)
    assert sum(costs) == Decimal(spent["total"]["total"]) > 0
    assert list(folder.iterdir()) == [path]


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    "wrong", [["charges.xlsx"], ["charges.csv", "--by", "owner"], ["charges.csv", "--json"], ["no/folder.csv"]]
)
def test_wrong_files_and_options_are_refused(run: Run, tmp_path: Path, wrong: list[str]) -> None:
    """Another ending, a grouping, two outputs, a folder that is not there: nothing is written."""
    folder = tmp_path / "out"
    folder.mkdir()
    path, *more = wrong
    refused = run("spend", "--focus", str(folder / path), *more)
    assert refused.returncode in {1, 2}
    assert "Traceback" not in refused.stderr
    assert list(folder.iterdir()) == []
