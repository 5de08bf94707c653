"""Estimates the work that is done again, and its cost: should the VM be lost now, and since the last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.jobs.decide.view import JobView
from costguard.model.attempt import Attempt, AttemptState, GangRound, Interruption
from costguard.model.job import SeenCheckpoint
from costguard.model.money import ZERO, Money

_NONE = timedelta()


@dataclass(frozen=True, slots=True)
class WorkAtRisk:
    """An amount of work, with its cost; None: the VM's price is not known."""

    span: timedelta
    cost: Money | None


def at_risk(attempt: Attempt, checkpoint: SeenCheckpoint | None, now: datetime) -> WorkAtRisk | None:
    """Returns the work that would have to be done again if the VM went away now; None where no command runs."""
    started_at = attempt.agent.started_at
    if attempt.state is not AttemptState.RUNNING or started_at is None or attempt.agent.exit is not None:
        return None
    saved_at = checkpoint.written_at if checkpoint is not None else None
    since = max(started_at, saved_at) if saved_at is not None else started_at
    return _priced(max(_NONE, now - since), attempt.rate)


def lost_work(
    attempts: Sequence[Attempt], interruptions: Sequence[Interruption], written_at: datetime | None
) -> WorkAtRisk | None:
    """Returns the work of all runs since the checkpoint to resume from, which the next will do again; None: nothing
    ran.

    Without a checkpoint (`written_at` None) the next starts from the beginning: then all is lost, back to the last time
    that it was so. Work counted as lost with an earlier interruption is not counted again.
    """
    return _lost([one for attempt in attempts for one in _runs(attempt, interruptions)], written_at)


def lost_in(view: JobView, written_at: datetime | None) -> WorkAtRisk | None:
    """Returns `lost_work` of a job. Of a gang, a round is one run of all its VMs, at the price of all."""
    return _lost(_runs_of(view), written_at)


def _lost(runs: Sequence[_PastRun], written_at: datetime | None) -> WorkAtRisk | None:
    if not runs:
        return None
    worked = sorted(runs, key=lambda run: run.end)
    total, cost, is_whole = _NONE, ZERO, True
    for place, run in enumerate(reversed(worked)):
        if place and run.from_zero:
            break
        begin = run.begin if written_at is None else max(run.begin, written_at)
        span = max(_NONE, run.end - begin - (run.lost if place else _NONE))
        if span <= _NONE:
            continue
        total += span
        is_whole = is_whole and run.rate is not None
        cost += run.rate.over(span) if run.rate is not None else ZERO
    return WorkAtRisk(total, cost if is_whole and (total or worked[-1].rate is not None) else None)


def once_each_round(attempts: Sequence[Attempt], interruptions: Sequence[Interruption]) -> Sequence[Interruption]:
    """Returns, of a gang's interruptions, the last of each round: work that several VMs did together is lost once.

    Interruptions are of one round where the runs that they ended overlap.
    """
    formations = {one.id: one.formation for one in attempts}
    kept: list[Interruption] = []
    for one in sorted(interruptions, key=lambda one: one.happened_at):
        before = kept[-1] if kept else None
        if before is None or formations.get(before.attempt_id) != formations.get(one.attempt_id):
            kept.append(one)
        elif one.started_at is not None:
            kept[-1:] = [one] if one.started_at < before.happened_at else [before, one]
    return kept


def uncounted_loss(view: JobView, written_at: datetime | None) -> timedelta:
    """Returns the lost work that was not counted with the interruption that ended the last run."""
    runs = _runs_of(view)
    loss = _lost(runs, written_at)
    return max(loss.span - runs[-1].lost, _NONE) if loss is not None else _NONE


def kept_in(view: JobView) -> timedelta:
    """Returns the work of a job's runs that have ended, without work that was counted as lost."""
    return _kept(_runs_of(view))


def kept_as_of_all(view: JobView, width: int, again: timedelta = _NONE) -> timedelta:
    """Returns the kept work of a job's runs that have ended, as the time that all of its VMs would take for it.

    A round of fewer VMs did as much less; where it is not recorded how many there were, `width` is taken. `again` is
    work of the last ones that is done again, in their own time.
    """
    total = _NONE
    for run in reversed(_runs_of(view)):
        kept = run.end - run.begin - run.lost - again
        again = max(-kept, _NONE)  # what was lost in it goes back to the runs before
        total += max(kept, _NONE) * (run.width or width) / view.job.spec.nodes
    return total


def kept_work(attempts: Sequence[Attempt], interruptions: Sequence[Interruption]) -> timedelta:
    """Returns the work of their runs that have ended, without work that was counted as lost."""
    return _kept([one for attempt in attempts for one in _runs(attempt, interruptions)])


def _kept(runs: Sequence[_PastRun]) -> timedelta:
    return max(_NONE, sum((one.end - one.begin - one.lost for one in runs), start=_NONE))


def _runs_of(view: JobView) -> list[_PastRun]:
    if view.job.is_gang:
        return _rounds(view.rounds)
    return [one for seen in view.attempts for one in _runs(seen.attempt, view.interruptions)]


def _rounds(rounds: Sequence[GangRound]) -> list[_PastRun]:
    """Returns the rounds that are over; one in which not all VMs began has done nothing."""
    return [
        _PastRun(one.started_at or one.ended_at, one.ended_at, one.rate, one.lost or _NONE, one.from_zero, one.vms)
        for one in rounds
        if one.ended_at is not None
    ]


def runs_since(attempt: Attempt, interruptions: Sequence[Interruption]) -> datetime | None:
    """Since when its command runs, as far as its agent said; None where it does not."""
    agent = attempt.agent
    is_cut = any(one.attempt_id == attempt.id and one.run == agent.run for one in interruptions)
    return None if is_cut or agent.exit is not None or attempt.ended_at is not None else agent.started_at


@dataclass(frozen=True, slots=True)
class _PastRun:
    """A past run of a command; `lost` is the part of it that was counted as lost before."""

    begin: datetime
    end: datetime
    rate: Money | None
    lost: timedelta = _NONE
    from_zero: bool = False
    width: int | None = None  # of a gang, how many VMs worked together; None: not recorded


def _runs(attempt: Attempt, interruptions: Sequence[Interruption]) -> Iterator[_PastRun]:
    """Yields the runs in which the command of this attempt ran and does not any more."""
    agent, mine = attempt.agent, [one for one in interruptions if one.attempt_id == attempt.id]
    for one in sorted(mine, key=lambda interruption: interruption.happened_at):
        begin = one.started_at or (agent.started_at if one.run == agent.run else None)
        if begin is not None:
            yield _PastRun(begin, max(begin, one.happened_at), attempt.rate, one.lost or _NONE, one.from_zero)
    if agent.started_at is None or any(one.run == agent.run for one in mine):
        return
    end = agent.exit.at if agent.exit is not None else attempt.ended_at
    if end is not None:
        yield _PastRun(agent.started_at, max(end, agent.started_at), attempt.rate)


def _priced(span: timedelta, rate: Money | None) -> WorkAtRisk:
    return WorkAtRisk(span, rate.over(span) if rate is not None else None)
