"""PostgreSQL behind a connection that falls silent: every question ends in time, and one silence costs one wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from sqlalchemy import text
from tests.silent_proxy import SilentProxy, silent_proxy

from costguard.db.limits import Limits, within
from costguard.db.transaction import Database
from costguard.errors import DatabaseSilent, DatabaseUnreachable, StoreError

PATIENCE_S = 60
# Shorter than the product's, so that the tests are; yet a busy machine answers by then.
SHORT = Limits(connect=timedelta(seconds=8), first_answer=timedelta(seconds=4), answer=timedelta(seconds=6))


@pytest.fixture
def proxied(postgres_url: str) -> Iterator[tuple[SilentProxy, Database]]:
    with silent_proxy(postgres_url) as (proxy, url), closing(Database.open(url, limits=SHORT)) as database:
        yield proxy, database


def ask(database: Database, question: str = "SELECT 1") -> object:
    with database.read() as connection:
        return connection.execute(text(question)).scalar_one()


def in_thread(do: Callable[[], object]) -> BaseException | None:
    """Runs it in a thread, and returns what it raised; fails where it does not end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            do()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the question was never given up"
    return raised[0] if raised else None


def test_pooled_connection_that_fell_silent_is_replaced(proxied: tuple[SilentProxy, Database]) -> None:
    """A question over a silent connection is given up and asked over a new one; the caller gets its answer."""
    proxy, database = proxied
    assert ask(database) == 1
    proxy.freeze_open()
    assert in_thread(lambda: ask(database)) is None


def test_silence_in_mid_transaction_is_an_error_that_says_so(proxied: tuple[SilentProxy, Database]) -> None:
    """The query may have been done, so it is not repeated; the error names the database and what to do."""
    proxy, database = proxied

    def fall_silent() -> None:
        with database.write() as connection:
            connection.execute(text("INSERT INTO leases VALUES ('x', 'a', 0, 0)"))
            proxy.freeze_open()
            connection.execute(text("SELECT 1"))

    error = in_thread(fall_silent)
    assert isinstance(error, DatabaseSilent)
    assert "did not answer within 6 s" in error.message
    assert "proxy" in error.what_next


def test_one_silence_costs_one_wait_however_many_connections_are_pooled(
    proxied: tuple[SilentProxy, Database],
) -> None:
    """Five pooled connections fall silent: the first question finds out, and the others are dropped unasked."""
    proxy, database = proxied
    barrier = threading.Barrier(5)

    def hold() -> None:
        with database.read() as connection:
            connection.execute(text("SELECT 1"))
            barrier.wait(PATIENCE_S)

    threads = [threading.Thread(target=hold) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert proxy.opened >= 5
    proxy.freeze_open()
    for _ in range(5):
        assert in_thread(lambda: ask(database)) is None
    assert proxy.asked_in_silence == 1, "each pooled connection cost a wait of its own"


def test_connecting_to_a_server_that_never_speaks_ends(proxied: tuple[SilentProxy, Database]) -> None:
    """The proxy accepts and says nothing: TCP is content, and the limit for connecting ends it."""
    proxy, database = proxied
    proxy.freeze_all()
    assert isinstance(in_thread(lambda: ask(database)), DatabaseSilent)
    proxy.thaw()
    assert ask(database) == 1


def test_statement_that_takes_too_long_is_ended_by_the_server(postgres_url: str) -> None:
    """statement_timeout ends it before we would give the connection up, which stays good."""
    limits = Limits(statement=timedelta(seconds=3))
    with closing(Database.open(postgres_url, limits=limits)) as database:
        backend = ask(database, "SELECT pg_backend_pid()")
        with pytest.raises(StoreError, match="statement"):
            ask(database, "SELECT pg_sleep(60)")
        assert ask(database, "SELECT pg_backend_pid()") == backend


def test_long_transfer_is_no_silence(postgres_url: str) -> None:
    """Rows that keep coming are an answer, however long all of them take together."""
    limits = Limits(first_answer=timedelta(seconds=4), answer=timedelta(seconds=4))
    with closing(Database.open(postgres_url, limits=limits)) as database, database.read() as connection:
        rows = connection.execute(
            text("SELECT n, pg_sleep(0.1), repeat('x', 20000) FROM generate_series(1, 60) AS n")
        ).all()
    assert len(rows) == 60


def test_question_with_a_limit_of_its_own_ends_by_then(proxied: tuple[SilentProxy, Database]) -> None:
    """`within` bounds connecting, waiting and reading together."""
    proxy, database = proxied
    ask(database)
    proxy.freeze_all()

    def look() -> None:
        with within(timedelta(seconds=0.5)), database.read() as connection:
            connection.execute(text("SELECT 1"))

    assert isinstance(in_thread(look), DatabaseUnreachable)


def test_limits_are_set_for_poolers_too(postgres_url: str) -> None:
    """Limits travel inside each transaction, not as start-up options, which PgBouncer refuses and does not keep."""
    with closing(Database.open(postgres_url)) as database:
        with database.read() as connection:
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "10s"
        with database.write() as connection:
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "10s"
            assert connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one() == "8s"
        with database.write() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            options = {option.keyword.decode(): option.val for option in driver.pgconn.info if option.val}
        assert "options" not in options
        assert {name: options[name] for name in ("keepalives", "tcp_user_timeout")} == {
            "keepalives": b"1",
            "tcp_user_timeout": b"10000",
        }


def test_server_that_cannot_deliver_frees_the_turn_too(postgres_url: str) -> None:
    """A writer stops reading in the midst of a large answer: its server process is neither idle nor done, and is ended.

    Linux counts an unread window as unacknowledged since https://git.kernel.org/torvalds/c/9d9b1ee0b2d1.
    """
    patience = timedelta(seconds=PATIENCE_S)
    short = Limits(answer=timedelta(seconds=1), idle_in_transaction=timedelta(seconds=1))
    with (
        silent_proxy(postgres_url) as (proxy, url),
        closing(Database.open(url, limits=short)) as database,
        closing(Database.open(postgres_url, lock_timeout=patience, limits=Limits(statement=2 * patience))) as other,
    ):
        halting = threading.Timer(0.3, proxy.freeze_open)

        def read_much() -> None:
            with database.write() as connection:
                halting.start()
                connection.execute(text("SELECT repeat('x', 1000) FROM generate_series(1, 2000000)")).all()

        assert isinstance(in_thread(read_much), DatabaseSilent)
        halting.join()
        with other.write() as connection:
            assert connection.execute(text("SELECT 1")).scalar_one() == 1
