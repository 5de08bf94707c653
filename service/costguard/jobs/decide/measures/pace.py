"""Measures how fast a training advances: steps an hour, and the cost of 1,000 steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from functools import reduce

from costguard.model.attempt import Attempt, GangRound
from costguard.model.money import Money, Priced
from costguard.model.reported.metric import SeenMetric

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


def pace(attempts: Sequence[Attempt], cost: Priced, rounds: Sequence[GangRound] = ()) -> TrainingPace:
    """`rounds` are those of a gang that are over: its attempts know the last alone."""
    attempts = [attempt for attempt in attempts if attempt.node == 0]  # which speaks for a gang
    begun = next((attempt for attempt in attempts if attempt.agent.step is not None), None)
    first = _first_of_rounds(rounds) if rounds else None if begun is None else _first_of(begun)
    step = step_of(attempts)
    steps = step - first if step is not None and first is not None and step > first else None
    rates = (_per_hour(attempt) for attempt in reversed(attempts))
    per_hour = next((rate for rate in rates if rate is not None), None)
    paid = Money(cost.amount.nanos * 1000 // steps) if steps and cost.whole and cost.amount else None
    return TrainingPace(steps, per_hour, paid)


def _first_of(begun: Attempt) -> int | None:
    """The step that the job began from; None where nobody knows: of a gang's VM, the last round's alone is kept."""
    if begun.round > 1:
        return None
    return 0 if begun.agent.run > 1 else _begins_at(begun)  # the first run on a VM's own disk finds nothing there


def _first_of_rounds(rounds: Sequence[GangRound]) -> int | None:
    """The step that a gang began from: the first of its rounds in which one was reported says so."""
    if rounds[0].number != 1:
        return None  # of a gang that ran before rounds were recorded
    begun = next((one for one in rounds if one.step is not None), rounds[0])
    return begun.resume_step if begun.resume_from else 0


def _begins_at(attempt: Attempt) -> int | None:
    """The step before its first; None where it resumed from a checkpoint whose step nobody knows."""
    return attempt.resume_step if attempt.resume_from else 0


def _per_hour(attempt: Attempt) -> Fraction | None:
    agent, first = attempt.agent, _begins_at(attempt)
    if agent.run > 1 and attempt.resume_step is None and not attempt.formation:
        return None
    if first is None or agent.step is None or agent.step_at is None or agent.started_at is None:
        return None
    worked = agent.step_at - agent.started_at
    if worked < _LONG_ENOUGH or agent.step <= first:
        return None
    return (agent.step - first) * Fraction(_HOUR // timedelta(microseconds=1), worked // timedelta(microseconds=1))
