"""The rate of the last day at each moment is that of the VMs there, at their present prices."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from sqlalchemy import insert
from tests.api import rows
from tests.api.rows import NOW

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Scope
from costguard.model.money import Money
from costguard.spend.burning import STEP, BurnHistory, burned

HOUR = timedelta(hours=1)
T4, DISK = Money.of("0.53"), Money.of("0.004")  # an hour of an n1-standard-4 with a T4, and of 70 GiB
LATER = NOW + timedelta(minutes=7)


def watched(database: Database, since: datetime) -> None:
    with database.write() as connection:
        rows.prices(connection)
        connection.execute(
            insert(tables.projects).values(
                project="lab", first_seen_at=since, last_tried_at=NOW, last_complete_at=NOW, unread=[]
            )
        )


def history(database: Database, scope: Scope = Scope()) -> BurnHistory:
    with database.read() as connection:
        return burned(connection, accrual_at(connection, LATER), scope)


def test_each_mark_holds_what_billed_then(database: Database) -> None:
    """Begun at or before it and not ended at or before it: machines and disks, of the scope alone."""
    watched(database, NOW - 30 * HOUR)
    luck = random.Random(5)
    begun: list[tuple[str, Money, datetime, datetime | None]] = []
    with database.write() as connection:
        for number in range(30):
            preset = luck.choice(["t4", "a100"])
            start = NOW - timedelta(seconds=luck.choice([0, 900, 3600, 86_400, luck.randrange(100_000)]))
            ends = [None, start + timedelta(seconds=1), start + STEP, start + luck.randrange(50_000) * STEP / 900]
            end = luck.choice([end for end in ends if end is None or end <= LATER])
            vm = rows.instance(connection, f"vm-{number}", preset=preset)
            rows.lifetime(connection, vm, start, ended_at=end, preset=preset)
            rows.storage(connection, vm, start - HOUR, ended_at=end, preset=preset)
            begun += [(preset, T4, start, end), (preset, DISK, start - HOUR, end)]
    for scope in (Scope(), Scope(preset="t4"), Scope(preset="t4", project="else")):
        drawn = history(database, scope)
        assert drawn.since == NOW - 24 * HOUR
        for place, rate in enumerate(drawn.rates):
            mark = drawn.since + place * STEP
            assert rate == sum(
                (
                    amount
                    for preset, amount, start, end in begun
                    if start <= mark and (end is None or end > mark) and scope.preset in (None, preset)
                    if scope.project is None
                ),
                Money(),
            )
        assert drawn.since + (len(drawn.rates) - 1) * STEP == NOW


def test_what_nobody_watched_is_not_drawn(sqlite_database: Database) -> None:
    """The line begins with the watch; a guard that was just started has none, and what has no price is not in it."""
    assert history(sqlite_database).rates == ()
    watched(sqlite_database, NOW - 2 * HOUR + timedelta(minutes=1))
    with sqlite_database.write() as connection:
        vm = rows.instance(connection, "vm")
        rows.lifetime(connection, vm, NOW - 9 * HOUR, ended_at=NOW - HOUR)
        rows.lifetime(connection, vm, NOW - HOUR / 2, machine_type="x9-unheard-of")
    drawn = history(sqlite_database)
    assert drawn.since == NOW - 2 * HOUR + STEP
    assert drawn.rates == (T4,) * 3 + (Money(),) * 5
    assert drawn.peak == (drawn.since, T4)
