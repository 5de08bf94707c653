"""Counts of the guard's own work by the hour: listings, requests to Google, messages and their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import Connection, Delete, Executable, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from costguard.db.prepared import prepared
from costguard.db.tables import hourly_counts

LISTINGS = "listings"
REQUESTS = "listing_requests"  # that the listings took
WITHOUT_EVENTS = "requests_without_events"  # that they would have taken with every project listed in every pass

_HOUR = timedelta(hours=1)
_KEPT = timedelta(days=40)


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def add(connection: Connection, counts: Mapping[str, int], now: datetime) -> None:
    """Adds to the counts of this hour, next to other replicas, and drops those older than forty days."""
    hour = hour_of(now)
    rows = [{"hour": hour, "what": what, "number": number} for what, number in sorted(counts.items()) if number]
    if not rows:
        return
    connection.execute(_adding(connection.dialect.name), rows)
    connection.execute(*_drop(hour - _KEPT))


@cache
def _adding(dialect: str) -> Executable:
    statement = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(hourly_counts)
    more = hourly_counts.c.number + statement.excluded.number
    return statement.on_conflict_do_update(index_elements=["hour", "what"], set_={"number": more})


@prepared
def _drop(before: datetime) -> Delete:
    return delete(hourly_counts).where(hourly_counts.c.hour < before)


def between(connection: Connection, since: datetime, until: datetime) -> dict[str, int]:
    """Sums the counts of whole hours that begin in this span."""
    columns = hourly_counts.c
    query = (
        select(columns.what, func.sum(columns.number))
        .where(columns.hour >= since, columns.hour < until)
        .group_by(columns.what)
    )
    return {what: int(number) for what, number in connection.execute(query)}


def last_hours(connection: Connection, now: datetime, hours: int = 1) -> dict[str, int] | None:
    """Sums the counts of the last whole hours; None where the guard counted nothing in the first of them."""
    until = hour_of(now)
    since = until - hours * _HOUR
    counted = connection.scalar(select(func.count()).where(hourly_counts.c.hour == since))
    return between(connection, since, until) if counted else None
