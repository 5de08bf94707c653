"""Entries of the audit log in any order, doubled and in batches of any size and of many projects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from tests.builders import PROJECT, at, observation
from tests.ledger.heard_entries import SPOT, Call, request, system_event
from tests.ledger.ledger_rows import rows_of_project
from tests.ledger.test_feed_record import hear, look

from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.ledger.feed.entry import FeedEntry
from costguard.ledger.running import running_totals

_NUMBERS = count(1)


def _story(project: str) -> list[FeedEntry]:
    """Everything that can happen to three VMs: one of 90 seconds, one that is stopped, started and preempted, one that
    fails.
    """
    insert, other = Call("insert", at("11:00"), "71", project), Call("insert", at("11:00:30"), "72", project)
    delete, stop = Call("delete", at("11:01:40"), "71", project), Call("stop", at("11:05"), "72", project)
    start, failed = Call("start", at("11:10"), "72", project), Call("insert", at("11:02"), "73", project)
    return [
        insert.first(request()), insert.last(at("11:00:10")),
        other.first(request(scheduling=SPOT)), other.last(at("11:00:42")),
        delete.first(), failed.first(request()), failed.last(at("11:02:03"), code=8, message="QUOTA_EXCEEDED: GPUs"),
        delete.last(at("11:02:10")), stop.first(), stop.last(at("11:05:50")), start.first(), start.last(at("11:10:20")),
        system_event("preempted", at("11:20:00.123"), "72", project),
    ]  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(data=st.data())
def test_order_and_doubles_change_nothing_in_the_end(sqlite_database: Database, data: st.DataObject) -> None:
    """Any order, some entries twice or three times, in batches of any size: the ledger of the ordered stream."""
    ordered, mixed = (f"project-{next(_NUMBERS):06d}" for _ in range(2))
    for project in (ordered, mixed):
        look(sqlite_database, replace(observation(read="10:00"), project=project))
    hear(sqlite_database, *_story(ordered))
    stream = _story(mixed)
    twice = data.draw(st.lists(st.sampled_from(range(len(stream))), max_size=6))
    order = data.draw(st.permutations([*range(len(stream)), *twice]))
    entries: Sequence[FeedEntry] = [stream[place] for place in order]
    while entries:
        size = data.draw(st.integers(1, len(entries)))
        hear(sqlite_database, *entries[:size])
        entries = entries[size:]
    assert rows_of_project(sqlite_database, mixed) == rows_of_project(sqlite_database, ordered)


def test_statements_do_not_grow_with_the_entries_or_projects_of_a_batch(sqlite_database: Database) -> None:
    """A hundred VMs in a hundred projects take as many statements as ten in ten."""
    watched = sqlite_database
    look(watched, observation(read="10:00"))
    names = [PROJECT, *(f"project-{place}" for place in range(99))]
    for name in names[1:]:
        look(watched, replace(observation(read="10:00"), project=name))
    running_totals.catch_up(watched, at("10:01"))
    counts = []
    for begin, size in ((100, 10), (1000, 100)):
        calls = [Call("insert", at("11:00"), str(begin + place), names[place]) for place in range(size)]
        statements: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_: Any, statements: list[str] = statements) -> None:
            statements.append(statement)

        with watched.write() as connection:
            engine = connection.engine
        event.listen(engine, "before_cursor_execute", note)
        hear(watched, *(call.first(request()) for call in calls), *(call.last(at("11:00:10")) for call in calls))
        event.remove(engine, "before_cursor_execute", note)
        counts.append(len(statements))
    # Some of the projects were heard before: their rows are updated, those of the others inserted.
    assert counts[1] <= counts[0] + 1
    assert counts[0] < 40
    with watched.read() as connection:
        assert running_totals.drifted(connection, accrual_at(connection, at("11:03"))) == {}
