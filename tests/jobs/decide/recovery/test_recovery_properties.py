"""Properties hold of decisions about jobs whatever happens: calls that fail, VMs that die, agents that fall silent."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.jobs.job_views import World
from tests.jobs.jobbed import ANA, LONG_AGO, ON_DISK, PLACES, PLAN, TERMS, job

from costguard.jobs.decide.actions import AskAgain, DeleteVm, EndAttempt, JobDecision, LaunchAttempt, StopVm
from costguard.jobs.decide.next_step import decide
from costguard.jobs.decide.recovery.ended_runs import crashes, preemptions
from costguard.jobs.decide.view import JobContext
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import CheckpointPlan, JobKind, JobState
from costguard.model.money import Money

UNKNOWN = (AttemptState.INTENDED, AttemptState.ASKED, AttemptState.RESTARTING)
ENDLESS = 2_000


def check(world: World, decision: JobDecision) -> None:
    """The rules of every decision."""
    view = world.view()
    open_now = [attempt for attempt in world.attempts if attempt.is_open]
    launches = [action for action in decision.actions if isinstance(action, LaunchAttempt)]
    assert len(open_now) <= 1
    assert len(launches) <= 1 - len(open_now)
    if launches:
        assert not any(attempt.state in UNKNOWN for attempt in world.attempts)
        assert not world.writers
        assert launches[0].number == len(world.attempts) + 1
    if world.job.state.is_over:
        assert all(isinstance(action, DeleteVm | StopVm | EndAttempt | AskAgain) for action in decision.actions)
        assert decision.state is world.job.state
    if decision.state.is_over:
        assert not open_now or world.job.state.is_over
    assert crashes(view) == world.outcomes.count(Outcome.CRASHED)
    assert preemptions(view) == world.outcomes.count(Outcome.PREEMPTED)
    kept = replace(view, job=replace(view.job, next_at=decision.next_at))
    again = decide(kept, PLACES, JobContext(TERMS, world.now, LONG_AGO))
    same = (decision.state, decision.actions, decision.next_at)
    assert (again.state, again.actions, again.next_at) == same
    if not world.job.state.is_over:
        assert again.reason == decision.reason
    if not decision.actions and decision.next_at is not None:
        assert decision.next_at > world.now


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    plan=st.sampled_from([PLAN, ON_DISK, None]),
    kind=st.sampled_from([JobKind.TRAINING, JobKind.TRAINING, JobKind.TRAINING, JobKind.DEV]),
    ceiling=st.sampled_from([None, Money.of(1), Money.of(20)]),
    cancelled_after=st.sampled_from([None, 5, 20]),
    held_after=st.sampled_from([None, None, 10, 30]),
    agrees=st.booleans(),
    rough=st.integers(0, 80),
)
def test_every_job_comes_to_an_end_with_nothing_running_and_nothing_lost(
    seed: int,
    plan: CheckpointPlan | None,
    kind: JobKind,
    ceiling: Money | None,
    cancelled_after: int | None,
    held_after: int | None,
    agrees: bool,
    rough: int,
) -> None:
    """Rough times first, kind ones after: then it is over, or waits for a budget; nothing runs, none ever ran twice.

    What a disk alone holds is never deleted before its owner agrees, and goes once they do.
    """
    plan = plan if kind is JobKind.TRAINING else None
    world = World(Random(seed), job(JobState.QUEUED, kind=kind, checkpoint=plan, ceiling=ceiling))
    for turn in range(ENDLESS):
        world.is_kind = turn >= rough
        if turn == cancelled_after and not world.job.state.is_over:
            world.job = replace(world.job, cancel_asked_at=world.now, cancel_asked_by=ANA)
        if agrees and world.job.state.is_over and world.job.disk_given_up_at is None:
            world.job = replace(world.job, disk_given_up_at=world.now, disk_given_up_by=ANA)
        if turn == held_after:
            world.hold = world.pause = "the budget vision is spent"
        if kind is JobKind.DEV and world.is_kind and world.job.cancel_asked_at is None:
            world.job = replace(world.job, cancel_asked_at=world.now, cancel_asked_by=ANA)
        world.turn(check)
        world.pass_time()
        if world.is_settled and world.is_kind:
            break
    assert world.is_settled, (world.job, world.attempts)
    keeps = {AttemptState.RESTING} if agrees else {AttemptState.RESTING, AttemptState.KEPT}
    resting = {attempt.id for attempt in world.attempts if attempt.state in keeps}
    assert not any(vm.runs for vm in world.vms.values())
    assert {item for item, vm in world.vms.items() if vm.is_there} <= resting
