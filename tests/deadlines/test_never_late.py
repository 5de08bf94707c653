"""No policy is ever late where on-demand can be had."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.deadlines.hostile_runs import Reckless, hostile_flex_runs
from tests.deadlines.markets import GAP_H, HostileMarket, drawn_market, random_ups
from tests.deadlines.ross import Ross

from costguard.deadlines.planner import Planner
from costguard.deadlines.run import Task, replay_run
from costguard.deadlines.simple_policies import FlexAlone, Greedy, OnDemand, UniformProgress
from costguard.deadlines.situation import FlexOffer, Policy
from costguard.deadlines.waits import Waits

PLANNER = Planner()
PRICE = 3.14


def policies(seed: int) -> list[Policy]:
    random = Random(seed)
    return [
        Greedy(), UniformProgress(), Ross(random), Ross(random, "uniform"), PLANNER, OnDemand(), Reckless(random),
    ]  # fmt: skip


tasks = st.builds(
    lambda work_h, spare_h, start_points: Task(
        work_h, work_h + start_points * GAP_H + spare_h, start_points * GAP_H, PRICE
    ),
    st.sampled_from([1.0, 3.0, 6.0]),
    st.sampled_from([0.0, 0.05, 0.3, 1.0, 4.0]),
    st.sampled_from([0.2, 1.0, 2.5, 5.0]),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tasks, st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 3), st.integers(0, 10**6))
def test_no_policy_is_late_where_zones_end_as_soon_as_they_are_used(
    task: Task, lives: list[int], zones: int, seed: int
) -> None:
    """The job ends by its deadline, whatever zones do to it, at whatever moment of its starts."""
    for policy in policies(seed):
        market = HostileMarket(zones, lives)
        result = replay_run(task, market, 0, market.watching(policy))
        assert result.is_on_time, (policy.name, result)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tasks, st.integers(0, 10**6), st.sampled_from([0.2, 1.0, 5.0]), st.sampled_from([0.2, 1.0, 5.0]))
def test_no_policy_is_late_on_random_series(task: Task, seed: int, mean_up_h: float, mean_out_h: float) -> None:
    """The same where zones come and go by themselves."""
    random = Random(seed)
    market = drawn_market(*(random_ups(random, 400, mean_up_h, mean_out_h) for _ in range(2)))
    for policy in policies(seed):
        result = replay_run(task, market, random.randrange(200), policy)
        assert result.is_on_time, (policy.name, result)


@pytest.mark.parametrize("policy", [Greedy(), UniformProgress(), PLANNER], ids=lambda policy: policy.name)
def test_lost_just_before_it_is_ready_still_leaves_time_on_demand(policy: Policy) -> None:
    """The worst moment: a Spot VM that started with two starts' slack goes in the last point before it is ready."""
    task = Task(3.0, 3.0 + 2 * 0.5 + 0.01, 0.5, PRICE)
    market = HostileMarket(1, [4])
    result = replay_run(task, market, 0, market.watching(policy))
    assert result.starts >= 2
    assert result.is_on_time


def test_deadline_that_cannot_be_kept_is_missed_by_as_little_as_can_be() -> None:
    """The on-demand VM begins at once and ends one start late, without the time for one start."""
    result = replay_run(Task(2.0, 2.0, 0.5, PRICE), drawn_market("1" * 100), 0, Greedy())
    assert result.late_h == pytest.approx(0.5)
    assert result.on_demand_h == pytest.approx(2.5)


flex_tasks = st.builds(
    lambda task, longest_run_h, flex_price, apart_h: task._replace(
        deadline_h=task.deadline_h + apart_h,
        apart_h=apart_h,
        flex=FlexOffer(flex_price, longest_run_h=longest_run_h),
    ),
    tasks,
    st.sampled_from([0.8, 2.0, 168.0]),
    st.sampled_from([0.5, 1.2, 2.0, 4.0]),
    st.sampled_from([0.0, 0.25]),
)
waits = st.builds(Waits, st.just(0.0), st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([0.0, 0.2, 0.9]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(flex_tasks, waits, st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 10**6))
def test_no_policy_is_late_with_flex_start(task: Task, drawn: Waits, lives: list[int], seed: int) -> None:
    """The job ends by its deadline, however long requests wait, whether they are granted, and when their VM ends."""
    for policy in (PLANNER, FlexAlone(), Greedy(), Reckless(Random(seed)), Reckless(Random(seed + 1))):
        market = HostileMarket(1 + seed % 2, lives)
        result = replay_run(task, market, 0, market.watching(policy), lambda point: drawn.drawn(seed, point))
        assert result.is_on_time, (policy.name, result)


def test_few_hostile_runs_with_flex_start_are_all_on_time() -> None:
    """The runs of `make replay PART=hostile-flex`, fewer of them: none is late, and some have such a VM."""
    runs, late, flex_runs = hostile_flex_runs(1500, seed=5)
    assert late.total() == 0
    assert min(runs["planner"], runs["flex_alone"], runs["reckless"]) >= 400
    assert flex_runs["planner"] > 50
