"""Judges whether a tip was followed, by evidence alone, and what that saved. Pure.

A tip counts in the quarter in which it was first given. Nothing counts as followed because it became better by itself:
a user has to have done what the tip said within its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from costguard.model.lifetime import EndReason
from costguard.model.money import ZERO, Money, Priced
from costguard.spend.savings import MOST, of_stop

WINDOW = timedelta(hours=24)
"""The time after a reminder or a hint within which a stop counts as following it."""
NEXT_RUN = timedelta(days=14)
"""The time after a diagnosis within which the next run of the same training is waited for."""
_BY_A_USER = frozenset({EndReason.STOPPED, EndReason.SUSPENDED, EndReason.DELETED})
_BY_GOOGLE = frozenset(
    {
        EndReason.PREEMPTED,
        EndReason.HOST_ERROR,
        EndReason.HOST_MAINTENANCE,
        EndReason.RUN_TIME_LIMIT,
        EndReason.RECREATED,
    }
)

METHODS = {
    "reminder": "A reminder of a running VM or other resource is followed where a user stopped, suspended or deleted "
    "it within 24 hours of the last one, in Slack or at Google; a stop by a rule is none. Saved is its hourly rate "
    "then, times the time until it ran again, until now, or 24 hours, whichever is shortest.",
    "standstill": "A hint that a metric stands still is followed where a user asked within 24 hours to cancel the job. "
    "Saved is the hourly rate of its VMs, times the time until the same training ran again, until now, until its "
    "expected end, or 24 hours, whichever is shortest.",
    "diagnosis": "A diagnosis is followed where the next run of the same training within 14 days is bound by something "
    "else, and a step of it costs less. Saved is what that run would have cost at the old cost of a step, less what it "
    "cost. Later runs save as well, and are not counted.",
}


class TipKind(StrEnum):
    REMINDER = "reminder"  # of a VM that runs past its limit
    STANDSTILL = "standstill"  # of a job whose metric does not improve any more
    DIAGNOSIS = "diagnosis"  # of what a job's steps wait for, with what to change


class TipOutcome(StrEnum):
    FOLLOWED = "followed"
    NOT_FOLLOWED = "not_followed"
    PENDING = "pending"  # it may still be followed
    UNKNOWN = "unknown"  # what happened after it does not show whether a user followed it


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome with its evidence. `saved` is None where nothing was saved, and not whole where it is not known."""

    outcome: TipOutcome
    evidence: str
    saved: Priced | None = None


@dataclass(frozen=True, slots=True)
class Tip:
    """A tip that was given at `at` about a VM or a job, to its owner.

    `effect` names what the saving is of, such as a run of a VM: two tips with one effect save it once.
    """

    kind: TipKind
    at: datetime
    subject: str  # a VM's name, or a job's id
    owner: str
    judged: Judged
    effect: str = ""


@dataclass(frozen=True, slots=True)
class RemindedRun:
    """A run of a VM with its reminders. `asked_by` stopped it through Costguard; "" of nobody."""

    reminded: Sequence[datetime]
    ended_at: datetime | None = None
    end_reason: EndReason | None = None
    ended_by: str = ""
    asked_by: str = ""
    by_rule: bool = False
    ran_again_at: datetime | None = None
    rate: Money | None = None  # an hour, as it ended


def judge_reminder(run: RemindedRun, now: datetime) -> Judged:
    """Judges the reminders of one run together."""
    before = [at for at in run.reminded if run.ended_at is None or at < run.ended_at]
    if not before:
        return Judged(TipOutcome.NOT_FOLLOWED, "it ended before its reminder came")
    if run.ended_at is None:
        is_late = now - max(before) > WINDOW
        return Judged(TipOutcome.NOT_FOLLOWED, "it runs on") if is_late else Judged(TipOutcome.PENDING, "it runs")
    if run.by_rule:
        return Judged(TipOutcome.NOT_FOLLOWED, "a rule stopped it")
    if run.end_reason in _BY_GOOGLE:
        return Judged(TipOutcome.NOT_FOLLOWED, "Google ended it")
    if run.ended_at - max(before) > WINDOW:
        return Judged(TipOutcome.NOT_FOLLOWED, "it was stopped more than 24 hours later")
    by = run.asked_by or (run.ended_by if _is_person(run.ended_by) and run.end_reason in _BY_A_USER else "")
    if not by:
        return Judged(TipOutcome.UNKNOWN, "it is not known that a user stopped it")
    return Judged(
        TipOutcome.FOLLOWED, f"stopped by {by}", of_stop(run.rate, run.ended_at, run.ran_again_at, now).amount
    )


def _is_person(account: str) -> bool:
    return "@" in account and not account.endswith("gserviceaccount.com")


@dataclass(frozen=True, slots=True)
class HintedJob:
    """A job whose metric was said to stand still. `rest` is how long it was expected to run on; None: not known."""

    hinted_at: datetime
    cancel_asked_at: datetime | None = None
    cancel_asked_by: str = ""
    settled_at: datetime | None = None
    again_at: datetime | None = None
    rest: timedelta | None = None
    rate: Money | None = None  # an hour of all of its VMs


def judge_standstill(job: HintedJob, now: datetime) -> Judged:
    """Judges the hints at one job's standstill together."""
    cancel_at = job.cancel_asked_at
    if cancel_at is not None and cancel_at >= job.hinted_at and job.cancel_asked_by:
        if cancel_at - job.hinted_at > WINDOW:
            return Judged(TipOutcome.NOT_FOLLOWED, "it was cancelled more than 24 hours later")
        evidence = f"cancelled by {job.cancel_asked_by}"
        if job.settled_at is None:
            return Judged(TipOutcome.PENDING, f"is being {evidence}")
        ends = [job.again_at] if job.again_at is not None else []
        ends += [job.settled_at + job.rest] if job.rest is not None else []
        saving = of_stop(job.rate, job.settled_at, min(ends, default=None), now)
        return Judged(TipOutcome.FOLLOWED, evidence, saving.amount)
    if job.settled_at is not None:
        return Judged(TipOutcome.NOT_FOLLOWED, "it ended by itself")
    is_late = now - job.hinted_at > WINDOW
    return Judged(TipOutcome.NOT_FOLLOWED, "it runs on") if is_late else Judged(TipOutcome.PENDING, "it runs")


@dataclass(frozen=True, slots=True)
class PacedRun:
    """A run of a training: what bounds it, the cost of a step, and what all of it cost so far. None: not known."""

    job_id: str
    bound: str | None
    step_cost: Fraction | None  # nano-dollars
    cost: Priced


def judge_diagnosis(bound: str, before: PacedRun, after: PacedRun | None, given_at: datetime, now: datetime) -> Judged:
    """Judges the diagnosis that a job is bound by `bound`, by the next run of the same training."""
    if after is None:
        is_late = now - given_at > NEXT_RUN
        text = "the training has not run again"
        return (
            Judged(TipOutcome.NOT_FOLLOWED, f"within 14 days {text}") if is_late else Judged(TipOutcome.PENDING, text)
        )
    if after.bound is None or after.step_cost is None or before.step_cost is None:
        return Judged(TipOutcome.UNKNOWN, f"the cost of a step, or what bounds it, is not known of job {after.job_id}")
    if after.bound == bound:
        return Judged(TipOutcome.NOT_FOLLOWED, f"job {after.job_id} is bound by the same")
    if after.step_cost >= before.step_cost or after.step_cost <= 0:
        return Judged(TipOutcome.NOT_FOLLOWED, f"a step of job {after.job_id} costs no less")
    less = round(100 * (1 - after.step_cost / before.step_cost))
    saved = int(after.cost.amount.nanos * (before.step_cost / after.step_cost - 1))
    evidence = f"a step of job {after.job_id} costs {less}% less"
    return Judged(TipOutcome.FOLLOWED, evidence, Priced(Money(saved), after.cost.whole))


@dataclass(frozen=True, slots=True)
class TipCount:
    """The tips of one kind."""

    kind: TipKind
    given: int
    followed: int
    not_followed: int
    pending: int
    unknown: int
    saved: Priced


@dataclass(frozen=True, slots=True)
class TipAccount:
    """The tips of a quarter, the latest first, and the sums by kind; `saved` is of all kinds together."""

    counts: Sequence[TipCount]
    tips: Sequence[Tip]

    @property
    def given(self) -> int:
        return sum(one.given for one in self.counts)

    @property
    def followed(self) -> int:
        return sum(one.followed for one in self.counts)

    @property
    def saved(self) -> Priced:
        return sum((one.saved for one in self.counts), start=Priced())


def account(tips: Iterable[Tip]) -> TipAccount:
    """Adds tips up. Of those with the same effect the latest before it keeps the saving, and no other has any."""
    latest_first = sorted(tips, key=lambda tip: (tip.at, tip.kind, tip.subject), reverse=True)
    counted: set[str] = set()
    kept: list[Tip] = []
    for tip in latest_first:
        if tip.effect and tip.judged.saved is not None:
            if tip.effect in counted:
                evidence = f"{tip.judged.evidence}; its saving is counted with a later tip"
                tip = replace(tip, judged=replace(tip.judged, evidence=evidence, saved=Priced(ZERO)))
            counted.add(tip.effect)
        kept.append(tip)
    return TipAccount([_count(kind, [tip for tip in kept if tip.kind is kind]) for kind in TipKind], kept)


def _count(kind: TipKind, tips: Sequence[Tip]) -> TipCount:
    numbers: Mapping[TipOutcome, int] = {
        outcome: sum(tip.judged.outcome is outcome for tip in tips) for outcome in TipOutcome
    }
    saved = sum((tip.judged.saved for tip in tips if tip.judged.saved is not None), start=Priced())
    return TipCount(
        kind,
        len(tips),
        numbers[TipOutcome.FOLLOWED],
        numbers[TipOutcome.NOT_FOLLOWED],
        numbers[TipOutcome.PENDING],
        numbers[TipOutcome.UNKNOWN],
        saved,
    )


assert WINDOW == MOST, "a stop that follows a reminder saves no longer than it would have been noticed anyway"
