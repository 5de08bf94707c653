"""The daily reading of the bill, over HTTP from the simulated BigQuery into both databases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date, timedelta

import pytest
from sqlalchemy import delete, select, update
from tests.bigquery.test_export_table import LOADED, NAME
from tests.sandbox.vms import new_world

from costguard.bill import stored
from costguard.bill.reading import BillReading
from costguard.db.tables import bill_commitment_hours, bill_partitions, events
from costguard.db.transaction import Database
from costguard.errors import NotFound
from costguard.main import bill
from costguard.settings.bill import BillSection
from costguard_sandbox.bigquery import DETAILED_SCHEMA, Table
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

DAY = timedelta(days=1)
FIRST, LAST = LOADED[0][0], LOADED[-1][0]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(FIRST)


@pytest.fixture
def world(clock: ManualClock) -> World:
    """A BigQuery whose table holds what had been appended by the clock's time."""
    world = new_world()
    world.bigquery.tables[NAME] = Table(DETAILED_SCHEMA, lambda: [one for one in LOADED if one[0] <= clock.now()])
    return world


@pytest.fixture
def reading(world: World, clock: ManualClock, database: Database) -> Iterator[BillReading]:
    with running(world) as url:
        made = bill.reading(BillSection(table=NAME, endpoint=url), database, clock)
        assert made is not None
        yield made


def stored_rows(database: Database) -> int:
    with database.read() as connection:
        return sum(row.row_count for row in stored.rows_of(connection, date(2026, 3, 1), date(2026, 3, 31)))


def test_a_table_read_every_day_is_stored_whole(
    reading: BillReading, clock: ManualClock, world: World, database: Database
) -> None:
    """Each reading goes on from the last days that were read, also after a week without one; each is an event."""
    readings = 0
    while clock.now() < LAST + DAY:
        clock.move_to(clock.now() + DAY)
        done = reading.run(None, threading.Event())
        assert done is not None
        assert done.bytes_billed >= 10 * 2**20
        readings += 1
        expected = sum(at <= clock.now() for at, _ in LOADED)
        assert stored_rows(database) == expected
    assert stored_rows(database) == len(LOADED)
    with database.read() as connection:
        kinds = connection.scalars(select(events.c.kind)).all()
    assert kinds.count("BillRead") == readings


def test_days_read_before_hours_were_kept_are_read_once_more(
    reading: BillReading, clock: ManualClock, world: World, database: Database
) -> None:
    """The first reading of a version that keeps hours goes back as far as the first of all; the next goes on."""
    clock.move_to(LAST)
    assert reading.run(None, threading.Event()) is not None
    with database.write() as connection:
        before = connection.scalars(select(bill_commitment_hours.c.use_nanos)).all()
        connection.execute(delete(bill_commitment_hours))
        connection.execute(update(bill_partitions).values(has_hours=False))
        connection.execute(update(events).where(events.c.kind == "BillRead").values(data={"table": NAME, "rows": 1}))
    clock.move_to(LAST + DAY)
    assert reading.run(None, threading.Event()) is not None
    with database.read() as connection:
        again = connection.scalars(select(bill_commitment_hours.c.use_nanos)).all()
        assert all(connection.scalars(select(bill_partitions.c.has_hours)))
    assert before
    assert sorted(again) == sorted(before)
    queries = len(world.bigquery.queries)
    clock.move_to(LAST + 2 * DAY)
    assert reading.run(None, threading.Event()) is not None
    assert len(world.bigquery.queries) == queries + 1


def test_it_is_read_once_a_day(reading: BillReading, clock: ManualClock, world: World) -> None:
    """The table is not read again before `read_every` has passed, whatever the daemon asks."""
    clock.move_to(FIRST + DAY)
    assert reading.run(None, threading.Event()) is not None
    queries = len(world.bigquery.queries)
    clock.move_to(FIRST + DAY + timedelta(hours=23))
    assert reading.run(None, threading.Event()) is None
    assert len(world.bigquery.queries) == queries


def test_a_refused_query_leaves_the_bill_as_it_is_and_is_tried_again(
    reading: BillReading, clock: ManualClock, world: World, database: Database
) -> None:
    """Nothing is stored or marked as read; the next turn reads all of it."""
    clock.move_to(LAST)
    good = world.bigquery.tables.pop(NAME)
    with pytest.raises(NotFound, match="Not found: Table"):
        reading.run(None, threading.Event())
    assert stored_rows(database) == 0
    world.bigquery.tables[NAME] = good
    assert reading.run(None, threading.Event()) is not None
    assert stored_rows(database) == len(LOADED)
