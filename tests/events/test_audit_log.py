"""Events: appended once, read newest first, page by page."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.model.event import Event

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
STARTED = Event(
    key="lab/77/started/1",
    kind="LifetimeStarted",
    occurred_at=T0,
    text="trainer started.",
    project="lab",
    gce_id="77",
    name="trainer",
    actor="mira@example.com",
    data={"zone": "us-central1-a", "gpus": 2},
)


def append(database: Database, *new: Event, at: datetime = T0) -> int:
    with database.write() as connection:
        return audit_log.append(connection, new, at)


def keys(database: Database, **conditions: object) -> list[str]:
    with database.read() as connection:
        return [stored.event.key for stored in audit_log.read(connection, **conditions)]  # type: ignore[arg-type]


def test_a_event_is_recorded_once_and_comes_back_whole(database: Database) -> None:
    """The same happening again, even told differently, appends nothing."""
    assert append(database, STARTED) == 1
    assert append(database, STARTED, replace(STARTED, text="said again"), at=T0 + HOUR) == 0
    with database.read() as connection:
        [stored] = audit_log.read(connection)
    assert stored.event == STARTED
    assert stored.recorded_at == T0


def test_one_happening_twice_in_a_pass_is_one_event(database: Database) -> None:
    """Equal keys in one call append one."""
    assert append(database, STARTED, STARTED) == 1


def test_the_newest_comes_first_by_when_it_happened(database: Database) -> None:
    """An event that was recorded late, after an outage, stands where it happened."""
    append(database, replace(STARTED, key="noon", occurred_at=T0))
    append(database, replace(STARTED, key="one", occurred_at=T0 + HOUR))
    append(database, replace(STARTED, key="early, told late", occurred_at=T0 - HOUR))
    assert keys(database) == ["one", "noon", "early, told late"]


def test_pages_join_without_a_gap_or_a_repeat(database: Database) -> None:
    """Reading on from the last id gives every event once, among them many of one moment."""
    append(database, *(replace(STARTED, key=f"{n}", occurred_at=T0 + HOUR * (n * 7 % 5)) for n in range(23)))
    everything = keys(database)
    pages: list[str] = []
    last: int | None = None
    while True:
        with database.read() as connection:
            page = audit_log.read(connection, before_id=last, limit=4)
        if not page:
            break
        pages += [stored.event.key for stored in page]
        last = page[-1].id
    assert pages == everything
    assert len(set(pages)) == 23


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, ["d", "c", "b", "a"]),
        ({"since": T0 + HOUR}, ["d", "c", "b"]),
        ({"until": T0 + HOUR}, ["a"]),
        ({"since": T0 + HOUR, "until": T0 + 3 * HOUR}, ["c", "b"]),
        ({"kind": "ZoneUnread"}, ["d"]),
        ({"project": "other"}, ["c"]),
        ({"gce_id": "77"}, ["c", "b", "a"]),
        ({"gce_id": "77", "project": "lab", "limit": 1}, ["b"]),
    ],
)
def test_conditions_narrow(database: Database, conditions: dict[str, object], expected: list[str]) -> None:
    """`since` is included and `until` is not; every condition that is given must hold."""
    append(
        database,
        replace(STARTED, key="a"),
        replace(STARTED, key="b", occurred_at=T0 + HOUR),
        replace(STARTED, key="c", occurred_at=T0 + 2 * HOUR, project="other"),
        replace(STARTED, key="d", occurred_at=T0 + 3 * HOUR, kind="ZoneUnread", gce_id=""),
    )
    assert keys(database, **conditions) == expected


def test_odd_and_long_values_are_stored(database: Database) -> None:
    """Neither a NUL nor a megabyte, in key, text or data, can make a pass fail; long keys stay distinct."""
    long = "k" * 1_000_000
    odd = replace(
        STARTED,
        key=long + "1",
        text="a\0b\ud800" * 1000,
        data={"message\0": "x\0y", "at": T0, "day": date(2026, 3, 1), "rate": Decimal("0.35"), "zones": {"b", "a"}},
    )
    assert append(database, odd, replace(odd, key=long + "2")) == 2
    assert append(database, odd) == 0
    with database.read() as connection:
        stored = audit_log.read(connection)[0].event
    assert len(stored.key) == 500
    assert stored.text.startswith("a\N{REPLACEMENT CHARACTER}b?")
    assert stored.data == {
        "message\N{REPLACEMENT CHARACTER}": "x\N{REPLACEMENT CHARACTER}y",
        "at": "2026-03-01T12:00:00+00:00",
        "day": "2026-03-01",
        "rate": "0.35",
        "zones": ["a", "b"],
    }
