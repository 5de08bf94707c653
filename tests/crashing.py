"""A process that ends at a chosen step of what it does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database


class Killed(BaseException):
    """The process ended here."""


@dataclass
class CrashPoint:
    """Ends the process at the n-th step; 0: never."""

    left: int = 0

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


class FragileDatabase(Database):
    """May end the process before a transaction, right before its commit, and right after it."""

    fuse = CrashPoint()

    @contextmanager
    def write(self, fence: Lease | None = None) -> Iterator[Connection]:
        self.fuse.step()
        with super().write(fence) as connection:
            yield connection
            self.fuse.step()
        self.fuse.step()


def steps_of(url: str, last: int) -> range:
    """All from 1 to the last on SQLite. PostgreSQL runs the same code: of it one in five, and the last."""
    return range(last, 0, -1 if url.startswith("sqlite") else -5)[::-1]


@contextmanager
def fragile_database(url: str, fuse: CrashPoint) -> Iterator[FragileDatabase]:
    with closing(FragileDatabase.open(url)) as database:
        assert isinstance(database, FragileDatabase)
        database.fuse = fuse
        yield database
