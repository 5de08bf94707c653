"""Daily sums by label: whatever happens to a ledger, they are what its charges come to, to the nano-dollar."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, insert, select, update
from tests.api import rows
from tests.api.rows import NOW

from costguard.db import tables
from costguard.db.backup.verify import checks
from costguard.db.transaction import Database
from costguard.ledger import roll_up
from costguard.ledger.accrual import accrual_at
from costguard.ledger.archived.archiving import archive_charges
from costguard.ledger.charged import charges, charging, label_roll_up
from costguard.ledger.labels import label_history
from costguard.ledger.labels.label_history import LabelChange
from costguard.model.budget import LabelFilter, Scope
from costguard.model.money import Amounts
from costguard.spend import spend_rows
from costguard.spend.label_spend import spend_by_label, spend_by_label_and_day
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

_EXAMPLES = 12 if "COSTGUARD_OTHER_EXAMPLES" in os.environ else 4
_HOUR, _SECOND, _DAY = timedelta(hours=1), timedelta(seconds=1), timedelta(days=1)
_LABEL, _OTHER = "cost-center", "experiment"
_BEGIN = NOW - 12 * _DAY
_FIRST = _BEGIN.date()
_OWNERS = ("ada@lab.example", "ben@lab.example")
_SUMS = (tables.daily_labels, tables.daily_label_values, tables.label_days)


class _Undo(Exception):
    """Ends a transaction that is to leave nothing behind."""


class _World:
    """A ledger to which things happen, each at its moment."""

    def __init__(self, database: Database, folder: Path, seed: int = 0) -> None:
        self.database, self.folder, self.now = database, folder, _BEGIN
        self.chance = random.Random(seed)
        self.vms: list[int] = []
        with database.write() as connection:
            for table in reversed(tables.metadata.sorted_tables):
                if table.name not in ("changes", "leases"):
                    connection.execute(table.delete())
            rows.prices(connection)

    def start(self, labels: dict[str, str], **shape: Any) -> int:
        owner = {"owner": self.chance.choice(_OWNERS)}
        with self.database.write() as connection:
            vm = rows.instance(connection, f"vm-{len(self.vms)}", labels=labels, gce_id=str(len(self.vms)), **owner)
            rows.lifetime(connection, vm, self.now, charged_to=None, **owner, **shape)
            rows.storage(connection, vm, self.now, charged_to=None, **owner)
        self.vms.append(vm)
        return vm

    def end(self, vm: int) -> None:
        with self.database.write() as connection:
            for spans in (tables.lifetimes, tables.storage_spans):
                is_open = (spans.c.instance_id == vm, spans.c.ended_at.is_(None), spans.c.started_at < self.now)
                connection.execute(update(spans).where(*is_open).values(ended_at=self.now))

    def correct(self, vm: int) -> None:
        """A run turns out to have ended earlier, as a late operation tells: all of it is charged again."""
        runs = tables.lifetimes
        with self.database.write() as connection:
            mine = (runs.c.instance_id == vm, runs.c.ended_at.is_not(None), runs.c.archive_id.is_(None))
            for run in connection.execute(select(runs).where(*mine)).all():
                ended_at = run.started_at + (run.ended_at - run.started_at) / 2
                with roll_up.following(connection, runs, [run.id]):
                    corrected = {"ended_at": ended_at, "charged_to": None}
                    connection.execute(update(runs).where(runs.c.id == run.id).values(**corrected))

    def label(self, vm: int, label: str, value: str | None) -> None:
        table = tables.instances
        with self.database.write() as connection:
            labels = dict(connection.scalar(select(table.c.labels).where(table.c.id == vm)) or {})
            old = labels.pop(label, None)
            if old == value:
                return
            labels |= {} if value is None else {label: value}
            connection.execute(update(table).where(table.c.id == vm).values(labels=labels))
            label_history.store(connection, [LabelChange(vm, label, self.now, old)])

    def hand_over(self, *vms: int) -> None:
        """Each VM's runs, past ones too, count for the other owner from now on."""
        first, second = _OWNERS
        with self.database.write() as connection:
            for spans in (tables.lifetimes, tables.storage_spans):
                mine = (spans.c.instance_id.in_(vms), spans.c.archive_id.is_(None))
                owners = dict(map(tuple, connection.execute(select(spans.c.id, spans.c.owner).where(*mine))))
                with roll_up.following(connection, spans, owners.keys()):
                    for span_id, owner in owners.items():
                        moved = update(spans).where(spans.c.id == span_id)
                        connection.execute(moved.values(owner=second if owner == first else first))

    def raise_price(self, ago: timedelta) -> None:
        """A price that was in force before it became known."""
        prices = tables.prices
        with self.database.write() as connection:
            row = connection.execute(select(prices).where(prices.c.resource == "n1:core").limit(1)).one()
            from_ = self.now - ago
            new = {**row._mapping, "rate_nanos": row.rate_nanos + 1_234_567, "in_force_from": from_}
            connection.execute(insert(prices).values({name: value for name, value in new.items() if name != "id"}))
            charges.recharge_since(connection, from_)

    def pass_(self, labels: tuple[str, ...] = (_LABEL, _OTHER), most_days: int = 3) -> int:
        charging.charge_due(self.database, self.now)
        return label_roll_up.roll_up(self.database, labels, self.now, most_days=most_days)

    def archive(self) -> None:
        archive_charges(self.database, self.folder, self.now - 2 * _DAY, self.now)

    @contextmanager
    def reading(self, *, exactly: bool = False) -> Iterator[Connection]:
        """Reads with the sums, or without one of them."""
        try:
            with self.database.write() as connection:
                if exactly:
                    connection.execute(delete(tables.label_days))
                yield connection
                raise _Undo
        except _Undo:
            pass

    def figures(self, *, exactly: bool) -> dict[Any, Amounts]:
        """Returns what all readers give of both labels, by owner, day and value."""
        last = self.now.date()
        given_back: dict[Any, Amounts] = {}
        with self.reading(exactly=exactly) as connection:
            accrual = accrual_at(connection, self.now)
            for label in (_LABEL, _OTHER):
                for owner in (None, *_OWNERS):
                    scope = Scope(owner=owner)
                    values, whole = spend_by_label(connection, accrual, _FIRST, last, label, scope)
                    given_back |= {(label, owner, row.value): row.amounts for row in values}
                    given_back[label, owner, "all"] = whole.total
                    *same, days = spend_by_label_and_day(connection, accrual, _FIRST, last, label, scope)
                    assert same == [values, whole]
                    for day, of_day in days.items():
                        given_back |= {(label, owner, day, v): Amounts(n, 0, 0, 0) for v, n in of_day.items()}
                    # Running totals have rates in whole nano-dollars an hour: see tests/accrued.py.
                    off = sum(row.amounts.total.nanos for row in values) - whole.total.total.nanos
                    assert abs(off) <= 200 * len(self.vms)
                    assert sum(row.amounts.seconds for row in values) == whole.total.seconds
                for value in (None, "", "a", "b"):
                    scope = Scope(label=LabelFilter(label, value))
                    by = (Grouping.DAY, Grouping.OWNER, Grouping.PROVISIONING_MODEL)
                    filtered = spend(connection, accrual, _FIRST, last, by, scope)
                    given_back |= {(label, value, *row.group): row.amounts for row in filtered.rows}
        return {key: amounts for key, amounts in given_back.items() if amounts.total.nanos or amounts.seconds}


@pytest.fixture
def world(database: Database, tmp_path: Path) -> _World:
    return _World(database, tmp_path)


def _good_days(world: _World, label: str = _LABEL) -> list[date]:
    days = tables.label_days.c
    with world.database.read() as connection:
        return list(connection.scalars(select(days.day).where(days.label == label).order_by(days.day)))


_STEPS = ("start", "start", "end", "label", "label", "swap", "hand over", "correct", "price", "archive", "wait", "wait")


def _take(world: _World, step: str) -> None:
    chance, vms = world.chance, world.vms
    values = [None, "", "a", "b"]
    match step:
        case "start":
            labels = {name: chance.choice(["", "a", "b"]) for name in (_LABEL, _OTHER) if chance.random() < 0.7}
            world.start(labels, provisioning_model=chance.choice(["spot", "standard"]))
        case "wait":
            world.now += chance.randrange(1, 60 * 3600) * _SECOND
        case "price":
            world.raise_price(chance.randrange(1, 60 * 3600) * _SECOND)
        case "archive":
            world.pass_()
            world.archive()
        case "label" if vms:
            world.label(chance.choice(vms), chance.choice([_LABEL, _OTHER]), chance.choice(values))
        case "end" if vms:
            world.end(chance.choice(vms))
        case "correct" if vms:
            world.correct(chance.choice(vms))
        case "swap" if len(vms) > 1:
            world.hand_over(*chance.sample(vms, 2))
        case "hand over" if vms:
            world.hand_over(chance.choice(vms))
        case _:
            pass
    world.now += chance.randrange(1, 3 * 3600) * _SECOND


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(_STEPS), min_size=4, max_size=24), seed=st.integers(0, 2**32))
def test_sums_by_label_are_what_charges_come_to(sqlite_database: Database, steps: list[str], seed: int) -> None:
    """After every pass each reader gives the same from sums as from charges, however few days were rolled up."""
    with tempfile.TemporaryDirectory() as folder:
        world = _World(sqlite_database, Path(folder), seed)
        for step in steps:
            _take(world, step)
            if world.chance.random() < 0.5:
                world.pass_()
                assert world.figures(exactly=False) == world.figures(exactly=True)
        world.pass_(most_days=100)
        assert world.figures(exactly=False) == world.figures(exactly=True)
        assert world.pass_(most_days=100) == 0
        with sqlite_database.read() as connection:
            assert [check.wrong for check in checks(connection) if "label" in check.rule] == ["", ""]


def _lived(world: _World) -> int:
    """Two VMs through two midnights, one of whose labels changed; their days are rolled up."""
    vm = world.start({_LABEL: "a"})
    world.start({})
    world.now += 20 * _HOUR
    world.label(vm, _LABEL, "b")
    world.now += 20 * _HOUR
    world.pass_()
    return vm


def test_rolled_up_days_are_not_read_from_charges(world: _World) -> None:
    """A year is as fast as a day because no charge of it is read: readers leave nothing to charges."""
    _lived(world)
    assert len(_good_days(world)) == 2
    with world.database.read() as connection:
        assert spend_rows.not_rolled_up(connection, _LABEL, _FIRST, world.now.date()) == ()
        assert spend_rows.not_rolled_up(connection, "unnamed", _FIRST, world.now.date()) != ()
    assert world.figures(exactly=False) == world.figures(exactly=True)


def test_label_change_spoils_days_from_its_moment_on(world: _World) -> None:
    """The cost of a VM before keeps the old value; later days, and days of other labels, are another matter."""
    vm = _lived(world)
    first, second = _good_days(world)
    world.now -= 12 * _HOUR  # Google's operation of a while ago, seen now
    world.label(vm, _OTHER, "x")
    assert _good_days(world) == [first, second]
    assert _good_days(world, _OTHER) == [first]


def test_change_before_a_known_one_spoils_all_days_of_the_label(world: _World) -> None:
    """An operation that Google lists late is of a time that was rolled up by what was known then."""
    vm = _lived(world)
    with world.database.write() as connection:
        label_history.store(connection, [LabelChange(vm, _LABEL, _BEGIN + 13 * _HOUR, "z")])
    assert _good_days(world) == []
    assert world.figures(exactly=False) == world.figures(exactly=True)


def test_corrected_run_spoils_its_days(world: _World) -> None:
    """A stop that Google tells of late: what was charged after it is taken back, under its label too."""
    vm = _lived(world)
    world.end(vm)
    world.pass_()
    days = _good_days(world)
    world.correct(vm)
    charging.charge_due(world.database, world.now)
    assert len(_good_days(world)) < len(days)
    world.pass_()
    assert world.figures(exactly=False) == world.figures(exactly=True)


def test_vms_that_change_places_spoil_their_days(world: _World) -> None:
    """Two equal VMs swap owners: every sum by owner stays, and yet each owner now has the other's label."""
    world.chance = random.Random(1)
    one, other = world.start({_LABEL: "a"}), world.start({_LABEL: "b"})
    with world.database.write() as connection:
        for vm, owner in zip((one, other), _OWNERS, strict=True):
            for spans in (tables.lifetimes, tables.storage_spans):
                connection.execute(update(spans).where(spans.c.instance_id == vm).values(owner=owner))
    world.now += 30 * _HOUR
    world.pass_()
    world.hand_over(one, other)
    assert _good_days(world) == []
    world.pass_()
    assert len(_good_days(world)) == 1
    assert world.figures(exactly=False) == world.figures(exactly=True)


def test_unchanged_runs_spoil_no_day(world: _World) -> None:
    """A run that goes on is written again when its VM changes: its past days stay as they are."""
    vm = _lived(world)
    days = _good_days(world)
    with world.database.write() as connection:
        runs = tables.lifetimes
        mine = list(connection.scalars(select(runs.c.id).where(runs.c.instance_id == vm)))
        with roll_up.following(connection, runs, mine):
            connection.execute(update(runs).where(runs.c.id.in_(mine)).values(owner=runs.c.owner))
    assert _good_days(world) == days


def test_nothing_is_rolled_up_while_charges_are_due(world: _World) -> None:
    """A run that is being charged again has charges that no longer stand: sums of them would be wrong tomorrow."""
    vm = _lived(world)
    world.end(vm)
    world.now += _HOUR
    labels = (_LABEL, _OTHER, "another")
    assert label_roll_up.roll_up(world.database, labels, world.now) == 0
    assert world.pass_(labels) == 3  # today too: a run has ended


def test_pass_rolls_up_the_latest_days_first(world: _World) -> None:
    """A label that is named today has all its history to come, some days in each pass."""
    world.start({_LABEL: "a"})
    world.now += 5 * _DAY
    world.pass_((), most_days=2)
    assert _good_days(world) == []
    world.pass_(most_days=2)
    latest = _good_days(world)
    assert latest == [(world.now - 2 * _DAY).date(), (world.now - _DAY).date()]
    world.pass_(most_days=2)
    assert len(_good_days(world)) == 4
    assert world.figures(exactly=False) == world.figures(exactly=True)


def test_labels_that_are_named_no_more_are_forgotten(world: _World) -> None:
    """Their sums would grow for ever, and be of no use: what is not named is read from charges."""
    _lived(world)
    assert world.pass_((_OTHER,), most_days=1) == 1
    world.pass_((_OTHER,))
    with world.database.read() as connection:
        labels = [set(connection.scalars(select(table.c.label).distinct())) for table in _SUMS]
    assert labels == [{_OTHER}] * 3
    assert world.figures(exactly=False) == world.figures(exactly=True)


def test_archiving_keeps_runs_that_a_named_label_divides(world: _World) -> None:
    """The rest goes by day, in which no moment is known: what fell before the change would be unknown."""
    divided = _lived(world)
    for vm in world.vms:
        world.end(vm)
    world.now += 5 * _DAY
    world.pass_()
    before = world.figures(exactly=True)
    world.archive()
    with world.database.read() as connection:
        archived = select(tables.lifetimes.c.instance_id).where(tables.lifetimes.c.archive_id.is_not(None))
        assert set(connection.scalars(archived)) == set(world.vms) - {divided}
    assert world.figures(exactly=True) == before == world.figures(exactly=False)


def test_check_finds_sums_that_charges_do_not_come_to(world: _World) -> None:
    """`costguard db check` adds both kinds of sums up by day and holds them against the daily total."""
    _lived(world)
    for table in (tables.daily_label_values, tables.daily_labels):
        with world.database.write() as connection:
            connection.execute(update(table).values(machine_nanos=table.c.machine_nanos + 1))
            broken = [check.rule for check in checks(connection) if not check.holds]
            connection.execute(update(table).values(machine_nanos=table.c.machine_nanos - 1))
        assert len(broken) == 1
        assert "label" in broken[0]


def test_few_ranges_are_read_from_charges(world: _World) -> None:
    """Each range is a query: of many, those with the least between them are read as one."""
    world.start({_LABEL: "a"})
    world.now += 11 * _DAY
    world.pass_(most_days=100)
    days = _good_days(world)
    with world.database.write() as connection:
        connection.execute(delete(tables.label_days).where(tables.label_days.c.day.in_(days[::2])))
    with world.database.read() as connection:
        ranges = spend_rows.not_rolled_up(connection, _LABEL, days[0], days[-1])
    assert len(ranges) == 4
    assert all(any(first <= day <= last for first, last in ranges) for day in days[::2])
    assert world.figures(exactly=False) == world.figures(exactly=True)


def test_whole_is_the_sum_of_a_range(world: _World) -> None:
    """A range that begins and ends within what is rolled up counts its own days alone."""
    _lived(world)
    one = _FIRST + _DAY
    with world.reading() as connection:
        accrual = accrual_at(connection, world.now)
        of_day, whole = spend_by_label(connection, accrual, one, one, _LABEL, Scope())
    with world.reading(exactly=True) as connection:
        exact, _ = spend_by_label(connection, accrual_at(connection, world.now), one, one, _LABEL, Scope())
    assert of_day == exact
    assert sum(row.amounts.seconds for row in of_day) == whole.total.seconds
