"""People are named by passes, and asked of Slack next to them."""

from __future__ import annotations

import threading
from collections.abc import Collection
from datetime import timedelta

from tests.api.rows import NOW
from tests.fakes import FakeNotifier, HandClock

from costguard.db.transaction import Database
from costguard.errors import SlackError, SlackUnavailable
from costguard.events import audit_log
from costguard.messages.recipients import AccountLookups
from costguard.model.delivery.person import Person
from costguard.reminders import slack_accounts

HOUR = timedelta(hours=1)
MANY = [f"p{number:02}@lab.example" for number in range(25)]


class Place:
    def __init__(self, database: Database, slack: FakeNotifier | None = None) -> None:
        self.database = database
        self.clock = HandClock(NOW)
        self.slack = slack or FakeNotifier(self.clock, [Person(f"U{item[:3]}", item, item[:3]) for item in MANY])
        self.lookups = AccountLookups(database, self.slack, self.clock)

    def look_up(self, *addresses: str) -> bool:
        """Looks up as after a pass that named these."""
        self.lookups.enqueue(addresses)
        return self.lookups.run()

    def known(self) -> dict[str, str | None]:
        """Slack's id of everybody who was looked up."""
        with self.database.read() as connection:
            result = slack_accounts.of_addresses(connection, None)
        return {address: item.person.user_id if item.person else None for address, item in sorted(result.items())}

    def asked(self) -> list[str]:
        return [address for _, address, _ in self.slack.calls]


def test_whom_a_pass_names_is_looked_up_once(database: Database) -> None:
    """Known for a day, and what nobody has for an hour; only what is new is worth another pass."""
    place = Place(database)
    assert place.look_up(MANY[0], "ghost@lab.example")
    assert place.known() == {"ghost@lab.example": None, MANY[0]: "Up00"}
    assert not place.look_up(MANY[0], "ghost@lab.example")
    place.clock.advance(HOUR)
    assert not place.look_up(MANY[0], "ghost@lab.example")
    place.clock.advance(23 * HOUR)
    place.slack.people = [Person("UNEW", MANY[0], "new")]
    assert place.look_up(MANY[0])
    assert place.known()[MANY[0]] == "UNEW"
    assert place.asked() == ["ghost@lab.example", MANY[0], "ghost@lab.example", MANY[0]]


def test_nothing_is_asked_before_a_pass_names_somebody(sqlite_database: Database) -> None:
    """The question is not repeated about what a pass has named: an answer that did not come is the next pass' to ask
    for.
    """
    place = Place(sqlite_database)
    assert not place.lookups.run()
    place.slack.down = True
    place.look_up(MANY[0])
    place.lookups.run()
    assert place.asked() == [MANY[0]]


def test_many_take_several_turns(sqlite_database: Database) -> None:
    """The messages get theirs in between; people whom a pass names meanwhile take the place of the rest."""
    place = Place(sqlite_database)
    assert place.look_up(*MANY)
    assert len(place.known()) == 10
    assert place.lookups.run()
    assert list(place.known()) == MANY[:20]
    assert not place.look_up(MANY[0])
    assert list(place.known()) == MANY[:20]


def test_slack_away_is_told_and_made_up_for(database: Database) -> None:
    """The report is trouble and, once a day, an event; with nobody left to look up there is no trouble."""
    place = Place(database)
    place.slack.down = True
    for _ in range(2):
        assert not place.look_up(*MANY)
    assert place.asked() == [MANY[0]] * 2
    assert "does not answer" in place.lookups.trouble
    with database.read() as connection:
        (reported,) = audit_log.read(connection, kind="SlackTrouble")
    assert "Slack refuses to look up people" in reported.event.text
    place.slack.down = False
    assert place.look_up(MANY[0])
    assert place.lookups.trouble == ""
    place.slack.down = True
    place.look_up(MANY[1])
    assert place.lookups.trouble
    place.look_up()
    assert place.lookups.trouble == ""


def test_a_limit_is_no_trouble(sqlite_database: Database) -> None:
    """Slack says when to ask again; the next pass does."""
    place = Place(sqlite_database)
    place.slack.limited["people"] = NOW + HOUR
    assert not place.look_up(MANY[0])
    assert (place.lookups.trouble, place.known()) == ("", {})


class Particular(FakeNotifier):
    """Minds one address, and is away after another."""

    def person_of(self, address: str) -> Person | None:
        if address == MANY[0]:
            raise SlackError("Slack does not like it.", code="invalid_arguments")
        if address == MANY[2]:
            raise SlackUnavailable("Slack does not answer.")
        return super().person_of(address)


def test_one_refused_address_hides_no_other(sqlite_database: Database) -> None:
    """It counts as unknown; what was found before Slack failed is kept."""
    clock = HandClock(NOW)
    place = Place(sqlite_database, Particular(clock, [Person("U1", MANY[1], "one")]))
    assert place.look_up(*MANY[:3])
    assert place.known() == {MANY[0]: None, MANY[1]: "U1"}
    assert place.lookups.trouble


class Slow(FakeNotifier):
    """Answers when it is let go."""

    def __init__(self, clock: HandClock, people: Collection[Person]) -> None:
        super().__init__(clock, list(people))
        self.asked, self.let_go = threading.Event(), threading.Event()

    def person_of(self, address: str) -> Person | None:
        self.asked.set()
        assert self.let_go.wait(60)
        return super().person_of(address)


def test_naming_does_not_wait_for_a_slow_slack(sqlite_database: Database) -> None:
    """While an answer does not come passes go on to name people, and the last of them counts."""
    slack = Slow(HandClock(NOW), [Person("U1", MANY[1], "one")])
    place = Place(sqlite_database, slack)
    place.lookups.enqueue([MANY[0]])
    asking = threading.Thread(target=place.lookups.run)
    asking.start()
    assert slack.asked.wait(60)
    place.lookups.enqueue([MANY[0], MANY[1]])
    assert place.known() == {}
    slack.let_go.set()
    asking.join()
    assert place.lookups.run()
    assert place.known() == {MANY[0]: None, MANY[1]: "U1"}


def test_an_end_is_not_waited_for(sqlite_database: Database) -> None:
    """A shutdown is noticed between two questions."""
    place, stop = Place(sqlite_database), threading.Event()
    stop.set()
    place.lookups.enqueue(MANY)
    assert not place.lookups.run(stop=stop)
    assert place.asked() == []
