"""Messages: intended once, claimed by one, and read for many subjects at once."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection
from tests.api import rows
from tests.api.rows import NOW

from costguard.db.transaction import Database
from costguard.messages import message_log, outbox_rows
from costguard.messages.message_log import MessageFilters
from costguard.model.delivery.message import Posted
from costguard.model.reminder import Sent, Subject, SubjectKind, Target
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage

LATER = NOW + timedelta(seconds=30)


def _intend(connection: Connection, key: str, address: str = "#ops", subject: Subject | None = None) -> int:
    target = None if subject is None else Target.OWNER
    kind = "notification" if subject is None else "reminder"
    assert message_rows.intend(connection, NewMessage(key, kind, address, subject=subject, target=target), NOW)
    return message_log.messages_page(connection, MessageFilters(), None, 1)[0].id


def _subject(connection: Connection) -> Subject:
    return Subject(SubjectKind.RUN, rows.instance(connection, "trainer-7"), 4)


def test_a_key_is_intended_once_unless_it_was_withdrawn(database: Database) -> None:
    """A message that was not true for a while may become true again; one that was sent may not."""
    with database.write() as connection:
        message_id = _intend(connection, "a")
        assert not message_rows.intend(connection, NewMessage("a", "notification", "#other"), LATER)
        outbox_rows.withdraw(connection, message_id, "it was stopped")
        assert outbox_rows.waiting(connection, LATER, 10) == []
        assert message_rows.intend(connection, NewMessage("a", "notification", "#other"), LATER)
        (stored,) = outbox_rows.waiting(connection, LATER, 10)
        assert (stored.id, stored.address, stored.intended_at, stored.error) == (message_id, "#other", LATER, "")


def test_only_one_claims_a_message(database: Database) -> None:
    """A claimed message waits to be settled, and cannot be claimed again."""
    with database.write() as connection:
        message_id = _intend(connection, "a")
        assert outbox_rows.begin(connection, message_id, "C1", "1.0", NOW, LATER)
        assert not outbox_rows.begin(connection, message_id, "C1", "1.0", NOW, LATER)
        assert outbox_rows.waiting(connection, NOW, 10) == []
        assert outbox_rows.next_tries(connection, NOW) == (LATER, LATER)
        (stored,) = outbox_rows.waiting(connection, LATER, 10)
        assert (stored.status, stored.sending_at, stored.thread_ts, stored.attempts) == ("sending", NOW, "1.0", 1)


def test_what_was_accepted_is_not_put_back(database: Database) -> None:
    """A holder that woke up late cannot have it sent again."""
    with database.write() as connection:
        message_id = _intend(connection, "a")
        outbox_rows.begin(connection, message_id, "C1", "", NOW, LATER)
        outbox_rows.accept(connection, message_id, Posted("C1", "1.0"), "open", True, NOW)
        outbox_rows.put_back(connection, message_id, NOW)
        outbox_rows.postpone(connection, message_id, NOW, "late")
        outbox_rows.fail(connection, message_id, "late")
        outbox_rows.withdraw(connection, message_id, "late")
        (stored,) = outbox_rows.live(connection)
        assert (stored.status, stored.place, stored.error) == ("accepted", Posted("C1", "1.0"), "")
        assert outbox_rows.backlog(connection).count == 0


def test_each_address_gives_its_oldest(database: Database) -> None:
    """The others are read too, however many wait for one address."""
    with database.write() as connection:
        for n in range(30):
            _intend(connection, f"m{n:02}")
        _intend(connection, "other", "#other")
        assert [row.key for row in outbox_rows.waiting(connection, NOW, 2)] == ["m00", "m01", "other"]


def test_a_message_waits_for_those_before_it_in_its_thread(database: Database) -> None:
    """The first may be kept by its time, or doubt. One that failed for good keeps nobody."""
    with database.write() as connection:
        subject = _subject(connection)
        first, _ = _intend(connection, "a", subject=subject), _intend(connection, "b", subject=subject)
        outbox_rows.put_back(connection, first, LATER)
        assert outbox_rows.waiting(connection, NOW, 10) == []
        assert [row.key for row in outbox_rows.waiting(connection, LATER, 10)] == ["a"]
        outbox_rows.fail(connection, first, "too long")
        assert [row.key for row in outbox_rows.waiting(connection, NOW, 10)] == ["b"]


def test_the_root_of_a_thread_is_its_latest_first_message(database: Database) -> None:
    """The root is of this subject, address and channel, and not one that was lost."""
    with database.write() as connection:
        subject = _subject(connection)
        for key, ts, thread_ts in (("a", "1.0", ""), ("b", "2.0", "1.0"), ("c", "3.0", "")):
            message_id = _intend(connection, key, "ada@lab.example", subject)
            outbox_rows.begin(connection, message_id, "D1", thread_ts, NOW, LATER)
            outbox_rows.accept(connection, message_id, Posted("D1", ts), "open", True, NOW)
        root = outbox_rows.root_of(connection, str(subject), "ada@lab.example", "D1")
        assert root is not None
        assert root.key == "c"
        outbox_rows.lose(connection, root.id)
        older = outbox_rows.root_of(connection, str(subject), "ada@lab.example", "D1")
        assert older is not None
        assert older.key == "a"
        assert outbox_rows.root_of(connection, str(subject), "ada@lab.example", "D2") is None


def test_a_thread_that_is_about_no_vm_is_kept_in_order_too(database: Database) -> None:
    """A later message of it waits for its root, and finds it."""
    with database.write() as connection:
        for key, kind in (("card", "job"), ("news", "notification")):
            new = NewMessage(key, kind, "ada@lab.example", thread="job:j7k2m9q4")
            assert message_rows.intend(connection, new, NOW)
        (card,) = outbox_rows.waiting(connection, NOW, 10)
        assert (card.key, card.subject, card.thread, card.can_change) == ("card", None, "job:j7k2m9q4", True)
        outbox_rows.begin(connection, card.id, "D1", "", NOW, LATER)
        outbox_rows.accept(connection, card.id, Posted("D1", "1.0"), "running", True, NOW)
        (news,) = outbox_rows.waiting(connection, NOW, 10)
        root = outbox_rows.root_of(connection, news.thread, news.address, "D1")
        assert root is not None
        assert root.key == "card"


def test_what_was_sent_about_a_subject_leaves_out_what_was_withdrawn(database: Database) -> None:
    """A failure is recorded as such: it warned no one."""
    with database.write() as connection:
        subject = _subject(connection)
        accepted, failed, withdrawn = (_intend(connection, key, subject=subject) for key in ("a", "b", "c"))
        outbox_rows.accept(connection, accepted, Posted("C1", "1.0"), "open", True, LATER)
        outbox_rows.fail(connection, failed, "too long")
        outbox_rows.withdraw(connection, withdrawn, "it was stopped")
        assert message_rows.sent_of(connection, [subject]) == {
            subject: (
                Sent("a", 0, 0, Target.OWNER, LATER),
                Sent("b", 0, 0, Target.OWNER, None, is_failed=True),
            )
        }
