"""Decides how an attempt's run ended, or when its silence will count as an end.

An agent's last report comes first, then what Google says of the VM, then a notice of preemption, then silence.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.jobs.decide.checkpoints.disk import filled
from costguard.jobs.decide.recovery.log_ends import said_by
from costguard.jobs.decide.view import JobContext, PresentRun, VmState, dies_within, has_ended, place_of
from costguard.ledger.owner import is_person
from costguard.model.attempt import (
    HUNG,
    PUBLISHING,
    SAVING,
    SETUP_FAILED,
    VM_HOURS,
    Attempt,
    Exit,
    Notice,
    Outcome,
)
from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.job import EarlyEnd, Job, JobKind, Terms
from costguard.model.launch import OperationAnswer
from costguard.model.lifetime import EndReason
from costguard.model.moments import clock_text
from costguard.refusals.explanation import Explanation, RefusalKind
from costguard.refusals.reader import explain

NAME_TAKEN = "RESOURCE_ALREADY_EXISTS"
_SERVICE = "compute.googleapis.com"

_STOCKOUTS = (
    "ZONE_RESOURCE_POOL_EXHAUSTED",
    "RESOURCE_POOL_EXHAUSTED",
    "STOCKOUT",
    # Not ready yet, or lost to a preemption while it was being made: another place, or the same one later, may do.
    "RESOURCE_NOT_READY",
    "RESOURCE_IN_USE",
    "UNSUPPORTED_OPERATION",
)
# Some failures have nothing but an HTTP status.
_STATUSES = {
    "400": Outcome.REFUSED,
    "403": Outcome.QUOTA,
    "404": Outcome.REFUSED,
    "429": Outcome.QUOTA,
    "503": Outcome.STOCKOUT,
}
_QUOTAS = ("QUOTA_EXCEEDED", "QUOTAS_EXCEEDED", "LIMIT_EXCEEDED")
_REFUSALS = (
    "INVALID",
    "BAD_REQUEST",
    "PERMISSIONS_ERROR",
    "PERMISSION_DENIED",
    "FORBIDDEN",
    "RESOURCE_NOT_FOUND",
    NAME_TAKEN,
    "CONDITION_NOT_MET",
    "REQUIRED",
    "UNSUPPORTED",
)


# What Google's words say where it gives neither a code of these nor a status.
_BY_KIND = {
    RefusalKind.STOCKOUT: Outcome.STOCKOUT,
    RefusalKind.QUOTA: Outcome.QUOTA,
    **dict.fromkeys(
        (
            RefusalKind.API_DISABLED,
            RefusalKind.BILLING,
            RefusalKind.ORG_POLICY,
            RefusalKind.PERMISSION,
            RefusalKind.RESERVATION,
            RefusalKind.SCOPE,
            RefusalKind.VPC_SERVICE_CONTROLS,
        ),
        Outcome.REFUSED,
    ),
}
# A stockout passes by itself, and a limit of requests, too.
_PASSES = frozenset({RefusalKind.STOCKOUT, RefusalKind.RATE_LIMITED, RefusalKind.UNKNOWN})


# A reservation is full for now, or not ready yet. The first are Google's words as kubernetes/autoscaler matches them
# (autoscaling_gce_client_test.go), with code CONDITION_NOT_MET; the others are recorded in tests/refusals.
_RESERVATION_FULL = re.compile(
    r"No available resources in specified reservations?|Insufficient reserved capacity|"
    r"RESERVATION_CAPACITY_EXCEEDED|to a reservation with status|RESERVATION_NOT_READY",
    re.IGNORECASE,
)


def is_reservation_full(words: str) -> bool:
    """Says whether the reservation that a VM names has no room for it now: the same request may succeed later."""
    return _RESERVATION_FULL.search(words) is not None


def outcome_of(answer: OperationAnswer) -> Outcome:
    """Returns how the attempt ended. An unknown error counts as LOST: it is tried again, though not for ever."""
    code = answer.error_code.upper()
    if is_reservation_full(f"{code} {answer.error_message}"):
        return Outcome.STOCKOUT
    for outcome, codes in ((Outcome.STOCKOUT, _STOCKOUTS), (Outcome.QUOTA, _QUOTAS), (Outcome.REFUSED, _REFUSALS)):
        if code.startswith(codes):
            return outcome
    return _STATUSES.get(code) or _BY_KIND.get(_explained(answer).kind, Outcome.LOST)


def words_of(answer: OperationAnswer, project: str = "") -> str:
    """Google's words with its code where the words do not hold it, and what mends it; without a full stop."""
    said = " ".join(answer.error_message.split()).rstrip(".")
    if not said:
        return f"Google says {answer.error_code}"
    words = said if answer.error_code in said else f"{said} ({answer.error_code})"
    reading = _explained(answer, project)
    return words if reading.kind in _PASSES or not reading.mend else f"{words}. {reading.mend.rstrip('.')}"


def _explained(answer: OperationAnswer, project: str = "") -> Explanation:
    error = {"code": answer.error_code, "message": answer.error_message}
    return explain({"errors": [error]}, service=_SERVICE, project=project)


_VERBS = {EndReason.STOPPED: "stopped", EndReason.SUSPENDED: "suspended", EndReason.DELETED: "deleted"}


def vm_end(vm: VmState, attempt: Attempt, now: datetime) -> tuple[Outcome, str]:
    """The outcome, and a sentence about it.

    REMOVED is by a person, who wants it gone. What a service account did, or nobody known, is LOST: work goes on.
    """
    place = place_of(attempt)
    match vm.end_reason:
        case EndReason.PREEMPTED:
            return Outcome.PREEMPTED, f"preempted in {place}"
        case EndReason.HOST_ERROR:
            return Outcome.HOST_ERROR, f"the host of its VM in {place} failed"
        case EndReason.HOST_MAINTENANCE:
            return Outcome.HOST_ERROR, f"its VM in {place} was ended for maintenance of its host"
        case EndReason.RUN_TIME_LIMIT:
            return Outcome.TIME_LIMIT, f"its VM reached its limit of {span_text(attempt.max_run)}"
        case EndReason.GUEST_SHUTDOWN:
            return Outcome.LOST, f"its VM in {place} was shut down from within"
        case EndReason.RECREATED:
            return Outcome.LOST, f"its VM in {place} was recreated by a managed instance group"
    verb = _VERBS.get(vm.end_reason, "ended") if vm.end_reason is not None else "ended"
    moment = vm.ended_at or vm.gone_at
    when = f" at {clock_text(moment, now)}" if moment is not None else ""
    if verb != "ended" and is_person(vm.ended_by):
        return Outcome.REMOVED, f"its VM in {place} was {verb} by {vm.ended_by}{when}"
    if vm.ended_by:
        return Outcome.LOST, f"its VM in {place} was {verb} by {vm.ended_by}{when}"
    return (
        Outcome.LOST,
        f"its VM in {place} {'was ' + verb if verb != 'ended' else verb}{when}, and it is not known by whom",
    )


_FACTS_ARRIVE = timedelta(minutes=2)  # until a pass has read why a VM is shut down
_TO_HEAR = timedelta(seconds=30)  # from asking for a stop until the agent has heard of it
_PUBLISHES = timedelta(hours=1)  # in which the agent may publish after a command that was ended since it was flat
_BRINGS_AWAY = frozenset({SAVING, PUBLISHING})
_RETURNS = timedelta(seconds=90)  # until an agent that nobody heard has tried again: a call, and a minute of backoff
_SAME_CAUSE = timedelta(minutes=5)  # a command that fails so soon after a notice failed because of it
_JUST_BEFORE = timedelta(seconds=5)  # the notice is read every now and then
_KILLED = frozenset({137, 143})  # codes of a container that got SIGKILL or SIGTERM

_GOOGLES_ENDS = frozenset({Outcome.PREEMPTED, Outcome.TIME_LIMIT})
_MACHINE_ENDS = _GOOGLES_ENDS | {Outcome.HOST_ERROR, Outcome.REMOVED}


@dataclass(frozen=True, slots=True)
class RunEnd:
    """`due_at` is from when on it is concluded, unless something else is learnt before."""

    outcome: Outcome
    reason: str
    happened_at: datetime
    noticed_by: Notice
    due_at: datetime


def ending(run: PresentRun, job: Job, context: JobContext) -> RunEnd | None:
    """The earliest conclusion about a run; it is none yet where it is due later. None: only news can end it."""
    seen = _of_vm(run, context)
    if job.spec.kind is JobKind.DEV:
        return _of_dev(run, seen)
    last_word = _by_report(run, job, seen, context)
    if last_word is not None or seen is not None:
        return last_word or seen
    ends = (_noticed(run, context), _stop_ignored(run, job, context), _silent(run, context))
    return min((end for end in ends if end is not None), key=lambda end: end.due_at, default=None)


def all_silent(last_words: Collection[datetime], terms: Terms, now: datetime, listening_since: datetime) -> bool:
    """Says whether at least two agents are all silent: then rather the guard itself cannot be reached.

    `last_words` has one moment for each open attempt whose agent was ever heard. Half the time that counts as silence
    is enough, for the last reports of several agents are not of one moment.
    """
    agent = [max(moment, listening_since) for moment in last_words]
    return len(agent) > 1 and all(now - moment > terms.silence / 2 for moment in agent)


def _by_report(run: PresentRun, job: Job, seen: RunEnd | None, context: JobContext) -> RunEnd | None:
    """Interprets the agent's last report, with Google's reason where the machine ended the command."""
    end = run.agent.exit
    if end is None:
        return None
    if end.is_success:
        return _now(Outcome.SUCCEEDED, "finished with code 0", end, context)
    place = place_of(run.attempt)
    noticed = run.agent.noticed_at
    if end.asked == "preemption" or (noticed is not None and -_JUST_BEFORE <= end.at - noticed <= _SAME_CAUSE):
        by = Notice.NOTICE if noticed is not None else Notice.EXIT
        return RunEnd(Outcome.PREEMPTED, f"preempted in {place}", noticed or end.at, by, context.now)
    if seen is not None and seen.outcome in _MACHINE_ENDS and seen.happened_at <= end.at + context.terms.dying:
        return seen
    if end.reason == "not_started":
        return _now(
            Outcome.NOT_STARTED,
            f"the command could not be started: {end.error or 'no reason given'}{_filled(end)}",
            end,
            context,
        )
    if end.reason == SETUP_FAILED and not end.asked and not _may_be_shutdown(run, end):
        return _now(*_failure(run, end), end, context)
    if end.reason == "not_published":
        reason = f"the command succeeded, and its outputs could not be published: {end.error or 'no reason given'}"
        return _now(Outcome.NOT_PUBLISHED, f"{reason}{_filled(end)}", end, context)
    if end.asked == "maintenance":
        return _now(Outcome.HOST_ERROR, f"stopped for maintenance of its host in {place}", end, context)
    if end.asked in ("cancel", HUNG, EarlyEnd.FLAT):
        return _asked(run, job, end, context)
    if end.asked == "shutdown" or end.reason == "cut_off" or _may_be_shutdown(run, end):
        is_explained = seen is not None and (seen.outcome is not Outcome.LOST or seen.noticed_by is Notice.OPERATION)
        return seen if is_explained else _unexplained(run, end, context)
    return _now(*_failure(run, end), end, context)


def _failure(run: PresentRun, end: Exit) -> tuple[Outcome, str]:
    """Returns the failure of the command, or of the setup before it."""
    if end.reason == SETUP_FAILED:
        return (
            Outcome.NOT_STARTED,
            f"the setup failed{f': {end.error}' if end.error else f' with {how(end)}'}{_filled(end)}",
        )
    return Outcome.CRASHED, f"the command failed with {how(end)}{_filled(end) or said_by(run.agent.output)}"


def _asked(run: PresentRun, job: Job, end: Exit, context: JobContext) -> RunEnd:
    if job.cancel_asked_at is not None or run.attempt.stop_why == "cancel":
        return _now(Outcome.CANCELLED, "the command ended after SIGTERM", end, context)
    if run.attempt.stop_why:
        return _now(*_STOPPED_FOR[run.attempt.stop_why], end, context)
    return _now(Outcome.LOST, "the agent was asked to stop, and the reason is not known", end, context)


def _may_be_shutdown(run: PresentRun, end: Exit) -> bool:
    """A Spot VM that is shut down without notice may first show as a killed command."""
    is_spot = run.attempt.provisioning_model is ProvisioningModel.SPOT
    return is_spot and (end.signal in {9, 15} or end.code in _KILLED)


def _unexplained(run: PresentRun, end: Exit, context: JobContext) -> RunEnd:
    """Decides once Google has had time to say why the machine ended the command."""
    due = max(end.at, run.agent.at or end.at) + _FACTS_ARRIVE
    place = place_of(run.attempt)
    if run.began_at is not None and end.at - run.began_at >= run.attempt.max_run - context.terms.dying:
        return _now(Outcome.TIME_LIMIT, f"its VM reached its limit of {span_text(run.attempt.max_run)}", end, context)
    if end.asked == "shutdown" and run.attempt.provisioning_model is ProvisioningModel.SPOT:
        reason = f"its VM in {place} was shut down, and nothing else explains it: treated as a preemption"
        return RunEnd(Outcome.PREEMPTED, reason, end.at, Notice.EXIT, due)
    if end.asked == "shutdown" or end.reason == "cut_off":
        reason = f"its VM in {place} was shut down or restarted for an unknown reason"
        return RunEnd(Outcome.LOST, reason, end.at, Notice.EXIT, due)
    return RunEnd(*_failure(run, end), end.at, Notice.EXIT, due)


def _of_vm(run: PresentRun, context: JobContext) -> RunEnd | None:
    """Interprets the end of its VM; a notice explains one that Google does not."""
    if run.vm is None or not has_ended(run.vm):
        return None
    outcome, reason = vm_end(run.vm, run.attempt, context.now)
    happened = run.vm.ended_at or run.vm.gone_at or context.now
    if outcome is Outcome.LOST and run.agent.noticed_at is not None:
        return RunEnd(Outcome.PREEMPTED, f"preempted in {place_of(run.attempt)}", happened, Notice.NOTICE, context.now)
    if outcome is not Outcome.LOST or run.vm.ended_by or run.vm.end_reason is EndReason.GUEST_SHUTDOWN:
        return RunEnd(outcome, reason, happened, Notice.OPERATION, context.now)
    return RunEnd(outcome, reason, happened, Notice.STATUS, happened + _FACTS_ARRIVE)


def _of_dev(run: PresentRun, seen: RunEnd | None) -> RunEnd | None:
    """A development VM that was merely stopped has not ended: its disk holds its owner's work."""
    is_gone = run.vm is not None and run.vm.gone_at is not None
    return seen if seen is not None and (is_gone or seen.outcome in _GOOGLES_ENDS) else None


def _noticed(run: PresentRun, context: JobContext) -> RunEnd | None:
    """Decides after a notice.

    The agent goes on until the machine dies: not before the notice is over, and from its last report on, by the
    guard's own clock.
    """
    noticed = run.agent.noticed_at
    if noticed is None:
        return None
    silent = _since(run.agent.at or noticed, context) + context.terms.dying
    due = max(silent, _since(noticed, context) + dies_within(run.attempt, context.terms))
    return RunEnd(Outcome.PREEMPTED, f"preempted in {place_of(run.attempt)}", noticed, Notice.NOTICE, due)


def _stop_ignored(run: PresentRun, job: Job, context: JobContext) -> RunEnd | None:
    attempt, patience = run.attempt, context.terms.cancel_grace + _TO_HEAR
    if attempt.stop_asked_at is None:
        return None
    due = latest = _since(attempt.stop_asked_at, context) + patience
    if job.early is EarlyEnd.FLAT and run.agent.phase in _BRINGS_AWAY and run.agent.at is not None:
        due = max(latest, min(_since(run.agent.at, context) + patience, latest + _PUBLISHES))
    outcome, reason = _STOPPED_FOR.get(attempt.stop_why, _STOPPED_FOR["cancel"])
    return RunEnd(outcome, f"{reason}; its end was not reported", due, Notice.SILENCE, due)


def _silent(run: PresentRun, context: JobContext) -> RunEnd | None:
    """Nothing is concluded where our own door may be shut, or where nobody can say whether the VM runs."""
    if context.all_silent or (run.vm is not None and not run.vm.is_known) or is_unheard(run, context):
        return None
    place, terms = place_of(run.attempt), context.terms
    if run.agent.at is not None:
        due = max(_since(run.agent.at, context) + terms.silence, context.listening_since + _RETURNS)
        reason = f"its agent in {place} last reported at {clock_text(run.agent.at, context.now)}"
        return RunEnd(Outcome.LOST, reason, run.agent.at, Notice.SILENCE, due)
    if run.began_at is None:
        return None
    due = _since(run.began_at, context) + terms.boot
    reason = f"its VM in {place} did not report within {span_text(terms.boot)} of its start"
    return RunEnd(Outcome.NOT_STARTED, reason, due, Notice.SILENCE, due)


def _since(moment: datetime, context: JobContext) -> datetime:
    """Returns the moment from which a span counts: not before this guard listens."""
    return max(moment, context.listening_since)


def is_unheard(run: PresentRun, context: JobContext) -> bool:
    """Says whether nothing was heard of an agent since the database's generation began, before which it was launched.

    Then it may speak to another guard, which works with a copy of this database, or with what came after the backup.
    """
    began_at = context.generation.began_at
    if began_at is None or run.attempt.generation >= context.generation.number:
        return False
    return run.agent.at is None or run.agent.at < began_at


def how(end: Exit) -> str:
    """`code 3`, `signal 9`."""
    if end.signal is not None:
        return f"signal {end.signal}"
    return f"code {end.code}" if end.code is not None else "no code"


def _filled(end: Exit) -> str:
    full = filled(end)
    return f"; {full}" if full else ""


def _now(outcome: Outcome, reason: str, end: Exit, context: JobContext) -> RunEnd:
    return RunEnd(outcome, reason, end.at, Notice.EXIT, context.now)


_STOPPED_FOR = {
    "cancel": (Outcome.CANCELLED, "the command was asked to stop"),
    "pause": (Outcome.PAUSED, "stopped because a budget is spent"),
    "ceiling": (Outcome.TIME_LIMIT, "stopped because its ceiling is reached"),
    VM_HOURS: (Outcome.TIME_LIMIT, "stopped because its VM hours are used up"),
    HUNG: (Outcome.CRASHED, "the command made no progress, and was stopped to run again"),
    "limit": (Outcome.TIME_LIMIT, "stopped because its time on its reservation is over"),
    "deadline": (Outcome.TIME_LIMIT, "stopped because its deadline has come"),
    "move": (Outcome.MOVED, "stopped to go on elsewhere, as planned"),
}
