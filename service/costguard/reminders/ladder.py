"""What to do about a VM that is due: stop it, remind somebody, or wait, and for what."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from costguard.model.action import Action, SendReminder, StopInstance
from costguard.model.action import StopOutcome as Stop
from costguard.model.duration import span_text
from costguard.model.instance import Status
from costguard.model.moments import moment_text
from costguard.model.reminder import About, Enforcement, Subject, Target
from costguard.reminders import enforcement, reminder
from costguard.reminders.due import Due
from costguard.reminders.protection import protected_because
from costguard.reminders.reminder import Standing
from costguard.reminders.surroundings import Surroundings
from costguard.reminders.watched import Watched

_MINUTE = timedelta(minutes=1)
_BEING_STOPPED = frozenset({Stop.INTENDED, Stop.ASKED, Stop.UNKNOWN})


class Step(NamedTuple):
    """The words for people, when the next reminder and the stop are to be expected, and what is done now."""

    reason: str
    next_at: datetime | None = None
    stop_at: datetime | None = None
    actions: tuple[Action, ...] = ()


def next_step(vm: Watched, subject: Subject, due: Due, about: Surroundings) -> Step:
    if not about.rules.channel:
        return Step(f"{due.why}; no reminder is sent: Slack is not set up")
    if vm.status is Status.PENDING_STOP:
        return Step(f"{due.why}; it is shutting down")
    if vm.stop in _BEING_STOPPED:
        return Step(f"{due.why}; it is being stopped")
    standing = reminder.standing_of(vm.sent, vm.cycle)
    if subject.about is About.REST:
        return _remind(vm, subject, due, about, standing)
    stop, remark, stop_at = _enforce(vm, subject, due, about, standing)
    if stop is not None:
        return Step(f"{remark}: {stop.reason}", None, stop_at, (stop,))
    reason, next_at, _, actions = _remind(vm, subject, due, about, standing)
    return Step(f"{reason}{remark}", next_at, stop_at, actions)


def _enforce(
    vm: Watched, subject: Subject, due: Due, about: Surroundings, standing: Standing
) -> tuple[StopInstance | None, str, datetime | None]:
    """The stop by rule, or what people should know about why there is none yet, and when there will be one."""
    preset = about.preset(vm)
    if preset is None or preset.reminders.enforcement is Enforcement.REMIND or vm.running_since is None:
        return None, "", None
    if vm.job:
        return None, f"; job {vm.job}, which it works on, has its own limits; it is only reminded of", None
    if vm.is_unknown:
        return None, "; a restored database does not know what it works on; it is only reminded of", None
    rule, is_shadow = preset.reminders, about.rules.is_shadow
    protection = protected_because(vm.name, vm.key.project, vm.labels, about.rules.protection)
    if protection:
        return None, f"; protected by {protection}; it is only reminded of", None
    if vm.stop is Stop.SHADOW:
        return None, "; it would have been stopped, were it not for shadow mode", None
    if vm.stop is Stop.FAILED:
        return None, "; it could not be stopped", None
    at = enforcement.stop_at(rule, standing, due, protection)
    if at is None:
        return None, "", None
    if at > about.now:
        when = moment_text(at, about.zone, about.now)
        would = f"would be stopped {when}, were it not for shadow mode" if is_shadow else f"is stopped {when}"
        return None, f"; it {would} if nobody answers", None if is_shadow else at
    counted = enforcement.counted_of(rule, standing, due)
    stop = StopInstance(
        subject=subject,
        key=vm.key,
        name=vm.name,
        zone=vm.zone,
        rule=enforcement.rule_text(preset),
        reason=enforcement.reason_text(due, counted, vm.idle, about.zone, about.now),
        due_at=due.at,
        started_at=vm.running_since,
        reminder=counted[-1].key,
        evidence=enforcement.evidence_of(due, counted, vm.idle),
    )
    if is_shadow:
        return stop, "would be stopped now, were it not for shadow mode", None
    return stop, "is stopped now", at


def _remind(vm: Watched, subject: Subject, due: Due, about: Surroundings, standing: Standing) -> Step:
    number = standing.stage + 1
    if standing.is_intended:
        return Step(f"{due.why}; waits until Slack accepts reminder {number}", about.quiet_until(vm, about.now))
    contact = about.contact(vm) if reminder.may_need_contact(standing) else ""
    for address in (vm.owner, contact):
        if not about.is_looked_up(address):
            return Step(f"{due.why}; Slack was not asked yet who {address} is")
    has_owner = about.person(vm.owner) is not None
    has_contact = about.person(contact) is not None and not (has_owner and contact.lower() == vm.owner.lower())
    targets = reminder.targets_of(standing, has_owner, has_contact)
    if not targets:
        if standing.waiting:
            return Step(f"{due.why}; waits until Slack accepts an earlier reminder")
        return Step(f"{due.why}; Slack refused reminder {number} for good wherever it could go")
    at = max(about.now, reminder.next_at(standing, due.at, _every(vm, subject, about)))
    quiet_end = about.quiet_until(vm, at)
    if at > about.now:
        in_time = _rounded((quiet_end or at) - about.now)
        after = ", when the quiet hours are over" if quiet_end is not None else ""
        reason = f"{due.why}; reminder {number} to {_names(targets, vm, contact, about)} in {in_time}{after}"
        return Step(reason, quiet_end or at)
    if quiet_end is not None:
        until = moment_text(quiet_end, about.zone_of(vm.owner), about.now, with_zone=not has_owner)
        return Step(f"{due.why}; quiet hours{f' of {vm.owner}' if has_owner else ''} until {until}", quiet_end)
    send = SendReminder(subject, vm.key, vm.cycle, standing.stage, targets, due.why)
    reason = f"{due.why}; reminder {number} goes to {_names(targets, vm, contact, about)}"
    return Step(reason, about.now, None, (send,))


def _every(vm: Watched, subject: Subject, about: Surroundings) -> timedelta:
    if subject.about is About.REST:
        return about.rules.rest.every
    preset = about.preset(vm)
    assert preset is not None  # only a preset makes a run due
    return preset.reminders.every


def _names(targets: tuple[Target, ...], vm: Watched, contact: str, about: Surroundings) -> str:
    named = {Target.OWNER: vm.owner, Target.CHANNEL: about.channel(vm), Target.CONTACT: contact}
    names = [named[target] for target in targets]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _rounded(span: timedelta) -> str:
    """In whole minutes, never too soon."""
    return span_text(-(-span // _MINUTE) * _MINUTE)
