"""People's requests are stored once and settled once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.api import rows
from tests.api.rows import NOW

from costguard.access import token_rows
from costguard.db.transaction import Database
from costguard.model.access import Authority, Permission, Role, Via
from costguard.model.reminder import Request, RequestKind, Subject, SubjectKind
from costguard.reminders import request_rows
from costguard.reminders.request_rows import StoredRequest

ADA = "ada@lab.example"
WITH = Authority(ADA, Role.OPERATOR, frozenset({Permission.INSTANCES}), Via.TOKEN, token_id="4f0e19a2c7")


def asked(database: Database) -> Request:
    with database.write() as connection:
        subject = Subject(SubjectKind.RUN, rows.instance(connection, "trainer-7"), 4)
    return Request("press/1", RequestKind.KEEP, subject, ADA, "U0ADA", "slack", NOW, 4, "a\0b", NOW, WITH)


def test_a_repeated_press_is_one_request(database: Database) -> None:
    """The first one stands, with all that it said, whatever characters that holds."""
    new = asked(database)
    with database.write() as connection:
        assert request_rows.add(connection, new)
        assert not request_rows.add(connection, replace(new, hours=8))
        ((instance_id, stored),) = request_rows.open_requests(connection)
    assert instance_id == new.subject.instance_id
    assert stored == replace(new, id=stored.id, reason="a\N{REPLACEMENT CHARACTER}b")


def test_a_request_is_settled_once(database: Database) -> None:
    """It is not open any more, and a second settlement changes nothing."""
    new = asked(database)
    later = NOW + timedelta(minutes=1)
    with database.write() as connection:
        request_rows.add(connection, new)
        request_rows.add(connection, replace(new, key="press/2"))
        (_, first), (_, second) = request_rows.open_requests(connection)
        request_rows.settle(connection, first.id, "done", "kept", NOW)
        request_rows.settle(connection, first.id, "refused", "too late", later)
        assert [request for _, request in request_rows.open_requests(connection)] == [second]
        assert request_rows.of_subject(connection, new.subject) == [
            StoredRequest(first, "done", "kept", NOW),
            StoredRequest(second, "open", "", None),
        ]


def test_what_a_token_asked_for_is_withdrawn_with_it(database: Database) -> None:
    """The pending ones are refused; requests of others, of a button, or settled before stay."""
    new = asked(database)
    with database.write() as connection:
        for name, authority in {"1": WITH, "2": replace(WITH, token_id="another"), "3": None, "4": WITH}.items():
            request_rows.add(connection, replace(new, key=name, authority=authority))
        (_, first), *_, (_, last) = request_rows.open_requests(connection)
        request_rows.settle(connection, last.id, "done", "kept", NOW)
        assert token_rows.withdraw_requests(connection, WITH.token_id, "the token was revoked", NOW) == 1
        assert [request.key for _, request in request_rows.open_requests(connection)] == ["2", "3"]
        stored = request_rows.read(connection, first.id or 0)
        assert token_rows.withdraw_requests(connection, "", "no token", NOW) == 0
    assert stored is not None
    assert (stored.status, stored.outcome, stored.settled_at) == ("refused", "the token was revoked", NOW)
