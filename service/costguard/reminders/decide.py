"""Decides about every VM: an action, or the reason to leave it alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from costguard.access.rules import Rules
from costguard.keepers.reading import why_unknown
from costguard.model.action import Action, KeepLifetime, RefuseRequest, SendReminder, StopInstance
from costguard.model.action import StopOutcome as Stop
from costguard.model.delivery.person import AccountLookup
from costguard.model.duration import span_text
from costguard.model.instance import Status
from costguard.model.moments import moment_text
from costguard.model.reminder import Enforcement, RequestKind, Subject, SubjectKind, Target
from costguard.model.words import list_text
from costguard.reminders import enforcement, ladder
from costguard.reminders.context import PlanContext
from costguard.reminders.enforcement import protected_because
from costguard.reminders.ladder import (
    DueMoment,
    LadderPosition,
    due_of_rest,
    due_of_run,
    kept_to,
    past_limit,
    why_running,
)
from costguard.reminders.pools import Spoken, speakers, whose_pool
from costguard.reminders.request_rules import settle
from costguard.reminders.watched import Decision, FleetPlan, WatchedVm, subject_of

SOON = timedelta(hours=1)


def decide(
    fleet: Sequence[WatchedVm],
    rules: Rules,
    unread: Mapping[str, frozenset[str]],
    people: Mapping[str, AccountLookup],
    now: datetime,
    answers_since: datetime | None = None,
) -> FleetPlan:
    """`unread` holds the zones of each project that the last look could not read; "*" stands for all.

    `people` are those who were looked up, by their addresses in lower case.
    """
    context = PlanContext(rules, people, now, answers_since)
    decisions: list[Decision] = []
    actions: list[Action] = []
    pooled = [vm for vm in fleet if vm.pool is not None and not vm.is_unread(unread.get(vm.key.project, frozenset()))]
    speaking = speakers([(vm, due_of(vm, subject_of(vm), context)) for vm in pooled], now)
    for vm in fleet:
        spoken = speaking.get(vm.pool) if vm.pool is not None else None
        decision, vm_actions = _decide(vm, context, unread.get(vm.key.project, frozenset()), spoken)
        decisions.append(decision)
        actions += vm_actions
    return FleetPlan(tuple(decisions), tuple(actions))


def addresses_needed(fleet: Sequence[WatchedVm], rules: Rules, now: datetime) -> set[str]:
    """Returns the addresses whose Slack accounts decisions within the next hour may rest on; in lower case."""
    if not rules.channel:
        return set()
    context = PlanContext(rules, {}, now)
    needed: set[str] = set()
    for vm in fleet:
        if vm.requests:
            needed |= {
                request.by.lower()
                for request in vm.requests
                if request.kind is RequestKind.KEEP and request.hours is None
            }
        due = due_of(vm, subject_of(vm), context)
        if due is not None and due.at <= now + SOON:
            needed.add(vm.owner.lower())
            if ladder.may_need_contact(ladder.standing_of(vm.sent, vm.cycle), ahead=1):
                needed.add(context.contact(vm).lower())
    return needed - {""}


def _decide(
    vm: WatchedVm, decision_context: PlanContext, unread: frozenset[str], spoken: Spoken | None = None
) -> tuple[Decision, tuple[Action, ...]]:
    """`spoken` is who speaks for its pool, where any VM of that is due."""
    subject = subject_of(vm)
    due = due_of(vm, subject, decision_context)
    due_at = due.at if due is not None else None
    if vm.is_gone:
        return Decision(vm.key, vm.name, "gone: there is nothing left to do about it"), settle(
            vm, due, decision_context
        )
    if vm.is_unread(unread):
        reason = f"not known: {vm.part} could not be read, so nothing is decided about it"
        return Decision(vm.key, vm.name, reason, False, subject, due_at, is_known=False), ()
    answers = settle(vm, due, decision_context) if vm.requests else ()
    if answers and not isinstance(answer := answers[-1], RefuseRequest):
        # What is asked for is carried out first; what follows from it is decided at the next pass.
        moment = answer.until if isinstance(answer, KeepLifetime) else due_at
        return Decision(vm.key, vm.name, answer.reason, False, subject, moment), answers
    if due is None or subject is None or due.at > decision_context.now:
        reason = _left_alone(vm, due, decision_context)
        return Decision(vm.key, vm.name, reason, False, subject, due_at, next_at=due_at), answers
    late = vm.running_since is not None and past_limit(
        decision_context.preset(vm), vm.age_from or vm.running_since, decision_context.now
    )
    if spoken is not None and spoken.vm.key != vm.key:
        reason = (
            f"{due.why}; it is asked about together with {spoken.vm.name}, as {whose_pool(vm)} only stops as a whole"
        )
        return Decision(vm.key, vm.name, reason, late, subject, due_at), answers
    if spoken is not None:
        due = spoken.due
    step = next_step(vm, subject, due, decision_context)
    together = spoken.members if spoken is not None else ()
    decision = Decision(
        vm.key, vm.name, step.reason, late, subject, due.at, step.next_at, step.stop_at, together=together
    )
    return decision, (*answers, *step.actions)


def _left_alone(vm: WatchedVm, due: DueMoment | None, decision_context: PlanContext) -> str:
    until = kept_to(vm.keeps)
    if due is not None and until == due.at:
        by = next(keep.by for keep in vm.keeps if keep.until == until)
        return f"left alone: kept until {moment_text(due.at, decision_context.zone, decision_context.now)} by {by}"
    if vm.running_since is None:
        return f"{vm.status.value}: only what it stores is billed"
    return (
        due.why
        if due is not None
        else why_running(
            decision_context.preset(vm), vm.preset, vm.age_from or vm.running_since, vm.idle, decision_context.now
        )
    )


def due_of(vm: WatchedVm, subject: Subject | None, decision_context: PlanContext) -> DueMoment | None:
    if subject is None:
        return None
    if vm.running_since is not None:
        preset, now = decision_context.preset(vm), decision_context.now
        return due_of_run(preset, vm.running_since, vm.idle, vm.keeps, now, vm.age_from)
    assert vm.rest_since is not None  # a subject either runs or rests
    return due_of_rest(decision_context.rules.rest, vm.rest_since, vm.keeps, vm.status.value, decision_context.now)


_MINUTE = timedelta(minutes=1)
_BEING_STOPPED = frozenset({Stop.INTENDED, Stop.ASKED, Stop.UNKNOWN})


class NextStep(NamedTuple):
    """The words for people, when the next reminder and the stop are to be expected, and what is done now."""

    reason: str
    next_at: datetime | None = None
    stop_at: datetime | None = None
    actions: tuple[Action, ...] = ()


def next_step(vm: WatchedVm, subject: Subject, due: DueMoment, decision_context: PlanContext) -> NextStep:
    if not decision_context.rules.channel:
        return NextStep(f"{due.why}; no reminder is sent: Slack is not set up")
    if vm.status is Status.PENDING_STOP:
        return NextStep(f"{due.why}; it is shutting down")
    if vm.stop in _BEING_STOPPED:
        return NextStep(f"{due.why}; it is being stopped")
    standing = ladder.standing_of(vm.sent, vm.cycle)
    if subject.kind is SubjectKind.REST:
        return _remind(vm, subject, due, decision_context, standing)
    stop, remark, stop_at = _enforce(vm, subject, due, decision_context, standing)
    if stop is not None:
        return NextStep(f"{remark}: {stop.reason}", None, stop_at, (stop,))
    reason, next_at, _, actions = _remind(vm, subject, due, decision_context, standing)
    return NextStep(f"{reason}{remark}", next_at, stop_at, actions)


def _enforce(
    vm: WatchedVm, subject: Subject, due: DueMoment, decision_context: PlanContext, standing: LadderPosition
) -> tuple[StopInstance | None, str, datetime | None]:
    """The stop by rule, or what people should know about why there is none yet, and when there will be one."""
    preset = decision_context.preset(vm)
    if preset is None or preset.reminders.enforcement is Enforcement.REMIND or vm.running_since is None:
        return None, "", None
    if (keeper := vm.keeper) is not None and not keeper.is_stopped_by(decision_context.rules.stop_through):
        return None, f"; it belongs to {keeper.whose}, so it is never stopped; it is only reminded of", None
    if doubt := why_unknown(vm.origin):
        return None, f"; who keeps it is not known, so no rule stops it: {doubt.rstrip('.')}", None
    if vm.job:
        return None, f"; job {vm.job}, which it works on, has its own limits; it is only reminded of", None
    if vm.is_unknown:
        return None, "; a restored database does not know what it works on; it is only reminded of", None
    rule, is_shadow = preset.reminders, decision_context.rules.is_shadow
    protection = protected_because(vm.name, vm.key.project, vm.labels, decision_context.rules.protection)
    if protection:
        return None, f"; protected by {protection}; it is only reminded of", None
    if vm.stop is Stop.SHADOW:
        return None, "; it would have been stopped, were it not for shadow mode", None
    if vm.stop is Stop.FAILED:
        return None, "; it could not be stopped", None
    at = enforcement.stop_at(rule, standing, due, protection, decision_context.answers_since)
    if at is None:
        return None, "", None
    if at > decision_context.now:
        when = moment_text(at, decision_context.zone, decision_context.now)
        would = f"would be stopped {when}, were it not for shadow mode" if is_shadow else f"is stopped {when}"
        return None, f"; it {would} if nobody answers", None if is_shadow else at
    counted = enforcement.counted_of(rule, standing, due)
    stop = StopInstance(
        subject=subject,
        key=vm.key,
        name=vm.name,
        zone=vm.zone,
        rule=enforcement.rule_text(preset),
        reason=enforcement.reason_text(due, counted, vm.idle, decision_context.zone, decision_context.now),
        due_at=due.at,
        started_at=vm.running_since,
        reminder=counted[-1].key,
        evidence=enforcement.evidence_of(due, counted, vm.idle),
    )
    if is_shadow:
        return stop, "would be stopped now, were it not for shadow mode", None
    return stop, "is stopped now", at


def _remind(
    vm: WatchedVm, subject: Subject, due: DueMoment, decision_context: PlanContext, standing: LadderPosition
) -> NextStep:
    number = standing.stage + 1
    if standing.is_intended:
        return NextStep(
            f"{due.why}; waits until Slack accepts reminder {number}",
            decision_context.quiet_until(vm, decision_context.now),
        )
    contact = decision_context.contact(vm) if ladder.may_need_contact(standing) else ""
    for address in (vm.owner, contact):
        if not decision_context.is_looked_up(address):
            return NextStep(f"{due.why}; Slack was not asked yet who {address} is")
    has_owner = decision_context.person(vm.owner) is not None
    has_contact = decision_context.person(contact) is not None and not (
        has_owner and contact.lower() == vm.owner.lower()
    )
    targets = ladder.targets_of(standing, has_owner, has_contact)
    if not targets:
        if standing.waiting:
            return NextStep(f"{due.why}; waits until Slack accepts an earlier reminder")
        return NextStep(f"{due.why}; Slack refused reminder {number} for good wherever it could go")
    addresses = {Target.OWNER: vm.owner, Target.CHANNEL: decision_context.channel(vm), Target.CONTACT: contact}
    recipients = {target: addresses[target] for target in targets}
    names = list_text(list(recipients.values()))
    at = max(decision_context.now, ladder.next_at(standing, due.at, _every(vm, subject, decision_context)))
    quiet_end = decision_context.quiet_until(vm, at)
    if at > decision_context.now:
        in_time = _rounded((quiet_end or at) - decision_context.now)
        after = ", when the quiet hours are over" if quiet_end is not None else ""
        reason = f"{due.why}; reminder {number} to {names} in {in_time}{after}"
        return NextStep(reason, quiet_end or at)
    if quiet_end is not None:
        until = moment_text(
            quiet_end, decision_context.zone_of(vm.owner), decision_context.now, with_zone=not has_owner
        )
        return NextStep(f"{due.why}; quiet hours{f' of {vm.owner}' if has_owner else ''} until {until}", quiet_end)
    send = SendReminder(subject, vm.key, vm.cycle, standing.stage, recipients, due.why)
    reason = f"{due.why}; reminder {number} goes to {names}"
    return NextStep(reason, decision_context.now, None, (send,))


def _every(vm: WatchedVm, subject: Subject, decision_context: PlanContext) -> timedelta:
    if subject.kind is SubjectKind.REST:
        return decision_context.rules.rest.every
    preset = decision_context.preset(vm)
    assert preset is not None  # only a preset makes a run due
    return preset.reminders.every


def _rounded(span: timedelta) -> str:
    """Formats a span in whole minutes, never too soon."""
    return span_text(-(-span // _MINUTE) * _MINUTE)
