"""A process that may end, or stand still for a while, between any two of its steps."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy

from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.remembered import forget
from costguard.db.transaction import Database

WRITE, COMMITTED = "before a write", "after a commit"


class Killed(BaseException):
    """The process ended here."""


class CrashPoint:
    """Burns through so many steps after it was lit. `freeze` is what happens while the process stands still.

    `writes` counts those of a whole life: before each another guard may take over.
    """

    def __init__(self, freeze: Callable[[], None] | None = None) -> None:
        self._freeze = freeze
        self._left = 0
        self._freezes = False
        self._where = ""
        self.writes = 0
        self.burnt: Counter[str] = Counter()
        self.kills = 0

    def light(self, steps: int, *, freezes: bool, where: str = "") -> None:
        """0 steps: never. Only steps of the name `where` count, if it is given: `before a write by reminders.stops`."""
        self._left, self._freezes, self._where = steps, freezes, where

    @property
    def is_lit(self) -> bool:
        return self._left > 0

    def step(self, where: str, *, can_freeze: bool = False, by: str = "") -> None:
        """A process that is to freeze does so at the first step where that makes a difference to others.

        `by` is the module of the product that takes the step.
        """
        self.writes += where == WRITE
        if self._left == 0 or (self._where and self._where not in (where, f"{where} by {by}")):
            return
        self._left -= 1
        if self._left > 0:
            return
        if self._freezes and not can_freeze:
            self._left = 1
            return
        if self._freezes and self._freeze is not None:
            self.burnt[f"frozen {where}"] += 1
            self._freeze()
            return
        self.burnt[f"killed {where}"] += 1
        self.kills += 1
        raise Killed


class FragileDatabase(Database):
    """May end before, within and after each transaction; frozen within one it would hold the turn of all others."""

    fuse: CrashPoint

    def of_process(self, fuse: CrashPoint) -> FragileDatabase:
        """Connections and SQLAlchemy's compiled statements are shared: they are most of the time of a small life."""
        process = copy(self)
        process.fuse = fuse
        return process

    def let_go(self) -> None:
        """Closes the connections, and forgets what was read: another file may take the place of this one."""
        self.close()
        forget()

    @contextmanager
    def write(self, fence: Lease | None = None) -> Iterator[Connection]:
        by = str(sys._getframe(2).f_globals["__name__"]).removeprefix("costguard.")  # contextlib is in between
        self.fuse.step(WRITE, can_freeze=True, by=by)
        with super().write(fence) as connection:
            yield connection
            self.fuse.step("before a commit", by=by)
        self.fuse.step(COMMITTED, can_freeze=True, by=by)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with super().read() as connection:
            yield connection
        self.fuse.step("after a read", can_freeze=True)
