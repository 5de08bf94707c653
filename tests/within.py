"""Does within one transaction of a test what passes do in transactions of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.ledger.charged import charging
from costguard.ledger.charged.charging import Charged
from costguard.ledger.running import running_totals


class Within(Database):
    """A database whose every transaction is the one that is given."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def write(self, fence: Lease | None = None) -> Iterator[Connection]:
        yield self._connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        yield self._connection


def charge_due(connection: Connection, now: datetime) -> Charged:
    """Charges all that is due, at once: threads cannot share the transaction."""
    return charging.charge_due(Within(connection), now, most_days=sys.maxsize)


def keep_rates(connection: Connection, now: datetime) -> int:
    """Brings every instance's rate up to date; how many were written."""
    return running_totals.catch_up(Within(connection), now)
