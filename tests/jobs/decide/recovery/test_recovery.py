"""Decisions take a job from its VM to its end and the next VM."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import (
    ANA,
    BEN,
    GONE,
    HOUR,
    MINUTE,
    NOW,
    ON_DISK,
    SPOT,
    A,
    B,
    agent,
    attempt,
    decided,
    ended,
    exited,
    interruption,
    job,
    no_room,
    only,
    standing,
    view,
)

from costguard.jobs.decide.actions import AskAgain, DeleteVm, EndAttempt, LaunchAttempt, RestartVm, RestAttempt
from costguard.jobs.decide.view import AttemptView, VmState
from costguard.model.attempt import AttemptState, Notice, Outcome
from costguard.model.instance import Status
from costguard.model.job import JobKind, JobState
from costguard.model.lifetime import EndReason

OPEN = [state for state in AttemptState if state not in (AttemptState.ENDING, AttemptState.KEPT, AttemptState.OVER)]


def launched(*attempts: AttemptView, **given: Any) -> LaunchAttempt | None:
    """The VM that is asked for next, if any."""
    decision = decided(view(*attempts, **given))
    result = [action for action in decision.actions if isinstance(action, LaunchAttempt)]
    return result[0] if result else None


def test_a_queued_job_is_launched_in_the_best_place() -> None:
    """A launch's reason says where, and at which price."""
    decision = decided(view(of_job=job(JobState.QUEUED)))
    assert decision.state is JobState.PROVISIONING
    assert decision.reason == "requesting a VM in us-central1-a (Spot, $0.500 an hour)"
    action = only(decision)
    assert isinstance(action, LaunchAttempt)
    assert (action.number, action.zone, action.provisioning_model, action.max_run) == (1, A, SPOT, 24 * HOUR)


def test_a_hold_keeps_a_job_waiting() -> None:
    """Queued before its first VM, recovering after it, with the budget's words."""
    for attempts, state in (((), JobState.QUEUED), ((ended(Outcome.PREEMPTED),), JobState.RECOVERING)):
        decision = decided(view(*attempts, hold="the budget vision is spent"))
        assert (decision.state, decision.reason, decision.actions) == (state, "waits: the budget vision is spent", ())
        assert decision.next_at == NOW + 5 * MINUTE


@pytest.mark.parametrize("state", [AttemptState.INTENDED, AttemptState.ASKED, AttemptState.RESTARTING])
def test_the_unknown_is_asked_about_and_nothing_else_is_done(state: AttemptState) -> None:
    """No look comes before it is due, and a second VM is never requested meanwhile."""
    for wanted in (job(), job(cancel_asked_at=NOW, cancel_asked_by=ANA)):
        assert isinstance(only(decided(view(attempt(state), of_job=wanted))), AskAgain)
        later = decided(view(attempt(state, try_after=at("12:01"), error="timed out"), of_job=wanted))
        assert (later.state, later.actions, later.next_at) == (JobState.PROVISIONING, (), at("12:01"))
        assert "timed out" in later.reason


def test_a_running_job_is_left_alone() -> None:
    """The job is left alone until its silence would count; it says where it runs, since when, and what from."""
    decision = decided(view(attempt(resume_from="gs://runs/one/step-400", resume_step=400)))
    assert (decision.state, decision.actions, decision.next_at) == (JobState.RUNNING, (), NOW + 10 * MINUTE)
    assert decision.reason == "runs in us-central1-a (Spot) since 10:05 UTC, resumed from step 400"
    assert decided(view(attempt(AttemptState.BOOTING)), at("10:05")).state is JobState.PROVISIONING


def test_the_next_look_is_not_moved_with_every_word_of_the_agent() -> None:
    """An earlier moment that is written down already will do."""
    kept = view(attempt(agent=agent(at("12:03"))), of_job=job(next_at=at("12:10")))
    assert decided(kept, at("12:03")).next_at == at("12:10")


def test_an_end_is_written_down_before_it_is_judged() -> None:
    """A crash in between loses nothing: the job's own end follows from the attempt's."""
    decision = decided(view(attempt(agent=agent(exit=exited(0)))))
    assert decision.state is JobState.RUNNING
    assert only(decision) == EndAttempt(1, Outcome.SUCCEEDED, "finished with code 0")
    over = decided(view(ended(Outcome.SUCCEEDED, gone=False, reason="finished with code 0")))
    assert (over.state, over.reason) == (JobState.SUCCEEDED, "finished with code 0 (on 1 VM)")
    assert isinstance(only(over), DeleteVm)


def test_a_preemption_is_an_interruption_with_its_moments() -> None:
    """Google's moment, the guard's, and who told first."""
    action = only(decided(view(attempt(agent=agent(noticed_at=at("11:59"), exit=exited(0, asked="preemption"))))))
    assert isinstance(action, EndAttempt)
    assert action.interruption == interruption(noticed_at=at("11:59"), started_at=at("10:05"))
    seen = AttemptView(attempt(), standing(Status.STOPPING, EndReason.PREEMPTED))
    reported = only(decided(view(seen)))
    assert isinstance(reported, EndAttempt)
    assert reported.interruption == interruption(noticed_at=NOW, noticed_by=Notice.OPERATION, started_at=at("10:05"))


def test_the_next_vm_is_asked_for_while_the_last_one_is_deleted() -> None:
    """The next VM is requested once the last one can write no more; both in one decision."""
    reported = ended(Outcome.PREEMPTED, gone=False, agent=agent(exit=exited(0, asked="preemption")))
    decision = decided(view(reported))
    assert {type(action) for action in decision.actions} == {LaunchAttempt, DeleteVm}


@pytest.mark.parametrize(
    ("outcome", "vm", "may_follow"),
    [
        (Outcome.PREEMPTED, None, False),  # 11:59:59 and 40 seconds are not over
        (Outcome.LOST, None, False),
        (Outcome.LOST, standing(), False),
        (Outcome.LOST, standing(Status.STOPPING), False),
        (Outcome.LOST, standing(Status.STOPPED, is_known=False), False),
        (Outcome.LOST, standing(Status.STOPPED), True),
        (Outcome.LOST, standing(Status.STOPPING, **GONE), True),
        (Outcome.PAUSED, None, False),
        (Outcome.STOCKOUT, None, True),
    ],
)
def test_two_vms_never_write_into_the_same_checkpoints(outcome: Outcome, vm: VmState | None, may_follow: bool) -> None:
    """The next is asked for once the last one is seen stopped or gone, or must be dead."""
    first = attempt(AttemptState.ENDING, outcome=outcome, ended_at=at("11:50"), agent=agent(at("11:59:59")))
    assert (launched(AttemptView(first, vm)) is not None) is may_follow
    over = attempt(AttemptState.OVER, outcome=outcome, ended_at=at("11:50"), agent=agent(at("11:59:59")))
    assert launched(AttemptView(over, vm)) is not None


def test_an_old_sight_of_a_vm_that_was_started_again_proves_nothing() -> None:
    """It was stopped then; that it is now, the ledger has not seen."""
    before = interruption(happened_at=at("11:00"))
    again = attempt(
        AttemptState.ENDING, outcome=Outcome.NOT_STARTED, ended_at=at("11:50"), restarts=3, agent=agent(at("11:00"))
    )
    old = standing(Status.STOPPED, EndReason.PREEMPTED, ended_at=at("11:00"))
    given: dict[str, Any] = {"of_job": job(checkpoint=ON_DISK), "interruptions": (before,)}
    assert launched(AttemptView(again, old), **given) is None
    new = standing(Status.STOPPED, EndReason.STOPPED, started_at=at("11:30"))
    assert launched(AttemptView(again, new), **given) is None  # its disk holds what was saved
    agreed = {**given, "of_job": job(checkpoint=ON_DISK, disk_given_up_at=at("11:55"))}
    assert launched(AttemptView(again, new), **agreed) is not None


def test_a_preempted_vm_is_dead_after_forty_seconds() -> None:
    """The time counts from its notice, or the agent's last report if that came later."""
    last = ended(Outcome.PREEMPTED, gone=False, agent=agent(at("11:59:40")))
    waiting = view(last, interruptions=(interruption(happened_at=at("11:59:30")),))
    assert decided(waiting, at("12:00:19")).next_at == at("12:00:19")  # its delete is due all the time
    assert not any(isinstance(action, LaunchAttempt) for action in decided(waiting, at("12:00:19")).actions)
    assert any(isinstance(action, LaunchAttempt) for action in decided(waiting, at("12:00:20")).actions)


def test_a_delete_is_repeated_until_the_vm_is_gone() -> None:
    """A delete is repeated not before it is due; also for jobs that are over, which get nothing else."""
    waiting = ended(Outcome.SUCCEEDED, gone=False, try_after=at("12:05"))
    for state in (JobState.RUNNING, JobState.SUCCEEDED):
        decision = decided(view(waiting, of_job=job(state)))
        assert (decision.state, decision.actions, decision.next_at) == (JobState.SUCCEEDED, (), at("12:05"))
    assert isinstance(only(decided(view(waiting, of_job=job(JobState.SUCCEEDED)), at("12:05"))), DeleteVm)
    assert decided(view(ended(Outcome.SUCCEEDED), of_job=job(JobState.SUCCEEDED))).actions == ()


@pytest.mark.parametrize("state", OPEN)
def test_a_job_that_is_over_leaves_nothing_behind(state: AttemptState) -> None:
    """An attempt that is open all the same is settled, and ended."""
    action = only(decided(view(attempt(state), of_job=job(JobState.FAILED))))
    settles = state in (AttemptState.INTENDED, AttemptState.ASKED)
    assert isinstance(action, AskAgain if settles else EndAttempt)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.REFUSED, JobState.FAILED),
        (Outcome.REMOVED, JobState.CANCELLED),
        (Outcome.CANCELLED, JobState.CANCELLED),
        (Outcome.SUCCEEDED, JobState.SUCCEEDED),
        (Outcome.PREEMPTED, JobState.PROVISIONING),
        (Outcome.HOST_ERROR, JobState.PROVISIONING),
        (Outcome.PAUSED, JobState.PROVISIONING),
        (Outcome.STOCKOUT, JobState.PROVISIONING),
        (Outcome.CRASHED, JobState.RECOVERING),
        (Outcome.LOST, JobState.RECOVERING),
        (Outcome.NOT_STARTED, JobState.RECOVERING),
    ],
)
def test_what_an_outcome_means_for_the_job(outcome: Outcome, state: JobState) -> None:
    """Crashes and losses wait a little before they are tried again."""
    assert decided(view(ended(outcome, ended_at=NOW))).state is state


def test_googles_words_stand_in_the_jobs_reason() -> None:
    """Google's text is shown so that a bad request can be mended."""
    decision = decided(view(ended(Outcome.REFUSED, reason="nvidia-tesla-a100 and n1-highmem-8 are not compatible")))
    assert decision.reason == "Google refused its VM: nvidia-tesla-a100 and n1-highmem-8 are not compatible"


def test_a_vm_with_its_checkpoints_on_its_disk_is_started_again() -> None:
    """Stopped by Google, it rests, and is started where it is once it has stopped."""
    on_disk = job(checkpoint=ON_DISK)
    stopping = standing(Status.STOPPING, EndReason.PREEMPTED)
    rest = decided(view(AttemptView(attempt(), stopping), of_job=on_disk))
    assert (rest.state, type(only(rest))) == (JobState.RECOVERING, RestAttempt)
    resting = attempt(AttemptState.RESTING, agent=agent())
    stored: dict[str, Any] = {"of_job": on_disk, "interruptions": (interruption(),)}
    waits = decided(view(AttemptView(resting, stopping), **stored))
    assert (waits.state, waits.actions) == (JobState.RECOVERING, ())
    stopped = AttemptView(resting, standing(Status.STOPPED, EndReason.PREEMPTED))
    assert only(decided(view(stopped, **stored))) == RestartVm(
        1, "its VM in us-central1-a (Spot) is being restarted, with its checkpoints on its disk"
    )


def test_a_start_that_meets_a_stockout_waits_where_it_is() -> None:
    """It cannot move; it says when it is asked again."""
    resting = attempt(AttemptState.RESTING, try_after=at("12:04"), error="out of stock")
    decision = decided(view(AttemptView(resting, standing(Status.STOPPED)), of_job=job(checkpoint=ON_DISK)))
    assert (decision.actions, decision.next_at) == ((), at("12:04"))
    assert decision.reason.endswith("could not be started: out of stock; asked again at 12:04 UTC")


@pytest.mark.parametrize(
    ("seen", "given", "outcome"),
    [
        (standing(Status.STOPPED, **GONE), {}, Outcome.LOST),
        (standing(Status.STOPPED), {"cancel_asked_at": NOW, "cancel_asked_by": BEN}, Outcome.CANCELLED),
    ],
)
def test_a_resting_vm_that_is_gone_or_unwanted_ends(seen: VmState, given: dict[str, Any], outcome: Outcome) -> None:
    """The next attempt begins from the beginning, or there is none."""
    resting = AttemptView(attempt(AttemptState.RESTING), seen)
    action = only(decided(view(resting, of_job=job(checkpoint=ON_DISK, **given))))
    assert isinstance(action, EndAttempt)
    assert action.outcome is outcome


def test_a_disk_that_is_gone_with_its_vm_cannot_be_started() -> None:
    """An attempt whose disk is gone ends."""
    seen = AttemptView(attempt(), standing(Status.STOPPING, EndReason.PREEMPTED, **GONE))
    assert isinstance(only(decided(view(seen, of_job=job(checkpoint=ON_DISK)))), EndAttempt)


def test_a_vm_for_development_is_up_once_it_is_there_and_never_replaced() -> None:
    """It has no agent, so its silence says nothing; a preemption ends it, with what to do."""
    dev = job(kind=JobKind.DEV, checkpoint=None)
    up = decided(view(attempt(AttemptState.BOOTING), of_job=dev), at("23:00"))
    assert (up.state, up.actions, up.next_at) == (JobState.RUNNING, (), None)
    stopped = AttemptView(attempt(AttemptState.BOOTING), standing(Status.STOPPED, EndReason.STOPPED, ANA))
    assert decided(view(stopped, of_job=dev)).reason.endswith("start it again, or cancel it to delete both")
    lost = decided(view(ended(Outcome.PREEMPTED, reason="preempted in us-central1-a (Spot)"), of_job=dev))
    assert (lost.state, lost.actions) == (JobState.FAILED, ())
    assert "launch another one" in lost.reason
    assert decided(view(ended(Outcome.TIME_LIMIT), of_job=dev)).state is JobState.SUCCEEDED


def test_a_vm_for_development_looks_for_a_place_as_any_other() -> None:
    """A development VM that had a place is not moved."""
    following = launched(no_room(1, A), of_job=job(JobState.QUEUED, kind=JobKind.DEV, checkpoint=None))
    assert following is not None
    assert (following.number, following.zone) == (2, B)


def test_a_resting_vm_that_somebody_started_is_taken_back() -> None:
    """It bills: a start that finds it running is done, and its agent is listened to again."""
    stored: dict[str, Any] = {"of_job": job(checkpoint=ON_DISK), "interruptions": (interruption(),)}
    resting = attempt(AttemptState.RESTING)
    begun = AttemptView(resting, standing(started_at=at("11:59:50")))
    assert isinstance(only(decided(view(begun, **stored))), RestartVm)
    not_yet_seen = AttemptView(resting, standing())
    assert decided(view(not_yet_seen, **stored)).actions == ()
