"""Jobs with a deadline that may use flex-start: what their policy sees, and what is done with its choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.api.rows import NOW as ROWS_NOW
from tests.builders import at
from tests.jobs import job_rows as made_rows
from tests.jobs.decide.buy.test_plan import BOTH, CONTEXT, Scripted, asked, decision, due, planned, running
from tests.jobs.jobbed import (
    HOUR,
    MINUTE,
    NOW,
    ON_DEMAND,
    RECIPE,
    SPOT,
    A,
    B,
    agent,
    attempt,
    ended,
    place,
    saved,
    view,
)

from costguard.db.transaction import Database
from costguard.deadlines.planner import Planner
from costguard.deadlines.situation import Act, Why
from costguard.deadlines.waits import WaitCounts
from costguard.jobs.decide.actions import AskAgain, EndAttempt, LaunchAttempt, TellCommandToStop
from costguard.jobs.decide.buy.plan import PlanBasis, plan
from costguard.jobs.decide.measures.work_left import overhead, work_left
from costguard.jobs.decide.view import AttemptView
from costguard.jobs.rows import attempts
from costguard.jobs.rows.history import flex_waits
from costguard.jobs.rows.history.zone_history import VMKind
from costguard.model.attempt import AgentState, Attempt, AttemptState, Outcome
from costguard.model.buying import FLEX, bought
from costguard.model.job import JobState
from costguard.model.launch import LONGEST_FLEX_RUN
from costguard.model.money import Money

CHEAPEST = replace(bought(RECIPE, "cheapest"), machine_type="a2-highgpu-1g", max_run=20 * 24 * HOUR)
ALL_WAYS = (*BOTH, place(A, FLEX, "0.80"), place(B, FLEX, "0.70"))


def wanted(**given: Any) -> Any:
    return due(recipe=CHEAPEST, **given)


def request(number: int = 1, state: AttemptState = AttemptState.WAITING, **given: Any) -> Attempt:
    """Makes a request of flex-start in zone a that waits since 11:20."""
    values = {
        "provisioning_model": FLEX, "intended_at": at("11:20"), "asked_at": at("11:20"), "made_at": None,
        "agent": AgentState(), "gce_id": "7", "try_after": NOW + MINUTE, **given,
    }  # fmt: skip
    return attempt(state, number, **values)


def seen_of(*attempts: Any, **given: Any) -> Any:
    """Returns the situation that the policy sees."""
    policy = Scripted(Act.STAY)
    planned(view(*attempts, of_job=wanted(), **given), policy, ALL_WAYS)
    return policy.seen[0]


# What the policy sees.


@pytest.mark.parametrize(
    ("account", "least", "is_offered"),
    [("vm@acme.iam.gserviceaccount.com", None, True), ("", None, False), ("vm@acme.iam.gserviceaccount.com", 2, False)],
    ids=["a fixed number", "without an account", "a range"],
)
def test_several_vms_have_an_offer_where_a_group_can_make_them(
    account: str, least: int | None, is_offered: bool
) -> None:
    """A plan that wanted what the job may not request would wait for nothing."""
    several = due(recipe=replace(CHEAPEST, service_account=account), nodes=4, least_nodes=least)
    policy = Scripted(Act.STAY)
    planned(view(of_job=several), policy, ALL_WAYS)
    assert (policy.seen[0].flex is not None) is is_offered


def test_the_policy_sees_the_cheapest_offer_its_wait_and_its_seven_days() -> None:
    """It sees three minutes less of time: a request that is given up has to be seen gone."""
    offered = seen_of()
    assert (offered.flex.price, offered.flex.longest_wait_h, offered.flex.longest_run_h) == (0.7, 2.0, 168.0)
    assert (offered.held, offered.asked) == (None, None)
    policy = Scripted(Act.STAY)
    planned(view(of_job=due()), policy, BOTH)
    assert policy.seen[0].flex is None
    assert policy.seen[0].time_left_h - offered.time_left_h == pytest.approx(0.05)


@pytest.mark.parametrize("state", [AttemptState.INTENDED, AttemptState.ASKED, AttemptState.WAITING])
def test_a_request_is_no_vm(state: AttemptState) -> None:
    """It counts as none alone, and next to the VM that trains."""
    alone = seen_of(request(state=state))
    assert (alone.held, alone.asked.age_h) == (None, pytest.approx(40 / 60))
    both = seen_of(running(agent=agent(started_at=at("09:00"))), standby=AttemptView(request(2, state, follows=1)))
    assert (both.held.kind, both.asked.age_h) == ("spot", pytest.approx(40 / 60))


def test_a_granted_vm_is_held_from_its_grant_on() -> None:
    """The wait of its request is neither its age nor part of its start."""
    up = request(state=AttemptState.BOOTING, made_at=at("11:55"), agent=agent(started_at=None))
    held = seen_of(up).held
    assert (held.kind, held.age_h) == ("flex", pytest.approx(5 / 60))
    assert held.start_left_h == pytest.approx(15 / 60)


# What is done with its choice.


def test_it_asks_in_the_best_zone_for_seven_days() -> None:
    """It does so whatever is up on Spot."""
    made = decision(view(of_job=wanted()), Scripted(Act.START_FLEX), ALL_WAYS)
    (launch,) = [one for one in made.actions if isinstance(one, LaunchAttempt)]
    assert (launch.provisioning_model, launch.max_run) == (FLEX, LONGEST_FLEX_RUN)
    assert (launch.zone, launch.rate) == (A, Money.of("0.80"))  # the first of its kind: places come ranked
    assert "as planned, a request of flex-start" in launch.reason


def test_it_waits_on_while_the_plan_waits() -> None:
    """The plan's words are those of a request."""
    given = view(request(), of_job=wanted())
    made = planned(given, Scripted(Act.WAIT), ALL_WAYS)
    assert made.reason.startswith("waits for flex-start:")
    assert decision(given, Scripted(Act.WAIT), ALL_WAYS).actions == ()


@pytest.mark.parametrize("act", [Act.DROP_FLEX, Act.START_ON_DEMAND, Act.START_SPOT])
def test_a_request_that_is_not_wanted_is_given_up_before_anything_else_is_asked(act: Act) -> None:
    """The VM is deleted first: it might be granted at this moment."""
    policy = Scripted(act, A if act is Act.START_SPOT else None)
    (end,) = decision(view(request(), of_job=wanted()), policy, ALL_WAYS).actions
    assert isinstance(end, EndAttempt)
    assert (end.outcome, end.interruption) == (Outcome.STOCKOUT, None)
    assert "its request in us-central1-a was not granted within 40 min and is given up" in end.reason
    ending = view(ended(Outcome.STOCKOUT, gone=False, provisioning_model=FLEX, gce_id="7"), of_job=wanted())
    assert asked(decision(ending, policy, ALL_WAYS)) is None
    gone = view(ended(Outcome.STOCKOUT, provisioning_model=FLEX, gce_id="7"), of_job=wanted())
    launched = asked(decision(gone, policy, ALL_WAYS))
    assert (launched is not None) is (act is not Act.DROP_FLEX)


def test_a_spot_vm_trains_on_while_flex_start_is_asked_for() -> None:
    """The next attempt follows it; and where two VMs cannot be paid for, it is not stopped for a request."""
    trains = view(
        running(agent=agent(started_at=at("09:00")), max_run=24 * HOUR, made_at=at("10:00")),
        of_job=wanted(state=JobState.RUNNING), checkpoint=saved(at("11:59")),
    )  # fmt: skip
    (launch,) = decision(trains, Scripted(Act.START_FLEX), ALL_WAYS).actions
    assert isinstance(launch, LaunchAttempt)
    assert (launch.provisioning_model, launch.follows) == (FLEX, 1)
    poor = replace(trains, budget_left=Money.of("0.01"), budget_name="lab")
    actions = decision(poor, Scripted(Act.START_FLEX), ALL_WAYS).actions
    assert not any(isinstance(one, TellCommandToStop | LaunchAttempt) for one in actions)


@pytest.mark.parametrize(("act", "goes_on"), [(Act.STAY, True), (Act.DROP_FLEX, False), (Act.START_ON_DEMAND, False)])
def test_a_request_next_to_a_vm_goes_on_until_the_plan_drops_it(act: Act, goes_on: bool) -> None:
    """The VM that trains is left alone in any case."""
    trains = view(
        running(agent=agent(started_at=at("09:00")), max_run=24 * HOUR, made_at=at("10:00")),
        of_job=wanted(state=JobState.RUNNING), checkpoint=saved(at("11:59")),
        standby=AttemptView(request(2, follows=1, try_after=NOW)),
    )  # fmt: skip
    actions = decision(trains, Scripted(act), ALL_WAYS).actions
    (action,) = actions
    assert isinstance(action, AskAgain if goes_on else EndAttempt)
    assert action.attempt_id == 2


def test_on_demand_never_falls_back_to_a_request() -> None:
    """A job that needs a VM now takes Spot where nothing is to be had on demand, before it asks and waits."""
    policy = Scripted(Act.START_ON_DEMAND, why=Why.GUARD)
    spot_and_flex = tuple(one for one in ALL_WAYS if one.provisioning_model is not ON_DEMAND)
    assert asked(decision(view(of_job=wanted()), policy, spot_and_flex)) == (A, SPOT)


def test_the_planner_asks_for_flex_start_where_it_costs_the_least() -> None:
    """August 2026's prices of an A100: Spot saves 5 % and is lost; with much time, flex-start alone is cheaper."""
    places = (place(A, SPOT, "1.92768"), place(A, ON_DEMAND, "3.67363"), place(A, FLEX, "2.02038"))
    made = planned(view(of_job=wanted(hours=60, work=40)), Planner(explains=True), places)
    assert made.act is Act.START_FLEX
    dear = (*places[:2], place(A, FLEX, "3.60"))
    assert planned(view(of_job=wanted(hours=60, work=40)), Planner(explains=True), dear).act is not Act.START_FLEX


def test_waits_that_were_seen_count_in_the_plan() -> None:
    """Requests that were never granted make it wait for none."""
    never = WaitCounts(granted=(0.0,) * 4, outlasted=(400.0,) * 4)
    policy = Scripted(Act.STAY)
    given = view(of_job=wanted())
    basis = PlanBasis(ALL_WAYS, (), work_left(given, NOW), overhead(given, None, (), NOW), waits=never)
    plan(given, basis, policy, CONTEXT)
    assert policy.seen[0].flex is not None
    assert policy.seen[0].flex.waits == never


# What is learnt.


def test_waits_are_read_from_the_attempts(sqlite_database: Database) -> None:
    """Granted after 20 min, refused after the whole wait, given up after half an hour; a quota says nothing."""
    asked_at = ROWS_NOW - 3 * HOUR
    lives: tuple[dict[str, Any], ...] = (
        {"made_at": asked_at + 20 * MINUTE, "state": AttemptState.RUNNING},
        {"ended_at": asked_at + 2 * HOUR, "outcome": Outcome.STOCKOUT, "state": AttemptState.OVER},
        {"ended_at": asked_at + 40 * MINUTE, "outcome": Outcome.STOCKOUT, "state": AttemptState.OVER},
        {"ended_at": asked_at + MINUTE, "outcome": Outcome.QUOTA, "state": AttemptState.OVER},
        {"made_at": asked_at + MINUTE, "state": AttemptState.RUNNING, "is_spot": True},
    )
    with sqlite_database.write() as connection:
        made_rows.added(connection)
        for number, life in enumerate(lives, 1):
            model = SPOT if life.pop("is_spot", False) else FLEX
            one = made_rows.attempt(connection, number=number, provisioning_model=model)
            attempts.change(connection, one.id, list(AttemptState), asked_at=asked_at, **life)
        counts = flex_waits.read(connection, ROWS_NOW)
        assert list(counts) == [VMKind.of_recipe(made_rows.RECIPE)]
        (seen,) = counts.values()
        assert list(seen.granted) == [0, 1, 0, 0]
        assert list(seen.outlasted) == [3, 2, 1, 1]
        assert flex_waits.read(connection, ROWS_NOW + 60 * 24 * HOUR) == {}
