"""Looking through the events: what narrows, where a search goes on, and how far it looked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.events.search import EventFilters, kinds, search
from costguard.model.event import Event

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
EVENTS = (
    Event("a", "LifetimeStarted", T0, "trainer started.", project="lab", gce_id="77", name="trainer"),
    Event("b", "JobSubmitted", T0 + HOUR, "A job was asked for.", "lab", actor="ana@lab.example", data={"job": "j1"}),
    Event("c", "CancelAsked", T0 + 2 * HOUR, "100% sure?", "lab", actor="Bob@lab.example", data={"job": "j2"}),
    Event("d", "LifetimeStarted", T0 + 3 * HOUR, "other started.", "elsewhere", gce_id="78", name="other"),
    Event("e", "NoteLeft", T0 + 4 * HOUR, "Fits up_to 8.", "else", actor="a_na@lab.example"),
)


def test_each_filter_narrows(database: Database) -> None:
    """Words are found in texts and names in either case, and mean themselves; who is a part of an address."""
    with database.write() as connection:
        audit_log.append(connection, EVENTS, T0)
    with database.read() as connection:
        for filters, expected in (
            (EventFilters(), "edcba"),
            (EventFilters(kind="LifetimeStarted"), "da"),
            (EventFilters(project="lab"), "cba"),
            (EventFilters(gce_id="77"), "a"),
            (EventFilters(job="j2"), "c"),
            (EventFilters(who="bob@"), "c"),
            (EventFilters(words="TRAINER"), "a"),
            (EventFilters(words="0%"), "c"),
            (EventFilters(words="%"), "c"),
            (EventFilters(words="_"), "e"),
            (EventFilters(words="up_to"), "e"),
            (EventFilters(words="r_a"), ""),
            (EventFilters(words="t%r"), ""),
            (EventFilters(who="%"), ""),
            (EventFilters(who="b_b"), ""),
            (EventFilters(who="a_na@"), "e"),
            (EventFilters(since=T0 + HOUR, until=T0 + 3 * HOUR), "cb"),
            (EventFilters(project="lab", kind="JobSubmitted", job="j1", who="ana", words="asked"), "b"),
            (EventFilters(job="j1", who="bob"), ""),
        ):
            page = search(connection, filters, None, 10)
            assert ("".join(event.event.key for event in page.events), page.next_id) == (expected, None), filters
        assert kinds(connection) == ["CancelAsked", "JobSubmitted", "LifetimeStarted", "NoteLeft"]


def test_a_search_says_how_far_it_looked_and_goes_on_from_there(database: Database) -> None:
    """The match is found at last, each once, however rare it is, with no look longer than a window."""
    same = [replace(EVENTS[0], key=f"k{number}", text=f"number {number}") for number in range(7)]
    with database.write() as connection:
        audit_log.append(connection, [*same, *(replace(event, key=f"x{event.key}") for event in EVENTS[1:4])], T0)
    with database.read() as connection:
        assert kinds(connection) == ["CancelAsked", "JobSubmitted", "LifetimeStarted"]
        seen, before, looks = [], None, 0
        while True:
            page = search(connection, EventFilters(words="number"), before, 2, window=3)
            assert len(page.events) <= 2
            assert (page.looked_to is not None) == (page.next_id is not None and len(page.events) < 2)
            seen += [event.event.text for event in page.events]
            before, looks = page.next_id, looks + 1
            if before is None:
                break
        assert seen == [f"number {number}" for number in reversed(range(7))]
        assert looks <= 6
        assert search(connection, EventFilters(words="number 0"), 999, 2, window=3).events == []
        last, forward = None, list[str]()
        while not forward or last is not None:
            page = search(connection, EventFilters(words="number"), last, 2, window=3, oldest_first=True)
            forward += [event.event.text for event in page.events]
            last = page.next_id
        assert forward == seen[::-1]
