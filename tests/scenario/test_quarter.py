"""The promise to people: every due stage once, nothing about what is gone, no stop without its warnings."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime, timedelta

from tests.scenario.quarter.fleet import DAY
from tests.scenario.quarter.guard import PROJECT
from tests.scenario.quarter.life import Quarter
from tests.scenario.quarter.oracle import Verdict, judge
from tests.scenario.quarter.weather import QUARTER

from costguard.db.transaction import Database
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 9, 28, tzinfo=UTC)  # the clocks of Europe and of America change within
# All of a quarter takes minutes to live through: COSTGUARD_QUARTER_DAYS=91, and COSTGUARD_QUARTER_PACE=1 for closer
# passes. Unless asked for, it is two weeks at the same density.
DAYS = int(os.environ.get("COSTGUARD_QUARTER_DAYS", "14"))
PACE = float(os.environ.get("COSTGUARD_QUARTER_PACE", "2"))
SEED = int(os.environ.get("COSTGUARD_QUARTER_SEED", "5"))


def lived(database_url: str, span: timedelta, size: int, pace: float, seed: int) -> tuple[Quarter, Verdict]:
    """A quarter and what the oracle says of it; its counts are printed."""
    world = World(ManualClock(START), projects=[PROJECT], seed=seed, operation_retention=2 * QUARTER)
    with running(world) as url:
        quarter = Quarter(world, database_url, url, seed, START, span, size, pace)
        quarter.live()
    with closing(Database.open(database_url)) as database:
        verdict = judge(quarter, database)
    for title, counts in (
        ("what came of it", verdict.counts),
        ("the guard", quarter.counts),
        ("where it ended or stood still", quarter.fuse.burnt),
        ("the weather", quarter.weather.counts),
        ("the VMs", quarter.fleet.happened),
        ("the people", quarter.people.counts),
    ):
        print(f"\n{title}:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return quarter, verdict


def test_a_quarter(sqlite_url: str) -> None:
    """With crashes between any two steps, outages, limits and lost answers: nothing twice, too early, or left out."""
    share = DAYS * DAY / QUARTER
    quarter, verdict = lived(sqlite_url, DAYS * DAY, round(220 * share), PACE, SEED)
    assert verdict.wrong == []
    counts = verdict.counts
    assert counts["VMs"] > 160 * share
    assert quarter.counts["crashes"] > 30 * share
    assert quarter.counts["freezes"] > 4 * share
    assert counts["messages posted"] > 200 * share
    assert counts["VMs stopped by rule"] > 20 * share - 2  # few in a short span, and chance has its part in them
    assert counts["VMs stopped for people"] > 3 * share


def test_five_days_on_postgresql(postgres_url: str) -> None:
    """The same for some days that hold as much trouble, on the database of an organisation."""
    quarter, verdict = lived(postgres_url, 5 * DAY, 17, 1, 7)
    assert verdict.wrong == []
    assert verdict.counts["messages posted"] > 10
    assert quarter.counts["crashes"] > 0
