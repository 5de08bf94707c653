"""The stream of events: in the order of their recording, with nothing missed and nothing twice."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from costguard.db.transaction import Database
from costguard.errors import StoreError
from costguard.events import audit_log, stream
from costguard.model.event import Event

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
STARTED = Event("a", "LifetimeStarted", T0, "trainer started.", project="lab", gce_id="77", name="trainer")


def recorded(database: Database, *new: Event) -> None:
    with database.write() as connection:
        audit_log.append(connection, new, T0)


def keys_after(database: Database, event_id: int, limit: int = 100) -> list[str]:
    with database.read() as connection:
        return [stored.event.key for stored in stream.after(connection, event_id, limit)]


def test_events_come_in_the_order_of_their_recording(database: Database) -> None:
    """A late record stands at the end, whenever it happened; a page and the next one join; filters narrow."""
    with database.read() as connection:
        assert stream.latest_id(connection) == 0
    recorded(database, STARTED, replace(STARTED, key="b", kind="ZoneUnread", gce_id="", project="other"))
    recorded(database, STARTED, replace(STARTED, key="c", occurred_at=T0 - timedelta(days=1)))
    with database.read() as connection:
        first, second, third = stream.after(connection, 0, 10)
        assert [stored.event.key for stored in (first, second, third)] == ["a", "b", "c"]
        assert stream.latest_id(connection) == third.id
        assert stream.after(connection, first.id, 1) == [second]
        assert stream.after(connection, third.id, 10) == []
        assert stream.after(connection, 0, 10, kinds=["ZoneUnread"], projects=["other", "lab"]) == [second]
        assert stream.after(connection, 0, 10, kinds=["ZoneUnread"], projects=["lab"]) == []
        assert stream.after(connection, first.id, 10, gce_id="77") == [third]


def test_no_later_event_is_seen_before_an_earlier_one(database: Database, database_url: str) -> None:
    """While a transaction that took an id is open no other takes one, so none can be passed over."""
    with closing(Database.open(database_url, lock_timeout=timedelta(milliseconds=50))) as other:
        with database.write() as connection:
            audit_log.append(connection, [replace(STARTED, key="slow")], T0)
            with pytest.raises(StoreError):
                recorded(other, replace(STARTED, key="quick"))
            assert keys_after(other, 0) == []
        recorded(other, replace(STARTED, key="quick"))
        assert keys_after(other, 0) == ["slow", "quick"]
        with suppress(KeyError), database.write() as connection:
            audit_log.append(connection, [replace(STARTED, key="given up")], T0)
            raise KeyError("a mistake in the middle")
        recorded(other, replace(STARTED, key="next"))
        assert keys_after(other, 0) == ["slow", "quick", "next"]
