"""What people ask for in Slack is checked, stored once and answered; and lists of VMs are theirs to see."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Connection, update
from tests.api import rows
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.slack.samples import CARD

from costguard.engine.requests import HELP, Desk
from costguard.errors import DatabaseLocked, SlackUnavailable
from costguard.model.message import Button, Content, ListContent, Posted, VmCard, WhisperContent
from costguard.model.person import Acquaintance, Person
from costguard.model.press import Command, Press
from costguard.model.reminder import About, Asked, Request, Subject, Team
from costguard.policy.rules import Access, Rules
from costguard.store import facts, messages, people, requests
from costguard.store.facts import StoredFact
from costguard.store.lease import Lease
from costguard.store.tables import lifetimes
from costguard.store.transaction import Database

ADA = "ada@lab.example"
RULES = Rules(
    presets={},
    teams=(Team("vision", frozenset({ADA, "mel@lab.example", "olaf@lab.example"}), frozenset({"tess@lab.example"})),),
    access=Access(
        viewers=frozenset({"@lab.example"}),
        operators=frozenset({"olga@lab.example", "olaf@lab.example"}),
        admins=frozenset({"adam@lab.example"}),
    ),
)
NAMES = ("ada", "mel", "tess", "olaf", "olga", "adam", "vic")


class FakeSlack:
    """Knows people by id; `trouble` is raised instead. Only what a desk may ask of Slack is there."""

    def __init__(self) -> None:
        self.people = {
            user_id(name): Person(user_id(name), f"{name}@lab.example", name.title(), "Europe/Madrid") for name in NAMES
        }
        self.trouble: Exception | None = None
        self.slow: threading.Event | None = None
        self.asked: list[str] = []
        self.whispers: list[tuple[str, str, Content]] = []

    def person_by_id(self, user_id: str) -> Person | None:
        self.asked.append(user_id)
        if self.slow is not None:
            assert self.slow.wait(10)
        if self.trouble is not None:
            raise self.trouble
        return self.people.get(user_id)

    def whisper(self, channel: str, user_id: str, content: Content, thread_ts: str = "") -> None:
        self.whispers.append((channel, user_id, content))

    def post(self, channel: str, content: Content, key: str, thread_ts: str = "") -> Posted:
        raise AssertionError("a desk posts nothing by itself")

    def update(self, at: Posted, content: Content, key: str) -> None:
        raise AssertionError("a desk edits nothing by itself")

    def find(self, channel: str, key: str, since: datetime, thread_ts: str = "") -> Posted | None:
        raise AssertionError("a desk looks for nothing")

    def person_of(self, address: str) -> Person | None:
        raise AssertionError("a desk knows people by their id")

    def open_direct(self, user_id: str) -> str:
        raise AssertionError("a desk opens nothing")


def user_id(name: str) -> str:
    return f"U0{name.upper()}"


class Office:
    """A desk over a database, with everybody known unless `strangers`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.slack = FakeSlack()
        self.clock = HandClock(NOW)
        self.woken = 0
        self.listed: list[Subject] = []
        self.desk = self.made(database)

    def made(self, database: Database, patience: timedelta = timedelta(seconds=10)) -> Desk:
        return Desk(database, self.clock, RULES, self.slack, self.cards, self.wake, patience)

    def wake(self) -> None:
        self.woken += 1

    def cards(
        self, connection: Connection, subjects: Sequence[Subject], now: datetime
    ) -> list[tuple[VmCard, tuple[Button, ...], str]]:
        self.listed += subjects
        return [(replace(CARD, subject=subject), (Button(Asked.STOP, "Stop now"),), "") for subject in subjects]

    def know(self, *names: str) -> None:
        with self.database.write() as connection:
            for name in names:
                person = self.slack.people[user_id(name)]
                people.save(connection, Acquaintance(person.address, person, NOW))

    def running(self, name: str = "trainer-7", **given: object) -> Subject:
        with self.database.write() as connection:
            instance = rows.instance(connection, name, **given)
            started_at = NOW - timedelta(hours=9)
            return Subject(About.RUN, instance, rows.lifetime(connection, instance, started_at))

    def resting(self, name: str = "rested", **given: object) -> Subject:
        with self.database.write() as connection:
            instance = rows.instance(connection, name, status="stopped", **given)
            life = rows.lifetime(
                connection, instance, NOW - timedelta(days=9), ended_at=NOW - timedelta(days=8), end_reason="stopped"
            )
            return Subject(About.REST, instance, life)

    @property
    def open(self) -> list[Request]:
        with self.database.read() as connection:
            return [request for _, request in requests.open_requests(connection)]

    @property
    def whispered(self) -> list[str]:
        with self.database.read() as connection:
            waiting = messages.waiting(connection, NOW + timedelta(days=99), 100)
        assert all(each.kind == "whisper" for each in waiting)
        return [str(each.data["text"]) for each in waiting]

    @property
    def facts(self) -> list[StoredFact]:
        with self.database.read() as connection:
            return facts.read(connection)


@pytest.fixture
def office(sqlite_database: Database) -> Iterator[Office]:
    office = Office(sqlite_database)
    yield office
    office.desk.close()


def press(subject: Subject, by: str = "ada", asked: Asked = Asked.STOP, at: str = "1.1", **given: object) -> Press:
    values: dict[str, object] = {
        "key": f"slack/T0/C0GPU/1.0/{at}/{user_id(by)}",
        "user_id": user_id(by),
        "channel": "C0GPU",
        "message_ts": "1.0",
        "thread_ts": "",
        "asked": asked,
        "subject": subject,
        **given,
    }
    return Press(**values)  # type: ignore[arg-type]


def command(text: str = "", by: str = "ada") -> Command:
    return Command(f"slack/T0/1.1/{user_id(by)}", user_id(by), "C0GPU", text)


def test_an_owners_press_is_stored_and_wakes_the_guard(office: Office) -> None:
    """All that was pressed is in the request, a fact says who asked for what, and nothing is done yet."""
    subject, due_at = office.running(), NOW - timedelta(hours=1)
    office.know("ada")
    office.desk.press(press(subject, asked=Asked.KEEP, hours=4, due_at=due_at))
    (stored,) = office.open
    expected = Request(
        "slack/T0/C0GPU/1.0/1.1/U0ADA", Asked.KEEP, subject, ADA, "U0ADA", "slack", NOW, hours=4, due_at=due_at
    )
    assert replace(stored, id=None) == expected
    (made,) = office.facts
    assert (made.fact.kind, made.fact.actor, made.fact.text) == ("RequestMade", ADA, f"{ADA} asked to keep trainer-7.")
    assert (office.woken, office.whispered, office.slack.asked) == (1, [], [])


def test_the_same_press_twice_is_one_request(office: Office) -> None:
    """However often Slack delivers it, by both ways in and at the same time; another press is another request."""
    subject = office.running()
    office.know("ada")
    threads = [threading.Thread(target=office.desk.press, args=(press(subject),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(office.open) == 1
    assert len(office.facts) == 1
    office.desk.press(press(subject, at="2.2"))
    assert len(office.open) == 2


# Who may ask what of ada's VM, whose team is vision, and of one that is nobody's and of no team.
_HERS = {"ada", "tess", "olaf", "adam"}
_MAY = {
    **{(asked, "hers"): _HERS for asked in Asked},
    **{(asked, "nobody's"): {"olaf", "olga", "adam"} for asked in Asked},
    (Asked.CLAIM, "nobody's"): set(NAMES),
}


@pytest.mark.parametrize("whose", ["hers", "nobody's"])
@pytest.mark.parametrize("asked", list(Asked))
def test_who_may_press_what(office: Office, asked: Asked, whose: str) -> None:
    """Owner, the team's operators and admins; anybody may claim what is nobody's. Others are told so, in private."""
    subject = office.running(owner=ADA if whose == "hers" else "")
    office.know(*NAMES)
    for name in NAMES:
        office.desk.press(press(subject, name, asked))
    may = _MAY[asked, whose]
    assert {request.user_id for request in office.open} == {user_id(name) for name in may}
    assert len(office.whispered) == len(NAMES) - len(may)
    assert all("trainer-7" in text for text in office.whispered)
    told = [each.fact for each in office.facts]
    assert {fact.actor for fact in told if fact.kind == "RequestRefused"} == {
        f"{name}@lab.example" for name in set(NAMES) - may
    }


def test_a_refusal_is_whispered_where_it_was_pressed(office: Office) -> None:
    """The person, the channel and the thread are known to whoever delivers it, and a repeat is one whisper."""
    subject = office.running()
    office.know("vic")
    for _ in range(2):
        office.desk.press(press(subject, "vic", thread_ts="0.9"))
    with office.database.read() as connection:
        (waiting,) = messages.waiting(connection, NOW, 10)
    assert waiting.address == "U0VIC"
    assert (waiting.data["channel"], waiting.data["thread_ts"]) == ("C0GPU", "0.9")
    assert waiting.data["text"] == f"Only {ADA}, an operator of team vision or an admin can stop trainer-7."
    assert len(office.facts) == 1


def test_a_stranger_is_looked_up_after_the_answer(office: Office) -> None:
    """Slack is asked who it is while the press is already answered, and only once."""
    subject = office.running()
    office.slack.slow = threading.Event()
    office.desk.press(press(subject))
    assert office.open == []
    office.slack.slow.set()
    office.desk.close()
    assert [request.by for request in office.open] == [ADA]
    with office.database.read() as connection:
        met = people.by_user_id(connection, "U0ADA")
    assert met is not None
    assert (met.address, met.person) == (ADA, office.slack.people["U0ADA"])


def test_an_address_is_not_believed_for_ever(office: Office) -> None:
    """A week after somebody was looked up, Slack is asked for their address again."""
    office.know("ada")
    subject = office.running()
    office.clock.advance(timedelta(days=7))
    office.slack.people["U0ADA"] = Person("U0ADA", "ada@elsewhere.example", "Ada")
    office.desk.press(press(subject))
    office.desk.close()
    assert office.open == []
    assert len(office.whispered) == 1


def test_a_repeat_after_all_was_done_says_nothing(office: Office) -> None:
    """A press that is delivered once more when its VM has stopped is not refused: it was carried out."""
    office.know("ada")
    subject = office.running()
    office.desk.press(press(subject))
    with office.database.write() as connection:
        requests.settle(connection, office.open[0].id, "done", "It was stopped.", NOW)
        connection.execute(update(lifetimes).values(ended_at=NOW, end_reason="stopped"))
    office.desk.press(press(subject))
    assert (office.open, office.whispered, len(office.facts)) == ([], [], 1)


def test_when_slack_does_not_say_who_it_is_they_are_told(office: Office) -> None:
    """Nothing is stored, and the person is asked to press again."""
    subject = office.running()
    office.slack.trouble = SlackUnavailable("Slack does not answer.")
    office.desk.press(press(subject))
    office.desk.close()
    assert office.open == []
    assert office.whispered == [
        "Slack did not say in time who you are, so nothing was done. Press it again in a minute."
    ]


@pytest.mark.parametrize("known", [None, Person("U0ADA", "", "Ada")])
def test_who_has_no_address_may_nothing(office: Office, known: Person | None) -> None:
    """A guest or a bot whose address Slack does not tell is nobody's owner."""
    subject = office.running(owner="")
    office.slack.people = {} if known is None else {"U0ADA": known}
    for number, asked in enumerate(Asked):
        office.desk.press(press(subject, asked=asked, at=f"{number}.1"))
    office.desk.close()
    assert office.open == []
    assert len(office.whispered) == len(Asked)
    assert all(text.startswith("Slack tells no e-mail address of yours") for text in office.whispered)


def test_what_is_over_is_told_and_not_asked(office: Office) -> None:
    """A button of a message whose subject has ended stores nothing, and says what became of it."""
    office.know("ada")
    ended = office.resting("a-stopped-one")
    restarted = office.running("a-running-one")
    gone = office.running("a-gone-one", gone_at=NOW)
    subjects = [
        Subject(About.RUN, ended.instance_id, ended.lifetime_id),
        Subject(About.REST, restarted.instance_id, restarted.lifetime_id),
        Subject(About.RUN, restarted.instance_id, 99_999),
        gone,
        Subject(About.RUN, 88_888, 1),
    ]
    for number, subject in enumerate(subjects):
        office.desk.press(press(subject, at=f"{number}.1"))
    assert office.open == []
    assert office.whispered == [
        "a-stopped-one was stopped at Thu 12 Nov 13:00 CET.",
        "a-running-one was started again since this message. /gpu shows what is there now.",
        "What this message asked about a-running-one is over. /gpu shows what is there now.",
        "a-gone-one is gone, so there is nothing left to do.",
        "Costguard does not know this VM: the message is from before its database was made.",
    ]
    assert {each.fact.kind for each in office.facts} == {"RequestRefused"}


class Unwilling:
    """A database whose writes wait for `free`, and then fail if `trouble` is set."""

    def __init__(self, database: Database, trouble: Exception | None = None) -> None:
        self._database = database
        self._trouble = trouble
        self.free = threading.Event()

    def read(self) -> AbstractContextManager[Connection]:
        return self._database.read()

    def write(self, fence: Lease | None = None) -> AbstractContextManager[Connection]:
        assert self.free.wait(10)
        if self._trouble is not None:
            raise self._trouble
        return self._database.write(fence)


def test_a_busy_database_does_not_keep_slack_waiting(office: Office) -> None:
    """The press is answered within the patience, and stored when the other writer is done."""
    subject = office.running()
    office.know("ada")
    busy = Unwilling(office.database)
    desk = office.made(busy, timedelta(seconds=0.05))  # type: ignore[arg-type]
    desk.press(press(subject))
    assert office.open == []
    busy.free.set()
    desk.close()
    assert [request.by for request in office.open] == [ADA]


def test_a_press_that_is_lost_is_told(office: Office) -> None:
    """At once as an error while Slack waits; afterwards by a whisper that needs no database."""
    subject = office.running()
    office.know("ada")
    locked = Unwilling(office.database, DatabaseLocked("It is locked."))
    desk = office.made(locked, timedelta(seconds=0.05))  # type: ignore[arg-type]
    desk.press(press(subject))
    locked.free.set()
    desk.close()
    ((channel, user, content),) = office.slack.whispers
    assert (channel, user) == ("C0GPU", "U0ADA")
    assert isinstance(content, WhisperContent)
    assert "could not be stored" in content.text
    desk = office.made(locked)  # type: ignore[arg-type]
    with pytest.raises(DatabaseLocked):
        desk.press(press(subject))
    desk.close()
    assert len(office.slack.whispers) == 1


def test_the_list_is_of_ones_own_vms(office: Office) -> None:
    """Running ones first, the longest first, then those at rest; nobody else's."""
    office.know("ada")
    resting, running = office.resting(), office.running(owner="Ada@Lab.example")
    office.running("of-mel", owner="mel@lab.example")
    office.running("gone", gone_at=NOW)
    shown = office.desk.command(command())
    assert isinstance(shown, ListContent)
    assert shown.title == "Your VMs: 1 runs, 1 is at rest"
    assert office.listed == [running, resting]
    assert [each[0].subject for each in shown.cards] == office.listed


def test_a_long_list_says_what_it_leaves_out(office: Office) -> None:
    """No more are composed than one message holds; the rest is a number."""
    office.know("ada")
    for number in range(18):
        office.running(f"vm-{number}")
    shown = office.desk.command(command("mine"))
    assert isinstance(shown, ListContent)
    assert (len(shown.cards), shown.more) == (15, 3)


@pytest.mark.parametrize(
    ("who", "seen"),
    [
        ("ada", None),
        ("mel", None),
        ("vic", None),
        ("tess", {"of-ada"}),
        ("olga", {"of-nobody"}),
        ("olaf", {"of-ada", "of-nobody"}),
        ("adam", {"of-ada", "of-nobody"}),
    ],
)
def test_all_is_what_one_may_act_on(office: Office, who: str, seen: set[str] | None) -> None:
    """Operators see their team's VMs and those of no team, admins all; for others there is no such list."""
    office.know(who)
    subjects = {"of-ada": office.running("of-ada"), "of-nobody": office.running("of-nobody", owner="")}
    shown = office.desk.command(command("all", who))
    if seen is None:
        assert shown == WhisperContent("/gpu all is for operators and admins; /gpu lists your own VMs.")
    else:
        assert set(office.listed) == {subjects[name] for name in seen}


def test_without_vms_the_answer_says_who_one_is_known_as(office: Office) -> None:
    """An empty list is a sentence, with the address by which VMs would be found."""
    office.know("vic")
    assert office.desk.command(command(by="vic")) == WhisperContent(
        "Your VMs: none is there. Costguard knows you as vic@lab.example."
    )


def test_help_is_given_when_asked_for_and_when_nothing_is_understood(office: Office) -> None:
    """Without asking Slack or the database anything."""
    assert office.desk.command(command("help")) == WhisperContent(HELP)
    assert office.desk.command(command("stop it")) == WhisperContent(f"There is no /gpu stop it.\n{HELP}")


def test_a_stranger_who_types_is_looked_up_while_slack_waits(office: Office) -> None:
    """A list needs an address: it is asked for within the patience, and remembered."""
    office.running()
    for _ in range(2):
        assert isinstance(office.desk.command(command()), ListContent)
    assert office.slack.asked == ["U0ADA"]


@pytest.mark.parametrize("trouble", ["error", "slow", "nobody"])
def test_who_cannot_be_looked_up_is_told_so(office: Office, trouble: str) -> None:
    """Slack refuses, is slow, or tells no address: a sentence, within the patience."""
    late = "Slack did not say in time who you are. Type it again in a minute."
    unknown = "Slack tells no e-mail address of yours, so Costguard cannot know your VMs."
    if trouble == "error":
        office.slack.trouble = SlackUnavailable("Slack does not answer.")
    if trouble == "nobody":
        office.slack.people = {}
    released = office.slack.slow = threading.Event()
    if trouble != "slow":
        released.set()
    desk = office.made(office.database, timedelta(seconds=0.05 if trouble == "slow" else 10))
    assert desk.command(command()) == WhisperContent(unknown if trouble == "nobody" else late)
    released.set()
    desk.close()
