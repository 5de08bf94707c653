"""A year's spend in an organisation is read from sums of all its projects together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import pytest
from sqlalchemy import event, insert
from tests.rolled_up import total_days

from costguard.db.tables import daily_spend
from costguard.db.transaction import Database
from costguard.model.budget import Scope
from costguard.model.money import Amounts
from costguard.spend.spend_rows import Grouping, rolled_up

FIRST = date(2026, 1, 1)
DAYS = [FIRST + timedelta(days=number) for number in range(3)]
PROJECTS = [f"lab-{number}" for number in range(7)]
MODELS = ("spot", "standard")


def _row(day: date, project: str, preset: str, model: str, nanos: int) -> dict[str, object]:
    whose = {"day": day, "project": project, "preset": preset, "owner": "ann", "job": "", "provisioning_model": model}
    return {**whose, "machine_nanos": nanos, "gpu_nanos": 2 * nanos, "storage_nanos": 3, "seconds": 60}


@pytest.fixture
def year(database: Database) -> Database:
    with database.write() as connection:
        rows = [
            _row(day, project, preset, model, 10**number)
            for day in DAYS
            for number, project in enumerate(PROJECTS)
            for preset in ("t4", "l4")
            for model in MODELS
        ]
        connection.execute(insert(daily_spend), rows)
        total_days(connection, DAYS)
    return database


@pytest.mark.parametrize(
    ("groups", "scope", "table"),
    [
        ((Grouping.DAY, Grouping.PRESET), Scope(), "daily_presets"),
        ((Grouping.PROVISIONING_MODEL,), Scope(), "daily_presets"),
        ((Grouping.DAY,), Scope(preset="t4"), "daily_presets"),
        ((Grouping.DAY, Grouping.PRESET), Scope(project="lab-3"), "daily_totals"),
        ((Grouping.PROJECT,), Scope(), "daily_totals"),
        ((Grouping.DAY, Grouping.OWNER), Scope(), "daily_owners"),
    ],
    ids=["preset", "model", "of-preset", "of-project", "project", "owner"],
)
def test_smallest_sums_that_tell_apart_what_is_asked_for_are_read(
    year: Database, groups: tuple[Grouping, ...], scope: Scope, table: str
) -> None:
    """Sums that keep hundreds of projects apart are hundreds of times as many rows."""
    sent: list[str] = []
    listener: Callable[..., None] = lambda _c, _cursor, statement, *_rest: sent.append(statement)  # noqa: E731
    with year.read() as connection:
        event.listen(connection, "before_cursor_execute", listener)
        rolled_up(connection, DAYS[0], DAYS[-1], groups, scope)
    assert [f"FROM {table} " in statement.replace("\n", " ") for statement in sent if "daily_" in statement] == [True]


def test_day_and_preset_of_all_projects_are_their_sums(year: Database) -> None:
    """They add up to what the projects come to one by one."""
    groups = (Grouping.DAY, Grouping.PRESET)
    with year.read() as connection:
        whole = dict(rolled_up(connection, DAYS[0], DAYS[-1], groups, Scope()))
        parts = [dict(rolled_up(connection, DAYS[0], DAYS[-1], groups, Scope(project=one))) for one in PROJECTS]
    assert len(whole) == len(DAYS) * 2
    assert whole == {
        group: Amounts._make(map(sum, zip(*(part[group] for part in parts), strict=True))) for group in whole
    }
    assert whole[FIRST.isoformat(), "l4"] == Amounts(2 * 1_111_111, 4 * 1_111_111, 3 * 2 * 7, 60 * 2 * 7)
