"""The lease: one holder at a time, and one that lost it cannot write."""

from __future__ import annotations

import multiprocessing
from contextlib import closing
from datetime import UTC, datetime, timedelta
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

import pytest
from sqlalchemy import select, text

from costguard.db.lease import acquire, database_time, is_worth_asking_for, release, renew
from costguard.db.tables import leases
from costguard.db.transaction import Database
from costguard.errors import LeaseLost

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
TTL = timedelta(seconds=30)
TICK = timedelta(microseconds=1)


def test_the_first_to_ask_gets_it_and_the_second_does_not(database: Database) -> None:
    """While a lease has not expired, nobody else gets it."""
    lease = acquire(database, "daemon", "a", TTL, T0)
    assert lease is not None
    assert (lease.epoch, lease.expires_at) == (1, T0 + TTL)
    assert acquire(database, "daemon", "b", TTL, T0 + TTL - TICK) is None


def test_an_expired_lease_is_taken_over_with_a_higher_epoch(database: Database) -> None:
    """The lease may be taken at the moment of expiry."""
    acquire(database, "daemon", "a", TTL, T0)
    taken = acquire(database, "daemon", "b", TTL, T0 + TTL)
    assert taken is not None
    assert (taken.holder, taken.epoch) == ("b", 2)


def test_renewing_keeps_it(database: Database) -> None:
    """A renewed lease keeps its epoch and outlives its first expiry."""
    lease = acquire(database, "daemon", "a", TTL, T0)
    assert lease is not None
    renewed = renew(database, lease, TTL, T0 + TTL / 2)
    assert (renewed.epoch, renewed.expires_at) == (1, T0 + TTL * 1.5)
    assert acquire(database, "daemon", "b", TTL, T0 + TTL) is None


def test_a_late_renewal_is_granted_while_nobody_took_over(database: Database) -> None:
    """An expired lease that nobody wanted is still its holder's: no other can have acted meanwhile."""
    lease = acquire(database, "daemon", "a", TTL, T0)
    assert lease is not None
    assert renew(database, lease, TTL, T0 + 10 * TTL).expires_at == T0 + 11 * TTL


def test_a_frozen_holder_is_fenced(database: Database) -> None:
    """After a takeover the old holder can neither write nor renew, and its release changes nothing."""
    old = acquire(database, "daemon", "a", TTL, T0)
    new = acquire(database, "daemon", "b", TTL, T0 + TTL)
    assert old is not None
    assert new is not None

    def write_late() -> None:
        with database.write(old) as connection:
            connection.execute(text("DELETE FROM leases"))

    with pytest.raises(LeaseLost, match="belongs to b"):
        write_late()
    with pytest.raises(LeaseLost):
        renew(database, old, TTL, T0 + TTL)
    release(database, old, T0 + TTL)
    with database.write(new) as connection:
        assert connection.execute(text("SELECT holder, epoch FROM leases")).one() == ("b", 2)
    assert acquire(database, "daemon", "c", TTL, T0 + TTL) is None


def test_a_restarted_process_of_the_same_name_fences_its_former_self(database: Database) -> None:
    """The same name gets the lease back at once, with a new epoch: the old process may only be frozen."""
    old = acquire(database, "daemon", "a", TTL, T0)
    new = acquire(database, "daemon", "a", TTL, T0 + TICK)
    assert old is not None
    assert new is not None
    assert new.epoch == 2
    with pytest.raises(LeaseLost), database.write(old):
        pass


def test_a_released_lease_is_free_at_once_and_epochs_go_on(database: Database) -> None:
    """Release lets the next one in without a wait; its epoch is higher all the same."""
    lease = acquire(database, "daemon", "a", TTL, T0)
    assert lease is not None
    release(database, lease, T0)
    taken = acquire(database, "daemon", "b", TTL, T0)
    assert taken is not None
    assert taken.epoch == 2


def test_writes_under_the_lease_renew_it_where_renewals_may_not_come_in(sqlite_database: Database) -> None:
    """SQLite has one writer: a pass that writes all the time keeps its own lease. A write that is undone does not."""
    lease = acquire(sqlite_database, "daemon", "a", TTL)
    assert lease is not None
    assert lease.hold is not None

    def stored() -> datetime:
        with sqlite_database.read() as connection:
            moment: datetime = connection.execute(select(leases.c.expires_at)).scalar_one()
            return moment

    def write(*, fails: bool = False) -> None:
        with sqlite_database.write(lease) as connection:
            connection.execute(text("DELETE FROM events"))
            if fails:
                raise KeyError("undone")

    write()
    assert stored() == lease.expires_at, "it is young: nothing is written for it"
    lease.hold.until_s -= TTL.total_seconds() / 2
    with pytest.raises(KeyError):
        write(fails=True)
    assert stored() == lease.expires_at
    before = lease.hold.until_s
    write()
    assert stored() > lease.expires_at
    assert lease.hold.until_s > before


def test_leases_of_different_names_do_not_meet(database: Database) -> None:
    """Each name has a holder and epochs of its own."""
    assert acquire(database, "daemon", "a", TTL, T0) is not None
    assert acquire(database, "prices", "b", TTL, T0) is not None


def test_a_clock_that_was_put_back_keeps_nobody_waiting(database: Database) -> None:
    """A dead holder's lease is over within one life of a lease, not after the hour that the clock lost."""
    with database.read() as connection:
        now = database_time(connection)
    acquire(database, "daemon", "a", TTL, now + timedelta(hours=1))
    assert is_worth_asking_for(database, "daemon", "b", TTL)
    assert acquire(database, "daemon", "b", TTL, now) is None
    assert not is_worth_asking_for(database, "daemon", "b", TTL)
    taken = acquire(database, "daemon", "b", TTL, now + TTL)
    assert taken is not None
    assert taken.epoch == 2


def test_a_lease_says_how_long_nobody_held_it(database: Database) -> None:
    """The time is from its end to the next holder."""
    first = acquire(database, "daemon", "a", TTL, T0)
    assert first is not None
    assert first.unheld == timedelta()
    later = acquire(database, "daemon", "b", TTL, T0 + TTL + timedelta(hours=2))
    assert later is not None
    assert later.unheld == timedelta(hours=2)


def test_the_time_is_the_databases_own(database: Database) -> None:
    """The lease runs by the database's clock without a moment given, to the microsecond and onwards."""
    with database.read() as connection:
        before = database_time(connection)
    lease = acquire(database, "daemon", "a", TTL)
    with database.read() as connection:
        after = database_time(connection)
    assert lease is not None
    assert before <= lease.expires_at - TTL <= after
    assert after - before < timedelta(minutes=5)
    assert before.year >= 2026


def test_of_two_processes_one_gets_the_lease_and_the_other_takes_over(database_url: str) -> None:
    """Both ask at the same moment: one wins; when it is gone without a word, the other follows after the expiry."""
    processes = multiprocessing.get_context("spawn")
    barrier = processes.Barrier(2)
    answers: Queue[tuple[str, int | None]] = processes.Queue()
    other = processes.Process(target=_compete, args=(database_url, "a", barrier, answers))
    other.start()
    _compete(database_url, "b", barrier, answers)
    got = dict(answers.get(timeout=60) for _ in "ab")
    other.join()
    answers.close()
    assert sorted(got.values(), key=str) == [1, None]
    loser = next(name for name, epoch in got.items() if epoch is None)
    with closing(Database.open(database_url)) as database:
        assert acquire(database, "daemon", loser, TTL, T0 + TTL - TICK) is None
        taken = acquire(database, "daemon", loser, TTL, T0 + TTL)
        assert taken is not None
        assert taken.epoch == 2


def _compete(url: str, name: str, barrier: Barrier, answers: Queue[tuple[str, int | None]]) -> None:
    with closing(Database.open(url)) as database:
        barrier.wait(timeout=60)
        lease = acquire(database, "daemon", name, TTL, T0)
    answers.put((name, lease.epoch if lease else None))
