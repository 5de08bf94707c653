"""What a claim gives: who may say that an unowned VM is theirs, and when they may stop it."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.model.reminder import Ownership, Team
from costguard.policy.owner import is_person

HOLD = timedelta(hours=1)  # how long a claim gives no right to stop, unless the team's channel hears of it sooner


def is_held(ownership: Ownership, now: datetime) -> bool:
    """Whether the latest claim is so new, and so little known, that nothing may be stopped by the right of it."""
    claim = ownership.claim
    return claim is not None and bool(claim.owner) and claim.notified_at is None and now - claim.at < HOLD


def hold_text(name: str, ownership: Ownership, channel: str) -> str:
    """Why who claimed it may not stop it yet. `channel` is the team's, or the one for all; "" where there is none."""
    assert ownership.claim is not None  # it would not be held otherwise
    until = ownership.claim.at + HOLD
    sooner = f"when {channel} has been notified, or " if channel else ""
    return f"{name} was claimed less than an hour ago. It can be stopped {sooner}from {until:%H:%M} UTC on."


def outsider_text(name: str, ownership: Ownership, team: Team | None) -> str | None:
    """Why only an admin may claim this unowned VM; None: its team's operators may, or all where it is of no team.

    What a service account made belongs to a program that nobody here speaks for: without a team nobody is nearer to
    it than anybody else.
    """
    maker = ownership.made_by
    if team is not None or not maker or is_person(maker):
        return None
    return f"Only an admin can take over {name}: {maker} made it, and its project is given to no team."
