"""Transactions: all or nothing, one writer at a time, readers never wait, and errors say what to do."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from contextlib import closing
from datetime import timedelta
from threading import Thread

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from costguard.db.tables import leases
from costguard.db.transaction import Database
from costguard.errors import DatabaseUnreachable, StoreError

SHORT = timedelta(milliseconds=50)


def put(database: Database, name: str = "counter") -> None:
    with database.write() as connection:
        connection.execute(text(f"INSERT INTO leases VALUES ('{name}', 'a', 0, 0)"))


def count(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM leases")).scalar_one())


def test_parts_of_a_page_share_one_view(database: Database) -> None:
    """The view is of their thread alone; after the block there is the next view."""
    elsewhere: list[int] = []

    def change() -> None:
        put(database)
        elsewhere.append(count(database))

    with database.one_view():
        before = count(database)
        thread = Thread(target=change)
        thread.start()
        thread.join()
        assert (before, count(database), elsewhere) == (0, 0, [1])
    assert count(database) == 1


def test_an_exception_undoes_the_whole_block(database: Database) -> None:
    """The block leaves nothing, whatever ends it."""

    def fail_midway() -> None:
        with database.write() as connection:
            connection.execute(text("INSERT INTO leases VALUES ('x', 'a', 0, 0)"))
            raise KeyError("a mistake in the middle")

    with pytest.raises(KeyError):
        fail_midway()
    assert count(database) == 0


def test_a_mistake_of_ours_is_not_dressed_up(database: Database) -> None:
    """A broken constraint stays SQLAlchemy's error: no person could mend it."""
    put(database)
    with pytest.raises(IntegrityError):
        put(database)


def test_a_process_that_dies_in_mid_transaction_leaves_nothing(database_url: str, database: Database) -> None:
    """Neither its rows nor its turn to write remain."""
    process = multiprocessing.get_context("spawn").Process(target=_die_while_writing, args=(database_url,))
    process.start()
    process.join()
    assert process.exitcode == 9
    put(database, "after")
    assert count(database) == 1


def _die_while_writing(url: str) -> None:
    with Database.open(url).write() as connection:
        connection.execute(text("INSERT INTO leases VALUES ('x', 'a', 0, 0)"))
        os._exit(9)


def test_writers_lose_nothing(database: Database) -> None:
    """Four threads that read a number and write it back, one higher, lose none of their steps."""
    put(database)

    def step() -> None:
        for _ in range(25):
            with database.write() as connection:
                epoch = connection.execute(select(leases.c.epoch)).scalar_one()
                connection.execute(update(leases).values(epoch=epoch + 1))

    threads = [Thread(target=step) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as connection:
        assert connection.execute(select(leases.c.epoch)).scalar_one() == 100


def test_a_reader_sees_one_moment_and_never_waits(database: Database) -> None:
    """While another writes and commits, what a reader sees does not move; the next reader sees the change."""
    put(database, "before")
    with database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM leases")).scalar_one() == 1
        put(database, "meanwhile")
        assert connection.execute(text("SELECT count(*) FROM leases")).scalar_one() == 1
        with database.write() as writer:
            writer.execute(text("DELETE FROM leases"))
            assert connection.execute(text("SELECT count(*) FROM leases")).scalar_one() == 1
            assert count(database) == 2
    assert count(database) == 0


def test_what_is_half_read_ends_with_its_transaction(database: Database) -> None:
    """Though an error that is kept holds the answer, the next reader sees what was written since."""
    for number in range(3):
        put(database, f"row {number}")
    with database.read() as connection:
        half_read = connection.execute(select(leases.c.name))
        assert next(iter(half_read)).name == "row 0"
    put(database)
    assert count(database) == 4


def test_reading_cannot_write(database: Database) -> None:
    """A write inside a reading block is refused by the database; the same connection may write later."""
    with pytest.raises((DBAPIError, StoreError)), database.read() as connection:
        connection.execute(text("INSERT INTO leases VALUES ('x', 'a', 0, 0)"))
    assert count(database) == 0
    put(database)


def test_a_locked_database_says_so_after_the_timeout(database_url: str, database: Database) -> None:
    """While another holds the turn to write, the second gets StoreError, and succeeds once it is over."""
    with closing(Database.open(database_url, lock_timeout=SHORT)) as second:
        with database.write(), pytest.raises(StoreError, match=r"Nothing was written\."):
            put(second)
        put(second)
        assert count(second) == 1


def test_a_full_disk_loses_nothing_that_was_recorded(sqlite_database: Database) -> None:
    """The transaction is undone whole when SQLite cannot grow; what was there stays and can be added to."""

    def fill() -> None:
        with sqlite_database.write() as connection:
            pages = connection.execute(text("PRAGMA page_count")).scalar_one()
            connection.execute(text("INSERT INTO leases VALUES ('early', 'a', 0, 0)"))
            connection.execute(text(f"PRAGMA max_page_count = {pages + 2}"))
            rows = [{"name": f"{n:09}" * 500} for n in range(50)]
            connection.execute(text("INSERT INTO leases VALUES (:name, 'a', 0, 0)"), rows)

    put(sqlite_database, "kept")
    with pytest.raises(StoreError, match="Free space"):
        fill()
    with sqlite_database.write() as connection:
        connection.execute(text("PRAGMA max_page_count = 1000000"))
        assert connection.execute(text("SELECT name FROM leases")).scalars().all() == ["kept"]
        assert connection.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
    put(sqlite_database, "later")
    assert count(sqlite_database) == 2


def test_a_full_disk_of_the_server(postgres_url: str) -> None:
    """PostgreSQL's own code for a full disk becomes StoreError, and nothing of the transaction stays."""

    def fill(database: Database) -> None:
        with database.write() as connection:
            connection.execute(text("INSERT INTO leases VALUES ('x', 'a', 0, 0)"))
            connection.execute(text("DO $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$"))

    with closing(Database.open(postgres_url)) as database:
        with pytest.raises(StoreError, match="Free space on the server's disk"):
            fill(database)
        assert count(database) == 0


def test_a_broken_connection_is_unreachable_and_then_mended(postgres_url: str) -> None:
    """A server that drops us gives DatabaseUnreachable; the next transaction connects again."""

    def be_cut_off(database: Database, other: Database) -> None:
        with database.write() as connection:
            mine = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with other.read() as elsewhere:
                elsewhere.execute(text(f"SELECT pg_terminate_backend({mine}, 5000)"))
            connection.execute(text("INSERT INTO leases VALUES ('x', 'a', 0, 0)"))

    with closing(Database.open(postgres_url)) as database, closing(Database.open(postgres_url)) as other:
        with pytest.raises(DatabaseUnreachable, match="Check that the server runs"):
            be_cut_off(database, other)
        put(database)
        assert count(database) == 1


def test_a_process_that_froze_while_writing_loses_its_turn(postgres_url: str) -> None:
    """PostgreSQL ends a transaction in which nothing happens for long; another writes, and the first cannot go on."""

    def freeze(database: Database, other: Database) -> None:
        with database.write() as connection:
            connection.execute(text("INSERT INTO leases VALUES ('frozen', 'a', 0, 0)"))
            assert connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one() == "8s"
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = '1ms'"))
            put(other, "other")
            connection.execute(text("DELETE FROM leases"))

    with closing(Database.open(postgres_url)) as database, closing(Database.open(postgres_url)) as other:
        with pytest.raises(DatabaseUnreachable):
            freeze(database, other)
        with other.read() as connection:
            assert connection.execute(text("SELECT name FROM leases")).scalars().all() == ["other"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://guard:hunter2@127.0.0.1:1/costguard",  # nobody listens there
        "postgresql://guard:hunter2@127.0.0.1:1/costguard?no_such_option=1",
        "postgresql://guard:pass:hunter2@[half/costguard",
        "postgresql://guard:p@ss:hunter2@host/costguard",
        "mysql://guard:hunter2@host/costguard",
        "hunter2",
    ],
)
def test_no_error_shows_the_password(url: str) -> None:
    """Unreachable or unreadable, the URL's password appears neither in the error nor in its traceback."""
    with pytest.raises(DatabaseUnreachable) as caught, Database.open(url).read():
        pass
    assert caught.value.what_next
    chain = "".join(traceback.format_exception(caught.value))
    # The test's own source lines are part of the traceback, its parameters are not.
    assert "hunter2" not in chain


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    """It would forget the ledger, and each connection would have its own."""
    with pytest.raises(DatabaseUnreachable, match="in memory"):
        Database.open(url)


def test_connections_are_set_up_as_promised(database: Database) -> None:
    """WAL and foreign keys on SQLite; no JIT and a name for the administrator on PostgreSQL."""
    settings: dict[str, dict[str, object]] = {
        "sqlite": {"PRAGMA journal_mode": "wal", "PRAGMA foreign_keys": 1, "PRAGMA synchronous": 1},
        "postgresql": {"SHOW jit": "off", "SHOW application_name": "costguard", "SHOW lock_timeout": "9s"},
    }
    wanted = settings[database.dialect]
    with database.write() as connection:
        assert {query: connection.execute(text(query)).scalar_one() for query in wanted} == wanted


def test_foreign_keys_hold(database: Database) -> None:
    """A lifetime of no instance is refused on both databases."""
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(
            insert(leases.metadata.tables["charges"]),
            {"span": "lifetime", "span_id": 1, "resource": "n1:core", "started_at": None, "price_id": 77},
        )
