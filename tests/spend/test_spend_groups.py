"""Spend read by any grouping, from the totals or from the rows with owners, is the same money."""

from __future__ import annotations

from datetime import date
from itertools import combinations

from tests.api.rows import day

from costguard.db.transaction import Database
from costguard.model.budget import Scope
from costguard.spend.spend_rows import Grouping, days_of, rolled_up

_FIRST, _LAST = date(2026, 11, 1), date(2026, 11, 2)


def test_every_grouping_names_its_groups(database: Database) -> None:
    """Each group holds the values that were asked for, in that order, and all groups add up to the whole."""
    values = {
        Grouping.DAY: {"2026-11-01", "2026-11-02"},
        Grouping.PROJECT: {"lab", "yard"},
        Grouping.PRESET: {"t4", "a100"},
        Grouping.OWNER: {"ada@lab.example", "ben@lab.example"},
        Grouping.PROVISIONING_MODEL: {"spot", "standard"},
    }
    with database.write() as connection:
        for on in (_FIRST, _LAST):
            for project in values[Grouping.PROJECT]:
                for preset in values[Grouping.PRESET]:
                    for owner in values[Grouping.OWNER]:
                        for model in values[Grouping.PROVISIONING_MODEL]:
                            given = {"project": project, "preset": preset, "owner": owner, "provisioning_model": model}
                            day(connection, on, machine_nanos=1000, **given)
        for width in range(len(values) + 1):
            for groupings in combinations(values, width):
                rows = rolled_up(connection, _FIRST, _LAST, groupings, Scope())
                assert len(rows) == 2**width
                assert all(group[at] in values[by] for group, _ in rows for at, by in enumerate(groupings))
                assert sum(amounts.machine.nanos for _, amounts in rows) == 32_000
        for grouping in [value for value in values if value is not Grouping.DAY]:
            for scope, share in ((Scope(), 1), (Scope(owner="ada@lab.example"), 2), (Scope(preset="t4"), 2)):
                names = [*sorted(values[grouping]), "nobody"]
                days = days_of(connection, _FIRST, _LAST, grouping, tuple(names), scope)
                assert [list(days), {sum(of_day[:2]) for of_day in days.values()}] == [
                    [_FIRST, _LAST],
                    {16_000 // share},
                ]
                assert all(of_day[2:] == [0, 16_000 // share] for of_day in days.values())
