"""Archiving charges changes no figure, survives a crash at every step, and can be read again."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select, update
from tests.crashing import CrashPoint, Killed, fragile_database, steps_of
from tests.ledger.test_charging import PRICES, Ledger
from tests.rolled_up import ROLLED_UP
from tests.within import charge_due

from costguard.db import archive_file
from costguard.db.backup import verify
from costguard.db.tables import archives, charge_days, charges, daily_spend, jobs, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.errors import Invalid, Missing
from costguard.ledger import job_costs, prices
from costguard.ledger.accrual import accrual_at
from costguard.ledger.archived.archiving import archive_charges
from costguard.ledger.charged.charges import recharge_since
from costguard.ledger.charged.charges_of import ArchivePlaces, SpanCharge, charges_of
from costguard.ledger.charged.spans import LifetimeFilters, lifetimes_page
from costguard.ledger.charged.spans import charges_of as sums_of
from costguard.model.budget import Scope
from costguard.model.price import SpotUse
from costguard.spend import spot_rows
from costguard.spend.spend_rows import Grouping
from costguard.spend.vm_spend import spend_by_vm

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 4, 10, 12, tzinfo=UTC)
BEFORE = datetime(2026, 2, 15, tzinfo=UTC)
DAY = timedelta(days=1)
FIRST, LAST = START.date(), NOW.date()


def live(database: Database, seed: int) -> None:
    """Two months of VMs of all kinds, some of which run on, some of a job."""
    chance = random.Random(seed)
    with database.write() as connection:
        prices.add(connection, [replace(price, in_force_from=START - 90 * DAY) for price in PRICES], NOW)
        dearer = START + timedelta(days=20, hours=7)
        prices.add(
            connection,
            [
                replace(p, in_force_from=dearer, rate_nanos=2 * p.rate_nanos)
                for p in PRICES
                if p.key.resource == "n1:core"
            ],
            NOW,
        )
        ledger = Ledger(connection)
        for _ in range(chance.randint(8, 16)):
            vm = ledger.vm()
            start = START + timedelta(seconds=chance.randrange(40 * 86400))
            whose: dict[str, Any] = {"owner": chance.choice(("ann", "ben", "")), "job": chance.choice(("", "job-1"))}
            ledger.disk(start, start + 9 * DAY, vm, **whose)
            for _ in range(chance.randint(1, 3)):
                end = start + timedelta(microseconds=chance.randrange(1, 4 * 86_400_000_000))
                gpu = chance.choice(({}, {"gpu_type": "nvidia-tesla-t4", "gpu_count": 1}))
                model = "standard" if gpu else chance.choice(("standard", "spot"))
                is_open = chance.random() < 0.1
                ledger.run(start, None if is_open else end, vm, provisioning_model=model, **gpu, **whose)
                if is_open:
                    break
                start = end + timedelta(seconds=chance.randrange(1, 86400))
        charge_due(connection, NOW)


def figures(connection: Connection) -> dict[str, Any]:
    """Returns the figures that pages and the API are made from."""
    accrual = accrual_at(connection, NOW)
    periods = ((FIRST, LAST), (date(2026, 1, 10), date(2026, 1, 21)), (date(2026, 2, 10), date(2026, 2, 20)))
    by_vm = {}
    for first, last in periods:
        for groups in ([], [Grouping.DAY, Grouping.OWNER], [Grouping.JOB, Grouping.PROVISIONING_MODEL]):
            for scope in (Scope(), Scope(job="job-1"), Scope(owner="ann")):
                rows, total = spend_by_vm(connection, accrual, first, last, groups, scope)
                seen = sorted((row.group, row.vm.id, row.attribution.owner, str(row.amounts)) for row in rows)
                by_vm[first, last, *groups, str(scope)] = (seen, total)
    page = lifetimes_page(connection, LifetimeFilters(), None, 1000)
    parts = {}
    for spans in (lifetimes, storage_spans):
        ids = list(connection.scalars(select(spans.c.id)))
        for span_id, sums in sums_of(connection, spans, ids).items():
            parts[spans.name, span_id] = sorted(
                (one.resource, one.price_id, one.quantity_millis, one.seconds, one.amount.nanos) for one in sums
            )
    spot = spot_rows.charged(connection, periods, Scope(job="job-1"))
    return {
        "by VM": by_vm,
        "lifetimes": {stored.id: (stored.charged, stored.charged_to) for stored in page},
        "parts": parts,
        "jobs": job_costs.costs(connection, accrual, ["job-1"]),
        "Spot": _added_up(spot),
        **{table.name: sorted(map(tuple, connection.execute(select(table)))) for table in ROLLED_UP},
    }


def _added_up(uses: Sequence[SpotUse]) -> dict[tuple[date, int], tuple[Fraction, int]]:
    sums: dict[tuple[date, int], tuple[Fraction, int]] = {}
    for use in uses:
        amount, nanos = sums.get((use.day, use.price_id), (Fraction(), 0))
        sums[use.day, use.price_id] = amount + use.amount, nanos + use.cost.nanos
    return sums


def single(database: Database, folder: Path, first: date = FIRST, last: date = LAST) -> list[SpanCharge]:
    with database.read() as connection:
        charged_parts = charges_of(connection, first, last, ArchivePlaces(folder))
        return sorted(charged_parts, key=lambda one: (one.kind, one.span_id, one.resource, one.started_at))


@pytest.mark.parametrize("seed", range(2))
def test_archiving_changes_no_figure(database: Database, tmp_path: Path, seed: int) -> None:
    """Sums by VM, job, day, owner and resource are those of before, and single charges are read from the archive."""
    live(database, seed)
    with database.read() as connection:
        before = figures(connection)
    single_before = single(database, tmp_path)
    done = archive_charges(database, tmp_path, BEFORE, NOW, most_spans=7, at_once=3)
    assert done.rows > 0
    with database.read() as connection:
        assert figures(connection) == before
        assert [check.wrong for check in verify.checks(connection) if not check.holds] == []
        days = {row.day for row in connection.execute(select(charge_days.c.day))}
    assert days
    assert max(days) <= BEFORE.date()
    assert single(database, tmp_path) == single_before
    january = (date(2026, 1, 5), date(2026, 1, 9))
    assert single(database, tmp_path, *january) == [one for one in single_before if january[0] <= one.day <= january[1]]


@pytest.mark.parametrize("seed", [1])
def test_archiving_killed_at_any_step_goes_on(database_url: str, database: Database, tmp_path: Path, seed: int) -> None:
    """Every figure is as before, killed before, within or after any transaction, and another run archives the rest."""
    live(database, seed)
    with database.read() as connection:
        before = connection.execute(select(daily_spend)).all()
    single_before = single(database, tmp_path)
    for step in steps_of(database_url, 16):
        with fragile_database(database_url, CrashPoint(step)) as fragile, suppress(Killed):
            archive_charges(fragile, tmp_path, BEFORE, NOW, most_spans=5, at_once=2)
        with database.read() as connection:
            assert [check.wrong for check in verify.checks(connection) if not check.holds] == []
            assert connection.execute(select(daily_spend)).all() == before
        assert single(database, tmp_path) == single_before
    archive_charges(database, tmp_path, BEFORE, NOW)
    with database.read() as connection:
        assert set(connection.scalars(select(archives.c.state))) == {"done"}
    assert single(database, tmp_path) == single_before


def test_archived_spans_are_not_charged_again(database: Database, tmp_path: Path) -> None:
    """A price that was in force before then changes open and recent spans alone."""
    live(database, 3)
    archive_charges(database, tmp_path, BEFORE, NOW)
    with database.write() as connection:
        recharge_since(connection, START)
        charge_due(connection, NOW)
        assert [check.wrong for check in verify.checks(connection) if not check.holds] == []


def test_damaged_archive_is_refused(database: Database, tmp_path: Path) -> None:
    """A file with other bytes than were written is named, and so is one that is gone; totals do not need them."""
    live(database, 2)
    archive_charges(database, tmp_path / "archive", BEFORE, NOW)
    file = next(iter((tmp_path / "archive").iterdir()))
    whole = file.read_bytes()
    file.write_bytes(whole[:-20] + whole[-19:])
    with pytest.raises(Invalid, match="is damaged"):
        single(database, tmp_path / "archive")
    file.unlink()
    with pytest.raises(Missing, match="is not there"):
        single(database, tmp_path / "archive")


def test_spans_of_open_jobs_stay(database: Database, tmp_path: Path) -> None:
    """While a job goes on, its charges are rows, whatever their age; once it is over, they are archived."""
    live(database, 4)
    with database.write() as connection:
        texts = dict.fromkeys(("kind", "name", "owner", "preset", "project", "reason", "via"), "")
        row = {"id": "job-1", "spec": {}, "recipe": {}, "state": "running", "created_at": START, **texts}
        connection.execute(insert(jobs).values(row))
    of_job = select(lifetimes.c.id).where(lifetimes.c.job == "job-1", lifetimes.c.archive_id.is_not(None))
    archive_charges(database, tmp_path / "archive", BEFORE, NOW)
    with database.write() as connection:
        assert connection.scalars(of_job).all() == []
        connection.execute(update(jobs).values(state="succeeded"))
    archive_charges(database, tmp_path / "archive", BEFORE, NOW)
    with database.read() as connection:
        assert connection.scalars(of_job).all() != []


def test_span_that_must_stay_ends_no_run_of_archiving(database: Database, tmp_path: Path) -> None:
    """A charge whose price is of another resource cannot be rolled up: its span is passed over, whatever is at once."""
    with database.write() as connection:
        prices.add(connection, [replace(price, in_force_from=START - 90 * DAY) for price in PRICES], NOW)
        ledger = Ledger(connection)
        first, second = (ledger.run(START, START + hours * timedelta(hours=1)) for hours in (5, 6))
        charge_due(connection, NOW)
        other = select(func.max(charges.c.price_id)).where(charges.c.resource == "n1:core").scalar_subquery()
        odd = charges.c.span_id == first, charges.c.resource == "n1:ram"
        connection.execute(update(charges).where(*odd).values(price_id=other))
    archive_charges(database, tmp_path / "archive", BEFORE, NOW, most_spans=1)
    with database.read() as connection:
        archived = connection.scalars(select(lifetimes.c.id).where(lifetimes.c.archive_id.is_not(None)))
        assert list(archived) == [second]


def test_other_writers_have_their_turn_while_charges_are_archived(
    sqlite_database: Database, sqlite_url: str, tmp_path: Path
) -> None:
    """The lock is free between two transactions, for as long as it was held and a second at most."""
    live(sqlite_database, 2)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        with sqlite_database.write() as connection:
            connection.execute(update(jobs).values(reason=""))
        pauses.append(seconds)

    with closing(Database.open(sqlite_url, pause=pause)) as database:
        done = archive_charges(database, tmp_path / "archive", BEFORE, NOW, at_once=3)
    assert len(pauses) > done.files
    assert all(0 < seconds <= 1 for seconds in pauses)


def test_an_archive_can_be_read_without_the_database(database: Database, tmp_path: Path) -> None:
    """Any gunzip shows whose VM each charge was of, and what it came to."""
    live(database, 5)
    single_before = single(database, tmp_path / "archive")
    archive_charges(database, tmp_path / "archive", BEFORE, NOW)
    lines = [
        json.loads(line)
        for file in (tmp_path / "archive").iterdir()
        for line in gzip.decompress(file.read_bytes()).splitlines()
    ]
    spans = [line for line in lines if "span" in line]
    archived = sum(charge[7] for span in spans for charge in span["charges"])
    with database.read() as connection:
        assert archived == connection.scalar(select(func.sum(charge_days.c.amount_nanos)))
        rows = connection.scalar(select(func.sum(charges.c.amount_nanos)))
    assert archived + int(rows or 0) == sum(one.amount.nanos for one in single_before)
    assert {span["gce_id"] for span in spans} <= {one.key.gce_id for one in single_before}


def test_an_archive_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows go after that: data in the cache alone is lost with the power."""
    synced: list[tuple[int, int, bool]] = []
    sync = os.fsync

    def recorded(descriptor: int) -> None:
        state = os.fstat(descriptor)
        synced.append((state.st_ino, state.st_size, any(tmp_path.glob("*.gz"))))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    file = archive_file.write(tmp_path, "events", date(2026, 11, 1), date(2026, 11, 2), [{"key": "one"}])
    state = (tmp_path / file.name).stat()
    assert (state.st_ino, file.byte_count, False) in synced
    assert synced[-1][0] == tmp_path.stat().st_ino  # and its name, in its folder
