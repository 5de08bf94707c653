"""Makes the next charges ready in a thread of its own while the present ones are written.

Half of charging is the database's work, during which Python is free. What was made ready is thrown away where another
writer has changed spans or prices since: it is then made again within the transaction that writes it.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy import Connection

from costguard.db.transaction import Database

_AHEAD = 2  # batches that wait to be written
# Between two statements the writing thread waits for the other one, which Python lets run for 5 ms at a time.
_SWITCH_S = 0.000_1
_lock = threading.Lock()
_switching: list[float] = []  # the interval that was in force before, once for each that needs a short one

_Part = TypeVar("_Part")
_Made = TypeVar("_Made")


class Waiting(NamedTuple, Generic[_Part, _Made]):
    """A batch, and what was made of it; `made` is None where it is to be made within its transaction."""

    part: _Part
    made: Future[tuple[int, _Made]] | None


class Ahead(Generic[_Part, _Made]):
    """Makes batches ready by `make`.

    `state_of` says what a view of the database holds of all that `make` rests on: it differs wherever that does.
    """

    def __init__(
        self,
        database: Database,
        state_of: Callable[[Connection], Hashable],
        make: Callable[[Connection, _Part], _Made],
    ) -> None:
        self._database, self._state_of, self._make = database, state_of, make
        self._state: Hashable = None
        self._strangers = 0  # how often another writer's changes were noticed

    def begin(self, connection: Connection) -> None:
        """Notes the state of the view that the batches come from. Without it each is made as it is written."""
        self._state = self._state_of(connection)

    def batches(self, parts: Iterable[_Part]) -> Generator[Waiting[_Part, _Made]]:
        """Yields the batches in their order. Close it where it is left early."""
        if self._state is None:
            for part in parts:
                yield Waiting(part, None)
            return
        pool = ThreadPoolExecutor(1, thread_name_prefix="charges")
        try:
            with _switching_often():
                waiting: deque[Waiting[_Part, _Made]] = deque()
                for part in parts:
                    waiting.append(Waiting(part, pool.submit(self._made, part)))
                    if len(waiting) > _AHEAD:
                        yield _ready(waiting.popleft())
                while waiting:
                    yield _ready(waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _made(self, part: _Part) -> tuple[int, _Made]:
        strangers = self._strangers  # read before the view is taken: what is noticed later may be missing in it
        with self._database.read() as connection:
            return strangers, self._make(connection, part)

    def taken(self, connection: Connection, waiting: Waiting[_Part, _Made]) -> _Made:
        """Returns what is to be written by this transaction, as of this moment."""
        if waiting.made is None:
            return self._make(connection, waiting.part)
        if self._state_of(connection) != self._state:
            self._strangers += 1
        strangers, made = waiting.made.result()
        return made if strangers == self._strangers else self._make(connection, waiting.part)

    def written(self, connection: Connection) -> None:
        """Notes what this transaction has changed, at its end: no batch is made of it."""
        if self._state is not None:
            self._state = self._state_of(connection)


def _ready(first: Waiting[_Part, _Made]) -> Waiting[_Part, _Made]:
    """Waits until it is made: not in the transaction, for which others would wait, too."""
    if first.made is not None:
        wait((first.made,))
    return first


@contextmanager
def _switching_often() -> Iterator[None]:
    """Has Python's threads take turns often, in the whole process, until the last that needs it is done."""
    with _lock:
        _switching.append(sys.getswitchinterval() if not _switching else _switching[0])
        sys.setswitchinterval(min(_SWITCH_S, _switching[0]))
    try:
        yield
    finally:
        with _lock:
            before = _switching.pop()
            if not _switching:
                sys.setswitchinterval(before)
