"""The pace of a job, the cost of a thousand steps, and the time of recoveries are measured."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from costguard.jobs.decide.measures.histogram import histogram
from costguard.jobs.decide.measures.pace import TrainingPace, pace, step_of
from costguard.model.attempt import AgentState, Attempt, AttemptState
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money, Priced

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PAID = Priced(Money.of(3))


def attempt(step: int | None, minutes: int = 30, resumed_at: int | None = None, **given: Any) -> Attempt:
    """It ran for so many minutes, and told this step at their end."""
    reported = {"started_at": START, "step": step, "step_at": START + minutes * MINUTE if step is not None else None}
    agent = AgentState(START, given.pop("run", 1), **reported)  # type: ignore[arg-type]
    values: dict[str, Any] = {
        "id": 1,
        "job_id": "j1",
        "number": 1,
        "name": "cg-j1-1",
        "project": "lab",
        "zone": "us-central1-a",
        "provisioning_model": ProvisioningModel.SPOT,
        "request_uuid": "",
        "max_run": MINUTE,
        "state": AttemptState.RUNNING,
        "intended_at": START,
        "resume_from": "" if resumed_at is None else "checkpoint",
        "resume_step": resumed_at,
        "agent": agent,
    }
    return Attempt(**{**values, **given})


@pytest.mark.parametrize(
    ("attempts", "cost", "expected"),
    [
        ([], PAID, TrainingPace()),
        ([attempt(None)], PAID, TrainingPace()),
        ([attempt(300)], PAID, TrainingPace(300, Fraction(600), Money.of(10))),
        # Work from 500 to 600 was done twice, and paid twice: it counts once.
        ([attempt(600), attempt(900, 60, 500)], PAID, TrainingPace(900, Fraction(400), Money.of("3.333333333"))),
        # It went on where another job had saved.
        ([attempt(800, 30, 500)], PAID, TrainingPace(300, Fraction(600), Money.of(10))),
        # A new attempt has not told a step yet: it stands where it resumed.
        ([attempt(600), attempt(None, resumed_at=500)], PAID, TrainingPace(500, Fraction(1200), Money.of(6))),
        ([attempt(300)], Priced(Money.of(3), whole=False), TrainingPace(300, Fraction(600), None)),
        ([attempt(300)], Priced(), TrainingPace(300, Fraction(600), None)),
        ([attempt(10, 0)], PAID, TrainingPace(10, None, Money.of(300))),
        # Nobody knows at which step the checkpoint, or the second run on a disk, began.
        ([attempt(900, resume_from="last.ckpt")], PAID, TrainingPace()),
        ([attempt(900, run=2)], PAID, TrainingPace(900, None, Money.of("3.333333333"))),
    ],
)
def test_only_steps_that_count_are_counted(attempts: list[Attempt], cost: Priced, expected: TrainingPace) -> None:
    """The pace is that of the latest attempt that tells; the price is everything that was paid."""
    assert pace(attempts, cost) == expected


def test_a_job_stands_where_it_was_heard_or_resumed_last() -> None:
    """Steps after the checkpoint are not its position any more."""
    assert step_of([attempt(600), attempt(None, resumed_at=500)]) == 500
    assert step_of([attempt(600), attempt(None)]) == 600
    assert step_of([]) is None


def test_spans_fall_into_buckets() -> None:
    """Half are at most the median, nine in ten at most the p90; clocks that differ make no span negative."""
    result = histogram(timedelta(seconds=seconds) for seconds in (-3, 1, 2, 40, 5000))
    assert (result.count, result.median, result.p90) == (5, timedelta(seconds=2), timedelta(seconds=5000))
    assert result.longest == timedelta(seconds=5000)
    filled = {edge and edge.total_seconds(): number for edge, number in result.buckets if number}
    assert filled == {1: 2, 5: 1, 60: 1, None: 1}
    assert sum(number for _, number in result.buckets) == result.count


def test_without_spans_nothing_is_known() -> None:
    """The result is unknown and not zero: nothing was measured."""
    result = histogram([])
    assert (result.count, result.median, result.p90, result.longest) == (0, None, None, None)
