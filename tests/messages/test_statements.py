"""Messages about VMs ask the database as often for many of them as for few, and for nothing that did not change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from tests.api.rows import NOW
from tests.messages.outbox_setup import Place
from tests.sent_statements import counted

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.messages import outbox_rows
from costguard.messages.outbox import Composed
from costguard.messages.outbox_rows import StoredMessage
from costguard.messages.reminder import ReminderComposer
from costguard.model.preset import Match, Preset

_RULES = Rules({"t4": Preset("t4", Match(), timedelta(hours=1))})
_TABLE = re.compile(r"\bFROM (\w+)")
_SELDOM_CHANGED = {"claims", "installation", "keeps", "lifetimes", "people", "prices", "requests", "stops"}
_LATER = NOW + timedelta(hours=2)


def test_statements_of_a_look_do_not_grow_with_messages(database: Database) -> None:
    """A look at all messages in Slack, and another while nothing changed, which asks for what reminders were sent."""
    place = Place(database)
    _looks(place, 1)  # what is read once for all: prices, projects, people
    few = _looks(place, 3)
    many = _looks(place, 15)
    assert many == few
    assert few[1] < few[0] / 2


def test_edit_of_a_message_does_not_read_its_vm_again(database: Database) -> None:
    """The look that found it outdated has read the VM, what was asked of it, and how that was answered."""
    place = Place(database)
    live = _sent(place, 3)
    composer = ReminderComposer(_RULES)
    with database.read() as connection:
        composer.changed(connection, live, _LATER)
    read_again = [_composed(place, composer, message)[0] & _SELDOM_CHANGED for message in live]
    assert read_again == [{"lifetimes", "people"}, {"lifetimes"}, {"lifetimes"}]  # for the card


def test_second_message_about_a_vm_costs_no_further_reading(database: Database) -> None:
    """The same goes to the owner and to a channel: the second asks for the messages alone."""
    place = Place(database)
    live = _sent(place, 1)
    composer = ReminderComposer(_RULES)
    first, card = _composed(place, composer, live[0])
    second, same = _composed(place, composer, live[0])
    assert same == card
    assert _SELDOM_CHANGED & first >= {"keeps", "lifetimes", "stops"}
    assert second == {"changes", "messages"}


def test_what_changed_is_read_again(database: Database) -> None:
    """Another process stops the VM: the next look finds the message outdated."""
    place = Place(database)
    live = _sent(place, 1)
    composer = ReminderComposer(_RULES)
    with database.read() as connection:
        before = composer(connection, live[0], _LATER)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE lifetimes SET ended_at = started_at + 60000000, end_reason = 'stopped'")
        connection.exec_driver_sql("UPDATE instances SET status = 'stopped'")
    with database.read() as connection:
        after = composer(connection, live[0], _LATER)
    assert isinstance(before, Composed)
    assert isinstance(after, Composed)
    assert (before.is_final, after.is_final) == (False, True)


def _looks(place: Place, number: int) -> tuple[int, int]:
    """Counts the statements of a look at so many messages, and of another one after it."""
    live = _sent(place, number)
    composer = ReminderComposer(_RULES)
    counts: list[int] = []
    for _ in range(2):
        with counted(place.database) as sent, place.database.read() as connection:
            composer.changed(connection, live, _LATER)
        counts.append(len(sent))
    return counts[0], counts[1]


def _composed(place: Place, composer: ReminderComposer, message: StoredMessage) -> tuple[set[str], object]:
    """Composes the message: the tables that were read for it, and what it says."""
    with counted(place.database) as sent, place.database.read() as connection:
        content = composer(connection, message, _LATER)
    return {table for statement in sent for table in _TABLE.findall(statement)}, content


def _sent(place: Place, number: int) -> Sequence[StoredMessage]:
    """Reminds of VMs until so many messages are in Slack, each of a VM of its own."""
    with place.database.read() as connection:
        there = len(outbox_rows.live(connection))
    for one in range(there, number):
        place.remind(place.subject(f"vm-{one}"), 0)
    place.run(timedelta(days=1))
    with place.database.read() as connection:
        return outbox_rows.live(connection)
