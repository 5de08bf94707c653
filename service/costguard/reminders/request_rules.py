"""What comes of what people asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from costguard.access.roles import role_for
from costguard.model.access import Role
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
from costguard.model.instance import Status
from costguard.model.moments import moment_text
from costguard.model.reminder import Keep, ReminderRule, Request, RequestKind, SubjectKind
from costguard.reminders.claims import refusal
from costguard.reminders.context import DecisionContext
from costguard.reminders.due import DueMoment
from costguard.reminders.watched import WatchedVm, subject_of

_VIA = {"slack": "in Slack", "page": "on a page", "api": "over REST", "cli": "from the command line"}
_DONE = {RequestKind.STOP: "stop", RequestKind.KEEP: "keep"}


class RequestedVm(Protocol):
    """What is known of a VM, by a plan or by who only reads it."""

    @property
    def name(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def job(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _Asking:
    vm: WatchedVm
    due: DueMoment | None
    about: DecisionContext


def settle(vm: WatchedVm, due: DueMoment | None, decision_context: DecisionContext) -> tuple[Action, ...]:
    """Refusals, up to the first request that is carried out.

    That one changes what the later ones are about, so they wait for the next pass.
    """
    asking = _Asking(vm, due, decision_context)
    actions: list[Action] = []
    for request in sorted(vm.requests, key=lambda each: (each.at, each.id or 0, each.key)):
        found = _answer(asking, request)
        if not isinstance(found, str):
            return (*actions, found)
        actions.append(RefuseRequest(request, found))
    return tuple(actions)


def _answer(asking: _Asking, request: Request) -> Action | str:
    vm = asking.vm
    if vm.is_gone:
        return f"{vm.name} is gone: there is nothing left to {'claim' if _is_claim(request) else _DONE[request.kind]}."
    if not _is_claim(request) and request.subject != subject_of(vm):
        return _over(asking, request)
    about = asking.about
    refused = refusal(request.kind, request.by, vm, vm.ownership, about.rules, request.authority, about.now)
    refused = refused or pointless(request.kind, request.by, vm, vm.running_since is not None)
    return refused or _WAYS[request.kind](asking, request)


def pointless(asked: RequestKind, by: str, vm: RequestedVm, runs: bool) -> str | None:
    """Why there is nothing to do, as far as the VM itself shows it; None: there is something."""
    if asked is RequestKind.CLAIM and by.lower() == vm.owner.lower():
        return f"{vm.name} is yours already."
    if asked is RequestKind.DISOWN and not vm.owner:
        return f"{vm.name} is nobody's already."
    if asked is not RequestKind.STOP:
        return None
    if not runs:
        return f"{vm.name} is {vm.status.value} already. What it stores is billed until someone deletes it."
    if vm.status is Status.PENDING_STOP:
        return f"{vm.name} is shutting down already."
    return None


def _claim(asking: _Asking, request: Request) -> Action | str:
    return AssignOwner(request, request.by, f"{request.by} said that {asking.vm.name} is theirs")


def _disown(asking: _Asking, request: Request) -> Action | str:
    whose = "theirs" if request.by.lower() == asking.vm.owner.lower() else f"{asking.vm.owner}'s"
    return AssignOwner(request, "", f"{request.by} said that {asking.vm.name} is not {whose}")


def _keep(asking: _Asking, request: Request) -> Action | str:
    vm, due, about = asking.vm, asking.due, asking.about
    if due is None:
        return f"Nobody is going to ask about {vm.name}: there is no limit to keep it beyond."
    if vm.stop is StopOutcome.ASKED:
        return f"{vm.name} is being stopped already. Start it again if you still need it."
    if stale := _stale(asking, request):
        return stale
    found = kept_until(
        request,
        about.zone_of(request.by),
        due.at,
        _keep_rule(asking),
        vm.keeps,
        role_for(request.by, about.rules.access, request.authority) is Role.ADMIN,
        about.now,
        about.rules.access.admins,
    )
    if isinstance(found, str):
        return found
    why = f": {request.reason}" if request.reason else ""
    until = moment_text(found, about.zone_of(request.by), about.now)
    return KeepLifetime(request, found, f"kept until {until} by {request.by}{why}")


def _stop(asking: _Asking, request: Request) -> Action | str:
    vm = asking.vm
    assert vm.running_since is not None  # it would be pointless otherwise
    if stale := _kept_since(asking, request) or _stale(asking, request):
        return stale
    asked = f"asked for {_VIA.get(request.via, f'by {request.via}')} by {request.by}"
    why = f": {request.reason}" if request.reason else ""
    if vm.job:
        reason = f"{asked}, so job {vm.job} is cancelled; its command gets SIGTERM first{why}"
        return CancelJob(request, vm.job, reason)
    return StopInstance(
        subject=request.subject,
        key=vm.key,
        name=vm.name,
        zone=vm.zone,
        rule="request",
        reason=f"{asked}{why}",
        due_at=asking.due.at if asking.due is not None else None,
        started_at=vm.running_since,
        request=request,
    )


_WAYS: Mapping[RequestKind, Callable[[_Asking, Request], Action | str]] = {
    RequestKind.STOP: _stop,
    RequestKind.KEEP: _keep,
    RequestKind.CLAIM: _claim,
    RequestKind.DISOWN: _disown,
}


def _is_claim(request: Request) -> bool:
    """Whose a VM is outlives its runs: such a request is never too late while the VM is there."""
    return request.kind in (RequestKind.CLAIM, RequestKind.DISOWN)


def _over(asking: _Asking, request: Request) -> str:
    vm, verb = asking.vm, _DONE[request.kind]
    if request.subject.about is SubjectKind.REST:
        return f"{vm.name} was started again, or keeps nothing any more: nothing was done. /gpu shows it as it is."
    if vm.running_since is None:
        return f"{vm.name} does not run any more ({vm.status.value}): there is nothing left to {verb}."
    return f"{vm.name} was started again since, and you saw its run before: nothing was done. /gpu shows it as it is."


def _kept_since(asking: _Asking, request: Request) -> str:
    """Someone's keep that came after this was asked, and holds; "" where there is none."""
    since = [keep for keep in asking.vm.keeps if keep.at > request.at and keep.until > asking.about.now]
    return _kept_by(asking, request, since[-1]) if since else ""


def _kept_by(asking: _Asking, request: Request, keep: Keep) -> str:
    name, verb = asking.vm.name, _DONE[request.kind]
    until = moment_text(keep.until, asking.about.zone_of(request.by), asking.about.now)
    return f"{keep.by} kept {name} until {until} after this was asked. /gpu has buttons to {verb} it as it is."


def _stale(asking: _Asking, request: Request) -> str:
    """Why what the person saw is not so any more; "" where it is.

    A due moment that shifted and passed as well, as idleness comes to be known, asks the same question still.
    """
    vm, due, verb = asking.vm, asking.due, _DONE[request.kind]
    if request.due_at is None or (due is not None and due.at == request.due_at):
        return ""
    later = next((keep for keep in reversed(vm.keeps) if keep.until > request.due_at), None)
    if later is not None:
        return _kept_by(asking, request, later)
    if due is None or due.at > asking.about.now:
        return f"Nobody asks about {vm.name} any more for now. /gpu has buttons to {verb} it all the same."
    return ""


def _keep_rule(asking: _Asking) -> ReminderRule:
    """What rests is asked about so rarely that a keep must be able to last until the next time."""
    preset = asking.about.rules.presets.get(asking.vm.preset)
    rule = preset.reminders if preset is not None else ReminderRule()
    if asking.vm.running_since is not None:
        return rule
    rest = asking.about.rules.rest
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
        times = {0: "It cannot be kept by its owner", 1: "It was kept once already"}
        return f"{times.get(len(keeps), f'It was kept {len(keeps)} times already')}; {_ask(admins)}."
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
        return f"Nobody asks about it before {due} anyway; keeping it until then changes nothing."
    if until - now > rule.longest_keep:
        return _too_long(rule)
    return until


def _too_long(rule: ReminderRule) -> str:
    return (
        f"It can be kept for {span_text(rule.longest_keep)} from now at most. Ask for less, and again when it is due."
    )


def _ask(admins: Iterable[str]) -> str:
    found = sorted(admins)
    named = ", ".join(found[:_FEW])
    return f"ask an admin: {named}" if found else "only an admin could do it again, and [access] names none"
