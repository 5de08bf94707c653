"""Every policy without on-demand VMs takes Spot as soon as there is any, and is on time where one could be."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.deadlines.hostile_runs import Reckless
from tests.deadlines.markets import GAP_H, drawn_market, random_ups
from tests.deadlines.ross import Ross

from costguard.deadlines.planner import Planner
from costguard.deadlines.run import Task, replay_run
from costguard.deadlines.simple_policies import Greedy, OnDemand, UniformProgress
from costguard.deadlines.situation import Act, Choice, HeldVM, Policy, Situation, Why, Zone

PLANNER = Planner()


def policies(seed: int) -> list[Policy]:
    random = Random(seed)
    return [Greedy(), UniformProgress(), Ross(random), PLANNER, OnDemand(), Reckless(random)]


class Watched:
    """Notes every moment at which a policy has no VM though Spot is to be had."""

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self._policy = policy
        self.idle: list[tuple[float, Choice]] = []

    def choose(self, situation: Situation) -> Choice:
        choice = self._policy.choose(situation)
        is_open = any(zone.is_up is not False for zone in situation.zones)
        if situation.held is None and is_open and choice.act is not Act.START_SPOT:
            self.idle.append((situation.elapsed_h, choice))
        return choice


def finished_h(task: Task, ups: str, start: int) -> float:
    """Returns when a job in one zone ends that runs whenever the zone is up: the earliest that any policy could."""
    left, starting = task.work_h, task.start_h
    for place, up in enumerate(ups[start:]):
        if up == "0":
            starting = task.start_h
            continue
        used = min(GAP_H, starting)
        starting -= used
        if left <= GAP_H - used + 1e-9:
            return place * GAP_H + used + left
        left -= GAP_H - used
    return float("inf")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 10**6),
    st.sampled_from([1.0, 3.0]),
    st.sampled_from([0.1, 0.5, 2.0, 6.0]),
    st.sampled_from([0.05, 0.1, 0.25]),
    st.sampled_from([0.4, 2.0]),
)
def test_every_policy_is_on_time_in_one_zone_where_any_could_be(
    seed: int, work_h: float, spare_h: float, start_h: float, mean_up_h: float
) -> None:
    """Using all of the zone's time is the best that can be done; nobody idles while it is up."""
    random = Random(seed)
    ups = random_ups(random, 600, mean_up_h, 0.7)
    start = random.randrange(300)
    task = Task(work_h, work_h + start_h + spare_h, start_h, None)
    can_be_met = finished_h(task, ups, start) <= task.deadline_h
    for policy in policies(seed):
        watched = Watched(policy)
        result = replay_run(task, drawn_market(ups), start, watched)
        assert watched.idle == [], policy.name
        assert result.is_on_time or not can_be_met, (policy.name, result)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**6), st.integers(2, 8))
def test_no_policy_idles_while_any_of_several_zones_is_up(seed: int, zones: int) -> None:
    """The policies do not idle however much there is to spare."""
    random = Random(seed)
    market = drawn_market(*(random_ups(random, 600, 0.8, 0.8) for _ in range(zones)))
    for policy in policies(seed):
        watched = Watched(policy)
        replay_run(Task(2.0, 12.0, 0.2, None), market, random.randrange(300), watched)
        assert watched.idle == [], policy.name


def alone(slack_h: float, *zones: Zone, held: HeldVM | None = None, work_h: float = 1.0) -> Situation:
    return Situation(work_h, work_h + slack_h, 0.5, 0.08, None, zones, held, 0.0, work_h)


@pytest.mark.parametrize("slack_h", [-1.0, 0.1, 2.0, 100.0])
def test_planner_starts_spot_at_once(slack_h: float) -> None:
    """The cheapest of equal zones, with a word about how long it lasts."""
    choice = PLANNER.choose(alone(slack_h, Zone("dear", 2.0), Zone("cheap", 1.0)))
    assert choice.act is Act.START_SPOT
    assert choice.why is Why.SPOT_IS_UP
    assert choice.grounds.expected_life_h == pytest.approx(9.3, abs=0.1)
    if slack_h >= 1.0:
        assert choice.zone == "cheap"


def test_planner_prefers_the_zone_that_lasts_where_there_is_time_for_one_start() -> None:
    """An old zone, though it is dearer; with time for several starts, the cheap one."""
    zones = (Zone("new", 1.0, True, 0.0), Zone("old", 1.3, True, 20.0))
    assert PLANNER.choose(alone(0.6, *zones, work_h=4.0)).zone == "old"
    cheap = (Zone("new", 0.5, True, 0.0), zones[1])
    assert PLANNER.choose(alone(9.0, *cheap, work_h=4.0)).zone == "new"


def test_planner_waits_where_no_zone_is_up_and_keeps_what_it_has() -> None:
    """Nothing else can be done."""
    out = Zone("out", 1.0, False, 0.5)
    assert PLANNER.choose(alone(2.0, out)).act is Act.WAIT
    assert PLANNER.choose(alone(2.0, out, held=HeldVM("spot", "out", 1.0))).act is Act.STAY


RUNNING = HeldVM("spot", "dear", 2.0)
DEAR, CHEAP = Zone("dear", 2.0, True, 2.0), Zone("cheap", 1.0, True, 6.0)


def test_running_job_moves_to_a_cheaper_zone() -> None:
    """The move goes by the cost of an hour of work there, its start included, as with on-demand VMs."""
    choice = PLANNER.choose(alone(9.0, DEAR, CHEAP, held=RUNNING, work_h=8.0))
    assert (choice.act, choice.why, choice.zone) == (Act.START_SPOT, Why.CHEAPER_ZONE, "cheap")


@pytest.mark.parametrize(
    ("slack_h", "zones", "held"),
    [
        (1.4, (DEAR, CHEAP), RUNNING),  # a move, the loss of the new VM and the way back take three starts of 0.5 h
        (9.0, (DEAR, CHEAP._replace(price=1.9)), RUNNING),  # it saves less than a start costs
        (9.0, (DEAR, CHEAP._replace(is_up=False)), RUNNING),
        (9.0, (DEAR, CHEAP._replace(move_cost=20.0)), RUNNING),
        (9.0, (DEAR, CHEAP), RUNNING._replace(start_left_h=0.1)),
        (9.0, (CHEAP,), RUNNING),  # nobody knows what its zone costs
    ],
)
def test_running_job_stays_where_a_move_is_not_worth_it(slack_h: float, zones: tuple[Zone, ...], held: HeldVM) -> None:
    """The job stays also where a move could cost the deadline."""
    assert PLANNER.choose(alone(slack_h, *zones, held=held, work_h=8.0)).act is Act.STAY


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.25]), st.sampled_from([0.1, 0.5, 2.0]))
def test_planner_moves_and_is_on_time_wherever_staying_would_be(seed: int, start_h: float, mean_up_h: float) -> None:
    """A dear zone is always up, and cheap ones come and go."""
    random = Random(seed)
    cheap = [random_ups(random, 400, mean_up_h, 0.7) for _ in range(2)]
    market = drawn_market("1" * 400, *cheap, prices=(3.0, 1.0, 1.0))
    task = Task(3.0, 3.0 + start_h + random.choice([0.0, start_h, 4.0]), start_h, None)
    assert replay_run(task, market, random.randrange(100, 200), PLANNER).is_on_time


def test_moves_save_money() -> None:
    """Once the cheap zone is up, for the rest of the work."""
    market = drawn_market("1" * 400, "0" * 20 + "1" * 380, prices=(3.0, 1.0))
    result = replay_run(Task(20.0, 30.0, 0.1, None), market, 0, PLANNER)
    assert result.is_on_time
    assert (result.starts, result.preemptions) == (2, 0)
    assert result.cost < 0.6 * 3.0 * 20.1
