"""Replays: what a run costs, the optimum, and the summary of many."""

from __future__ import annotations

from functools import cache
from itertools import product
from random import Random

import pytest
from tests.deadlines.markets import GAP_H, drawn_market, random_ups, series_of

from costguard.deadlines.market import RecordedMarket
from costguard.deadlines.optimum import optimum_costs
from costguard.deadlines.planner import Planner
from costguard.deadlines.replay import ALL_ZONES, ReplayTask, policies, replay
from costguard.deadlines.run import Task, replay_run
from costguard.deadlines.simple_policies import Greedy, OnDemand, UniformProgress
from costguard.errors import Invalid


def test_run_on_spot_bills_its_starts_and_its_work() -> None:
    """Up for 5 points, out for 2, up again: two starts of a point each, and 8 points of work."""
    market = drawn_market("11111" + "00" + "1" * 50)
    result = replay_run(Task(0.8, 3.0, 0.1, 3.0), market, 0, Greedy())
    assert result.spot_h == pytest.approx(1.0)
    assert result.cost == pytest.approx(1.0)
    assert result.preemptions == 1
    assert result.ended_h == pytest.approx(1.2)


def test_start_that_is_cut_short_bills_and_brings_nothing() -> None:
    """A zone that is up for one point of a two-point start costs that point."""
    result = replay_run(Task(0.3, 5.0, 0.2, 3.0), drawn_market("1" + "0" * 5 + "1" * 50), 0, Greedy())
    assert result.spot_h == pytest.approx(0.1 + 0.2 + 0.3)


def test_on_demand_costs_its_price_from_start_to_end() -> None:
    """The measure of all others: one start and the work."""
    result = replay_run(Task(2.0, 3.0, 0.1, 3.0), drawn_market("0" * 60), 0, OnDemand())
    assert result.cost == pytest.approx(3.0 * 2.1)


def test_price_of_each_point_is_billed() -> None:
    """Spot prices change while a VM runs."""
    series = series_of("1" * 60)._replace(prices=(1.0, 1.0, 5.0, *(1.0,) * 57))
    result = replay_run(Task(0.4, 3.0, 0.0, 9.0), RecordedMarket([series], 1.0), 0, Greedy())
    assert result.cost == pytest.approx(0.1 * (1 + 1 + 5 + 1))


def test_uniform_progress_starts_early_on_demand_where_greedy_waits() -> None:
    """Behind its line without any Spot, it starts on demand and stays; greedy waits until the last safe moment."""
    task = Task(4.0, 8.0, 0.1, 3.0)
    steady = replay_run(task, drawn_market("0" * 200), 0, UniformProgress())
    assert steady.ended_h == pytest.approx(4.2)
    patient = replay_run(task, drawn_market("0" * 200), 0, Greedy())
    assert patient.ended_h == pytest.approx(8.0)
    assert patient.starts == steady.starts == 1


def test_uniform_progress_returns_to_spot_when_ahead_by_two_starts() -> None:
    """The job on demand is ahead of the line by two starts at half an hour, and Spot is up then."""
    task = Task(4.0, 8.0, 0.1, 3.0)
    result = replay_run(task, drawn_market("00" + "1" * 200), 0, UniformProgress())
    assert result.on_demand_h < 1
    assert result.spot_h > 3


def brute_force(task: Task, ups: list[str], points: int) -> float:
    """The least cost by trying, at every point, everything; starts take whole points here."""
    start = round(task.start_h / GAP_H)
    work = round(task.work_h / GAP_H)

    @cache
    def cost(point: int, left: int, zone: int, start_left: int) -> float:
        """`zone`: -1 without a VM, `len(ups)` on demand."""
        if left == 0:
            return 0.0
        if point == points:
            return float("inf")
        best = cost(point + 1, left, -1, 0)
        for choice in range(len(ups) + 1):
            if choice < len(ups) and ups[choice][point] == "0":
                continue
            begins = start_left if choice == zone else start
            price = 1.0 if choice < len(ups) else float(task.on_demand_price or 0)
            after = cost(point + 1, left - (begins == 0), choice, max(0, begins - 1))
            best = min(best, price * GAP_H + after)
        return best

    return cost(0, work, -1, 0)


@pytest.mark.parametrize(("start_points", "zones", "seed"), list(product((0, 1, 2), (1, 2), range(4))))
def test_optimum_is_the_least_cost_of_all_that_could_be_done(start_points: int, zones: int, seed: int) -> None:
    """The check is every possible course of a small job, where a start takes whole points and nothing is
    interpolated.
    """
    random = Random(seed)
    ups = [random_ups(random, 18, 0.5, 0.4) for _ in range(zones)]
    task = Task(0.7, 1.4 + start_points * GAP_H, start_points * GAP_H, 3.0)
    points = round(task.deadline_h / GAP_H)
    assert optimum_costs(task, drawn_market(*ups), [0])[0] == pytest.approx(brute_force(task, ups, points))


def test_no_policy_beats_the_optimum() -> None:
    """The series are random, with starts between two points."""
    random = Random(7)
    market = drawn_market(random_ups(random, 600, 1.0, 1.0), random_ups(random, 600, 0.6, 1.5))
    task = Task(6.0, 9.0, 0.13, 3.0)
    starts = [random.randrange(400) for _ in range(10)]
    for start, least in zip(starts, optimum_costs(task, market, starts), strict=True):
        for policy in (Greedy(), UniformProgress(), Planner()):
            assert replay_run(task, market, start, policy).cost >= least - 1e-6


RECORDING = [series_of(random_ups(Random(place), 1500, 2.0, 1.5), f"zone-{place}_a100_1") for place in range(2)]
TASK = ReplayTask(6.0, 9.0, 0.1, None, 3.14, runs=24, seed=3)


def test_replay_gives_every_policy_the_same_runs() -> None:
    """Each policy and the optimum, all on time; the optimum is the cheapest, and all are cheaper than on demand."""
    results = {result.policy: result for result in replay(RECORDING, TASK, policies()).results}
    assert set(results) == {"greedy", "uniform_progress", "planner", "optimum"}
    assert {result.runs for result in results.values()} == {24}
    assert all(result.on_time == 1.0 for result in results.values())
    assert min(results.values(), key=lambda result: result.relative_cost).policy == "optimum"
    assert all(low < result.relative_cost < high for result in results.values() for low, high in [result.ci95])


def test_replay_with_the_same_seed_is_the_same() -> None:
    """Starts and lots are drawn from the seed alone."""
    assert replay(RECORDING, TASK, policies()) == replay(RECORDING, TASK, policies())
    other = replay(RECORDING, TASK._replace(seed=4), policies())
    assert other.results != replay(RECORDING, TASK, policies()).results


def test_zones_used_together_cost_less() -> None:
    """Two zones are up more often than one."""
    alone = replay(RECORDING, TASK, policies()).results[-1]
    both = replay(RECORDING, TASK._replace(zones=ALL_ZONES), policies()).results[-1]
    assert both.relative_cost < alone.relative_cost


def test_prices_of_the_files_are_used_where_they_have_them() -> None:
    """A file with its on-demand price needs no ratio, and a ratio given replaces both."""
    priced = [one._replace(prices=(2.0,), on_demand_price=2.0) for one in RECORDING[:1]]
    dear = replay(priced, TASK._replace(price_ratio=None), policies()).results[-1]
    cheap = replay(priced, TASK, policies()).results[-1]
    assert dear.relative_cost > 1 > cheap.relative_cost


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (TASK._replace(work_h=0.0), "no work"),
        (TASK._replace(deadline_h=6.05), "Give a deadline of 6.1 h or more"),
        (TASK._replace(deadline_h=-1.0), "cannot be met"),
        (TASK._replace(start_h=-0.1), "cannot take"),
        (TASK._replace(price_ratio=0.0), "ratio"),
        (TASK._replace(runs=0), "runs"),
        (TASK._replace(deadline_h=500.0), "shorter than the deadline"),
        (TASK._replace(zones=("mars-1",)), "mars-1"),
    ],
)
def test_replay_that_makes_no_sense_is_refused(task: ReplayTask, says: str) -> None:
    """The refusal says what is wrong, and what would do."""
    with pytest.raises(Invalid) as refused:
        replay(RECORDING, task, policies())
    assert says in str(refused.value)
