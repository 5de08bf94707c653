"""Decides which requests are carried out and which are refused, with the reason; and who may claim a VM. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from costguard.access import roles
from costguard.access.roles import role_for
from costguard.access.rules import Rules
from costguard.access.teams import channel_of, team_of
from costguard.ledger.owner import is_person
from costguard.model.access import Authority, Role
from costguard.model.action import (
    Action,
    AssignOwner,
    CancelJob,
    KeepLifetime,
    RefuseRequest,
    StopInstance,
    StopOutcome,
)
from costguard.model.duration import span_text
from costguard.model.instance import InstanceKey, Status
from costguard.model.keeper import Keeper
from costguard.model.moments import clock_text, moment_text
from costguard.model.reminder import Keep, Ownership, ReminderRule, Request, RequestKind, SubjectKind, Team
from costguard.reminders.context import PlanContext
from costguard.reminders.ladder import DueMoment
from costguard.reminders.watched import WatchedVm, subject_of

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
    @property
    def keeper(self) -> Keeper | None: ...


def refusal(
    kind: RequestKind,
    by: str,
    vm: RequestedVm,
    ownership: Ownership,
    rules: Rules,
    authority: Authority | None,
    now: datetime,
) -> str | None:
    """Explains why this person may not do this to this VM at this moment; None: they may.

    An unowned VM may be claimed by its team's operators, or by any operator if it has no team. A claim that no one had
    time to object to gives no right to stop: neither to the claimant, nor to the claimant's team. Nobody, an admin
    neither, stops a VM that a group or a service of Google keeps, unless the settings allow its keeper's own stop.
    """
    if kind is RequestKind.STOP and (keeper := kept(vm, rules)) is not None:
        return keeper.refusal(vm.name, vm.key.project)
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


def kept(vm: RequestedVm, rules: Rules) -> Keeper | None:
    """Returns the keeper that forbids every stop of this VM; None: nothing does, or its own stop may be used."""
    keeper = vm.keeper
    return None if keeper is None or keeper.is_stopped_by(rules.stop_through) else keeper


def is_held(ownership: Ownership, now: datetime) -> bool:
    """Says whether the latest claim is too new to give the right to stop, its team not having been notified."""
    claim = ownership.claim
    return claim is not None and bool(claim.owner) and claim.notified_at is None and now - claim.at < HOLD


def hold_text(name: str, ownership: Ownership, channel: str) -> str:
    """Explains why the claimant may not stop it yet. `channel` is the team's, or the default one; "" without one."""
    assert ownership.claim is not None  # it would not be held otherwise
    until = clock_text(ownership.claim.at + HOLD, ownership.claim.at)
    sooner = f"when {channel} has been notified, or " if channel else ""
    return f"{name} was claimed less than an hour ago. It can be stopped {sooner}from {until}."


def outsider_text(name: str, ownership: Ownership, team: Team | None) -> str | None:
    """Explains why only an admin may claim this unowned VM; None: its team's operators may, or all where it is of no
    team.

    A service account's VM belongs to a program: without a team, no operator is closer to it than another.
    """
    maker = ownership.made_by
    if team is not None or not maker or is_person(maker):
        return None
    return f"Only an admin can take over {name}: {maker} made it, and its project belongs to no team."


_VIA = {"slack": "in Slack", "page": "on a page", "api": "over REST", "cli": "from the command line"}
_DONE = {RequestKind.STOP: "stop", RequestKind.KEEP: "keep"}


@dataclass(frozen=True, slots=True)
class _RequestContext:
    vm: WatchedVm
    due: DueMoment | None
    decision: PlanContext


def settle(vm: WatchedVm, due: DueMoment | None, decision_context: PlanContext) -> tuple[Action, ...]:
    """Refusals, up to the first request that is carried out.

    That one changes what the later ones are about, so they wait for the next pass.
    """
    context = _RequestContext(vm, due, decision_context)
    actions: list[Action] = []
    for request in sorted(vm.requests, key=lambda request: (request.at, request.id or 0, request.key)):
        answer = _answer(context, request)
        if not isinstance(answer, str):
            return (*actions, answer)
        actions.append(RefuseRequest(request, answer))
    return tuple(actions)


def _answer(context: _RequestContext, request: Request) -> Action | str:
    vm = context.vm
    if vm.is_gone:
        return f"{vm.name} no longer exists, so nothing was done."
    if not _is_claim(request) and request.subject != subject_of(vm):
        return _over(context, request)
    decision = context.decision
    refused = refusal(request.kind, request.by, vm, vm.ownership, decision.rules, request.authority, decision.now)
    refused = refused or pointless(request.kind, request.by, vm, vm.running_since is not None)
    return refused or _WAYS[request.kind](context, request)


def pointless(kind: RequestKind, by: str, vm: RequestedVm, runs: bool) -> str | None:
    """Explains why there is nothing to do, as far as the VM itself shows it; None: there is something."""
    if kind is RequestKind.CLAIM and by.lower() == vm.owner.lower():
        return f"{vm.name} is already yours."
    if kind is RequestKind.DISOWN and not vm.owner:
        return f"{vm.name} is already unowned."
    if kind is not RequestKind.STOP:
        return None
    if not runs:
        return f"{vm.name} is already {vm.status.value}. Its storage is billed until it is deleted."
    if vm.status is Status.PENDING_STOP:
        return f"{vm.name} is already shutting down."
    return None


def _claim(context: _RequestContext, request: Request) -> Action | str:
    return AssignOwner(request, request.by, f"{request.by} claimed {context.vm.name}")


def _disown(context: _RequestContext, request: Request) -> Action | str:
    whose = "theirs" if request.by.lower() == context.vm.owner.lower() else f"{context.vm.owner}'s"
    return AssignOwner(request, "", f"{request.by} said that {context.vm.name} is not {whose}")


def _keep(context: _RequestContext, request: Request) -> Action | str:
    vm, due, decision = context.vm, context.due, context.decision
    if due is None:
        return f"{vm.name} has no limit, so there is nothing to keep it beyond."
    if vm.stop is StopOutcome.ASKED:
        return f"{vm.name} is already being stopped. Start it again if you still need it."
    if stale := _stale(context, request):
        return stale
    kept = kept_until(
        request,
        decision.zone_of(request.by),
        due.at,
        _keep_rule(context),
        vm.keeps,
        role_for(request.by, decision.rules.access, request.authority) is Role.ADMIN,
        decision.now,
        decision.rules.access.admins,
    )
    if isinstance(kept, str):
        return kept
    why = f": {request.reason}" if request.reason else ""
    until = moment_text(kept, decision.zone_of(request.by), decision.now)
    return KeepLifetime(request, kept, f"kept until {until} by {request.by}{why}")


def _stop(context: _RequestContext, request: Request) -> Action | str:
    vm = context.vm
    assert vm.running_since is not None  # it would be pointless otherwise
    if stale := _kept_since(context, request) or _stale(context, request):
        return stale
    origin = f"asked for {_VIA.get(request.via, f'by {request.via}')} by {request.by}"
    why = f": {request.reason}" if request.reason else ""
    if vm.job:
        reason = f"{origin}, so job {vm.job} is cancelled; its command gets time to save first{why}"
        return CancelJob(request, vm.job, reason)
    return StopInstance(
        subject=request.subject,
        key=vm.key,
        name=vm.name,
        zone=vm.zone,
        rule="request",
        reason=f"{origin}{why}",
        due_at=context.due.at if context.due is not None else None,
        started_at=vm.running_since,
        request=request,
    )


_WAYS: Mapping[RequestKind, Callable[[_RequestContext, Request], Action | str]] = {
    RequestKind.STOP: _stop,
    RequestKind.KEEP: _keep,
    RequestKind.CLAIM: _claim,
    RequestKind.DISOWN: _disown,
}


def _is_claim(request: Request) -> bool:
    """Says whether the request changes the owner, who outlives a VM's runs: it is never too late while the VM
    is there.
    """
    return request.kind in (RequestKind.CLAIM, RequestKind.DISOWN)


def _over(context: _RequestContext, request: Request) -> str:
    vm, verb = context.vm, _DONE[request.kind]
    if request.subject.kind is SubjectKind.REST:
        return f"{vm.name} was started again or has no disks any more, so nothing was done. Type /gpu to see it now."
    if vm.running_since is None:
        return f"{vm.name} is no longer running ({vm.status.value}): there is nothing left to {verb}."
    return f"{vm.name} was started again since you looked, so nothing was done. Type /gpu to see it as it is now."


def _kept_since(context: _RequestContext, request: Request) -> str:
    """A later keep that still holds, as a refusal; "" without one."""
    since = [keep for keep in context.vm.keeps if keep.at > request.at and keep.until > context.decision.now]
    return _kept_by(context, request, since[-1]) if since else ""


def _kept_by(context: _RequestContext, request: Request, keep: Keep) -> str:
    name, verb = context.vm.name, _DONE[request.kind]
    until = moment_text(keep.until, context.decision.zone_of(request.by), context.decision.now)
    return f"{keep.by} kept {name} until {until} after your request. Type /gpu for buttons to {verb} it anyway."


def _stale(context: _RequestContext, request: Request) -> str:
    """Explains why the state that the person saw has changed; "" where it has not.

    A due moment that shifted and passed as well, as idleness comes to be known, asks the same question still.
    """
    vm, due, verb = context.vm, context.due, _DONE[request.kind]
    if request.due_at is None or (due is not None and due.at == request.due_at):
        return ""
    later = next((keep for keep in reversed(vm.keeps) if keep.until > request.due_at), None)
    if later is not None:
        return _kept_by(context, request, later)
    if due is None or due.at > context.decision.now:
        return f"{vm.name} is no longer due. Type /gpu for buttons to {verb} it anyway."
    return ""


def _keep_rule(context: _RequestContext) -> ReminderRule:
    """A stopped VM is reminded of so rarely that a keep must be able to last until the next reminder."""
    preset = context.decision.rules.presets.get(context.vm.preset)
    rule = preset.reminders if preset is not None else ReminderRule()
    if context.vm.running_since is not None:
        return rule
    rest = context.decision.rules.rest
    return replace(rule, longest_keep=max(rule.longest_keep, (rest.after or timedelta()) + rest.every))


MORNING = time(9)
_FEW = 3


def kept_until(
    request: Request,
    zone: ZoneInfo,
    due_at: datetime,
    rule: ReminderRule,
    keeps: Collection[Keep],
    is_admin: bool,
    now: datetime,
    admins: Iterable[str] = (),
) -> datetime | str:
    """The new due moment; a refusal in words where the rule does not allow it.

    Hours count from now, or from a due moment that is still to come. Without hours it is tomorrow at nine where
    the person is. `admins` are those whom the refusal names.
    """
    if len(keeps) >= rule.keeps and not is_admin:
        times = {0: "It cannot be kept by its owner", 1: "It was already kept once"}
        return f"{times.get(len(keeps), f'It was already kept {len(keeps)} times')}; {_ask(admins)}."
    if request.hours is None:
        tomorrow = now.astimezone(zone).date() + timedelta(days=1)
        until = datetime.combine(tomorrow, MORNING, zone).astimezone(UTC)
    elif request.hours < 1:
        return f"It cannot be kept for {request.hours} h. Give a whole number of hours, 1 or more."
    elif request.hours > rule.longest_keep / timedelta(hours=1):
        return _too_long(rule)
    else:
        until = max(now, due_at) + timedelta(hours=request.hours)
    if until <= due_at:
        due = moment_text(due_at, zone, now)
        return f"It is not due before {due}, so keeping it until then changes nothing."
    if until - now > rule.longest_keep:
        return _too_long(rule)
    return until


def _too_long(rule: ReminderRule) -> str:
    return f"It can be kept for at most {span_text(rule.longest_keep)} from now. Keep it for less now."


def _ask(admins: Iterable[str]) -> str:
    names = sorted(admins)
    named = ", ".join(names[:_FEW])
    return f"ask an admin: {named}" if names else "only an admin can keep it again, and [access] names none"
