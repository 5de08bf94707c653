"""A part of a guard: all that has to do with the age of its database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, text
from tests.builders import at
from tests.fakes import HandClock
from tests.simulation.backups import copied

from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.daemon.marking import Marking
from costguard.db import lease as leases
from costguard.db.mark_file import MarkFile
from costguard.db.transaction import Database
from costguard.ledger import generation
from costguard.model.generation import Generation

NOW = at("12:00")


class Guard:
    """A guard's part with the database's age. It holds the lease, and its clock shows any time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.marking = Marking(database, HandClock(NOW))
        self.marking.settle_in()
        lease = leases.acquire(database, LEASE, "the only one", LEASE_TTL)
        assert lease is not None
        self.lease = lease

    def look(self, times: int = 1) -> int:
        """The generation after it looked at the database."""
        for _ in range(times):
            self.marking.look(self.lease)
        return self.generation.number

    @property
    def generation(self) -> Generation:
        with self.database.read() as connection:
            return generation.read(connection)

    def back_up(self) -> Callable[[], object]:
        """Puts the copy made now back, in the same file or the same tables."""
        put_back = copied(self.database, 0)

        def restore() -> None:
            self.database.close()
            put_back()

        return restore


@contextmanager
def started(url: str) -> Iterator[Guard]:
    with closing(Database.open(url)) as database:
        yield Guard(database)


def generation_at_start(url: str) -> int:
    with started(url) as guard:
        return guard.generation.number


def file_of(url: str) -> MarkFile:
    return MarkFile(Path(url.removeprefix("sqlite:///")))


def sign(connection: Connection) -> None:
    """Signs as the guard does, so that the row counts as its own."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("UPDATE installation SET written_by = xmin::text::bigint"))
