"""`/gpu` shows people their own VMs, and operators theirs, while Slack waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.access.office import Office, command
from tests.api.rows import NOW

from costguard.db.transaction import Database
from costguard.errors import SlackUnavailable
from costguard.messages.gpu_command import HELP
from costguard.model.message import ListContent, WhisperContent
from costguard.model.person import Person


@pytest.fixture
def office(sqlite_database: Database) -> Iterator[Office]:
    office = Office(sqlite_database)
    yield office
    office.desk.close()


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


def test_who_has_no_role_sees_no_list(office: Office) -> None:
    """What VMs there are and what they cost is for people with a role."""
    office.slack.people["U0NEMO"] = Person("U0NEMO", "nemo@elsewhere.example", "Nemo")
    shown = office.desk.command(command(by="nemo"))
    assert isinstance(shown, WhisperContent)
    assert shown.text.startswith("nemo@elsewhere.example has no role in Costguard")


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
    unknown = (
        "Slack gives Costguard no e-mail address of yours, so nothing was done. "
        "Add one to your Slack profile, or sign in to Costguard's pages."
    )
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
