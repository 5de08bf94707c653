"""Charges that are made ready while others are written are those that are made one after the other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import pytest
from sqlalchemy import Connection, delete, select, update
from tests.ledger.test_charging import DAY, HOUR, NOON, PRICES, SPOT, Ledger
from tests.rolled_up import roll_up_days, sums

from costguard.db.lease import Lease
from costguard.db.tables import charges, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.ledger import prices
from costguard.ledger.charged.charging import charge_due
from costguard.ledger.roll_up import TABLES

_MINUTE = timedelta(minutes=1)
_UNPRICED = "asia-east1-a"
_READ_FIRST = 4  # the spans that are due, and the batches that wait


class _Between(Database):
    """A database in which another writer changes something before the second batch is written, when three are made."""

    def __init__(self, database: Database, change: Callable[[Connection], None]) -> None:
        self._of, self._change = database, change
        self._reads, self._writes = 0, count(1)
        self._read = threading.Condition()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._of.read() as connection:
            yield connection
        with self._read:
            self._reads += 1
            self._read.notify_all()

    @contextmanager
    def write(self, fence: Lease | None = None) -> Iterator[Connection]:
        if next(self._writes) == 2:
            with self._read:
                assert self._read.wait_for(lambda: self._reads >= _READ_FIRST, timeout=60)
            with self._of.write() as connection:
                self._change(connection)
        with self._of.write(fence) as connection:
            yield connection


def _fleet(connection: Connection) -> list[int]:
    """Writes spans that run and that ended, of two owners, on demand and as Spot, one of them in a region without a
    price. Returns the runs.
    """
    ledger = Ledger(connection)
    runs = []
    for number in range(24):
        start = NOON - number * HOUR - number * _MINUTE
        end = NOON + number * 3 * HOUR if number % 3 == 0 else None
        whose = {"owner": "ann" if number % 2 else "bob", "job": "train" if number % 5 == 0 else ""}
        more = {"provisioning_model": SPOT.value} if number % 4 == 0 else {"zone": _UNPRICED} if number == 7 else {}
        vm = ledger.vm()
        runs.append(ledger.run(start, end, vm, **whose, **more))
        ledger.disk(start, end, vm, **whose)
    return runs


def _charged(database: Database) -> tuple[object, ...]:
    """Everything that charging leaves, in an order that its batches do not change."""
    with database.read() as connection:
        rows = sorted(tuple(row) for row in connection.execute(select(charges)))
        spans = [
            connection.execute(select(table.c.id, table.c.charged_to, table.c.unpriced).order_by(table.c.id)).all()
            for table in TABLES.values()
        ]
        return rows, [[tuple(row) for row in of_kind] for of_kind in spans], sums(connection)


def _forget_charges(database: Database) -> None:
    with database.write() as connection:
        days = set(connection.scalars(select(charges.c.day)))
        connection.execute(delete(charges))
        roll_up_days(connection, days)
        for table in (lifetimes, storage_spans):
            connection.execute(update(table).values(charged_to=None, unpriced=""))


def _assert_sums_hold(database: Database) -> None:
    before = _charged(database)
    with database.write() as connection:
        roll_up_days(connection, set(connection.scalars(select(charges.c.day))))
    assert _charged(database) == before


def test_charges_made_ahead_are_those_made_one_by_one(database: Database) -> None:
    """Batches of a few days, of one transaction for all, and of one span each: every row is the same, and every sum."""
    with database.write() as connection:
        prices.add(connection, PRICES, NOON)
        _fleet(connection)
    now = NOON + 3 * DAY
    slow = charge_due(database, now, most_days=sys.maxsize)
    one_by_one = _charged(database)
    _assert_sums_hold(database)
    for most_days in (1, 5, 40):
        _forget_charges(database)
        assert charge_due(database, now, most_days=most_days) == slow
        assert _charged(database) == one_by_one


def test_charges_made_ahead_replace_those_that_are_stored(database: Database) -> None:
    """Spans that are all charged again from their start leave the same charges, and sums without those before."""
    with database.write() as connection:
        prices.add(connection, PRICES, NOON)
        _fleet(connection)
    charge_due(database, NOON + 3 * DAY)
    before = _charged(database)
    with database.write() as connection:
        for table in (lifetimes, storage_spans):
            connection.execute(update(table).values(charged_to=None))
    charge_due(database, NOON + 3 * DAY, most_days=5)
    assert _charged(database) == before


def test_charges_made_ahead_are_made_again_when_a_span_changes_hands(database: Database) -> None:
    """All spans of one owner pass to a third between two batches: what waited counts for the new one."""
    with database.write() as connection:
        prices.add(connection, PRICES, NOON)
        _fleet(connection)

    def pass_on(connection: Connection) -> None:
        for table in (lifetimes, storage_spans):
            connection.execute(update(table).where(table.c.charged_to.is_(None)).values(owner="eve"))

    charge_due(_Between(database, pass_on), NOON + 3 * DAY, most_days=5)
    _assert_sums_hold(database)


def test_charges_made_ahead_stop_where_a_run_has_ended_meanwhile(database: Database) -> None:
    """A run that another writer ends between two batches is charged to its end, and not to the last midnight."""
    with database.write() as connection:
        prices.add(connection, PRICES, NOON)
        runs = _fleet(connection)
    ended_at = NOON + HOUR

    def end(connection: Connection) -> None:
        is_open = lifetimes.c.ended_at.is_(None) & lifetimes.c.charged_to.is_(None)
        connection.execute(update(lifetimes).where(is_open).values(ended_at=ended_at, end_reason="stopped"))

    charge_due(_Between(database, end), NOON + 3 * DAY, most_days=5)
    with database.read() as connection:
        ended = connection.execute(select(lifetimes).where(lifetimes.c.ended_at == ended_at)).all()
        charged_to = connection.execute(select(lifetimes.c.id, lifetimes.c.charged_to)).all()
    assert len(ended) > 2
    assert {row.charged_to for row in ended} == {ended_at}
    assert len(charged_to) == len(runs)
    _assert_sums_hold(database)


def test_charges_made_ahead_are_at_the_prices_of_their_transaction(database: Database) -> None:
    """A price that comes between two batches is that of all spans that are written after it."""
    with database.write() as connection:
        prices.add(connection, [price for price in PRICES if price.key.resource != "n1:ram"], NOON)
        _fleet(connection)

    written: list[int] = []

    def add_price(connection: Connection) -> None:
        written.extend(connection.scalars(without_price))
        prices.add(connection, PRICES, NOON)

    columns = lifetimes.c
    without_price = select(columns.id).where(columns.unpriced != "", columns.zone != _UNPRICED).order_by(columns.id)
    charge_due(_Between(database, add_price), NOON + 3 * DAY, most_days=5)
    with database.read() as connection:
        assert connection.scalars(without_price).all() == written
    assert 0 < len(written) < 12  # the first batch


def test_threads_take_turns_as_before_once_charging_is_done(database: Database) -> None:
    """The short switch interval of Python's threads is in force only while batches wait."""
    before = sys.getswitchinterval()
    with database.write() as connection:
        prices.add(connection, PRICES, NOON)
        _fleet(connection)

    def fail(connection: Connection) -> None:
        assert sys.getswitchinterval() < before
        raise RuntimeError("the other writer failed")

    with pytest.raises(RuntimeError):
        charge_due(_Between(database, fail), NOON + 3 * DAY, most_days=5)
    assert sys.getswitchinterval() == before
    charge_due(database, NOON + 3 * DAY, most_days=5)
    assert sys.getswitchinterval() == before
