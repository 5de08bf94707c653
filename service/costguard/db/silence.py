"""PostgreSQL connections with a time limit on every wait.

statement_timeout does not help when the question, or its answer, is lost on the way: the server knows of no statement.
Keepalives and tcp_user_timeout do not when a proxy acknowledges what it never delivers. So the client looks at its own
watch, too (https://github.com/psycopg/psycopg2/issues/1017 tells of a failover that took eight minutes without).
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from costguard.db.described import DescribedCursor
from costguard.db.limits import Limits, left_s

_T = TypeVar("_T")


class Silence(psycopg.OperationalError):
    """No answer within the limit. The connection is closed: what it would still say belongs to no question."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"no answer within {limit_s:.3g} s")
        self.silent_s = limit_s


class Connection(psycopg.Connection[Any]):
    """Every wait of a psycopg connection for the server comes through `wait`."""

    limits = Limits()

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **named: Any) -> _T:
        is_first = self.pgconn.transaction_status == TransactionStatus.IDLE
        limit = self.limits.first_answer if is_first else self.limits.answer
        try:
            return super().wait(_heard(gen, limit), *args, **named)
        except Silence:
            self.close()  # SQLAlchemy sees that, and drops all pooled connections as old as this one
            raise


def connect(limits: Limits, *args: Any, **named: Any) -> Connection:
    """Connects like psycopg.connect. Raises Silence where the server does not speak."""
    limit_s = float(named.get("connect_timeout", limits.connect.total_seconds()))
    left = left_s()
    if left is not None:
        if left <= 0:
            raise Silence(0)
        limit_s = max(1, min(limit_s, math.ceil(left)))  # psycopg makes at least 2 of it
    try:
        made = Connection.connect(*args, **{**named, "connect_timeout": int(limit_s)})
    except psycopg.errors.ConnectionTimeout:
        raise Silence(limit_s) from None
    made.limits, made.cursor_factory = limits, DescribedCursor
    return made


def _heard(gen: Generator[Any, Any, _T], limit: timedelta) -> Generator[Any, Any, _T]:
    """The same steps, ended by Silence when the socket was not ready for `limit`, or the thread's deadline is over.

    Readiness counts, not the end: rows that keep coming are an answer. A process that was stopped for a while looks at
    its socket first when it goes on.
    """
    limit_s, left = limit.total_seconds(), left_s()
    began = ready_at = time.monotonic()
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            awaited = gen.send(ready)
            now = time.monotonic()
            if ready:
                ready_at = now
            elif now - ready_at >= limit_s:
                raise Silence(limit_s)
            if left is not None and now - began >= left:
                raise Silence(max(0.0, left))
    except StopIteration as end:
        answer: _T = end.value
        return answer
    finally:
        gen.close()
