"""Time limits on the database: how long each kind of wait may last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """All but `checkout` concern PostgreSQL: a file never falls silent, and is waited for only by `lock_timeout`.

    They add up: a silence is noticed within `answer`, and the watch goes on within 30 s of it.
    """

    connect: timedelta = timedelta(seconds=5)  # for each host of the URL, TLS and password included
    # A transaction begins with a few settings, which cost a server nothing. So a pooled connection that fell silent is
    # noticed before anything rests on it.
    first_answer: timedelta = timedelta(seconds=5)
    statement: timedelta = timedelta(seconds=10)  # the server ends a statement that takes longer
    answer: timedelta = timedelta(seconds=12)  # without a byte. Longer than `statement`, whose error says more
    # The server frees the turn of a process that froze in mid-transaction: sooner than the lease of 9 s runs out, for
    # the one that takes over waits for that turn.
    idle_in_transaction: timedelta = timedelta(seconds=8)
    checkout: timedelta = timedelta(seconds=10)  # for a connection while all of the pool are in use


# A migration may rewrite a table of millions, and first waits for all other writers.
MIGRATING = Limits(
    first_answer=timedelta(minutes=2),
    statement=timedelta(hours=6),
    answer=timedelta(hours=6),
    idle_in_transaction=timedelta(minutes=30),
)

_deadline: ContextVar[float | None] = ContextVar("database_deadline", default=None)


@contextmanager
def within(limit: timedelta) -> Iterator[None]:
    """Everything that this thread asks PostgreSQL in the block ends by then, answered or not."""
    token = _deadline.set(time.monotonic() + limit.total_seconds())
    try:
        yield
    finally:
        _deadline.reset(token)


def left_s() -> float | None:
    """Seconds until the deadline of the block, if any."""
    deadline = _deadline.get()
    return None if deadline is None else deadline - time.monotonic()
