"""Drops the single charges of spans that ended long ago and are in the history: its files are their archive.

A span's charges go once every day of them has a file that is as the ledger is, and whose bytes are those that were
written. They stay rolled up by day and price, as with any archive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Connection, func, select

from costguard.db.bulk import chunks
from costguard.db.lease import Lease
from costguard.db.tables import charges
from costguard.db.transaction import Database
from costguard.ledger.archived.archiving import AT_ONCE, Archived, ended_spans
from costguard.ledger.archived.day_file import fetched, sha256_of
from costguard.ledger.archived.history_days import HistoryDay, history_days, outdate
from costguard.ledger.archived.taking_out import may_go, take_out
from costguard.ledger.roll_up import TABLES
from costguard.model.ports import Archives

_MICROSECOND = timedelta(microseconds=1)


def drop_charges(
    database: Database,
    store: Archives,
    before: datetime,
    *,
    fence: Lease | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    at_once: int = AT_ONCE,
) -> Archived:
    """Drop the charges of all spans that ended before this moment, are final, and are in the history.

    Raises Missing and CheckpointError where a file cannot be read; nothing of its day goes then.
    """
    rows, whole = 0, _Whole(store)
    damaged: set[date] = set()
    for kind in TABLES:
        with database.read() as connection:
            oldest = connection.scalar(select(func.min(charges.c.day)))
        since = datetime.combine(oldest or before.date(), time(), UTC) - _MICROSECOND
        while not is_stopped():
            with database.read() as connection:
                spans = ended_spans(connection, kind, since, before, at_once)
                days = _days_of(connection, kind, [span.id for span in spans])
                current = {day: one for day, one in history_days(connection).items() if one.is_current}
            if not spans:
                break
            wanted = {day for its_days in days.values() if its_days <= current.keys() for day in its_days}
            good = {day for day in wanted if whole.is_whole(current[day])}
            damaged |= wanted - good
            in_history = {span_id for span_id, its_days in days.items() if its_days <= good}
            if in_history:
                with database.write_and_pause(fence) as connection:
                    rows += _drop(connection, kind, in_history)
            if len(spans) < at_once:
                break
            # Others may have ended in the same microsecond; some of these may have stayed, and are not looked at twice.
            since = max(spans[-1].ended_at - _MICROSECOND, since + _MICROSECOND)
    if damaged:  # their files are written again from what is still in the rows
        with database.write(fence) as connection:
            outdate(connection, damaged)
    return Archived(0, rows)


class _Whole:
    """Looks at each file once a run: whether its bytes are those that were written."""

    def __init__(self, store: Archives) -> None:
        self._store = store
        self._is_whole: dict[str, bool] = {}

    def is_whole(self, day: HistoryDay) -> bool:
        if day.sha256 not in self._is_whole:
            with fetched(self._store, day.day) as path:
                self._is_whole[day.sha256] = sha256_of(path) == day.sha256
        return self._is_whole[day.sha256]


def _drop(connection: Connection, kind: str, ids: Collection[int]) -> int:
    """Looks once more, in the transaction that removes: a charge that changed meanwhile made its day stale."""
    current = {day: one.id for day, one in history_days(connection).items() if one.is_current}
    gone = 0
    for some in chunks(sorted(ids)):
        days = _days_of(connection, kind, some)
        going = {
            span_id: current[max(days[span_id])]
            for span_id in may_go(connection, kind, some)
            if span_id in days and all(day in current for day in days[span_id])
        }
        if going:
            gone += take_out(connection, kind, going)
    return gone


def _days_of(connection: Connection, kind: str, ids: Collection[int]) -> Mapping[int, set[date]]:
    days: defaultdict[int, set[date]] = defaultdict(set)
    for some in chunks(sorted(ids)):
        query = select(charges.c.span_id, charges.c.day).where(charges.c.span == kind, charges.c.span_id.in_(some))
        for span_id, day in connection.execute(query.distinct()):
            days[span_id].add(day)
    return days
