"""What a claim gives, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from costguard.model.reminder import Claim, Ownership, Team
from costguard.policy.claiming import HOLD, hold_text, is_held, outsider_text

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
    """For an hour, or until the team's channel was notified; to disown a VM takes nothing that could be held."""
    assert is_held(ownership, AT + later) is held


def test_the_hold_says_until_when() -> None:
    """And what ends it sooner, where there is a channel at all."""
    ownership = Ownership(claim=CLAIM)
    assert hold_text("trainer-7", ownership, "#vision") == (
        "trainer-7 was claimed less than an hour ago. "
        "It can be stopped when #vision has been notified, or from 11:02 UTC on."
    )
    assert hold_text("trainer-7", ownership, "").endswith("It can be stopped from 11:02 UTC on.")


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
    """Without a team nobody but an admin says that a service account's VM is theirs; an unknown maker is no program."""
    text = outsider_text("trainer-7", Ownership(made_by), team)
    assert (text is not None) is is_for_admins
    assert text is None or made_by in text
