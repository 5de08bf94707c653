"""`/gpu` shows people their own VMs, and operators theirs, while Slack waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.access.access_setup import SlackHandlers, command
from tests.api.rows import NOW

from costguard.db.transaction import Database
from costguard.errors import SlackUnavailable
from costguard.messages.gpu_command import HELP
from costguard.model.delivery.message import EphemeralContent, ListContent
from costguard.model.delivery.person import Person


@pytest.fixture
def office(sqlite_database: Database) -> Iterator[SlackHandlers]:
    office = SlackHandlers(sqlite_database)
    yield office
    office.handler.close()


def test_list_shows_a_persons_own_vms(office: SlackHandlers) -> None:
    """Running ones first, the longest first, then the others; no other person's."""
    office.know("ada")
    resting, running = office.resting(), office.running(owner="Ada@Lab.example")
    office.running("of-mel", owner="mel@lab.example")
    office.running("gone", gone_at=NOW)
    shown = office.handler.command(command())
    assert isinstance(shown, ListContent)
    assert shown.title == "Your VMs: 1 running, 1 not running"
    assert office.listed == [running, resting]
    assert [card[0].subject for card in shown.cards] == office.listed


def test_long_list_counts_what_it_leaves_out(office: SlackHandlers) -> None:
    """No more are composed than one message holds; the rest is a number."""
    office.know("ada")
    for number in range(18):
        office.running(f"vm-{number}")
    shown = office.handler.command(command("mine"))
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
def test_all_lists_the_vms_a_person_may_stop(office: SlackHandlers, who: str, seen: set[str] | None) -> None:
    """Operators see their team's VMs and those of no team, admins all; for others there is no such list."""
    office.know(who)
    subjects = {"of-ada": office.running("of-ada"), "of-nobody": office.running("of-nobody", owner="")}
    shown = office.handler.command(command("all", who))
    if seen is None:
        assert shown == EphemeralContent("/gpu all is for operators and admins. /gpu lists your own.")
    else:
        assert set(office.listed) == {subjects[name] for name in seen}


def test_empty_list_names_the_callers_address(office: SlackHandlers) -> None:
    """An empty list is a sentence, with the address by which VMs would be found."""
    office.know("vic")
    assert office.handler.command(command(by="vic")) == EphemeralContent(
        "Your VMs: none. Costguard knows you as vic@lab.example."
    )


def test_help_and_unknown_commands_are_answered_without_a_lookup(office: SlackHandlers) -> None:
    """The answer asks neither Slack nor the database."""
    assert office.handler.command(command("help")) == EphemeralContent(HELP)
    assert office.handler.command(command("stop it")) == EphemeralContent(f"There is no command /gpu stop it.\n{HELP}")


def test_caller_without_a_role_gets_no_list(office: SlackHandlers) -> None:
    """The VMs that there are and their cost are for people with a role."""
    office.slack.people["U0NEMO"] = Person("U0NEMO", "nemo@elsewhere.example", "Nemo")
    shown = office.handler.command(command(by="nemo"))
    assert isinstance(shown, EphemeralContent)
    assert shown.text.startswith("nemo@elsewhere.example has no role in Costguard")


def test_unknown_caller_is_looked_up_within_the_patience(office: SlackHandlers) -> None:
    """A list needs an address: it is asked for within the patience, and remembered."""
    office.running()
    for _ in range(2):
        assert isinstance(office.handler.command(command()), ListContent)
    assert office.slack.asked == ["U0ADA"]


@pytest.mark.parametrize("trouble", ["error", "slow", "nobody"])
def test_failed_lookup_is_answered_in_words(office: SlackHandlers, trouble: str) -> None:
    """Slack refuses, is slow, or tells no address: a sentence, within the patience."""
    late = "Slack did not tell Costguard who you are in time. Try again in a minute."
    unknown = (
        "Slack does not share your e-mail address with Costguard, so nothing was done. "
        "Add one to your Slack profile, or sign in to Costguard's dashboard."
    )
    if trouble == "error":
        office.slack.trouble = SlackUnavailable("Slack does not answer.")
    if trouble == "nobody":
        office.slack.people = {}
    released = office.slack.slow = threading.Event()
    if trouble != "slow":
        released.set()
    handler = office.made(office.database, timedelta(seconds=0.05 if trouble == "slow" else 10))
    assert handler.command(command()) == EphemeralContent(unknown if trouble == "nobody" else late)
    released.set()
    handler.close()
