"""Other engines read the history: the statements of the page History, run as they stand there."""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.history_statements import PAGE, over, statements
from tests.ledger.test_archiving import FIRST, LAST, NOW, live
from tests.spend.test_history import BEFORE, CLOSED, history_in, write

from costguard.db.tables import instances
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.ledger.archived.day_file import OWN
from costguard.ledger.archived.dropping import drop_charges
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

duckdb = pytest.importorskip("duckdb")

BY_PRESET, BY_OWNER, BY_LABEL, GPU_HOURS = statements("DuckDB")


@pytest.fixture
def folder(sqlite_database: Database, tmp_path: Path) -> Path:
    """The history of a ledger whose old charges are in it alone."""
    live(sqlite_database, 3)
    with sqlite_database.write() as connection:
        connection.execute(update(instances).values(labels={"experiment": "alpha"}).where(instances.c.id % 2 == 0))
    history = history_in(tmp_path / "history")
    write(sqlite_database, history, tmp_path)
    assert drop_charges(sqlite_database, history.store, BEFORE).rows > 0
    return tmp_path / "history"


def answer(statement: str, folder: Path) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        done = connection.execute(over(statement, folder))
        names = [column[0] for column in done.description]
        return [dict(zip(names, row, strict=True)) for row in done.fetchall()]


def of_ledger(database: Database, *groups: Grouping) -> dict[tuple[str, ...], Decimal]:
    """Returns what the pages show of the closed days."""
    with database.read() as connection:
        report = spend(connection, accrual_at(connection, NOW), FIRST, LAST, (Grouping.DAY, *groups))
    sums: defaultdict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for row in report.rows:
        if date.fromisoformat(row.group[0]) < CLOSED:
            sums[row.group] += row.amounts.total.dollars
    return dict(sums)


def test_duckdb_reads_spend_by_day_and_preset(sqlite_database: Database, folder: Path) -> None:
    """The first statement gives the figures of the page Spend, to the nano-dollar."""
    rows = answer(BY_PRESET, folder)
    read = {(row["day"].isoformat(), row["preset"]): row["dollars"] for row in rows}
    assert read == of_ledger(sqlite_database, Grouping.PRESET)
    assert [row["day"] for row in rows] == sorted(row["day"] for row in rows)


def test_duckdb_reads_owners_of_a_project(sqlite_database: Database, folder: Path) -> None:
    """Dollars by owner, and what of them was Spot."""
    rows = answer(BY_OWNER.replace("acme-training", "p"), folder)
    expected: defaultdict[str, Decimal] = defaultdict(Decimal)
    spot: defaultdict[str, Decimal] = defaultdict(Decimal)
    for (_, owner, model), dollars in of_ledger(sqlite_database, Grouping.OWNER, Grouping.PROVISIONING_MODEL).items():
        expected[owner] += dollars
        spot[owner] += dollars if model == "spot" else 0
    assert {row["owner"]: row["dollars"] for row in rows} == expected
    assert {row["owner"]: row["spot_dollars"] or 0 for row in rows} == spot


def test_duckdb_reads_labels_and_gpu_hours(sqlite_database: Database, folder: Path) -> None:
    """A label's values share the whole, and hours are those of the GPUs' charges."""
    total = sum(of_ledger(sqlite_database).values())
    by_label = {row["experiment"]: row["dollars"] for row in answer(BY_LABEL, folder)}
    assert set(by_label) == {"alpha", None}
    assert sum(by_label.values()) == total
    hours = answer(GPU_HOURS, folder)
    assert {row["gpu"] for row in hours} == {"gpu:nvidia-tesla-t4"}
    assert all(isinstance(row["gpu_hours"], Decimal) and row["gpu_hours"] > 0 for row in hours)


def test_no_amount_is_a_float_in_duckdb(folder: Path) -> None:
    """Costs and their sums are decimals of nine places."""
    columns = answer(f"DESCRIBE SELECT * FROM read_parquet('{'history/day='}*/charges.parquet')", folder)
    types = {row["column_name"]: row["column_type"] for row in columns}
    assert types["BilledCost"] == "DECIMAL(18,9)"
    assert not {name for name, kind in types.items() if kind in ("FLOAT", "DOUBLE")}


def test_page_names_every_column_of_the_ledger() -> None:
    """People find what each `x_` column is."""
    text = PAGE.read_text("utf-8")
    assert [name for name in OWN if f"`{name}`" not in text] == []


def test_pandas_reads_days_by_preset(
    sqlite_database: Database, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's program prints exact sums."""
    pytest.importorskip("pandas")
    (program,) = statements("pandas", "python")
    program = program.replace('"history"', repr(str(folder))).replace("2026-11-", "2026-01-").replace("01-30", "01-31")
    exec(compile(program, "history.md", "exec"), {})
    printed = capsys.readouterr().out
    january = {
        group: dollars
        for group, dollars in of_ledger(sqlite_database, Grouping.PRESET).items()
        if group[0] <= "2026-01-31"
    }
    assert all(f"{dollars:f}" in printed for dollars in list(january.values())[:1])
