"""Explains in one sentence why a VM was not stopped. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from costguard.access.rules import Rules
from costguard.keepers.reading import why_unknown
from costguard.model.action import StopOutcome
from costguard.model.delivery.person import AccountLookup
from costguard.model.duration import span_text
from costguard.model.instance import Status
from costguard.model.moments import moment_text
from costguard.model.preset import Preset
from costguard.model.reminder import Enforcement, RequestKind
from costguard.model.utilisation import Evidence, IdleState
from costguard.model.words import list_text
from costguard.reminders import enforcement, ladder
from costguard.reminders.context import PlanContext
from costguard.reminders.decide import due_of, next_step
from costguard.reminders.enforcement import protected_because
from costguard.reminders.ladder import DueMoment, kept_to
from costguard.reminders.watched import WatchedVm, subject_of


class StopBlocker(StrEnum):
    """The reason why a VM is not stopped, the first that applies."""

    GONE = "gone"
    NOT_RUNNING = "not_running"
    STOPPING = "stopping"
    NOT_READ = "not_read"
    REQUESTED = "requested"  # someone asked for a stop, and the next pass carries it out
    FAILED = "failed"
    KEEPER = "keeper"  # a managed instance group or a service of Google owns it
    NO_PRESET = "no_preset"
    REMINDS_ONLY = "reminds_only"
    JOB = "job"
    PROTECTED = "protected"
    NO_LIMIT = "no_limit"
    KEPT = "kept"
    NOT_DUE = "not_due"
    NO_SLACK = "no_slack"
    WEAK_EVIDENCE = "weak_evidence"
    WARNINGS = "warnings"
    GRACE = "grace"
    SHADOW = "shadow"
    DUE_NOW = "due_now"


@dataclass(frozen=True, slots=True)
class StopDiagnosis:
    """`reason` is a clause; `missing` is what a stop by the rule still needs, in order; `step` happens at `at`."""

    cause: StopBlocker
    reason: str
    rule: str = ""  # `preset a100: stop after 3 unanswered reminders and 1 h`; "" where no rule stops anything
    missing: tuple[str, ...] = ()
    step: str = ""
    at: datetime | None = None

    def sentence(self, now: datetime, show: Callable[[datetime], str] | None = None) -> str:
        """`Not stopped: its limit of 8 h has not passed (preset t4: stop after ...); ...`"""
        rule = f" ({self.rule})" if self.rule else ""
        missing = f"; still missing: {list_text(self.missing)}" if self.missing else ""
        moment = show(self.at) if show and self.at else moment_text(self.at, _UTC, now) if self.at else ""
        step = f"; {self.step}{' ' if moment else ''}{moment}" if self.step else ""
        return f"{_OPENINGS.get(self.cause, 'Not stopped')}: {self.reason}{rule}{missing}{step}."


_UTC = ZoneInfo("UTC")
_OPENINGS = {
    StopBlocker.GONE: "Nothing to stop",
    StopBlocker.NOT_RUNNING: "Nothing to stop",
    StopBlocker.STOPPING: "Not stopped yet",
}
_BEING_STOPPED = frozenset({StopOutcome.INTENDED, StopOutcome.ASKED, StopOutcome.UNKNOWN})
_OFF = {
    Status.STOPPED: "it is already stopped",
    Status.SUSPENDED: "it is already suspended",
    Status.STOPPING: "it is already stopping",
    Status.SUSPENDING: "it is already being suspended",
    Status.DEPROVISIONING: "it is already being deleted",
}
GONE = StopDiagnosis(StopBlocker.GONE, "it no longer exists")


def why_not_stopped(
    vm: WatchedVm,
    rules: Rules,
    people: Mapping[str, AccountLookup],
    measured: Evidence | None,
    now: datetime,
) -> StopDiagnosis:
    """Explains by the rules of a pass the first thing that keeps a stop from happening.

    `measured` is what is known of the VM's use.
    """
    context = PlanContext(rules, people, now)
    if (diagnosis := _state(vm)) is not None:
        return diagnosis
    if (keeper := vm.keeper) is not None and not keeper.is_stopped_by(rules.stop_through):
        reason = f"it belongs to {keeper.whose}, and {keeper.effect}"
        return StopDiagnosis(StopBlocker.KEEPER, reason, step=keeper.advice(vm.name, vm.key.project))
    if (doubt := why_unknown(vm.origin)) and not vm.job:
        reason = f"who keeps it is not known, so no rule stops it: {doubt.rstrip('.')}"
        return StopDiagnosis(StopBlocker.KEEPER, reason)
    preset = context.preset(vm)
    if preset is None:
        return StopDiagnosis(StopBlocker.NO_PRESET, f"no rule is set for preset {vm.preset}")
    if (diagnosis := _out_of_reach(vm, preset, rules)) is not None:
        return diagnosis
    due = due_of(vm, subject_of(vm), context)
    diagnosis = _waiting(vm, preset, due, measured, context)
    if rules.is_shadow and diagnosis.cause not in (StopBlocker.SHADOW, StopBlocker.NO_LIMIT):
        note = f"{diagnosis.reason}; and shadow mode is on, in which rules stop nothing"
        return StopDiagnosis(diagnosis.cause, note, diagnosis.rule, diagnosis.missing, diagnosis.step, diagnosis.at)
    return diagnosis


def _state(vm: WatchedVm) -> StopDiagnosis | None:
    """Diagnoses by the VM's own state, whatever the rules say."""
    if vm.is_gone:
        return GONE
    if vm.is_unread:
        where = vm.part if vm.part != vm.zone else f"zone {vm.zone}"
        return StopDiagnosis(StopBlocker.NOT_READ, f"{where} could not be read, so nothing is decided about it")
    if vm.status is Status.PENDING_STOP:
        return StopDiagnosis(StopBlocker.STOPPING, "it is shutting down")
    if vm.running_since is None:
        is_off = vm.status in _OFF
        return StopDiagnosis(
            StopBlocker.NOT_RUNNING, _OFF[vm.status] if is_off else f"it is {vm.status.value}, not running yet"
        )
    if vm.stop in _BEING_STOPPED:
        return StopDiagnosis(StopBlocker.STOPPING, "its stop is under way")
    stops = [request for request in vm.requests if request.kind is RequestKind.STOP]
    if stops:
        return StopDiagnosis(
            StopBlocker.REQUESTED, f"{stops[0].by} asked to stop it, and the next pass carries that out"
        )
    if vm.stop is StopOutcome.FAILED:
        return StopDiagnosis(StopBlocker.FAILED, "its stop failed; its events say how Google answered")
    return None


def _out_of_reach(vm: WatchedVm, preset: Preset, rules: Rules) -> StopDiagnosis | None:
    """Diagnoses a VM that no rule ever stops."""
    rule = preset.reminders
    if rule.enforcement is Enforcement.REMIND:
        how = f'presets.{preset.name}.when_unanswered = "stop" would change that'
        return StopDiagnosis(StopBlocker.REMINDS_ONLY, f"preset {preset.name} only reminds ({how})")
    text = enforcement.rule_text(preset)
    if vm.job:
        return StopDiagnosis(StopBlocker.JOB, f"it works on job {vm.job}, which has limits of its own", text)
    if vm.is_unknown:
        return StopDiagnosis(StopBlocker.JOB, "the database was restored and does not know which job it works on", text)
    if protection := protected_because(vm.name, vm.key.project, vm.labels, rules.protection):
        return StopDiagnosis(StopBlocker.PROTECTED, f"it is protected by {protection}", text)
    if preset.limit is None:
        return StopDiagnosis(
            StopBlocker.NO_LIMIT, f"preset {preset.name} sets no limit, so its rule never begins", text
        )
    return None


def _waiting(
    vm: WatchedVm, preset: Preset, due: DueMoment | None, measured: Evidence | None, decision_context: PlanContext
) -> StopDiagnosis:
    """Diagnoses the progress of its rule, and what it still needs."""
    assert due is not None  # it runs, and its preset has a limit
    rule, text, now = preset.reminders, enforcement.rule_text(preset), decision_context.now
    warnings, grace = _reminders(rule.stop_after), f"{span_text(rule.grace)} of grace"
    until = kept_to(vm.keeps)
    if until is not None and until > now and until >= due.at:
        keep = next(keep for keep in vm.keeps if keep.until == until)
        why = f" ({keep.reason})" if keep.reason else ""
        return StopDiagnosis(
            StopBlocker.KEPT, f"{keep.by} keeps it{why}", text, (warnings, grace), "the keep ends", until
        )
    if due.at > now:
        reason = f"its limit of {_limit(preset)} has not passed, and {_use(measured)}"
        return StopDiagnosis(StopBlocker.NOT_DUE, reason, text, ("the limit", warnings, grace), "it is due", due.at)
    if vm.stop is StopOutcome.SHADOW:
        return StopDiagnosis(
            StopBlocker.SHADOW, "shadow mode is on, else it would have been stopped", text, (), _SHADOW
        )
    if not decision_context.rules.channel:
        reason = "Slack is not set up, and nothing is stopped without reminders that were accepted"
        return StopDiagnosis(StopBlocker.NO_SLACK, reason, text, (warnings, grace))
    if due.firm_at is not None and due.firm_at > now:
        reason = "it may be idle by CPU and network alone, which is enough to remind and not to stop"
        missing = ("firm evidence or the limit", warnings, grace)
        return StopDiagnosis(StopBlocker.WEAK_EVIDENCE, reason, text, missing, "its limit passes", due.firm_at)
    return _warned(vm, preset, due, decision_context, text)


def _warned(vm: WatchedVm, preset: Preset, due: DueMoment, decision_context: PlanContext, text: str) -> StopDiagnosis:
    rule = preset.reminders
    standing = ladder.standing_of(vm.sent, vm.cycle)
    at = enforcement.stop_at(rule, standing, due, "")
    grace = f"{span_text(rule.grace)} of grace"
    if at is None:
        assert due.firm_at is not None  # of what runs
        wanted = max(1, rule.stop_after)
        count = sum(stage.at >= due.firm_at for stage in standing.warned)
        reason = f"{count} of {_reminders(wanted)} {'has' if wanted == 1 else 'have'} gone without an answer"
        subject = subject_of(vm)
        assert subject is not None  # it runs
        step = next_step(vm, subject, due, decision_context)
        missing = (_reminders(wanted - count, "more "), grace)
        if standing.is_intended or step.next_at is None:
            return StopDiagnosis(StopBlocker.WARNINGS, reason, text, missing, "Slack has to accept the next one")
        return StopDiagnosis(StopBlocker.WARNINGS, reason, text, missing, "the next one is due", step.next_at)
    if at > decision_context.now:
        reason = f"the grace of {span_text(rule.grace)} after the last reminder is not over"
        return StopDiagnosis(StopBlocker.GRACE, reason, text, (), "if nobody answers, it is stopped", at)
    if decision_context.rules.is_shadow:
        return StopDiagnosis(StopBlocker.SHADOW, "shadow mode is on, else it would be stopped now", text, (), _SHADOW)
    return StopDiagnosis(StopBlocker.DUE_NOW, "everything is there, and the next pass stops it", text)


_SHADOW = "set enforcement.shadow = false to let rules stop VMs"


def _limit(preset: Preset) -> str:
    assert preset.limit is not None  # else it is never due
    return span_text(preset.limit)


def _use(measured: Evidence | None) -> str:
    if measured is None or measured.state is IdleState.UNKNOWN:
        return "whether it is idle is not known"
    return "it is busy" if measured.state is IdleState.BUSY else "it is not known to be idle for long enough"


def _reminders(count: int, more: str = "") -> str:
    return f"{count} {more}unanswered reminder{'' if count == 1 else 's'}"
