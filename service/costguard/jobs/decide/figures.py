"""Figures about jobs: training pace, work at risk or lost, and histograms of spans."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import reduce

from costguard.model.attempt import Attempt, AttemptState, Interruption
from costguard.model.job import SeenCheckpoint
from costguard.model.metric import SeenMetric
from costguard.model.money import ZERO, Money, Priced

_NOTHING = timedelta()
_EDGES_S = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True, slots=True)
class Histogram:
    """`buckets` count the spans up to each edge and above the one before; None is everything above the last.

    Half of the spans are at most `median`, nine in ten at most `p90`; None where there are none.
    """

    count: int
    median: timedelta | None
    p90: timedelta | None
    longest: timedelta | None
    buckets: tuple[tuple[timedelta | None, int], ...]


def histogram(spans: Iterable[timedelta]) -> Histogram:
    """Spans below nothing, by clocks that differ, count as nothing."""
    ordered = sorted(max(span, _NOTHING) for span in spans)
    edges = [timedelta(seconds=seconds) for seconds in _EDGES_S]
    buckets: list[tuple[timedelta | None, int]] = []
    counted = 0
    for edge in edges:
        below = bisect_right(ordered, edge)
        buckets.append((edge, below - counted))
        counted = below
    buckets.append((None, len(ordered) - counted))
    return Histogram(
        len(ordered),
        _ranked(ordered, 50),
        _ranked(ordered, 90),
        ordered[-1] if ordered else None,
        tuple(buckets),
    )


def _ranked(ordered: list[timedelta], percent: int) -> timedelta | None:
    """The smallest that so many percent of all do not exceed."""
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else None


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
    worked = [one for attempt in attempts for one in _runs(attempt, interruptions)]
    if not worked:
        return None
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


def uncounted_loss(
    attempts: Sequence[Attempt], interruptions: Sequence[Interruption], written_at: datetime | None
) -> timedelta:
    """Returns the lost work that was not counted with the interruption that ended the last run."""
    loss = lost_work(attempts, interruptions, written_at)
    if loss is None:
        return _NONE
    *_, last = (one for attempt in attempts for one in _runs(attempt, interruptions))
    return max(loss.span - last.lost, _NONE)


def kept_work(attempts: Sequence[Attempt], interruptions: Sequence[Interruption]) -> timedelta:
    """Returns the work of their runs that have ended, without work that was counted as lost."""
    runs = [one for attempt in attempts for one in _runs(attempt, interruptions)]
    return max(_NONE, sum((one.end - one.begin - one.lost for one in runs), start=_NONE))


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


_LONG_ENOUGH = timedelta(seconds=30)  # to say anything of an hour
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TrainingPace:
    """`steps` are those that count, from where the first attempt began; work that was done twice counts once.

    `per_hour` is that of the latest attempt whose steps are known, `cost_per_1000` all that was paid, by `steps`.
    """

    steps: int | None = None
    per_hour: Fraction | None = None
    cost_per_1000: Money | None = None


def step_of(attempts: Sequence[Attempt]) -> int | None:
    """The last reported step, or where the latest attempt resumed."""
    for attempt in reversed(attempts):
        step = attempt.agent.step if attempt.agent.step is not None else attempt.resume_step
        if step is not None:
            return step
    return None


def metric_of(attempts: Sequence[Attempt]) -> SeenMetric | None:
    """The last and the best value that any of them printed; None before the first."""
    seen = [attempt.agent.metric for attempt in attempts if attempt.agent.metric is not None]
    return reduce(SeenMetric.then, seen) if seen else None


def pace(attempts: Sequence[Attempt], cost: Priced) -> TrainingPace:
    begun = next((attempt for attempt in attempts if attempt.agent.step is not None), None)
    # The first run on a VM's own disk finds nothing there.
    first = None if begun is None else 0 if begun.agent.run > 1 else _begins_at(begun)
    step = step_of(attempts)
    steps = step - first if step is not None and first is not None and step > first else None
    rates = (_per_hour(attempt) for attempt in reversed(attempts))
    per_hour = next((rate for rate in rates if rate is not None), None)
    paid = Money(cost.amount.nanos * 1000 // steps) if steps and cost.whole and cost.amount else None
    return TrainingPace(steps, per_hour, paid)


def _begins_at(attempt: Attempt) -> int | None:
    """The step before its first; None where it resumed from a checkpoint whose step nobody knows."""
    return attempt.resume_step if attempt.resume_from else 0


def _per_hour(attempt: Attempt) -> Fraction | None:
    agent, first = attempt.agent, _begins_at(attempt)
    if agent.run > 1 and attempt.resume_step is None:
        return None
    if first is None or agent.step is None or agent.step_at is None or agent.started_at is None:
        return None
    worked = agent.step_at - agent.started_at
    if worked < _LONG_ENOUGH or agent.step <= first:
        return None
    return (agent.step - first) * Fraction(_HOUR // timedelta(microseconds=1), worked // timedelta(microseconds=1))
