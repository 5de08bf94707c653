"""A job with a deadline runs where its plan says: Spot while that is safe, on demand in time, and moved with care."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import (
    HOUR,
    LONG_AGO,
    MINUTE,
    NOW,
    ON_DEMAND,
    ON_DISK,
    PLACES,
    RECIPE,
    SPOT,
    TERMS,
    A,
    B,
    C,
    agent,
    attempt,
    decided,
    ended,
    exited,
    interruption,
    job,
    no_room,
    place,
    saved,
    view,
)

from costguard.deadlines.simple_policies import Greedy, UniformProgress
from costguard.deadlines.situation import Act, Choice, Grounds, Policy, Situation, Why
from costguard.jobs.decide.actions import EndAttempt, JobDecision, LaunchAttempt, TellCommandToStop
from costguard.jobs.decide.buy.placement import LaunchPlace, PlaceEvent
from costguard.jobs.decide.buy.plan import PlanBasis, plan
from costguard.jobs.decide.measures.work_left import APART, INTERVAL, START, MeasuredWork, overhead, work_left
from costguard.jobs.decide.planned import JobPlan, Risk
from costguard.jobs.decide.view import JobContext, JobView
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.job import Job, JobState, WhenLate
from costguard.model.money import Money, Priced
from costguard_vm.progress.finish import TrainingLeft

BOTH = (*PLACES, place(A, ON_DEMAND, "1.50"), place(B, ON_DEMAND, "1.60"))
FALLS_BACK = replace(RECIPE, falls_back_to_on_demand=True)
CONTEXT = JobContext(TERMS, NOW, LONG_AGO)
ASKED_AT = at("08:00")


class Scripted:
    """Wants what it was given, whatever it sees."""

    name = "scripted"

    def __init__(self, act: Act, zone: str | None = None, why: Why = Why.PLAN, **grounds: float) -> None:
        self._choice = Choice(act, why, Grounds(1.0, **grounds), 0.5, zone)
        self.seen: list[Situation] = []

    def choose(self, situation: Situation) -> Choice:
        self.seen.append(situation)
        return self._choice


def due(hours: float = 12, work: float = 8, **given: Any) -> Job:
    """It was submitted at 08:00."""
    values = {"recipe": FALLS_BACK, "deadline": NOW + hours * HOUR, "work": work * HOUR, **given}
    return job(values.pop("state", JobState.RECOVERING), **values)


def planned(
    given: JobView,
    policy: Policy | None = None,
    places: tuple[LaunchPlace, ...] = BOTH,
    events: tuple[PlaceEvent, ...] = (),
    written: tuple[datetime, ...] = (),
    now: datetime = NOW,
) -> JobPlan:
    basis = PlanBasis(places, events, work_left(given, now), overhead(given, None, written, now))
    made = plan(given, basis, policy or Greedy(), replace(CONTEXT, now=now))
    assert made is not None
    return made


def decision(
    given: JobView, policy: Policy | None = None, places: tuple[LaunchPlace, ...] = BOTH, **more: Any
) -> JobDecision:
    return decided(replace(given, plan=planned(given, policy, places, **more)), places=places)


def asked(made: JobDecision) -> tuple[str, Any] | None:
    launches = [action for action in made.actions if isinstance(action, LaunchAttempt)]
    return (launches[0].zone, launches[0].provisioning_model) if launches else None


def running(model: Any = SPOT, **given: Any) -> Attempt:
    return attempt(AttemptState.RUNNING, provisioning_model=model, **given)


# Where it begins.


@pytest.mark.parametrize(
    ("spare", "model"),
    [
        (2 * START + APART + INTERVAL + 3 * MINUTE, SPOT),
        (2 * START + APART + INTERVAL + 2 * MINUTE, ON_DEMAND),
        (timedelta(0), ON_DEMAND),
        (-HOUR, ON_DEMAND),
    ],
)
def test_spot_is_begun_only_while_two_starts_fit(spare: timedelta, model: Any) -> None:
    """Google may take the Spot VM right before it saves, and a decision and an on-demand start must fit after that."""
    wanted = due(work=4, deadline=NOW + 4 * HOUR + spare)
    assert asked(decision(view(of_job=wanted))) == (A, model)


def test_work_that_is_done_counts() -> None:
    """Two hours ran before the preemption, and half an hour of it was lost."""
    ran = ended(Outcome.PREEMPTED, agent=agent(started_at=at("09:59")), ended_at=at("11:59"))
    cut = interruption(started_at=at("09:59"), lost=30 * MINUTE)
    left = work_left(view(ran, of_job=due(work=4), interruptions=(cut,), checkpoint=saved(at("11:29"))), NOW)
    assert left is not None
    assert left.most == 2 * HOUR + 30 * MINUTE


def test_the_pace_of_the_output_counts_with_its_range() -> None:
    """The pace counts once it was read for ten minutes; the policy counts on the longest."""
    pace = MeasuredWork(TrainingLeft(9_000, 5.0, 6.0, 7.0), 20 * MINUTE)
    given = view(running(), of_job=due(work=4))
    left = work_left(given, NOW, pace)
    assert left is not None
    assert (left.likely, left.most) == (6 * HOUR, 7 * HOUR)
    early = work_left(given, NOW, pace._replace(span=5 * MINUTE))
    assert early is not None
    assert early.source.endswith("that its owner expects")


def test_steps_alone_are_planned_once_the_output_gives_a_pace() -> None:
    """A plan starts however short the pace was read: there is nothing else to go by."""
    given = view(running(), of_job=job(JobState.RUNNING, deadline=NOW + 9 * HOUR, total_steps=10_000))
    assert work_left(given, NOW) is None
    left = work_left(given, NOW, MeasuredWork(TrainingLeft(9_000, 5.0, 6.0, 7.0), 2 * MINUTE))
    assert left is not None
    assert left.source == "9,000 steps, batches or epochs at the pace of its output"


def test_without_work_or_steps_nothing_is_planned() -> None:
    """Unknown is not zero: the job runs as one without a deadline."""
    given = view(of_job=job(JobState.QUEUED, deadline=NOW + HOUR))
    assert work_left(given, NOW) is None
    assert plan(given, PlanBasis(BOTH), Greedy(), CONTEXT) is None
    assert asked(decided(given)) == (A, SPOT)


def test_the_policy_sees_the_longest_start_with_what_a_preemption_can_undo() -> None:
    """A quarter more than the longest time between two checkpoints of one run."""
    policy = Scripted(Act.WAIT)
    planned(view(of_job=due()), policy, written=(at("10:00"), at("10:20"), at("10:50")))
    assert policy.seen[0].start_h == pytest.approx((20 + 30 * 1.25) / 60)


def test_a_job_that_saves_nothing_may_lose_all_of_it() -> None:
    """A job without checkpoints begins on Spot only where there is time to do all of it twice."""
    nothing = due(hours=12, work=8, checkpoint=None)
    assert asked(decision(view(of_job=nothing))) == (A, ON_DEMAND)
    assert asked(decision(view(of_job=due(hours=25.5, work=8, checkpoint=None)))) == (A, SPOT)


# Zones.


def test_the_zone_is_the_policys() -> None:
    """The plan's zone comes first, whatever the order of prices."""
    assert asked(decision(view(of_job=due()), Scripted(Act.START_SPOT, C))) == (C, SPOT)


def test_a_zone_that_was_out_a_moment_ago_is_left_in_peace_and_the_others_are_not() -> None:
    """A zone that was out has its turn again after a while."""
    policy = Scripted(Act.WAIT)
    planned(view(no_room(1, A), of_job=due()), policy)
    assert {zone.name: zone.is_up for zone in policy.seen[0].zones} == {A: False, B: True, C: True}
    planned(view(no_room(1, A), of_job=due()), policy, now=NOW + HOUR)
    assert {zone.name: zone.is_up for zone in policy.seen[1].zones} == {A: True, B: True, C: True}


def test_from_on_demand_a_zone_that_was_lost_lately_counts_as_out() -> None:
    """Going back costs a start, so it waits until the zone has probably recovered."""
    lost = (PlaceEvent(A, RECIPE.gpu_type, SPOT, Outcome.PREEMPTED, NOW - 10 * MINUTE),)
    policy = Scripted(Act.STAY)
    given = view(running(ON_DEMAND), of_job=due())
    planned(given, policy, events=lost)
    planned(given, policy, events=lost, now=NOW + HOUR)
    assert [next(zone.is_up for zone in seen.zones if zone.name == A) for seen in policy.seen] == [False, True]


def test_a_zone_without_quota_or_money_is_none() -> None:
    """A zone that is not available is not planned with."""
    policy = Scripted(Act.WAIT)
    places = (place(A, passed_over="the quota is used up"), place(B, rate="9"), place(C), place(A, ON_DEMAND, "1.50"))
    planned(view(of_job=due(ceiling=Money.of(1))), policy, places)
    assert [zone.name for zone in policy.seen[0].zones] == [C]
    assert policy.seen[0].on_demand_price == 1.5


# Waiting.


def test_a_planned_wait_asks_for_nothing_and_says_why() -> None:
    """It is planned again after a few minutes, or when the guard acts."""
    made = decision(view(of_job=due(state=JobState.QUEUED)), Scripted(Act.WAIT, behind_h=-0.5))
    assert (made.actions, made.state) == ((), JobState.QUEUED)
    assert made.reason.startswith("waits as planned, no VM: 0.5 h ahead, and on demand is not needed before 12:30 UTC")
    assert made.next_at == NOW + 5 * MINUTE


def test_on_demand_that_is_out_of_stock_is_asked_for_again_soon_and_spot_after_it() -> None:
    """A job that would be late takes what it can get."""
    late = due(work=4, deadline=NOW + 4 * HOUR + 30 * MINUTE)
    full = no_room(1, A, provisioning_model=ON_DEMAND), no_room(2, B, provisioning_model=ON_DEMAND)
    assert asked(decision(view(*full[:1], of_job=late))) == (B, ON_DEMAND)
    assert asked(decision(view(*full, of_job=late))) == (A, SPOT)
    spot = no_room(3, A), no_room(4, B), no_room(5, C)
    made = decision(view(*full, *spot, of_job=late))
    assert made.actions == ()
    assert made.next_at is not None
    assert made.next_at <= NOW + MINUTE


# Moving.


def test_a_command_that_cannot_move_with_two_vms_is_stopped_right_after_a_checkpoint() -> None:
    """A stop before the checkpoint would lose work; the command is asked to stop, and gets time to save."""
    policy = Scripted(Act.WAIT)
    given = view(running(ON_DEMAND), of_job=due(state=JobState.RUNNING), checkpoint=saved(at("11:55")))
    (action,) = decision(given, policy).actions
    assert isinstance(action, TellCommandToStop)
    assert action.why == "move"
    stale = replace(given, checkpoint=saved(at("11:30")))
    assert decision(stale, policy).actions == ()


def test_a_vm_that_is_not_at_work_yet_is_given_up_at_once() -> None:
    """There is nothing to save."""
    booting = attempt(AttemptState.BOOTING, intended_at=at("11:55"), made_at=at("11:56"))
    (action,) = decision(view(booting, of_job=due(state=JobState.PROVISIONING)), Scripted(Act.START_ON_DEMAND)).actions
    assert isinstance(action, EndAttempt)
    assert action.outcome is Outcome.MOVED


def test_after_a_move_the_next_vm_is_asked_for_at_once() -> None:
    """Nothing of the one before can write any more, and a move is no failure."""
    moved = ended(Outcome.MOVED, agent=agent(exit=exited(143, asked="cancel")), reason="stopped to go on elsewhere")
    assert asked(decision(view(moved, of_job=due()), Scripted(Act.START_ON_DEMAND))) == (A, ON_DEMAND)


def test_checkpoints_on_the_vms_disk_are_never_moved() -> None:
    """Another VM would begin without them."""
    given = view(running(), of_job=due(state=JobState.RUNNING, checkpoint=ON_DISK), checkpoint=saved(NOW))
    assert decision(given, Scripted(Act.START_ON_DEMAND, why=Why.GUARD)).actions == ()


def test_spot_that_saves_nothing_is_left_before_a_preemption_would_make_it_late() -> None:
    """Two hours are unsaved, and three are left: with those lost, an on-demand start must still fit."""
    since = agent(started_at=at("10:00"))
    given = view(running(agent=since), of_job=due(work=5, deadline=at("17:40"), state=JobState.RUNNING))
    assert planned(given).act is Act.STAY
    soon = due(work=5, deadline=at("17:25"), state=JobState.RUNNING)
    made = planned(replace(given, job=soon))
    assert (made.act, made.is_urgent) == (Act.START_ON_DEMAND, True)
    fresh = replace(given, job=soon, checkpoint=saved(at("11:58")))
    assert planned(fresh).act is Act.STAY


# The promise.


@pytest.mark.parametrize(
    ("given", "risk"),
    [
        ({}, Risk.WORK),
        ({"recipe": RECIPE}, Risk.NO_ON_DEMAND),
    ],
)
def test_a_promise_that_cannot_be_kept_names_its_reason(given: dict[str, Any], risk: Risk) -> None:
    """The reason has when it is expected to finish, and what would help."""
    wanted = due(work=4, deadline=NOW + 4 * HOUR - 5 * MINUTE, **given)
    at_risk = planned(view(of_job=wanted), places=BOTH if risk is Risk.WORK else PLACES).at_risk
    assert at_risk is not None
    assert at_risk.risk is risk
    assert "It is expected to finish 16:35 UTC at the earliest, and its deadline is 15:55 UTC" in at_risk.text
    assert "help" in at_risk.text


def test_stockouts_failures_and_budgets_are_told_apart() -> None:
    """The reasons differ, whatever used up its time."""
    late = due(work=4, deadline=NOW + 4 * HOUR)
    full = no_room(1, A, provisioning_model=ON_DEMAND)
    crashed = ended(Outcome.CRASHED)
    results = [
        planned(view(full, of_job=late)).at_risk,
        planned(view(crashed, of_job=late)).at_risk,
        planned(view(of_job=late, hold="budget lab is spent")).at_risk,
    ]
    assert [one.risk if one is not None else None for one in results] == [Risk.STOCK, Risk.FAILURES, Risk.HELD]


def test_a_ceiling_that_does_not_pay_for_on_demand_is_at_risk() -> None:
    """The risk begins once on-demand is needed: eight hours at $1.50 are $12."""
    wanted = due(hours=8.7, work=8, ceiling=Money.of(10))
    at_risk = planned(view(of_job=wanted)).at_risk
    assert at_risk is not None
    assert at_risk.risk is Risk.CEILING
    assert planned(view(of_job=replace(wanted, spec=replace(wanted.spec, ceiling=Money.of(13))))).at_risk is None


def test_a_job_that_runs_on_demand_in_time_is_not_at_risk() -> None:
    """A job on demand is safe however little there is to spare: useful work uses none of it."""
    given = view(running(ON_DEMAND), of_job=due(work=4, deadline=NOW + 2 * HOUR + 20 * MINUTE, state=JobState.RUNNING))
    assert planned(given).at_risk is None


# Stopping at the deadline.


def test_a_job_that_stops_at_its_deadline_is_given_time_to_save() -> None:
    """Three minutes before it; then it is over, and what it saved is named."""
    wanted = due(work=8, deadline=NOW + 2 * MINUTE, when_late=WhenLate.STOP, state=JobState.RUNNING)
    (action,) = decided(view(running(), of_job=wanted)).actions
    assert isinstance(action, TellCommandToStop)
    assert action.why == "deadline"
    stopped = ended(Outcome.TIME_LIMIT, stop_why="deadline", reason="stopped because its deadline has come")
    over = decided(view(stopped, of_job=wanted))
    assert over.state is JobState.FAILED
    assert "what it saved stays at gs://runs/one" in over.reason
    goes_on = replace(wanted, spec=replace(wanted.spec, when_late=WhenLate.FINISH))
    assert decided(view(running(), of_job=goes_on)).actions == ()


def test_a_job_that_finishes_late_goes_on_within_its_ceiling() -> None:
    """A deadline that has passed stops nothing."""
    passed = due(work=8, deadline=NOW - HOUR)
    assert asked(decision(view(of_job=passed, cost=Priced(Money.of(3))))) == (A, ON_DEMAND)


# Words.


def test_the_reason_is_in_plain_words() -> None:
    """The figures that decided."""
    policy = Scripted(Act.START_ON_DEMAND, behind_h=1.1, expected_life_h=40 / 60, until_h=140 / 60)
    assert planned(view(of_job=due()), policy).reason == (
        "on demand until 14:20 UTC: 1.1 h behind, and no Spot zone is expected to last longer than 40 min"
    )


def test_uniform_progress_needs_the_whole_work() -> None:
    """The whole work is known from the estimate."""
    assert planned(view(of_job=due()), UniformProgress()).act in set(Act)
