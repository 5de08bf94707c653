"""Readers keep tables' answers until these change, whichever process changes them."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import replace
from datetime import date

from sqlalchemy import Connection, func, insert, select, text, update
from tests.api import rows
from tests.api.rows import NOW, day
from tests.jobs import job_rows

from costguard.db import tables
from costguard.db.remembered import MOST, MOST_AT_ONCE, MOST_ROWS, forget, remembered, remembers_each
from costguard.db.tables import REPORTED, changes, daily_owners, installation
from costguard.db.transaction import Database
from costguard.ledger import generation, prices
from costguard.model.budget import Scope
from costguard.spend.spend_rows import Grouping, rolled_up

_DAY = date(2026, 11, 1)
_INSERT = text("INSERT INTO daily_owners VALUES ('2026-11-01', 'lab', 'ada', 1, 2, 3, 4)")


class _Readings:
    """Counts the owners of a day, and how often it was really asked to."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, connection: Connection, question: str = "owners") -> int:
        def read() -> int:
            self.count += 1
            return connection.scalar(select(func.count()).select_from(daily_owners)) or 0

        return remembered(connection, (daily_owners,), question, read)

    def in_a_look(self, database: Database) -> int:
        with database.read() as connection:
            return self.of(connection)


def test_an_answer_is_kept_until_its_table_changes(database: Database, database_url: str) -> None:
    """The answer is not read again; after any change, by any words and by whomever, it is."""
    readings = _Readings()
    assert [readings.in_a_look(database) for _ in range(3)] == [0, 0, 0]
    assert readings.count == 1
    for number, statement in enumerate((_INSERT, text("UPDATE daily_owners SET seconds = 5")), 2):
        with closing(Database.open(database_url)) as writer, writer.write() as connection:
            connection.execute(statement)
        assert [readings.in_a_look(database) for _ in range(2)] == [1, 1]
        assert readings.count == number
    for number, (statement, left) in enumerate(((text("DELETE FROM daily_owners"), 0), (_INSERT, 1)), 4):
        with database.write() as connection:  # the same connection of the pool each time
            connection.execute(statement)
        assert (readings.in_a_look(database), readings.count) == (left, number)


def test_what_is_forgotten_is_read_again(database: Database) -> None:
    """After a crowd nothing is kept, and the next reader gets the same answer."""
    readings = _Readings()
    readings.in_a_look(database)
    forget()
    assert [readings.in_a_look(database) for _ in range(2)] == [0, 0]
    assert readings.count == 2


def test_a_change_of_another_table_costs_no_reading(database: Database) -> None:
    """The answer from one table is not read again when another changes."""
    readings = _Readings()
    readings.in_a_look(database)
    with database.write() as connection:
        connection.execute(text("INSERT INTO leases VALUES ('daemon', 'a', 1, 2)"))
    readings.in_a_look(database)
    assert readings.count == 1


def test_what_is_undone_was_never_kept(database: Database) -> None:
    """A transaction that writes sees its own rows, and nobody sees them after it was undone."""
    readings = _Readings()
    with suppress(ZeroDivisionError), database.write() as connection:
        connection.execute(_INSERT)
        assert readings.of(connection) == 1
        raise ZeroDivisionError
    assert readings.in_a_look(database) == 0
    with database.write() as connection:
        connection.execute(_INSERT)
    assert readings.in_a_look(database) == 1


def test_a_look_that_began_before_a_change_keeps_its_view(database: Database) -> None:
    """It answers as of its beginning, and what it read is not taken for what came after."""
    readings = _Readings()
    with database.read() as early:
        assert readings.of(early) == 0
        with database.write() as connection:
            connection.execute(_INSERT)
        assert readings.in_a_look(database) == 1
        assert (readings.of(early), readings.of(early, "the same, for the first time")) == (0, 0)
    assert readings.in_a_look(database) == 1


def test_two_databases_are_never_mixed_up(sqlite_url: str, postgres_url: str) -> None:
    """Each has answers of its own, though their changes have the same numbers."""
    for url, name in ((sqlite_url, "lab"), (postgres_url, "yard")):
        with closing(Database.open(url)) as database:
            with database.write() as connection:
                day(connection, _DAY, project=name, machine_nanos=5)
            with database.read() as connection:
                ((group, _),) = rolled_up(connection, _DAY, _DAY, (Grouping.PROJECT,), Scope())
        assert group == (name,)


def test_no_more_than_so_many_answers_are_kept(sqlite_database: Database) -> None:
    """The one that was asked for longest ago goes first; where changes are not counted none is kept."""
    readings = _Readings()
    with sqlite_database.read() as connection:
        for number in range(MOST + 1):
            readings.of(connection, str(number))
        readings.of(connection, str(MOST))
        assert readings.count == MOST + 1
        readings.of(connection, "0")
        assert readings.count == MOST + 2
    with sqlite_database.write() as connection:
        connection.execute(changes.delete())
    readings.in_a_look(sqlite_database)
    readings.in_a_look(sqlite_database)
    assert readings.count == MOST + 4


def test_no_more_rows_than_so_many_are_kept(sqlite_database: Database) -> None:
    """Long answers push out those that were asked for longest ago, and one that is too long is read each time."""
    reads: list[tuple[str, int]] = []

    def ask(name: str, rows: int) -> None:
        def read() -> tuple[dict[str, int], list[int]]:
            reads.append((name, rows))
            return {}, [0] * rows

        with sqlite_database.read() as connection:
            remembered(connection, (daily_owners,), (name, rows), read)

    for name in "abcdefghijkaabb":
        ask(name, MOST_ROWS // 10)
    assert [name for name, _ in reads] == [*"abcdefghijkab"]
    reads.clear()
    for _ in range(2):
        ask("too long", MOST_ROWS // 10 + 1)
    assert len(reads) == 2


def test_every_change_of_an_attempt_but_a_heartbeat_is_counted(database: Database) -> None:
    """A column that a migration adds to attempts must be named where the database counts their changes, or in
    REPORTED: pages that show it would stay as they were."""
    with database.write() as connection:
        made = job_rows.attempt(connection, job_rows.added(connection).id)

    def counted(column: str) -> bool:
        with database.write() as connection:
            before = connection.scalar(_COUNT)
            same = {column: tables.attempts.c[column]}
            connection.execute(update(tables.attempts).where(tables.attempts.c.id == made.id).values(same))
            return bool(connection.scalar(_COUNT) != before)

    uncounted = {column.name for column in tables.attempts.c if not counted(column.name)}
    assert uncounted == REPORTED


_COUNT = select(changes.c.number).where(changes.c.table_name == "attempts")


class _Owners:
    """Reads what owners spent, by name, and keeps which names it was really asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.of_each = remembers_each(daily_owners)(self._read)

    def in_a_look(self, database: Database, *names: str) -> dict[str, int]:
        with database.read() as connection:
            return self.of_each(connection, names)

    def _read(self, connection: Connection, names: Collection[str]) -> dict[str, int]:
        self.asked.append(sorted(names))
        query = select(daily_owners.c.owner, daily_owners.c.seconds).where(daily_owners.c.owner.in_(names))
        return {row.owner: row.seconds for row in connection.execute(query)}


def test_each_key_is_asked_for_once_until_its_table_changes(database: Database, database_url: str) -> None:
    """The answer that there is none is kept as well. After a change by another process all are asked for again."""
    owners = _Owners()
    with database.write() as connection:
        connection.execute(_INSERT)
    assert owners.in_a_look(database, "ada", "ben") == {"ada": 4}
    assert owners.in_a_look(database, "ben", "cara", "ada") == {"ada": 4}
    assert owners.in_a_look(database, "cara") == {}
    assert owners.asked == [["ada", "ben"], ["cara"]]
    with closing(Database.open(database_url)) as writer, writer.write() as connection:
        connection.execute(text("UPDATE daily_owners SET owner = 'ben', seconds = 5"))
    assert owners.in_a_look(database, "ada", "ben") == {"ben": 5}
    assert owners.asked[2:] == [["ada", "ben"]]


def test_answers_of_each_key_are_the_readers_own(database: Database) -> None:
    """A reader that adds to them changes no other reader's, and what a transaction that is undone read is not kept."""
    owners = _Owners()
    owners.in_a_look(database, "ada")["ada"] = 9
    assert owners.in_a_look(database, "ada") == {}
    with suppress(ZeroDivisionError), database.write() as connection:
        connection.execute(_INSERT)
        assert owners.of_each(connection, ["ada"]) == {"ada": 4}
        raise ZeroDivisionError
    assert owners.in_a_look(database, "ada") == {}
    with database.write() as connection:  # its change has the number of the one that was undone
        connection.execute(text("INSERT INTO daily_owners VALUES ('2026-11-01', 'lab', 'ben', 1, 2, 3, 4)"))
        assert owners.of_each(connection, ["ada"]) == {}
    assert owners.in_a_look(database, "ada") == {}


def test_many_keys_at_once_are_not_kept(sqlite_database: Database) -> None:
    """They are read by one query; of others no more are kept than of one long answer."""
    owners = _Owners()
    names = [f"n{number}" for number in range(MOST_AT_ONCE + 1)]
    for _ in range(2):
        owners.in_a_look(sqlite_database, *names)
    assert len(owners.asked) == 2
    for number in range(MOST_ROWS // 10 // MOST_AT_ONCE + 1):
        owners.in_a_look(sqlite_database, *(f"{name}-{number}" for name in names[1:]))
    owners.asked.clear()
    owners.in_a_look(sqlite_database, f"n1-{number}")
    owners.in_a_look(sqlite_database, "n1-0")
    assert owners.asked == [["n1-0"]]


def test_prices_are_made_once_for_readers_and_writers(database: Database) -> None:
    """They are made again after a change, and what a transaction that is undone saw is not kept."""

    def rates(connection: Connection) -> set[int]:
        return {price.rate_nanos for price in prices.load(connection)}

    with database.write() as connection:
        rows.prices(connection, {("n1:core", "standard", "h"): 5})
    with database.read() as connection:
        loaded = prices.load(connection)
    with suppress(ZeroDivisionError), database.write() as connection:
        assert prices.load(connection) is loaded
        ((price_id, price),) = prices.by_id(connection).items()
        prices.replace(connection, price_id, replace(price, rate_nanos=6), NOW)
        assert rates(connection) == {6}
        raise ZeroDivisionError
    with database.read() as connection:
        assert prices.load(connection) is loaded
    with database.write() as connection:
        prices.replace(connection, price_id, replace(price, rate_nanos=7), NOW)
    for view in (database.read, database.write):
        with view() as connection:
            assert rates(connection) == {7}


def test_moving_mark_is_no_change_of_the_generation(database: Database) -> None:
    """The guard that acts moves it every three seconds; another generation is a change."""
    settings_of = {"mark": 7, "home": "here", "timeline": 2, "cause": "older", "generation": 2}
    with database.write() as connection:
        connection.execute(insert(installation).values(id=1, generation=1))
    counted = set()
    for name, value in settings_of.items():
        with database.write() as connection:
            before = connection.scalar(_GENERATIONS)
            connection.execute(update(installation).values({name: value}))
            if connection.scalar(_GENERATIONS) != before:
                counted.add(name)
    assert counted == {"cause", "generation"}
    with database.read() as connection:
        assert generation.read(connection).number == 2


_GENERATIONS = select(changes.c.number).where(changes.c.table_name == "installation")
