"""The plan's tables, and what the planner does with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.deadlines.markets import GAP_H, HostileMarket

from costguard.deadlines.hazards import (
    BINS,
    NO_COUNTS,
    PRIOR_PREEMPTIONS,
    Hazards,
    SeenPeriod,
    TogetherCounts,
    bin_of,
    counts_of,
    stationary_ages,
)
from costguard.deadlines.plan import IDLE, ON_DEMAND, SPOT, Chances, PlanInput, moves_of, solve
from costguard.deadlines.planner import MOST_KEPT, Planner
from costguard.deadlines.run import Task, replay_run
from costguard.deadlines.situation import Act, HeldVM, Situation, Why, Zone
from costguard.deadlines.spot_alone import TYPICAL_AGE_H, on_spot_alone

SPOT_PRICE = 1 / 3.14


def planned(start_h: float, step_h: float, another_up: float = 0.0) -> PlanInput:
    return PlanInput(SPOT_PRICE, 1.0, start_h, step_h, 60, 50, Chances(Hazards(), another_up))


@settings(max_examples=8, deadline=None)
@given(st.sampled_from([0.02, 0.1, 0.2, 0.33, 0.4]), st.sampled_from([0.1, 0.2, 0.3]), st.sampled_from([0.0, 0.6]))
def test_more_slack_never_costs_more_and_more_work_never_less(start_h: float, step_h: float, another: float) -> None:
    """A plan with more time can do all that fits into less; and on-demand all along bounds every cost."""
    plan = solve(planned(start_h, step_h, another))
    for work in (1, 7, 30, 60):
        for columns in (SPOT, ON_DEMAND, IDLE):
            by_slack = np.array([plan.table[work + slack, slack, columns] for slack in range(51)])
            assert (np.diff(by_slack, axis=0) <= 1e-9).all()
            assert (by_slack <= work * step_h + 2 * start_h + 1e-9).all()
    for slack in (0, 5, 50):
        by_work = np.array([plan.table[work + slack, slack, IDLE] for work in range(61)])
        assert (np.diff(by_work, axis=0) >= -1e-9).all()


def test_nothing_is_left_to_pay_without_work() -> None:
    """The tables begin at zero."""
    plan = solve(planned(0.1, 0.1))
    assert all((plan.table[slack, slack] == 0).all() for slack in range(51))


@given(st.floats(0.01, 3.0), st.floats(0, 1))
@settings(max_examples=20)
def test_chances_add_up_to_one(hours: float, another_up: float) -> None:
    """Some state follows every state; a held zone stays or is lost."""
    moves = moves_of(Chances(Hazards(), another_up), hours)
    assert moves.any.sum(axis=1) == pytest.approx(np.ones(2 * BINS))
    assert moves.stay.sum(axis=1) + moves.fail.sum(axis=1) == pytest.approx(np.ones(BINS))


def job(slack_h: float, *zones: Zone, held: HeldVM | None = None, work_h: float = 18.0) -> Situation:
    """Starts take 6 minutes; an hour on demand costs 3.14."""
    return Situation(work_h, work_h + slack_h, 0.1, 0.05, 3.14, zones, held, 0.0, work_h)


UP = Zone("a", 1.0, True, 4.0)
OUT = Zone("a", 1.0, False, 0.1)


def test_moves_over_hours_are_the_short_ones_in_a_row() -> None:
    """Forty of the shortest steps, and two hours at once."""
    chances = Chances(Hazards(), 0.6)
    once, over = moves_of(chances, 0.05), moves_of(chances, 2.0)
    any_all, stay, fail = np.eye(16), np.eye(8), np.zeros((8, 16))
    for _ in range(40):
        fail = fail @ once.any + stay @ once.fail
        stay, any_all = stay @ once.stay, any_all @ once.any
    for made, expected in ((over.any, any_all), (over.stay, stay), (over.fail, fail)):
        assert np.allclose(made, expected, rtol=1e-9)


def test_plans_of_many_jobs_take_bounded_memory() -> None:
    """Jobs with eight days of slack each, whose tables would together take more than is kept."""
    planner = Planner()
    zones = (Zone("a", 0.3, True, 4.0),)
    for number in range(12):
        choice = planner.choose(Situation(48.0, 48.0 + 200 + number, 0.1 + number / 100, 0.1, 1.0, zones))
        assert choice.act is Act.START_SPOT
    assert planner.kept <= MOST_KEPT


def test_zone_that_is_up_is_used() -> None:
    """Spot costs a third: with slack for it, it is what a job starts on, and keeps."""
    choice = Planner().choose(job(6.0, UP))
    assert choice.act is Act.START_SPOT
    assert choice.zone == "a"
    assert choice.grounds.expected_life_h == pytest.approx(9.3, abs=0.1)
    kept = Planner().choose(job(6.0, UP, held=HeldVM("spot", "a", 4.0)))
    assert kept.act is Act.STAY
    assert kept.why is Why.KEEP_SPOT


def test_short_outage_is_waited_out_with_much_slack_and_bridged_with_little() -> None:
    """Slack is worth more when there is less of it."""
    assert Planner().choose(job(12.0, OUT)).act is Act.WAIT
    bridged = Planner().choose(job(0.4, OUT))
    assert bridged.act is Act.START_ON_DEMAND
    assert bridged.why is Why.BEHIND


def test_zone_that_has_been_lost_often_of_late_is_left_for_a_calm_one() -> None:
    """The zone with the longer expected life is taken at one price, though both are as old."""
    lost = [SeenPeriod(True, 0.2 * place, 0.2 * place + 0.15) for place in range(60)]
    calm = [SeenPeriod(True, 0, 12, is_cut=True)]
    zones = (Zone("stormy", 1.0, True, 0.1, counts_of(lost, 12)), Zone("calm", 1.0, True, 0.1, counts_of(calm, 12)))
    assert Planner().choose(job(6.0, *zones)).zone == "calm"


def test_without_on_demand_the_copy_of_the_checkpoint_counts() -> None:
    """A zone at a lower price is not the cheaper one where moving the checkpoint there costs more than it saves."""
    zones = (Zone("here", 0.50, True, 4.0), Zone("far", 0.45, True, 4.0, move_cost=2.0))
    choice = on_spot_alone(Situation(10.0, 30.0, 0.2, 0.1, None, zones))
    assert (choice.act, choice.zone) == (Act.START_SPOT, "here")
    free = (zones[0], zones[1]._replace(move_cost=0.0))
    assert on_spot_alone(Situation(10.0, 30.0, 0.2, 0.1, None, free)).zone == "far"


def test_cheaper_zone_is_worth_a_move_with_slack_for_it() -> None:
    """A third off is worth a start; with less slack than three starts, nothing is moved."""
    zones = (Zone("dear", 1.5, True, 9.0), Zone("cheap", 1.0, True, 9.0))
    held = HeldVM("spot", "dear", 9.0)
    moved = Planner().choose(job(6.0, *zones, held=held))
    assert moved.act is Act.START_SPOT
    assert moved.zone == "cheap"
    assert moved.why is Why.CHEAPER_ZONE
    assert Planner().choose(job(0.25, *zones, held=held)).act is Act.STAY


def test_cost_of_copying_the_checkpoint_can_keep_a_job_where_it_is() -> None:
    """Moving to a cheaper zone pays its egress too."""
    zones = (Zone("dear", 1.1, True, 9.0), Zone("cheap", 1.0, True, 9.0, NO_COUNTS, 5.0))
    assert Planner().choose(job(6.0, *zones, held=HeldVM("spot", "dear", 9.0))).act is Act.STAY


def test_dear_spot_replaces_on_demand_alone() -> None:
    """Spot at four fifths of the on-demand price is no reason to start; where on-demand would be, it is cheaper."""
    dear = Zone("dear", 2.5, True, 20.0)
    assert Planner().choose(job(12.0, OUT, dear)).act is Act.WAIT
    instead = Planner().choose(job(0.4, OUT, dear))
    assert instead.act is Act.START_SPOT
    assert instead.zone == "dear"


def test_nothing_is_waited_for_that_cannot_come() -> None:
    """A wait would only use up slack, too late for a start on Spot, or with expensive zones alone."""
    assert Planner().choose(job(0.21, OUT)).act is Act.START_ON_DEMAND
    assert Planner().choose(job(12.0, Zone("dear", 2.5, True, 20.0))).act is Act.START_SPOT
    assert Planner().choose(job(12.0, OUT._replace(price=2.5))).act is Act.START_ON_DEMAND


def test_zone_of_which_nothing_is_known_is_tried() -> None:
    """Unknown is neither out nor new: waiting would not make it older. Half of the zones that are up are older."""
    for slack_h in (0.5, 6.0, 24.0):
        choice = Planner().choose(job(slack_h, Zone("unknown", 1.0)))
        assert choice.act is Act.START_SPOT
        assert choice.grounds.expected_life_h == pytest.approx(9.3, abs=0.1)
    older = sum(stationary_ages(PRIOR_PREEMPTIONS)[bin_of(TYPICAL_AGE_H) :])
    assert older == pytest.approx(0.5, abs=0.02)


def test_other_zones_that_were_up_when_one_was_lost_make_spot_worth_more() -> None:
    """Where another zone was always up, the rest of the job is expected to cost less."""
    zones = (UP, Zone("b", 1.0, False, 1.0))
    often = TogetherCounts(NO_COUNTS, 40.0, (40.0, *(0.0,) * (BINS - 1)))
    never = TogetherCounts(NO_COUNTS, 40.0)
    costs = [
        Planner().choose(job(2.0, *zones)._replace(together=together)).grounds.expected_cost
        for together in (often, never)
    ]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0] < costs[1]


def test_spot_that_has_cost_too_much_is_not_tried_again() -> None:
    """Another start in vain would lose more than a third of the work's cost on demand: Spot is kept, not started."""
    cap = 0.33 * 18 * 3.14
    start = UP.price * job(12.0, UP).start_h
    much, little = (job(12.0, UP)._replace(overspent=cap - share * start) for share in (0.9, 1.1))
    assert Planner().choose(little).act is Act.START_SPOT
    given_up = Planner().choose(much)
    assert (given_up.act, given_up.why) == (Act.START_ON_DEMAND, Why.SPOT_FAILS)
    assert Planner().choose(much._replace(held=HeldVM("on_demand", "a", 1.0))).act is Act.STAY
    assert Planner().choose(much._replace(held=HeldVM("spot", "a", 1.0))).act is Act.STAY
    assert Planner().choose(much._replace(zones=(OUT,))).act is Act.START_ON_DEMAND  # it waits for nothing


def test_spot_returns_where_it_has_become_cheap_enough() -> None:
    """The rest for starts in vain pays for one in the cheaper zone alone."""
    cap = 0.33 * 18 * 3.14
    spent = job(12.0, UP)._replace(overspent=cap - 0.9 * UP.price * job(12.0, UP).start_h)
    cheap = UP._replace(name="cheap", price=0.5 * UP.price)
    choice = Planner().choose(spent._replace(zones=(UP, cheap)))
    assert (choice.act, choice.zone) == (Act.START_SPOT, "cheap")


def test_first_spot_vm_is_paid_for_however_short_the_job_is() -> None:
    """A start costs more than a third of the work: it is tried once, and not a second time."""
    short = job(5.0, UP)._replace(work_left_h=0.1, total_work_h=0.1, time_left_h=8.0)
    assert Planner().choose(short).act is Act.START_SPOT
    assert Planner().choose(short._replace(overspent=0.05)).act is Act.START_ON_DEMAND


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([0.5, 1.0, 3.0]),
    st.sampled_from([0.0, 1.0, 5.0]),
    st.sampled_from([1.0, 2.0, 4.0]),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_hostile_zones_cost_at_most_a_third_more_than_on_demand(
    work_h: float, spare_h: float, start_points: float, lives: list[int], zones: int
) -> None:
    """The bound includes the first Spot VM in vain, and the on-demand VM that was left for it, whatever there is to
    spare.
    """
    start_h = start_points * GAP_H
    market = HostileMarket(zones, lives)
    task = Task(work_h, work_h + start_h + spare_h, start_h, 3.14)
    result = replay_run(task, market, 0, market.watching(Planner()))
    assert result.is_on_time
    on_demand = (work_h + start_h) * 3.14
    vain = max(0.33 * work_h * 3.14, 1.0 * start_h) + 1.0 * GAP_H
    left = 3.14 * (start_h + GAP_H)
    assert result.cost <= on_demand + vain + left


def test_expected_cost_is_in_the_unit_of_the_prices() -> None:
    """Ten times the prices, ten times the cost; and it lies between all on Spot and all on demand."""
    plain = Planner().choose(job(6.0, UP)).grounds.expected_cost
    zone = UP._replace(price=10.0)
    tenfold = Planner().choose(job(6.0, zone)._replace(on_demand_price=31.4)).grounds.expected_cost
    assert plain is not None
    assert tenfold == pytest.approx(10 * plain, rel=0.05)
    assert 18 < plain < 18 * 3.14


def test_planner_that_explains_says_until_when_on_demand_is_expected() -> None:
    """Work on demand leaves slack as it is and work less, until waiting for Spot is worth it."""
    on_demand = HeldVM("on_demand", "z", 1.0)
    situation = job(2.5, OUT, held=on_demand)
    choice = Planner(explains=True).choose(situation)
    assert choice.act is Act.STAY
    until_h = choice.grounds.until_h
    assert until_h is not None
    assert 0 < until_h < 18
    assert Planner().choose(situation).grounds.until_h is None


def test_plans_are_kept_while_nothing_has_changed() -> None:
    """The same job an hour later needs no new plan; other prices do."""
    planner = Planner()
    planner.choose(job(6.0, UP))
    planner.choose(job(6.0, UP)._replace(work_left_h=17.0, elapsed_h=1.0, time_left_h=23.0))
    assert len(planner._plans) == 1
    planner.choose(job(6.0, UP._replace(price=2.0)))
    assert len(planner._plans) == 2


def test_choice_is_the_same_whatever_was_planned_before() -> None:
    """Plans kept from other jobs change nothing."""
    used = Planner()
    for slack_h in (1.0, 3.0, 8.0):
        used.choose(job(slack_h, OUT, work_h=24.0))
    for slack_h in (0.4, 2.0, 6.0):
        assert used.choose(job(slack_h, OUT)) == Planner().choose(job(slack_h, OUT))


def test_spot_that_is_to_be_had_is_waited_with_only_for_a_share_of_what_the_rest_costs() -> None:
    """A zone that loses its VMs while they are young is better once it is older; it names how much that saves."""
    lost = [SeenPeriod(True, 0.2 * place, 0.2 * place + 0.1) for place in range(60)]
    new = Zone("a", 1.0, True, 0.0, counts_of(lost, 12))
    situation = job(20.0, new, work_h=1.0)._replace(start_h=0.6, interval_h=0.1)
    patient = Planner(waiting_saves=0.0).choose(situation)
    assert patient.act is Act.WAIT
    saves = patient.grounds.saves
    assert saves is not None
    assert 0.02 < saves < 0.5
    assert Planner(waiting_saves=saves + 0.001).choose(situation).act is Act.START_SPOT
    assert Planner(waiting_saves=saves - 0.001).choose(situation).act is Act.WAIT
    assert Planner(waiting_saves=0.0).choose(job(6.0, Zone("a", 1.0))).act is Act.START_SPOT  # it would not get older


def test_job_that_has_outlasted_its_work_begins_again_at_once() -> None:
    """The owner expected less: what is left of it is not known, and something is."""
    assert Planner().choose(job(6.0, UP, work_h=0.0)).act is Act.START_SPOT


def test_spot_that_may_undo_work_needs_slack_for_one_start_on_demand_after_it() -> None:
    """The hour without a checkpoint: a start of 20 min and the hour may be lost, and 20 min are needed after that."""
    start_h, loss_h = 1 / 3 + 1.0, 1.0
    no_checkpoint = job(1.95, UP, work_h=1.0)._replace(start_h=start_h, loss_h=loss_h)
    assert Planner().choose(no_checkpoint).act is Act.START_SPOT
    assert no_checkpoint.spot_needs_h == pytest.approx(5 / 3)
    short = no_checkpoint._replace(time_left_h=1.0 + 1.66)
    assert Planner().choose(short).act is Act.START_ON_DEMAND
    on_demand = no_checkpoint._replace(held=HeldVM("on_demand", "a", 1.0))
    assert Planner().choose(on_demand).act is Act.STAY  # leaving it could undo work as well
