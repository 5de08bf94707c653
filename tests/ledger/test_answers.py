"""Answers: one to a request, read for many at once."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection
from tests.api import rows
from tests.api.rows import NOW
from tests.reminders import reminder_rows

from costguard.db.transaction import Database
from costguard.ledger import answers
from costguard.model.reminder import Claim, Keep, Subject, SubjectKind


def _subject(connection: Connection, name: str) -> Subject:
    return Subject(SubjectKind.RUN, rows.instance(connection, name), 1)


def test_a_request_keeps_a_vm_once(database: Database) -> None:
    """The keep that came first stands; all keeps are read in their order, by subject."""
    with database.write() as connection:
        one, other = _subject(connection, "one"), _subject(connection, "other")
        first = Keep(one, NOW + timedelta(hours=4), "ada@lab.example", NOW, "a run")
        second = Keep(one, NOW + timedelta(hours=8), "bob@lab.example", NOW)
        ids = [
            reminder_rows.request(connection, one.instance_id, str(one), kind="keep", key=key) for key in ("k1", "k2")
        ]
        assert answers.add_keep(connection, first, ids[0])
        assert not answers.add_keep(connection, second, ids[0])
        assert answers.add_keep(connection, second, ids[1])
        assert answers.keeps_of(connection, [one, other]) == {one: (first, second)}


def test_a_request_claims_a_vm_once(database: Database) -> None:
    """Claims are read by instance, the oldest first; an empty owner is one too."""
    with database.write() as connection:
        one, other = _subject(connection, "one"), _subject(connection, "other")
        claimed = Claim(one.instance_id, "ada@lab.example", "ada@lab.example", NOW)
        disowned = Claim(one.instance_id, "", "ada@lab.example", NOW + timedelta(hours=1))
        ids = [
            reminder_rows.request(connection, one.instance_id, str(one), kind="claim", key=key) for key in ("k1", "k2")
        ]
        assert answers.add_claim(connection, claimed, ids[0])
        assert not answers.add_claim(connection, disowned, ids[0])
        assert answers.add_claim(connection, disowned, ids[1])
        claims = answers.claims_of(connection, [one.instance_id, other.instance_id])
    assert claims == {one.instance_id: (claimed, disowned)}
