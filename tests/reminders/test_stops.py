"""Stops are begun once, and open until their end is known."""

from __future__ import annotations

from datetime import timedelta

from tests.api import rows
from tests.api.rows import NOW

from costguard.db.transaction import Database
from costguard.model.action import StopOutcome
from costguard.model.money import Money
from costguard.model.reminder import Subject, SubjectKind
from costguard.reminders import stop_rows
from costguard.reminders.stop_rows import NewStop


def new(database: Database, key: str = "stop/1", outcome: StopOutcome = StopOutcome.INTENDED) -> NewStop:
    with database.write() as connection:
        subject = Subject(SubjectKind.RUN, rows.instance(connection, key), 4)
    values = (subject, "preset t4", "too long", "uuid", outcome, NOW)
    return NewStop(key, *values, evidence={"idle": "2 h"}, rate=Money(10))


def test_a_stop_is_begun_once(database: Database) -> None:
    """A second one with its key is refused; what is stored says all that was given."""
    wanted = new(database)
    with database.write() as connection:
        stop_id = stop_rows.add(connection, wanted)
        assert stop_id is not None
        assert stop_rows.add(connection, wanted) is None
        (stored,) = stop_rows.open_stops(connection)
        assert stop_rows.of_subjects(connection, [wanted.subject]) == {wanted.subject: (stored,)}
    assert (stored.id, stored.key, stored.rate) == (stop_id, "stop/1", Money(10))
    assert (stored.evidence, stored.settled_at, stored.tries) == ({"idle": "2 h"}, None, 0)


def test_what_is_recorded_alone_is_never_open(database: Database) -> None:
    """A stop in shadow is settled as it is added."""
    wanted = new(database, outcome=StopOutcome.SHADOW)
    with database.write() as connection:
        stop_rows.add(connection, wanted)
        assert stop_rows.open_stops(connection) == []
        assert stop_rows.of_subjects(connection, [wanted.subject])[wanted.subject][0].settled_at == NOW


def test_a_try_that_failed_is_counted_until_it_is_settled(database: Database) -> None:
    """Waiting without an error is no try."""
    wanted, later = new(database), NOW + timedelta(minutes=1)
    with database.write() as connection:
        stop_id = stop_rows.add(connection, wanted)
        assert stop_id is not None
        stop_rows.advance(connection, stop_id, StopOutcome.UNKNOWN, error="no answer", try_after=later)
        stop_rows.advance(connection, stop_id, StopOutcome.ASKED, operation="op")
        (stored,) = stop_rows.open_stops(connection)
        assert (stored.tries, stored.try_after, stored.operation) == (1, later, "op")
        stop_rows.advance(connection, stop_id, StopOutcome.FAILED, error="refused", settled_at=later)
        assert stop_rows.open_stops(connection) == []
        assert stop_rows.of_subjects(connection, [wanted.subject])[wanted.subject][0].tries == 1
