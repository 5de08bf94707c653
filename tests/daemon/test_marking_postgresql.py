"""PostgreSQL itself tells rows that were put back from those that the guard wrote."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url, update
from tests.daemon.marked import generation_at_start, sign, started
from tests.postgres import cluster, program

from costguard.db import migrate
from costguard.db.tables import installation
from costguard.db.transaction import Database
from costguard.errors import DatabaseUnreachable
from costguard.ledger import generation

_HARMLESS = [
    "VACUUM FULL installation", "VACUUM (FREEZE) installation", "VACUUM FULL", "VACUUM (FREEZE, ANALYZE)",
    "CLUSTER installation USING pk_installation", "REINDEX TABLE installation", "ANALYZE",
    "ALTER TABLE installation ADD COLUMN later integer NOT NULL DEFAULT 5; ALTER TABLE installation DROP COLUMN later",
    "ALTER TABLE installation SET UNLOGGED; UPDATE installation SET written_by = NULL;"
    " ALTER TABLE installation SET LOGGED",
]  # fmt: skip


@pytest.mark.parametrize("statement", _HARMLESS)
def test_maintenance_of_postgresql_is_no_restore(postgres_url: str, statement: str) -> None:
    """Rows keep the id of the transaction that wrote them, or say that it is not known."""
    with started(postgres_url) as guard:
        guard.look()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            for one in statement.split(";"):
                connection.execute(one.encode())
        assert guard.look() == 1
    assert generation_at_start(postgres_url) == 1


@pytest.mark.parametrize("way", [["--format=custom"], ["--format=custom", "--inserts"]])
def test_rows_that_pg_restore_puts_back_are_noticed(postgres_url: str, tmp_path: Path, way: list[str]) -> None:
    """The rows come into the same database, by COPY or by INSERT, while nothing has been counted since."""
    dump = tmp_path / "dump"
    with started(postgres_url) as guard:
        guard.look()
        _run("pg_dump", postgres_url, *way, f"--file={dump}")
    _run("pg_restore", postgres_url, "--clean", "--single-transaction", str(dump))
    assert generation_at_start(postgres_url) == 2


def test_rows_put_back_as_they_were_are_noticed(postgres_url: str) -> None:
    """A row as it was is not the row that the guard wrote."""
    with started(postgres_url) as guard:
        guard.look()
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT * FROM installation").fetchall()
        connection.execute("TRUNCATE installation")
        with connection.cursor().copy("COPY installation FROM STDIN") as copy:
            copy.write_row(rows[0])
    assert generation_at_start(postgres_url) == 2


def test_another_timeline_at_a_start_begins_a_generation(postgres_url: str) -> None:
    """A recovery to an earlier moment keeps the server's identifier and the database's number."""
    with started(postgres_url) as guard:
        guard.look()
        _set_timeline(guard.database, 7)
    assert generation_at_start(postgres_url) == 2
    assert generation_at_start(postgres_url) == 2


def test_server_that_was_recovered_to_an_earlier_moment_is_noticed() -> None:
    """PostgreSQL's own recovery of a copy of its data folder, which keeps all but the timeline.

    No guard starts before it is over.
    """
    with cluster() as server:
        url = server.start()
        migrate.upgrade(url)
        with started(url) as guard:
            guard.look()
        server.stop()
        copy = server.data.with_name("copy")
        subprocess.run(["cp", "-a", server.data, copy], check=True)
        url = server.start()
        with started(url) as guard:
            assert guard.look() == 1
        server.stop()
        shutil.rmtree(server.data)
        copy.rename(server.data)
        (server.data / "standby.signal").touch()
        url = server.start(restore_command="false")
        with pytest.raises(DatabaseUnreachable, match="is in recovery"), started(url):
            pass
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
        with started(url) as guard:
            assert guard.generation.number == 2
            with guard.database.read() as connection:
                assert generation.timeline_of(connection) == 2


def test_standby_server_that_lost_nothing_is_no_restore(postgres_url: str) -> None:
    """The guard runs on, finds its own mark, and remembers the new timeline."""
    with started(postgres_url) as guard:
        guard.look()
        _set_timeline(guard.database, 7)
        assert guard.look() == 1
    assert generation_at_start(postgres_url) == 1


def test_role_that_may_not_ask_for_the_timeline_knows_none(postgres_url: str) -> None:
    """The role is as on a managed server: nothing is known, and nothing is held against the database."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC")
        connection.execute("CREATE ROLE limited LOGIN")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO limited")
        connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO limited")
        try:
            limited = make_url(postgres_url).set(username="limited").render_as_string(hide_password=False)
            with started(limited) as guard:
                assert guard.look() == 1
                with guard.database.read() as view:
                    assert generation.reached(view).timeline is None
        finally:
            connection.execute("DROP OWNED BY limited")
            connection.execute("DROP ROLE limited")
            connection.execute("GRANT EXECUTE ON FUNCTION pg_current_wal_lsn() TO PUBLIC")


def _set_timeline(database: Database, number: int) -> None:
    with database.write() as connection:
        connection.execute(update(installation).values(timeline=number))
        sign(connection)


def _run(name: str, url: str, *arguments: str) -> None:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    subprocess.run([program(name), f"--dbname={plain}", *arguments], check=True, capture_output=True)
