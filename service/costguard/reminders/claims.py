"""Claims: who may claim an unowned VM, and when a claim gives the right to stop it. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from costguard.access import roles
from costguard.access.rules import Rules
from costguard.access.teams import channel_of, team_of
from costguard.ledger.owner import is_person
from costguard.model.access import Authority, Role
from costguard.model.instance import InstanceKey, Status
from costguard.model.moments import clock_text
from costguard.model.reminder import Ownership, RequestKind, Team

HOLD = timedelta(hours=1)  # how long a claim gives no right to stop, unless the team's channel is notified sooner


class RequestedVm(Protocol):
    """A VM as a plan, a page or a request knows it."""

    @property
    def key(self) -> InstanceKey: ...
    @property
    def name(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def job(self) -> str: ...


def refusal(
    kind: RequestKind,
    by: str,
    vm: RequestedVm,
    ownership: Ownership,
    rules: Rules,
    authority: Authority | None,
    now: datetime,
) -> str | None:
    """Why this person may not do this to this VM at this moment; None: they may.

    An unowned VM may be claimed by its team's operators, or by any operator if it has no team. A claim that no one had
    time to object to gives no right to stop: neither to the claimant, nor to the claimant's team.
    """
    team = team_of(vm.key.project, vm.owner, rules.teams)
    refused = roles.refusal(kind, by, vm.name, vm.owner, team, rules.access, authority, vm.job)
    if refused or roles.role_for(by, rules.access, authority) is Role.ADMIN:
        return refused
    if kind is RequestKind.CLAIM and not vm.owner:
        return outsider_text(vm.name, ownership, team)
    if kind is not RequestKind.STOP or vm.job or not is_held(ownership, now):
        return None
    assert ownership.claim is not None  # it is held
    before = team_of(vm.key.project, "", rules.teams)
    is_claimant = by.lower() == ownership.claim.owner.lower()
    if not is_claimant and roles.operates(by, "", before, rules.access, authority):
        return None
    return hold_text(vm.name, ownership, channel_of(before, rules))


def is_held(ownership: Ownership, now: datetime) -> bool:
    """Whether the latest claim is too new to give the right to stop, its team not having been notified."""
    claim = ownership.claim
    return claim is not None and bool(claim.owner) and claim.notified_at is None and now - claim.at < HOLD


def hold_text(name: str, ownership: Ownership, channel: str) -> str:
    """Why the claimant may not stop it yet. `channel` is the team's, or the default one; "" without one."""
    assert ownership.claim is not None  # it would not be held otherwise
    until = clock_text(ownership.claim.at + HOLD, ownership.claim.at)
    sooner = f"when {channel} has been notified, or " if channel else ""
    return f"{name} was claimed less than an hour ago. It can be stopped {sooner}from {until}."


def outsider_text(name: str, ownership: Ownership, team: Team | None) -> str | None:
    """Why only an admin may claim this unowned VM; None: its team's operators may, or all where it is of no team.

    A service account's VM belongs to a program: without a team, no operator is closer to it than another.
    """
    maker = ownership.made_by
    if team is not None or not maker or is_person(maker):
        return None
    return f"Only an admin can take over {name}: {maker} made it, and its project belongs to no team."
