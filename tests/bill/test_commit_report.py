"""Advice on commitments rests on runs in the ledger and on fees of a bill that was read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from sqlalchemy import Connection, insert, update
from tests.api import rows
from tests.bill.exports import row, summed

from costguard.bill.commit_report import CommitmentReport, commitment_report
from costguard.bill.lines import BillStanding
from costguard.bill.store import store
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.model.money import Money
from costguard.spend.commit_advice import SCALE, CommitmentAdvice, CommitmentKind, UseKey
from costguard.spend.commit_hours import hours_of_use

NOW = datetime(2026, 11, 20, 12, 20, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
N2: dict[str, Any] = {
    "machine_type": "n2-standard-4",
    "vcpus": 4,
    "memory_mib": 16 * 1024,
    "gpu_type": None,
    "gpu_count": 0,
    "local_ssd_gib": 0,
}
RATES = {
    ("n2:core", "standard", "h"): 30_000_000,
    ("n2:ram", "standard", "GiBy.h"): 4_000_000,
    ("commitment-1y:n2:core", "standard", "h"): 19_000_000,
    ("gpu:nvidia-h100-80gb", "standard", "h"): 9_796_000_000,
}
CORES = UseKey("n2", "us-central1", "n2:core")


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with database.write() as connection:
        rows.prices(connection, RATES)
        rows.project(connection)
        connection.execute(update(tables.projects).values(first_seen_at=NOW - 200 * DAY))
        yield connection


def runs(connection: Connection, name: str, began: timedelta, ended: timedelta | None = None, **given: Any) -> None:
    """Stores a VM that ran from `began` ago to `ended` ago."""
    shape = {**N2, **given}
    vm = rows.instance(connection, name, **shape)
    end = None if ended is None else NOW - ended
    rows.lifetime(connection, vm, NOW - began, ended_at=end, **shape)


def advised(report: CommitmentReport, kind: CommitmentKind, years: int) -> CommitmentAdvice:
    (one,) = (one for one in report.advice if (one.kind, one.years) == (kind, years))
    return one


def test_hours_hold_each_second_of_each_run_once(connection: Connection) -> None:
    """They equal a count second by second: runs of seconds and of months, cut at both ends of the days."""
    chance = random.Random(3)
    drawn = []
    for number in range(60):
        began = chance.randrange(1, 40 * 86_400)
        ended = chance.randrange(0, began) if chance.random() < 0.8 else None
        drawn.append((began, ended))
        runs(connection, f"vm{number}", timedelta(seconds=began), None if ended is None else timedelta(seconds=ended))
    used = hours_of_use(connection, NOW, 30)
    assert (used.since, used.hours) == (datetime(2026, 10, 21, 12, tzinfo=UTC), 720)
    expected = [0] * used.hours
    for began, ended in drawn:
        start = max(0, int((NOW - timedelta(seconds=began) - used.since).total_seconds()))
        end = int((NOW - timedelta(seconds=ended or 0) - used.since).total_seconds())
        for hour in range(used.hours):
            expected[hour] += max(0, min(end, (hour + 1) * 3600) - max(start, hour * 3600))
    assert used.series[CORES] == [4 * SCALE * seconds for seconds in expected]


def test_only_on_demand_use_counts(connection: Connection) -> None:
    """Spot, flex-start and VMs that only run in a reservation of their own price are not bought on demand."""
    for model in ("spot", "flex_start", "reservation_bound"):
        runs(connection, model, 40 * DAY, provisioning_model=model)
    runs(connection, "odd", 40 * DAY, machine_type="z9-standard-4", vcpus=0, memory_mib=0)
    runs(connection, "usual", 40 * DAY)
    used = hours_of_use(connection, NOW, 30)
    assert used.series[CORES] == [4 * SCALE * 3600] * 720
    assert used.unknown_runs == 1


def test_ten_steady_vms_and_their_neighbours_of_the_day(connection: Connection) -> None:
    """Ten run always, ten more for a third of each day: three years' 46 % do not pay for those, as 54 % of the hours
    are more than a third.
    """
    for number in range(10):
        runs(connection, f"steady{number}", 100 * DAY)
        for day in range(91):
            began = day * DAY + NOW.minute * MINUTE + 12 * HOUR
            runs(connection, f"day{number}-{day}", began, began - 8 * HOUR)
    report = commitment_report(connection, NOW, 90)
    hourly = Money.of("1.84")  # ten of 4 x 0.03 + 16 x 0.004
    flexible = advised(report, CommitmentKind.FLEXIBLE, 3)
    assert flexible.level == Fraction(184, 100)
    assert flexible.fee.nanos == round(hourly.nanos * Fraction(54, 100))
    assert flexible.saved == Money.of("617.872")  # 1.84 x 0.46 x 730
    assert flexible.exceeded == Fraction(1, 3)
    assert advised(report, CommitmentKind.RESOURCES, 1).level == 40
    assert report.uncovered == []


def test_a_month_of_use_is_the_least(connection: Connection) -> None:
    """A week says nothing about a commitment for a year."""
    runs(connection, "vm", 100 * DAY)
    connection.execute(update(tables.projects).values(first_seen_at=NOW - 29 * DAY))
    report = commitment_report(connection, NOW, 90)
    assert report.advice == []
    assert "28 full days" in report.too_short
    connection.execute(update(tables.projects).values(first_seen_at=NOW - 31 * DAY))
    assert commitment_report(connection, NOW, 90).advice


def test_use_without_a_known_commitment_is_named(connection: Connection) -> None:
    """H100s have no flexible commitment, and the price of none of their own is known here; the host has no price."""
    runs(connection, "big", 40 * DAY, None, **rows.H100)
    report = commitment_report(connection, NOW, 30)
    assert "gpu:nvidia-h100-80gb" in {key.resource for key in report.uncovered}
    assert {key.resource for key in report.unpriced} == {"a3:core", "a3:ram"}


def test_what_the_bill_shows_as_bought_is_subtracted(database: Database) -> None:
    """A fee of $0.72 an hour for a year covers $1 of use; a commitment to 16 vCPUs is 16 vCPU-hours an hour."""
    day = datetime(2026, 11, 10, tzinfo=UTC)
    with database.write() as connection:
        rows.prices(connection, RATES)
        connection.execute(
            update(tables.prices).where(tables.prices.c.resource == "commitment-1y:n2:core").values(sku_id="C-N2")
        )
        rows.project(connection)
        connection.execute(update(tables.projects).values(first_seen_at=NOW - 200 * DAY))
        for number in range(10):
            runs(connection, f"vm{number}", 100 * DAY)
        counts = ("_nanos", "lines", "differing")
        amounts = {column.name: 0 for column in tables.bill_days.c if column.name.endswith(counts)}
        closed = {"day": day.date(), "project": "acme", "standing": BillStanding.CLOSED.value, "compared_at": NOW}
        connection.execute(insert(tables.bill_days).values(closed | amounts))
    flexible = {"id": "5515-81A8-03A2", "description": "Compute Flexible CUDs fee - 1 Year"}
    cores = {"id": "C-N2", "description": "Commitment v1: N2 Cpu in Americas for 1 Year"}
    other = {"id": "C-X", "description": "Commitment v1: X9 Cpu in Americas for 1 Year"}
    place = {"location": "us-central1", "region": "us-central1"}
    fees = [
        row(hour=day + hour * HOUR, sku=sku, cost=cost, seconds=seconds, resource=None, location=place)
        for hour in range(24)
        for sku, cost, seconds in ((flexible, "0.72", "1"), (cores, "0.304", str(16 * 3600)), (other, "1", "3600"))
    ]
    store(database, summed(*fees).partitions(), "a file", NOW)
    with database.read() as connection:
        report = commitment_report(connection, NOW, 90)
    assert report.bought.day == day.date()
    assert report.bought.flexible_nanos == 10**9
    assert report.bought.unnamed == ["Commitment v1: X9 Cpu in Americas for 1 Year"]
    assert advised(report, CommitmentKind.FLEXIBLE, 1).level == Fraction(84, 100)  # of 1.84
    assert advised(report, CommitmentKind.RESOURCES, 1).level == 24  # of 40
