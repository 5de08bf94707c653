"""Leases of projects: shared fairly, taken over, handed over, and no write of a replica that lost one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from sqlalchemy import delete, event, select
from tests.builders import at
from tests.fakes import HandClock

from costguard.daemon.lease_keeper import ASK_EVERY, LEASE_TTL, RENEW_EVERY
from costguard.daemon.shard_keeper import TAKEOVER, ShardKeeper, all_projects
from costguard.db import project_leases
from costguard.db.lease import Lease, acquire, database_time
from costguard.db.tables import leases, sessions
from costguard.db.tables import project_leases as table
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, StoreError
from costguard.ledger import generation

PROJECTS = [f"project-{number:02}" for number in range(10)]
SECOND = timedelta(seconds=1)


class _Replicas:
    """Keepers on connections of their own, whose leases run by a clock that tests move."""

    def __init__(self, url: str) -> None:
        self.clock = HandClock(at("12:00"))
        self.projects = list(PROJECTS)
        self._url = url
        self._opened: list[Database] = []

    def add(self, name: str) -> ShardKeeper:
        database = Database.open(self._url)
        self._opened.append(database)
        clock = self.clock
        return ShardKeeper(
            database,
            name,
            lambda: self.projects,
            now=lambda _connection: clock.now(),
            elapsed_s=lambda: clock.now().timestamp(),
        )

    def close(self) -> None:
        for database in self._opened:
            database.close()

    def go_on(self, *keepers: ShardKeeper, seconds: int = 1) -> None:
        """Each attends once a second."""
        for _ in range(seconds):
            self.clock.advance(SECOND)
            for keeper in keepers:
                keeper.attend()


@pytest.fixture
def replicas(database_url: str) -> Iterator[_Replicas]:
    made = _Replicas(database_url)
    yield made
    made.close()


def _ours(keeper: ShardKeeper) -> list[str]:
    return sorted(keeper._held)


def _stored(database: Database) -> dict[str, str]:
    with database.read() as connection:
        return {row.project: row.holder for row in connection.execute(select(table))}


def _write(database: Database, lease: Lease) -> None:
    with database.write(lease) as connection:
        connection.execute(delete(sessions))


def test_times_leave_room_for_a_look_after_a_takeover() -> None:
    """A project may be unwatched for 15 s, of which its lease and the next question leave five for the look."""
    assert timedelta(seconds=5) <= TAKEOVER - (LEASE_TTL + ASK_EVERY)
    assert 3 * RENEW_EVERY <= LEASE_TTL


def test_lone_replica_holds_all_projects_at_once(replicas: _Replicas) -> None:
    """The first question claims everything: a single replica works as ever."""
    assert sorted(replicas.add("one").held()) == PROJECTS


def test_replica_that_joins_gets_its_share_within_seconds(replicas: _Replicas) -> None:
    """Each project has one holder all the while, and half of them stay where they were."""
    one, two = replicas.add("one"), replicas.add("two")
    one.attend()
    replicas.go_on(two, one, seconds=3)
    assert (len(_ours(one)), len(_ours(two))) == (5, 5)
    assert sorted([*_ours(one), *_ours(two)]) == PROJECTS
    three = replicas.add("three")
    replicas.go_on(three, one, two, seconds=3)
    assert sorted(len(_ours(keeper)) for keeper in (one, two, three)) == [3, 3, 4]
    shares = [_ours(keeper) for keeper in (one, two, three)]
    replicas.go_on(three, one, two, seconds=30)
    assert [_ours(keeper) for keeper in (one, two, three)] == shares, "fair shares do not move"


def test_stopped_replica_hands_over_at_once(replicas: _Replicas) -> None:
    """The others need not wait for its leases to run out."""
    one, two = replicas.add("one"), replicas.add("two")
    one.attend()
    replicas.go_on(two, one, seconds=3)
    one.end(release=True)
    replicas.go_on(two)
    assert _ours(two) == PROJECTS


def test_projects_of_a_killed_replica_are_taken_over_once_their_leases_end(replicas: _Replicas) -> None:
    """They are not taken before, since it may only be slow; what is left of 15 s is for a look."""
    one, two = replicas.add("one"), replicas.add("two")
    one.attend()
    replicas.go_on(two, one, seconds=3)
    killed_at = replicas.clock.now()
    while len(_ours(two)) < len(PROJECTS):
        assert replicas.clock.now() - killed_at <= LEASE_TTL + ASK_EVERY
        replicas.go_on(two)
    assert replicas.clock.now() - killed_at > LEASE_TTL - RENEW_EVERY - ASK_EVERY


def test_frozen_replica_that_wakes_writes_nothing_of_what_was_taken_over(
    replicas: _Replicas, database: Database
) -> None:
    """The lease that it knows is of an epoch before, and is refused; it gets a share again, under new epochs."""
    one, two = replicas.add("one"), replicas.add("two")
    one.attend()
    frozen = one.held()["project-00"]
    replicas.go_on(two, seconds=12)
    taken = two.held()["project-00"]
    assert taken.epoch == frozen.epoch + 1
    with pytest.raises(LeaseLost, match="project-00 is now watched by two"):
        _write(database, frozen)
    _write(database, taken)
    replicas.go_on(one, two, seconds=3)
    assert Counter(_stored(database).values()) == {"one": 5, "two": 5}
    with pytest.raises(LeaseLost):
        _write(database, frozen)


def test_late_renewal_loses_nothing_while_nobody_claimed(replicas: _Replicas, database: Database) -> None:
    """An expired lease that nobody claimed is renewed under its epoch: no look is given up for it."""
    one = replicas.add("one")
    before = dict(one.held())
    replicas.clock.advance(timedelta(hours=1))
    one.attend()
    assert one._held == before
    _write(database, before["project-00"])


def test_all_projects_of_a_holder_are_renewed_by_one_statement(replicas: _Replicas) -> None:
    """The number of statements does not grow with projects."""
    one = replicas.add("one")
    one.attend()
    statements: list[str] = []

    def heard(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    for engine in {one._database._engine, one._database._reader}:
        event.listen(engine, "before_cursor_execute", heard)
    replicas.go_on(one, seconds=int(RENEW_EVERY.total_seconds()) + 1)
    assert sum(statement.startswith("UPDATE project_leases") for statement in statements) == 1
    assert len(statements) < 25


def test_project_that_is_not_watched_any_more_is_handed_over_and_can_be_closed(replicas: _Replicas) -> None:
    """While another replica still watches it, nobody closes its account."""
    one, two = replicas.add("one"), replicas.add("two")
    one.attend()
    assert two.claim_unwatched("project-03") is None
    replicas.projects.remove("project-03")
    one.attend()
    assert "project-03" not in one.held()
    lease = two.claim_unwatched("project-03")
    assert lease is not None
    two.release(lease)
    assert _stored(two._database)["project-03"] == ""


def test_project_that_another_holds_is_not_claimed(database: Database) -> None:
    """Until its lease runs out, whatever the one who claims believed to be free."""
    with database.write() as connection:
        project_leases.claim(connection, "one", PROJECTS[:4], 4, at("12:00") + LEASE_TTL, at("12:00"))
        claimed = project_leases.claim(connection, "two", PROJECTS, 10, at("12:00") + LEASE_TTL, at("12:00"))
        assert sorted(lease.name for lease in claimed) == PROJECTS[4:]
        later = at("12:00") + LEASE_TTL
        claimed = project_leases.claim(connection, "two", PROJECTS, 10, later + LEASE_TTL, later)
    assert sorted(lease.name for lease in claimed) == PROJECTS


def test_single_pass_takes_what_is_free_and_leaves_the_rest(replicas: _Replicas, database: Database) -> None:
    """The pass holds what it took while it runs, and all of that is free at once afterwards."""
    with database.write() as connection:
        now = database_time(connection)
        project_leases.claim(connection, "another", PROJECTS[:4], 4, now + LEASE_TTL, now)
    with all_projects(database, "pass", lambda: PROJECTS) as shards:
        assert sorted(shards.held()) == PROJECTS[4:]
    assert Counter(_stored(database).values()) == {"another": 4, "": 6}


def test_clock_that_was_put_back_frees_the_projects_of_the_dead(replicas: _Replicas) -> None:
    """A lease cannot outlast its life: a holder that lives renews it, and one that is gone is taken over."""
    one, two = replicas.add("one"), replicas.add("two")
    one.attend()
    replicas.clock.advance(-timedelta(days=1))
    replicas.go_on(two, seconds=12)
    assert _ours(two) == PROJECTS


def test_two_claims_at_once_share_out_what_is_free(postgres_url: str) -> None:
    """Two connections of PostgreSQL claim again and again: no project has two holders, and none has nobody."""
    with closing(Database.open(postgres_url)) as one, closing(Database.open(postgres_url)) as two:
        for trial in range(10):
            barrier = threading.Barrier(2)
            claimed: dict[str, list[Lease]] = {}

            def claim(
                database: Database, name: str, barrier: threading.Barrier = barrier,
                claimed: dict[str, list[Lease]] = claimed, moment: datetime = at("12:00") + trial * timedelta(hours=1),
            ) -> None:  # fmt: skip
                barrier.wait(60)
                with database.write() as connection:
                    claimed[name] = project_leases.claim(connection, name, PROJECTS, 5, moment + LEASE_TTL, moment)

            threads = [
                threading.Thread(target=claim, args=(database, name)) for database, name in ((one, "a"), (two, "b"))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert sorted(lease.name for some in claimed.values() for lease in some) == PROJECTS


def test_claim_leaves_alone_what_is_being_renewed(postgres_url: str) -> None:
    """A holder that is late renews while another claims: the claim neither waits for it nor takes it."""
    now = at("12:00")
    with closing(Database.open(postgres_url)) as one, closing(Database.open(postgres_url)) as two:
        with one.write() as connection:
            project_leases.claim(connection, "late", PROJECTS, 10, now - SECOND, now - LEASE_TTL)
        with one.write_out_of_turn() as renewing:
            renewing.execute(table.update().where(table.c.project < "project-04").values(expires_at=now + LEASE_TTL))
            with two.write() as connection:
                taken = project_leases.claim(connection, "taker", PROJECTS, 10, now + LEASE_TTL, now)
        assert [lease.name for lease in taken] == PROJECTS[4:]


def test_restore_frees_all_projects_and_skips_their_epochs(replicas: _Replicas, database: Database) -> None:
    """No replica from before the restore writes again, whatever the backup said it held."""
    one = replicas.add("one")
    before = one.held()["project-00"]
    with database.write() as connection:
        generation.free_leases(connection, replicas.clock.now())
    with pytest.raises(LeaseLost):
        _write(database, before)
    replicas.go_on(one)
    assert one.held()["project-00"].epoch > generation.ID_GAP


def test_writes_of_a_project_keep_all_leases_where_renewals_may_not_come_in(sqlite_database: Database) -> None:
    """SQLite has one writer: while a pass records one project after the other, it renews them all, and its own."""
    acting = acquire(sqlite_database, "daemon", "one", LEASE_TTL)
    keeper = ShardKeeper(sqlite_database, "one", lambda: PROJECTS)
    lease = keeper.held(acting)["project-00"]
    assert acting is not None
    assert acting.hold is not None
    assert lease.hold is not None

    def ends() -> set[datetime]:
        with sqlite_database.read() as connection:
            return {
                *connection.scalars(select(table.c.expires_at)),
                *connection.scalars(select(leases.c.expires_at)),
            }

    before = max(ends())
    for hold in (acting.hold, lease.hold):
        hold.until_s -= LEASE_TTL.total_seconds() / 2
    _write(sqlite_database, lease)
    assert min(ends()) > before


def test_database_that_does_not_answer_is_an_error_of_the_pass(sqlite_url: str) -> None:
    """Nothing is taken for watched by others; the thread itself goes on."""
    with closing(Database.open(sqlite_url, lock_timeout=timedelta(milliseconds=20))) as database:
        keeper = ShardKeeper(database, "one", lambda: PROJECTS)
        with closing(Database.open(sqlite_url)) as other, other.write():
            keeper.attend()
            with pytest.raises(StoreError, match="locked"):
                keeper.held()
        assert sorted(keeper.held()) == PROJECTS
