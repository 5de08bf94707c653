"""The daemon's task that writes closed days into the history, and the same for a command."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import Invalid
from costguard.ledger.archived.history_days import HistoryDay, history_days
from costguard.model.ports import Clock
from costguard.spend.history.closed_days import History, HistoryWritten, write_closed


def turns(
    database: Database, history: History, archive: Path, clock: Clock
) -> Callable[[Lease, threading.Event], object]:
    """Returns the daemon's occasional work. `archive` is the folder of archives."""

    def turn(fence: Lease, stop: threading.Event) -> object:
        return write_closed(database, history, archive, clock.now(), fence, stop.is_set)

    return turn


def write_now(url: str, history: History | None, archive: Path, now: datetime) -> HistoryWritten:
    """Write every closed day that is due, also while a server runs. Raises Invalid where the settings name no place."""
    if history is None:
        text = "The settings name no place for the history, and nothing was written."
        raise Invalid(text, 'Say in [history] where it goes, such as location = "gs://bucket/costguard".')
    from costguard.db.migrate import check  # with Alembic, which no daemon waits for

    with closing(Database.open(url)) as database:
        check(database)
        return write_closed(database, history, archive, now)


def days_in(url: str) -> Sequence[HistoryDay]:
    """All days of this database's history, in their order."""
    from costguard.db.migrate import check  # with Alembic, which no daemon waits for

    with closing(Database.open(url)) as database:
        check(database)
        with database.read() as connection:
            return list(history_days(connection).values())
