"""Moves: the next VM is made ready while the job runs on, and takes over right after a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.act.test_crash_points import copied_database, points_of
from tests.jobs.decide.buy.test_plan import BOTH, Scripted, decision, due, running
from tests.jobs.jobbed import (
    HOUR,
    MINUTE,
    NOW,
    ON_DEMAND,
    TERMS,
    B,
    agent,
    attempt,
    ended,
    exited,
    saved,
    view,
)
from tests.jobs.lives import MOST_TICKS, Life, Machine
from tests.jobs.world import RECIPE, World

from costguard.deadlines.situation import Act, Choice, Grounds, Situation, Why
from costguard.jobs.decide.actions import AskAgain, EndAttempt, JobDecision, LaunchAttempt, LetBegin, TellCommandToStop
from costguard.jobs.decide.next_step import decide
from costguard.jobs.decide.view import AttemptView, JobContext, JobView
from costguard.model.attempt import STANDING_BY, Attempt, AttemptState, Outcome
from costguard.model.job import JobState
from costguard.model.money import Money

TO_ON_DEMAND = Scripted(Act.START_ON_DEMAND, why=Why.GUARD)


def standby(state: AttemptState = AttemptState.BOOTING, ready: int | None = None, **given: Any) -> Attempt:
    """Makes a standby of attempt 1, requested at 11:30; `ready` for so many minutes."""
    agent_state = (
        agent(started_at=None, phase=STANDING_BY) if ready is not None else agent(started_at=None, phase="downloading")
    )
    ready_at = None if ready is None else NOW - ready * MINUTE
    values = {"agent": agent_state, "ready_at": ready_at, "intended_at": at("11:30"), "follows": 1, **given}
    return attempt(state, 2, provisioning_model=ON_DEMAND, **values)


def moving(one: Attempt, written: str = "11:59", **given: Any) -> JobView:
    """Attempt 1 trains on Spot, attempt 2 is to take over."""
    values = {"of_job": due(state=JobState.RUNNING), "checkpoint": saved(at(written)), **given}
    return replace(view(running(agent=agent(started_at=at("09:00"))), **values), standby=AttemptView(one))


def decided_on(given: JobView, policy: Scripted = TO_ON_DEMAND) -> JobDecision:
    return decision(given, policy)


def only(made: JobDecision) -> Any:
    (action,) = made.actions
    return action


# Beginning.


def test_the_next_vm_is_asked_for_while_the_command_runs_on() -> None:
    """Whenever its last checkpoint was: the command is not touched yet."""
    given = view(
        running(agent=agent(started_at=at("09:00"))), of_job=due(state=JobState.RUNNING), checkpoint=saved(at("11:20"))
    )
    made = decided_on(given)
    launch = only(made)
    assert isinstance(launch, LaunchAttempt)
    assert (launch.number, launch.follows, launch.provisioning_model) == (2, 1, ON_DEMAND)
    assert made.state is JobState.RUNNING
    assert "its next VM in us-central1-a (on-demand) is asked for" in made.reason


def test_a_ceiling_that_does_not_pay_for_both_makes_it_stop_first() -> None:
    """Both VMs may run to their time limits even if the guard is dead: 22 h at $0.50 and 8 h at $1.50 are $23."""
    began = running(agent=agent(started_at=at("09:00")), max_run=24 * HOUR, rate=Money.of("0.5"), made_at=at("10:00"))
    rich = view(began, of_job=due(state=JobState.RUNNING, ceiling=Money.of("40")), checkpoint=saved(at("11:59")))
    assert only(decided_on(rich)).follows == 1
    poor = replace(rich, job=due(state=JobState.RUNNING, ceiling=Money.of("18")))
    made = decided_on(poor)
    assert isinstance(only(made), TellCommandToStop)
    assert "its ceiling of $18.00 does not pay for two VMs at once" in made.reason


def test_the_next_vm_may_run_only_as_long_as_the_ceiling_pays_for_both() -> None:
    """The ceiling of $40 keeps $11 for the 22 h that the first may still run."""
    began = running(agent=agent(started_at=at("09:00")), max_run=24 * HOUR, rate=Money.of("0.5"), made_at=at("10:00"))
    given = view(began, of_job=due(state=JobState.RUNNING, ceiling=Money.of("40")), checkpoint=saved(at("11:59")))
    assert only(decided_on(given)).max_run == timedelta(hours=29 / 1.5)


def test_a_budget_that_leaves_too_little_makes_it_stop_first() -> None:
    """Two VMs at once would take half an hour more at $1.50."""
    given = view(
        running(agent=agent(started_at=at("09:00"))), of_job=due(state=JobState.RUNNING), checkpoint=saved(at("11:59"))
    )
    made = decided_on(replace(given, budget_left=Money.of("0.5"), budget_name="lab"))
    assert isinstance(only(made), TellCommandToStop)
    assert "budget lab leaves $0.50, and two VMs at once would take $0.75 more" in made.reason
    assert only(decided_on(replace(given, budget_left=Money.of("0.75"), budget_name="lab"))).follows == 1


def test_a_quota_for_one_vm_makes_it_stop_first() -> None:
    """A quota that a standby met in vain is in its reason.

    After a stockout the command runs on, and others are tried.
    """
    given = view(
        running(agent=agent(started_at=at("09:00"))), of_job=due(state=JobState.RUNNING), checkpoint=saved(at("11:59"))
    )
    vain = ended(Outcome.QUOTA, 2, follows=1, provisioning_model=ON_DEMAND, agent=agent(started_at=None))
    made = decided_on(replace(given, attempts=(vain, *given.attempts)))
    assert isinstance(only(made), TellCommandToStop)
    assert "the quota does not allow two VMs at once" in made.reason
    full = ended(Outcome.STOCKOUT, 2, follows=1, provisioning_model=ON_DEMAND, agent=agent(started_at=None))
    launch = only(decided_on(replace(given, attempts=(full, *given.attempts))))
    assert (launch.zone, launch.number, launch.follows) == (B, 3, 1)


# While it is made ready.


@pytest.mark.parametrize("state", [AttemptState.INTENDED, AttemptState.ASKED])
def test_what_google_was_asked_is_found_out_meanwhile(state: AttemptState) -> None:
    """The outcome of a request is looked up as for any attempt."""
    made = decided_on(moving(standby(state, agent=agent(started_at=None))))
    assert isinstance(only(made), AskAgain)
    assert made.state is JobState.RUNNING


def test_the_command_runs_on_until_the_vm_is_ready_and_something_was_saved() -> None:
    """Neither alone is enough; a checkpoint that is 20 min old loses too much, until it has waited in vain."""
    assert decided_on(moving(standby())).actions == ()
    assert decided_on(moving(standby(ready=5), "11:40")).actions == ()
    stop = only(decided_on(moving(standby(ready=5))))
    assert isinstance(stop, TellCommandToStop)
    assert (stop.attempt_id, stop.why) == (1, "move")


def test_a_move_without_a_checkpoint_ends_as_its_reason_asks() -> None:
    """The VM that is ready is given up after half an hour; where the guard acts, the command is stopped for it."""
    late = moving(standby(ready=31), "10:00")
    assert isinstance(only(decided_on(late)), TellCommandToStop)
    gives_up = only(decided_on(late, Scripted(Act.START_ON_DEMAND, why=Why.PLAN)))
    assert isinstance(gives_up, EndAttempt)
    assert (gives_up.attempt_id, gives_up.outcome) == (2, Outcome.CANCELLED)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pause": "budget lab is spent"}, "its job waits: budget lab is spent"),
        ({"unknown": "cg-j1-9 may be running"}, "its job waits: cg-j1-9 may be running"),
    ],
)
def test_a_vm_that_is_not_needed_any_more_is_given_up(change: dict[str, Any], why: str) -> None:
    """The VM is given up whatever else is done about the command."""
    made = decided_on(replace(moving(standby(ready=1)), **change))
    given_up = [one for one in made.actions if isinstance(one, EndAttempt) and one.attempt_id == 2]
    assert [one.reason for one in given_up] == [why]


def test_a_cancel_ends_both() -> None:
    """The one that trains gets its notice, the other one ends at once."""
    given = moving(standby(ready=1))
    for job in (replace(given.job, cancel_asked_at=NOW), replace(given.job, cancel_after_at=NOW)):
        made = decided_on(replace(given, job=job))
        assert EndAttempt(2, Outcome.CANCELLED, "its job is to be cancelled") in made.actions


@pytest.mark.parametrize("why", ["hang", "cancel", "ceiling"])
def test_a_command_that_is_stopped_for_another_reason_gives_up_its_move(why: str) -> None:
    """A hang is restarted, and a cancel obeyed, where they happen: the VM that stands by ends, ready or not."""
    for one in (standby(), standby(ready=1)):
        given = moving(one)
        stopping = running(agent=agent(started_at=at("09:00")), stop_asked_at=NOW, stop_why=why)
        made = decided_on(replace(given, attempts=(AttemptView(stopping),)))
        assert EndAttempt(2, Outcome.CANCELLED, "the VM that trains is stopped for another reason") in made.actions
        assert not any(isinstance(action, LetBegin) for action in made.actions)


def test_a_move_that_is_under_way_is_not_given_up_by_its_own_stop() -> None:
    """The command that is asked to stop for the move ends in its time, and the VM that stands by waits for it."""
    given = moving(standby(ready=1))
    stopping = running(agent=agent(started_at=at("09:00")), stop_asked_at=NOW, stop_why="move")
    made = decided_on(replace(given, attempts=(AttemptView(stopping),)))
    assert not any(isinstance(action, EndAttempt) for action in made.actions)


# Taking over.


def taking_over(before: AttemptView, one: Attempt, **given: Any) -> JobView:
    return replace(view(before, of_job=due(state=JobState.RECOVERING), **given), standby=AttemptView(one))


@pytest.mark.parametrize("outcome", [Outcome.MOVED, Outcome.PREEMPTED])
@pytest.mark.parametrize(
    "one", [standby(), standby(ready=1), standby(AttemptState.ASKED, agent=agent(started_at=None))]
)
def test_it_takes_over_once_nothing_can_write_any_more(outcome: Outcome, one: Attempt) -> None:
    """The takeover waits also where the attempt before it was preempted, and before its VM is ready."""
    over = ended(outcome, agent=agent(started_at=at("09:00"), exit=exited(143, asked="cancel")))
    made = decided_on(taking_over(over, one))
    assert any(isinstance(action, LetBegin) and action.attempt_id == 2 for action in made.actions)
    writing = ended(Outcome.LOST, gone=False, agent=agent(started_at=at("09:00")), ended_at=at("11:00"))
    assert not any(isinstance(action, LetBegin) for action in decided_on(taking_over(writing, one)).actions)


def test_a_success_ends_the_one_that_stands_by() -> None:
    """The job is over first; what stood by is then no one's."""
    over = ended(Outcome.SUCCEEDED, agent=agent(started_at=at("09:00"), exit=exited(0)))
    given = taking_over(over, standby(ready=1))
    made = decided_on(given)
    assert made.state is JobState.SUCCEEDED
    after = replace(given, job=replace(given.job, state=JobState.SUCCEEDED))
    actions = decide(after, BOTH, JobContext(TERMS, NOW, NOW - 24 * HOUR)).actions
    assert [action.attempt_id for action in actions if isinstance(action, EndAttempt)] == [2]


# On turns, ended at every step.


class AwayFromSpot:
    """Begins on Spot, and wants to go on on demand."""

    name = "away_from_spot"

    def choose(self, situation: Situation) -> Choice:
        held = situation.held
        if held is None:
            return Choice(Act.START_SPOT, Why.PLAN, Grounds(1.0), 5.0, situation.zones[0].name)
        act = Act.START_ON_DEMAND if held.kind == "spot" and held.is_ready else Act.STAY
        return Choice(act, Why.PLAN, Grounds(1.0), 5.0, None)


def _plain(life: Life, machine: Machine) -> None:
    """Nothing happens but the move."""


def _first_is_preempted(life: Life, machine: Machine) -> None:
    if machine.vm.name == "cg-j1-2":
        first = next(one for one in life.machines.values() if one.vm.name == "cg-j1-1")
        if not first.is_done:
            life.once("notice", lambda: life.notice(first))


def _second_is_lost(life: Life, machine: Machine) -> None:
    if machine.vm.name == "cg-j1-2" and machine.run == 0:
        life.once("second lost", lambda: life.world.cloud.preempt(machine.vm))
        machine.is_done = True


def _is_cancelled(life: Life, machine: Machine) -> None:
    if machine.vm.name == "cg-j1-2":
        life.once("cancel", life.world.cancel)


STORIES: dict[str, tuple[Callable[[Life, Machine], None], int, JobState]] = {
    "moved": (_plain, 8, JobState.SUCCEEDED),
    "the first is preempted meanwhile": (_first_is_preempted, 8, JobState.SUCCEEDED),
    "the second is lost before it takes over": (_second_is_lost, 11, JobState.SUCCEEDED),
    "done before the second is ready": (_plain, 4, JobState.SUCCEEDED),
    "cancelled meanwhile": (_is_cancelled, 12, JobState.CANCELLED),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_guard_that_ends_at_any_step_of_a_move(tmp_path: Path, sqlite_template: Path, story: str) -> None:
    """A crash leaves one VM for each attempt, one command at a time, no VM left: whatever else happens in the middle.

    Of the steps of each tick one in fifteen, others in each story: all of them take minutes, and hold as well.
    """
    happens, needs, state = STORIES[story]
    path = tmp_path / "costguard.db"
    with copied_database(path, sqlite_template) as database:
        world = World(database).begin()
        world.outside.policy = AwayFromSpot()
        world.guard()
        life = Life(world, happens, needs)
        recipe = replace(RECIPE, falls_back_to_on_demand=True)
        world.submit(recipe=recipe, work=2 * HOUR, deadline=world.clock.now() + 12 * HOUR)
        while not any(one.agent.started_at is not None for one in world.attempts()):
            assert life.ticks < MOST_TICKS
            life.tick()
        begin = 1 + list(STORIES).index(story)
        assert points_of(life, path, state, begin, every=15) > 3
