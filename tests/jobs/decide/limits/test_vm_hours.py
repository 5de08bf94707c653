"""A limit of VM hours counts all VMs of a job: the next ones, those that run, a gang's, and one that stands by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.decide.attempts.test_moves import decided_on, moving, standby
from tests.jobs.decide.buy.test_plan import due, planned, running
from tests.jobs.gang.test_gang import begun
from tests.jobs.jobbed import HOUR, MINUTE, NOW, agent, attempt, decided, ended, exited, job, place, saved, view
from tests.jobs.world import World, world

from costguard.jobs.decide.actions import EndAttempt, LaunchAttempt, TellCommandToStop
from costguard.jobs.decide.planned import Risk
from costguard.model.attempt import VM_HOURS, AttemptState, Outcome
from costguard.model.duration import hours_text
from costguard.model.job import JobState


@pytest.fixture
def jobs(sqlite_url: str) -> Iterator[World]:
    with world(sqlite_url) as made:
        yield made


def limited(hours: float, **given: Any) -> Any:
    return job(max_vm_time=hours * HOUR, **given)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(), "0 VM hours"),
        (HOUR, "1 VM hour"),
        (HOUR * 2.5, "2.5 VM hours"),
        (HOUR - timedelta(seconds=1), "0.9 VM hours"),
        (HOUR * 1200, "1,200 VM hours"),
    ],
)
def test_vm_hours_are_rounded_down_in_words(span: timedelta, text: str) -> None:
    """A limit is never shown as reached before it is."""
    assert hours_text(span) == text


@pytest.mark.parametrize(
    ("ran", "nodes", "longest"),
    [(0, 1, 24 * HOUR), (37, 1, 3 * HOUR), (37, 2, 1.5 * HOUR), (39, 4, 15 * MINUTE)],
)
def test_the_next_vm_may_run_for_its_part_of_what_is_left(ran: int, nodes: int, longest: timedelta) -> None:
    """Google ends it there, also if the guard is dead; no price is needed for that."""
    given = replace(view(of_job=limited(40, nodes=nodes)), vm_time=ran * HOUR)
    launches = decided(given, places=(place("us-central1-a", rate=None),)).actions
    assert len(launches) == nodes
    assert {launch.max_run for launch in launches if isinstance(launch, LaunchAttempt)} == {longest}


@pytest.mark.parametrize(
    ("nodes", "left", "words"),
    [
        (1, "9 min", "its limit of 40 VM hours leaves 9 min, which is less than 10 min; submit it again"),
        (4, "39 min", "its limit of 40 VM hours leaves 39 min, which is less than 10 min for each of its 4 VMs; "),
    ],
)
def test_a_job_whose_vm_hours_are_used_up_is_over(nodes: int, left: str, words: str) -> None:
    """Less than ten minutes for each VM would only boot them."""
    minutes = int(left.partition(" ")[0])
    given = replace(view(of_job=limited(40, nodes=nodes)), vm_time=40 * HOUR - minutes * MINUTE)
    made = decided(given)
    assert (made.state, made.actions) == (JobState.FAILED, ())
    assert made.reason.startswith(words)
    enough = replace(given, vm_time=40 * HOUR - 10 * nodes * MINUTE)
    assert decided(enough).state is JobState.PROVISIONING


@pytest.mark.parametrize(("minutes", "stops"), [(4, False), (3, True), (0, True), (-5, True)])
def test_the_command_gets_its_notice_before_its_vm_hours_are_used_up(minutes: int, stops: bool) -> None:
    """Three minutes before; then the attempt ends, and the job with it."""
    given = replace(view(attempt(), of_job=limited(10)), vm_time=10 * HOUR - minutes * MINUTE)
    made = decided(given)
    if not stops:
        assert made.actions == ()
        assert made.next_at is not None
        assert made.next_at <= NOW + MINUTE
        return
    (action,) = made.actions
    assert isinstance(action, TellCommandToStop)
    assert action.why == VM_HOURS
    assert action.reason.startswith("its limit of 10 VM hours is reached: its VMs ran for ")
    stopped = attempt(stop_asked_at=NOW, stop_why=VM_HOURS, agent=agent(exit=exited(0, asked="cancel")))
    (end,) = decided(replace(given, attempts=view(stopped).attempts)).actions
    assert end == EndAttempt(1, Outcome.TIME_LIMIT, "stopped because its VM hours are used up")
    over = replace(given, attempts=view(ended(Outcome.TIME_LIMIT, stop_why=VM_HOURS)).attempts)
    assert decided(over).state is JobState.FAILED


def test_a_limit_that_vm_hours_set_is_not_the_recipes() -> None:
    """The VM ended at what was left of them: the job fails for that, whether it saved or not."""
    short = ended(Outcome.TIME_LIMIT, max_run=HOUR)
    made = decided(replace(view(short, of_job=limited(1, checkpoint=None)), vm_time=HOUR))
    assert made.state is JobState.FAILED
    assert made.reason.startswith("its limit of 1 VM hour leaves 0 s")


def test_a_vm_that_stands_by_uses_them_too() -> None:
    """Two VMs use eight minutes of VM time in four: the command is asked to stop at one."""
    alone = replace(view(attempt(), of_job=limited(10)), vm_time=10 * HOUR - 8 * MINUTE)
    second = attempt(AttemptState.BOOTING, 2, follows=1, made_at=at("11:50"))
    both = replace(alone, standby=replace(alone.attempts[0], attempt=second))
    assert [decided(one).next_at for one in (alone, both)] == [NOW + 5 * MINUTE, NOW + MINUTE]


def test_a_move_needs_vm_hours_for_both() -> None:
    """The first may still use 22 of 40 h; where the rest is too little for the next, it stops first."""
    began = running(agent=agent(started_at=at("09:00")), max_run=24 * HOUR, made_at=at("10:00"))
    of_job = due(state=JobState.RUNNING, max_vm_time=40 * HOUR)
    given = replace(view(began, of_job=of_job, checkpoint=saved(at("11:59"))), vm_time=2 * HOUR)
    (launch,) = decided_on(given).actions
    assert isinstance(launch, LaunchAttempt)
    assert (launch.follows, launch.max_run) == (1, 16 * HOUR)
    (stop,) = (made := decided_on(replace(given, vm_time=17 * HOUR))).actions
    assert isinstance(stop, TellCommandToStop)
    assert "its limit of 40 VM hours does not last for two VMs at once" in made.reason


def test_a_standby_is_given_up_where_its_job_stops_for_its_vm_hours() -> None:
    """It would have nothing left to run with."""
    given = moving(standby(ready=1), of_job=due(state=JobState.RUNNING, max_vm_time=10 * HOUR))
    made = decided_on(replace(given, vm_time=10 * HOUR))
    assert any(isinstance(action, TellCommandToStop) and action.why == VM_HOURS for action in made.actions)


def test_vm_hours_below_the_work_put_the_deadline_at_risk() -> None:
    """Eight hours of work are left; a limit that leaves seven ends it before."""
    short = replace(view(of_job=due(hours=20, work=8, max_vm_time=10 * HOUR)), vm_time=3 * HOUR)
    at_risk = planned(short).at_risk
    assert at_risk is not None
    assert at_risk.risk is Risk.VM_HOURS
    assert at_risk.text.startswith("8 h of work are left on 1 VM, and its limit of 10 VM hours leaves 7 h. ")
    assert planned(replace(short, vm_time=2 * HOUR)).at_risk is None


def test_a_gang_stops_when_all_of_its_vms_have_used_the_limit(jobs: World) -> None:
    """Four VMs use four hours an hour, and Google ends each at its quarter."""
    agents = begun(jobs, nodes=4, max_vm_time=4 * HOUR)
    assert {one.max_run for one in jobs.attempts()} == {HOUR}
    began = jobs.clock.now()
    while not any(one.stop_why for one in jobs.attempts()):
        agents.step(60)
        assert jobs.clock.now() - began < HOUR, jobs.job().reason
    assert {one.stop_why for one in jobs.attempts()} == {VM_HOURS}
    for _ in range(20):
        agents.step()
    assert jobs.job().state is JobState.FAILED
    assert "its limit of 4 VM hours leaves" in jobs.job().reason
    assert jobs.cloud.there() == []


def test_all_attempts_count_and_a_new_guard_knows_them(jobs: World) -> None:
    """A preemption after two of five hours leaves the next VM three, also where the guard was ended meanwhile."""
    jobs.submit(max_vm_time=5 * HOUR)
    jobs.until_up("cg-j1-1")
    jobs.start()
    jobs.step(passing=True)
    for _ in range(24):
        jobs.beat(step=1)
        jobs.step(300, passing=True)
    jobs.guard()
    jobs.cloud.preempt(jobs.vm())
    jobs.settle(minutes=3)
    second = jobs.attempts()[1]
    assert 3 * HOUR - 5 * MINUTE < second.max_run <= 3 * HOUR
