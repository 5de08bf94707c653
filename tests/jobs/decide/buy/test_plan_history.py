"""The history of a job and its zones counts in its plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import (
    HOUR,
    LONG_AGO,
    MINUTE,
    NOW,
    ON_DEMAND,
    PLACES,
    RECIPE,
    SPOT,
    TERMS,
    A,
    B,
    agent,
    attempt,
    ended,
    interruption,
    job,
    place,
    saved,
    view,
)

from costguard.deadlines.hazards import SeenPeriod, counts_of
from costguard.deadlines.planner import Planner
from costguard.deadlines.simple_policies import Greedy
from costguard.deadlines.situation import Act
from costguard.jobs.decide.buy.plan import PlanBasis, plan
from costguard.jobs.decide.measures.work_left import overhead, overspent, work_left
from costguard.jobs.decide.planned import JobPlan, Risk
from costguard.jobs.decide.view import AttemptView, JobContext, JobView
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import JobState
from costguard.model.money import Money

BOTH = (*PLACES, place(A, ON_DEMAND, "1.50"))
FALLS_BACK = replace(RECIPE, falls_back_to_on_demand=True)
LIVES = (0.1, 0.3, 0.6, 1.0, 2.0, 4.5, 9.0)
STORMY = counts_of([SeenPeriod(True, 0, life) for life in LIVES for _ in range(40)], 48)
CALM = counts_of([SeenPeriod(True, 0, 48, is_cut=True)] * 10, 48)
RATE = Money.of("0.50")


def planned(given: JobView, policy: Planner | Greedy | None = None, **basis: Any) -> JobPlan:
    seen = PlanBasis(BOTH, (), work_left(given, NOW), overhead(given, None, (), NOW))
    made = plan(given, replace(seen, **basis), policy or Planner(), JobContext(TERMS, NOW, LONG_AGO))
    assert made is not None
    return made


def due(state: JobState = JobState.RECOVERING, work: float = 8, spare: float = 8) -> JobView:
    return view(of_job=job(state, recipe=FALLS_BACK, deadline=NOW + (work + spare) * HOUR, work=work * HOUR))


def lost(number: int, worked: timedelta = timedelta(), zone: str = A) -> AttemptView:
    """It was there for half an hour, from 11:29 on."""
    began = agent(started_at=at("11:59") - worked) if worked else agent(started_at=None)
    return ended(Outcome.PREEMPTED, number, rate=RATE, made_at=at("11:29"), gone_at=at("11:59"), agent=began, zone=zone)


def test_counts_of_zones_change_where_a_job_is_started() -> None:
    """All cost the same: it goes where VMs have lasted, and not where they were preempted within minutes."""
    for calm in (A, B):
        counts = {zone.zone: CALM if zone.zone == calm else STORMY for zone in PLACES}
        made = planned(due(), counts=counts)
        assert (made.act, made.zone) == (Act.START_SPOT, calm)


def test_what_lost_vms_cost_counts_against_the_work_that_was_kept() -> None:
    """Half an hour at $0.50, of which 10 minutes of work are kept, which cost $0.25 on demand."""
    unused = view(lost(1))
    assert overspent(unused, 1.5) == pytest.approx(0.25)
    kept = view(lost(1, 12 * MINUTE), interruptions=(interruption(lost=2 * MINUTE),), checkpoint=saved(at("11:57")))
    assert overspent(kept, 1.5) == pytest.approx(0.0)
    assert overspent(view(), 1.5) == 0
    crashed = replace(unused, attempts=(ended(Outcome.CRASHED, rate=RATE, gone_at=at("11:59")),))
    assert overspent(crashed, 1.5) == 0


def test_spot_that_is_lost_whenever_it_is_used_is_given_up() -> None:
    """Two hours of work cost $3.00 on demand, of which $0.99 may be lost: after $0.75, another start does not fit."""
    twice = replace(due(work=2), attempts=(lost(1), lost(2)))
    assert planned(twice).act is Act.START_SPOT
    often = replace(due(work=2), attempts=tuple(lost(number) for number in (1, 2, 3)))
    made = planned(often)
    assert made.act is Act.START_ON_DEMAND
    assert made.reason == "on demand: Spot VMs were lost so often that they cost more than they saved"
    runs = attempt(AttemptState.RUNNING, 4, provisioning_model=ON_DEMAND, agent=agent(started_at=at("11:30")))
    on_demand = replace(often, attempts=(*often.attempts, AttemptView(runs)))
    assert planned(on_demand).act is Act.STAY


def test_lost_work_is_counted_until_the_command_runs_again() -> None:
    """While the next VM boots, half an hour has to be done again, as it had before that VM was asked for."""
    cut = interruption(started_at=at("10:59"))
    of_job = job(JobState.RECOVERING, recipe=FALLS_BACK, deadline=NOW + 9 * HOUR, work=4 * HOUR)
    before = view(lost(1, HOUR), of_job=of_job, interruptions=(cut,), checkpoint=saved(at("11:29")))
    booting = attempt(AttemptState.BOOTING, 2, agent=agent(started_at=None))
    after = replace(before, attempts=(*before.attempts, AttemptView(booting)))
    spans = [work_left(one, NOW) for one in (before, after)]
    assert [span.most if span is not None else None for span in spans] == [3.5 * HOUR] * 2


def test_lost_work_of_a_vm_that_was_lost_again_before_its_command_ran() -> None:
    """It was started again after a preemption, and is over: what it had done in its first run is lost all the same."""
    cut = interruption(started_at=at("10:59"))
    again = lost(1, HOUR)
    again = replace(again, attempt=replace(again.attempt, agent=agent(run=2, started_at=None)))
    of_job = job(JobState.RECOVERING, recipe=FALLS_BACK, deadline=NOW + 9 * HOUR, work=4 * HOUR)
    left = work_left(view(again, of_job=of_job, interruptions=(cut,), checkpoint=saved(at("11:29"))), NOW)
    assert left is not None
    assert left.most == 3.5 * HOUR


def test_work_that_was_not_saved_in_time_is_a_risk_of_its_own() -> None:
    """It is moved on demand, but a preemption before that, or a failed save, would make it late; saved, it is not."""
    since = agent(started_at=at("09:00"))
    given = view(
        attempt(AttemptState.RUNNING, provisioning_model=SPOT, agent=since),
        of_job=job(JobState.RUNNING, recipe=FALLS_BACK, deadline=at("16:30"), work=5 * HOUR),
    )
    at_risk = planned(given, Greedy()).at_risk
    assert at_risk is not None
    assert at_risk.risk is Risk.UNSAVED
    assert at_risk.text.startswith("A preemption now would undo more than there is time for")
    assert planned(replace(given, checkpoint=saved(at("11:55"))), Greedy()).at_risk is None
