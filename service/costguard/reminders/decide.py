"""What to do about every VM: an action, or the reason to leave it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from costguard.access.rules import Rules
from costguard.model.action import Action, KeepLifetime, RefuseRequest
from costguard.model.moments import moment_text
from costguard.model.person import Acquaintance
from costguard.model.reminder import Asked, Subject
from costguard.reminders import reminder
from costguard.reminders.answer import settle
from costguard.reminders.due import Due, due_of_rest, due_of_run, kept_to, past_limit, why_running
from costguard.reminders.ladder import next_step
from costguard.reminders.surroundings import Surroundings
from costguard.reminders.watched import Decision, Plan, Watched, subject_of

__all__ = ["Decision", "Plan", "Watched", "addresses_needed", "decide", "subject_of"]

_SOON = timedelta(hours=1)


def decide(
    fleet: Sequence[Watched],
    rules: Rules,
    unread: Mapping[str, frozenset[str]],
    people: Mapping[str, Acquaintance],
    now: datetime,
) -> Plan:
    """`unread` holds the zones of each project that the last look could not read; "*" stands for all.

    `people` are those who were looked up, by their addresses in lower case.
    """
    about = Surroundings(rules, people, now)
    decisions: list[Decision] = []
    actions: list[Action] = []
    for vm in fleet:
        decision, found = _decide(vm, about, unread.get(vm.key.project, frozenset()))
        decisions.append(decision)
        actions += found
    return Plan(tuple(decisions), tuple(actions))


def addresses_needed(fleet: Sequence[Watched], rules: Rules, now: datetime) -> set[str]:
    """Whose Slack accounts decisions within the next hour may rest on; in lower case."""
    if not rules.channel:
        return set()
    about = Surroundings(rules, {}, now)
    needed: set[str] = set()
    for vm in fleet:
        if vm.requests:
            needed |= {each.by.lower() for each in vm.requests if each.asked is Asked.KEEP and each.hours is None}
        due = due_of(vm, subject_of(vm), about)
        if due is not None and due.at <= now + _SOON:
            needed.add(vm.owner.lower())
            if reminder.may_need_contact(reminder.standing_of(vm.sent, vm.cycle), ahead=1):
                needed.add(about.contact(vm).lower())
    return needed - {""}


def _decide(vm: Watched, about: Surroundings, unread: frozenset[str]) -> tuple[Decision, tuple[Action, ...]]:
    subject = subject_of(vm)
    due = due_of(vm, subject, about)
    due_at = due.at if due is not None else None
    if vm.is_gone:
        return Decision(vm.key, vm.name, "gone: there is nothing left to do about it"), settle(vm, due, about)
    if vm.zone in unread or "*" in unread:
        reason = f"not known: {vm.zone} could not be read, so nothing is decided about it"
        return Decision(vm.key, vm.name, reason, False, subject, due_at, is_known=False), ()
    answers = settle(vm, due, about) if vm.requests else ()
    if answers and not isinstance(answer := answers[-1], RefuseRequest):
        # What is asked for is carried out first; what follows from it is decided at the next pass.
        moment = answer.until if isinstance(answer, KeepLifetime) else due_at
        return Decision(vm.key, vm.name, answer.reason, False, subject, moment), answers
    if due is None or subject is None or due.at > about.now:
        reason = _left_alone(vm, due, about)
        return Decision(vm.key, vm.name, reason, False, subject, due_at, next_at=due_at), answers
    late = vm.running_since is not None and past_limit(about.preset(vm), vm.running_since, about.now)
    step = next_step(vm, subject, due, about)
    decision = Decision(vm.key, vm.name, step.reason, late, subject, due_at, step.next_at, step.stop_at)
    return decision, (*answers, *step.actions)


def _left_alone(vm: Watched, due: Due | None, about: Surroundings) -> str:
    until = kept_to(vm.keeps)
    if due is not None and until == due.at:
        by = next(keep.by for keep in vm.keeps if keep.until == until)
        return f"left alone: kept until {moment_text(due.at, about.zone, about.now)} by {by}"
    if vm.running_since is None:
        return f"{vm.status.value}: only what it stores is billed"
    return (
        due.why if due is not None else why_running(about.preset(vm), vm.preset, vm.running_since, vm.idle, about.now)
    )


def due_of(vm: Watched, subject: Subject | None, about: Surroundings) -> Due | None:
    if subject is None:
        return None
    if vm.running_since is not None:
        return due_of_run(about.preset(vm), vm.running_since, vm.idle, vm.keeps, about.now)
    assert vm.rest_since is not None  # a subject either runs or rests
    return due_of_rest(about.rules.rest, vm.rest_since, vm.keeps, vm.status.value, about.now)
