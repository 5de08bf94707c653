"""A claim gives rights, in time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from costguard.access.rules import Access, Rules
from costguard.model.instance import InstanceKey, Status
from costguard.model.keeper import Keeper
from costguard.model.reminder import Claim, Ownership, RequestKind, Team
from costguard.reminders.request_rules import HOLD, hold_text, is_held, outsider_text, refusal

AT = datetime(2026, 11, 2, 10, 2, tzinfo=UTC)
CLAIM = Claim(7, "ana@example.com", "ana@example.com", AT)
VISION = Team("vision", frozenset({"ana@example.com"}))
ROBOT = "ci@acme-training.iam.gserviceaccount.com"


@pytest.mark.parametrize(
    ("ownership", "later", "held"),
    [
        (Ownership(), timedelta(), False),
        (Ownership(claim=CLAIM), timedelta(), True),
        (Ownership(claim=CLAIM), HOLD - timedelta(microseconds=1), True),
        (Ownership(claim=CLAIM), HOLD, False),
        (Ownership(claim=replace(CLAIM, notified_at=AT + timedelta(seconds=2))), timedelta(seconds=2), False),
        (Ownership(claim=replace(CLAIM, owner="")), timedelta(), False),
    ],
)
def test_a_claim_is_held_until_somebody_could_object(ownership: Ownership, later: timedelta, held: bool) -> None:
    """The hold lasts for an hour, or until the team's channel was notified; a disown takes nothing that could
    be held.
    """
    assert is_held(ownership, AT + later) is held


def test_the_hold_says_until_when() -> None:
    """The text says what ends it sooner, where there is a channel at all."""
    ownership = Ownership(claim=CLAIM)
    assert hold_text("trainer-7", ownership, "#vision") == (
        "trainer-7 was claimed less than an hour ago. "
        "It can be stopped when #vision has been notified, or from 11:02 UTC."
    )
    assert hold_text("trainer-7", ownership, "").endswith("It can be stopped from 11:02 UTC.")


@pytest.mark.parametrize(
    ("made_by", "team", "is_for_admins"),
    [
        (ROBOT, None, True),
        ("123-compute@developer.gserviceaccount.com", None, True),
        ("principal://iam.googleapis.com/projects/1/x", None, True),
        ("system", None, True),
        (ROBOT, VISION, False),
        ("ben@example.com", None, False),
        ("", None, False),
    ],
)
def test_what_a_program_made_is_for_its_team(made_by: str, team: Team | None, is_for_admins: bool) -> None:
    """An admin alone may claim a service account's VM without a team; an unknown maker is no program."""
    text = outsider_text("trainer-7", Ownership(made_by), team)
    assert (text is not None) is is_for_admins
    assert text is None or made_by in text


OLGA, OLAF, TESS, ADAM, VIC = (f"{name}@example.com" for name in ("olga", "olaf", "tess", "adam", "vic"))
RULES = Rules(
    {},
    channel="#gpu-costs",
    teams=(
        Team("vision", frozenset({"ana@example.com", OLAF}), frozenset({TESS}), frozenset({"vision-lab"}), "#vision"),
        Team("speech", frozenset({OLGA}), projects=frozenset({"speech-lab"})),
    ),
    access=Access(frozenset({"@example.com"}), frozenset({OLGA, OLAF}), frozenset({ADAM})),
)
EVERYBODY = (OLGA, OLAF, TESS, ADAM, VIC)


@dataclass(frozen=True)
class Vm:
    key: InstanceKey
    owner: str = ""
    name: str = "trainer-7"
    job: str = ""
    status: Status = Status.RUNNING
    keeper: Keeper | None = None


def may(kind: RequestKind, vm: Vm, ownership: Ownership = Ownership(), later: timedelta = timedelta()) -> set[str]:
    """Returns the people who may."""
    return {by for by in EVERYBODY if refusal(kind, by, vm, ownership, RULES, None, AT + later) is None}


VISIONS, NO_TEAMS = Vm(InstanceKey("vision-lab", "1")), Vm(InstanceKey("elsewhere", "2"))


def test_who_may_claim_what_is_unowned() -> None:
    """The operator role, and membership of the VM's team where it has one; nobody else, and no outsider's operator."""
    assert may(RequestKind.CLAIM, VISIONS) == {OLAF, TESS, ADAM}
    assert may(RequestKind.CLAIM, NO_TEAMS) == {OLGA, OLAF, ADAM}


def test_what_a_service_account_made_is_protected_from_outsiders() -> None:
    """The team's operators may claim it; of no team, only an admin."""
    assert may(RequestKind.CLAIM, VISIONS, Ownership(ROBOT)) == {OLAF, TESS, ADAM}
    assert may(RequestKind.CLAIM, NO_TEAMS, Ownership(ROBOT)) == {ADAM}


def test_a_fresh_claim_stops_nothing() -> None:
    """The claim gives no stop to its claimant, nor to the team that it came to: until the channel was notified, or for
    an hour.
    """
    claimed = Ownership(claim=Claim(1, OLGA, OLGA, AT))
    vm = replace(NO_TEAMS, owner=OLGA)
    assert may(RequestKind.STOP, vm, claimed) == {ADAM}
    assert may(RequestKind.STOP, vm, claimed, HOLD) == {OLGA, ADAM}
    notified = replace(claimed, claim=replace(CLAIM, owner=OLGA, notified_at=AT + timedelta(seconds=3)))
    assert may(RequestKind.STOP, vm, notified, timedelta(seconds=3)) == {OLGA, ADAM}


def test_a_fresh_claim_is_held_before_the_ledger_shows_it() -> None:
    """The owner in the ledger changes with the next look; the hold begins with the claim."""
    claimed = Ownership(claim=Claim(1, OLAF, OLAF, AT))
    assert may(RequestKind.STOP, VISIONS, claimed) == {TESS, ADAM}


def test_a_claim_takes_nothing_from_keeps_and_claims() -> None:
    """The claimant of a VM may keep it and disown it at once."""
    claimed, vm = Ownership(claim=Claim(1, OLAF, OLAF, AT)), replace(VISIONS, owner=OLAF)
    assert OLAF in may(RequestKind.KEEP, vm, claimed)
    assert OLAF in may(RequestKind.DISOWN, vm, claimed)


def test_a_jobs_vm_is_its_jobs_whatever_was_claimed() -> None:
    """A job's owner cancels it at once: a claim of its VM gives and takes nothing."""
    vm = replace(VISIONS, owner=VIC, job="job-1")
    assert VIC in may(RequestKind.STOP, vm, Ownership(claim=Claim(1, VIC, VIC, AT)))


def test_the_refusal_names_the_teams_channel() -> None:
    """The channel of the VM's previous team, where the claim is announced."""
    claimed = Ownership(claim=Claim(1, OLAF, OLAF, AT))
    text = refusal(RequestKind.STOP, OLAF, replace(VISIONS, owner=OLAF), claimed, RULES, None, AT)
    assert text is not None
    assert "#vision has been notified" in text
