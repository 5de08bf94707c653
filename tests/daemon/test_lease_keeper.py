"""Keeping the lease: who gets it, who keeps it on a busy machine, and what counts as an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs
from tests.silent_proxy import silent_proxy
from tests.waiting import until

from costguard.daemon.lease_keeper import ASK_EVERY, LEASE, LEASE_TTL, RENEW_EVERY, LeaseKeeper, kept
from costguard.db import lease as leases
from costguard.db.limits import Limits
from costguard.db.tables import leases as table
from costguard.db.transaction import Database
from costguard.errors import LeaseLost

PATIENCE = 60.0


def expire(database: Database) -> None:
    with database.write() as connection:
        connection.execute(update(table).values(expires_at=leases.database_time(connection) - timedelta(seconds=1)))


@contextmanager
def in_the_way(url: str) -> Iterator[None]:
    """Another process writes, and does not end."""
    with closing(Database.open(url)) as other, other.write():
        yield


@pytest.fixture
def other(database_url: str) -> Iterator[Database]:
    with closing(Database.open(database_url)) as opened:
        yield opened


def test_times_leave_room_for_the_failover_promised() -> None:
    """15 s are promised: the rest of a life, an interval, a frozen holder's turn, and some seconds for a pass."""
    assert timedelta(seconds=11) >= LEASE_TTL + ASK_EVERY
    assert Limits().idle_in_transaction < LEASE_TTL, "a new holder would wait for the turn of the old"
    assert 3 * RENEW_EVERY <= LEASE_TTL


def test_one_keeper_gets_it_and_the_other_follows(database: Database, other: Database) -> None:
    """The second asks in vain while the first renews, and gets the lease once it has expired."""
    acquired: list[str] = []
    first = LeaseKeeper(database, "first", lambda: acquired.append("first"))
    second = LeaseKeeper(other, "second", lambda: acquired.append("second"))
    for keeper in (first, second, first, second):
        keeper.attend()
    assert (first.lease is not None, second.lease, acquired) == (True, None, ["first"])
    expire(database)
    second.attend()
    first.attend()
    assert (first.lease, acquired) == (None, ["first", "second"])
    assert second.lease is not None
    assert second.lease.epoch == 2


def test_lease_that_a_write_found_lost_is_logged_once(sqlite_database: Database) -> None:
    """The log has it, be it a renewal or a write that finds another daemon in its place."""
    keeper = LeaseKeeper(sqlite_database, "first")
    keeper.attend()
    lost = keeper.lease
    with capture_logs() as logs:
        keeper.step_aside(lost)
        keeper.step_aside(lost)
    assert keeper.lease is None
    assert [(entry["event"], entry["holder"]) for entry in logs] == [("lease_lost", "first")]


def test_late_renewal_of_a_busy_holder_loses_nothing(database: Database) -> None:
    """An expired lease that nobody took is renewed under its epoch: no pass is given up for it."""
    keeper = LeaseKeeper(database, "busy")
    keeper.attend()
    before = keeper.lease
    expire(database)
    keeper.attend()
    assert before is not None
    assert keeper.lease is not None
    assert keeper.lease.epoch == before.epoch == 1


def test_renewal_waits_for_no_writer_on_postgresql(postgres_url: str) -> None:
    """A long write of a pass, by whatever process, does not keep the lease from being renewed."""
    errors: list[str] = []
    with closing(Database.open(postgres_url)) as database:
        keeper = LeaseKeeper(database, "one", troubled=errors.append)
        keeper.attend()
        expire(database)
        with in_the_way(postgres_url):
            keeper.attend()
        assert errors == []
        assert not leases.is_worth_asking_for(database, LEASE, "another", LEASE_TTL)


def test_renewal_between_the_look_and_the_taking_wins(postgres_url: str) -> None:
    """The holder was late and renews while another takes over: one of the two has it, and only that one can write."""
    with closing(Database.open(postgres_url)) as database, closing(Database.open(postgres_url)) as other:
        for _ in range(20):
            held = leases.acquire(database, LEASE, "late", LEASE_TTL)
            assert held is not None
            expire(database)
            barrier = threading.Barrier(2)
            taken: list[leases.Lease | None] = []

            def take(barrier: threading.Barrier = barrier, taken: list[leases.Lease | None] = taken) -> None:
                barrier.wait(PATIENCE)
                taken.append(leases.acquire(other, LEASE, "taker", LEASE_TTL))

            thread = threading.Thread(target=take)
            thread.start()
            barrier.wait(PATIENCE)
            try:
                leases.renew(database, held, LEASE_TTL)
                renewed = True
            except LeaseLost:
                renewed = False
            thread.join(PATIENCE)
            with database.read() as connection:
                holder = connection.execute(select(table.c.holder)).scalar_one()
            assert (holder == "taker") == (taken[0] is not None)
            assert renewed or holder == "taker"
            expire(database)


def test_error_in_time_is_an_answer(sqlite_url: str) -> None:
    """A locked database says so: it is shown as trouble, the watchdog is content, and the lease is kept."""
    errors: list[str] = []
    answers: list[bool] = []
    with closing(Database.open(sqlite_url, lock_timeout=timedelta(milliseconds=20))) as database:
        keeper = LeaseKeeper(database, "one", answered=lambda: answers.append(True), troubled=errors.append)
        keeper.attend()
        with in_the_way(sqlite_url):
            keeper.attend()
        assert len(answers) == 2
        assert "locked" in errors[-1]
        assert keeper.lease is not None
        keeper.attend()
        assert errors[-1] == ""


def test_silence_is_no_answer(postgres_url: str) -> None:
    """Neither the holder of the lease nor one that waits for it feeds the watchdog from a silent database."""
    with (
        silent_proxy(postgres_url) as (proxy, url),
        closing(Database.open(url, limits=Limits(connect=timedelta(seconds=1)))) as database,
    ):
        answers: list[str] = []
        holder = LeaseKeeper(database, "holder", answered=lambda: answers.append("holder"))
        waiting = LeaseKeeper(database, "waiting", answered=lambda: answers.append("waiting"))
        holder.attend()
        waiting.attend()
        assert answers == ["holder", "waiting"]
        proxy.freeze_all()
        holder.attend()
        waiting.attend()
        assert answers == ["holder", "waiting"]
        proxy.thaw()
        holder.attend()
        assert answers[-1] == "holder"


def test_thread_acquires_renews_and_releases(sqlite_database: Database) -> None:
    """Started, it gets the lease by itself and renews it; ended, the lease is free at once."""
    acquired = threading.Event()
    keeper = LeaseKeeper(sqlite_database, "one", acquired.set)
    keeper.start()
    assert acquired.wait(PATIENCE)
    first = keeper.lease
    assert first is not None
    until(_later(lambda: keeper.lease, first))
    keeper.end(release=True)
    assert leases.is_worth_asking_for(sqlite_database, LEASE, "another", LEASE_TTL)


def _later(current: Callable[[], leases.Lease | None], first: leases.Lease) -> Callable[[], bool]:
    def renewed() -> bool:
        now = current()
        return now is not None and now.expires_at > first.expires_at

    return renewed


def test_single_pass_keeps_its_lease_for_as_long_as_it_takes(sqlite_database: Database) -> None:
    """`costguard pass` may take longer than the lease lives: it is renewed meanwhile, and free afterwards."""
    held = leases.acquire(sqlite_database, LEASE, "pass", timedelta(seconds=-1))
    assert held is not None
    with kept(sqlite_database, held):
        until(lambda: not leases.is_worth_asking_for(sqlite_database, LEASE, "another", LEASE_TTL))
    assert leases.is_worth_asking_for(sqlite_database, LEASE, "another", LEASE_TTL)


def test_lease_is_certain_while_nobody_else_can_have_it(sqlite_database: Database) -> None:
    """The time is the process's own, suspended time included, from the moment in which the last renewal was
    requested.
    """
    held = leases.acquire(sqlite_database, LEASE, "one", LEASE_TTL)
    assert held is not None
    hold, before = held.hold, held.is_certain
    assert hold is not None
    hold.until_s -= LEASE_TTL.total_seconds()  # as if it had been frozen for that long
    frozen = held.is_certain
    leases.renew(sqlite_database, held, LEASE_TTL)
    assert (before, frozen, held.is_certain) == (True, False, True), "a renewal holds for every copy of the lease"
