"""Limits bound how often a job is tried again, and stop it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import (
    ANA,
    HOUR,
    NOW,
    ON_DEMAND,
    ON_DISK,
    A,
    agent,
    attempt,
    decided,
    ended,
    exited,
    interruption,
    job,
    no_room,
    only,
    saved,
    view,
)

from costguard.jobs.decide.actions import EndAttempt, RestAttempt, TellCommandToStop
from costguard.jobs.decide.recovery.ended_runs import crashes, preemptions
from costguard.jobs.decide.view import AttemptView
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import JobInput, JobKind, JobState, SeenCheckpoint
from costguard.model.money import Money, Priced

QUICK = agent(started_at=at("11:50"), exit=exited(1, moment=at("11:51")))
SLOW = agent(started_at=at("09:00"), exit=exited(1, moment=at("11:51")))


def crashed(number: int, quick: bool = True) -> AttemptView:
    return ended(Outcome.CRASHED, number, agent=QUICK if quick else SLOW, reason="the command failed with code 1")


def state(*attempts: AttemptView, **given: Any) -> JobState:
    return decided(view(*attempts, **given), at("12:30")).state


def test_preemptions_and_crashes_are_two_counts() -> None:
    """Each run once, whatever told of it; neither counts as the other."""
    stored = view(
        ended(Outcome.PREEMPTED, 1),
        ended(Outcome.PREEMPTED, 2),
        crashed(3),
        interruptions=(interruption(1), interruption(3, outcome=Outcome.CRASHED), interruption(3, run=-1)),
    )
    assert (preemptions(stored), crashes(stored)) == (3, 1)


def test_too_many_preemptions_fail_the_job() -> None:
    """More than were allowed, not as many."""
    two = (ended(Outcome.PREEMPTED, 1), ended(Outcome.PREEMPTED, 2))
    assert state(*two, of_job=job(max_preemptions=2)) is JobState.PROVISIONING
    decision = decided(view(*two, of_job=job(max_preemptions=1)))
    assert decision.state is JobState.FAILED
    assert decision.reason == "preempted 2 times, and 1 were allowed (on 2 VMs, with 2 preemptions)"


def test_too_many_crashes_fail_the_job() -> None:
    """Crashes count however long each ran; preemptions in between count for nothing."""
    slow = [crashed(number, quick=False) for number in range(1, 5)]
    assert state(*slow[:3]) is JobState.PROVISIONING
    assert state(*slow) is JobState.FAILED
    assert state(crashed(1), ended(Outcome.PREEMPTED, 2), of_job=job(max_crashes=1)) is JobState.PROVISIONING


def test_a_crash_loop_stops_early() -> None:
    """Three quick ones in a row, whatever number was allowed; a stockout in between breaks no row."""
    loop = (crashed(1), crashed(2), no_room(3, A), crashed(4))
    decision = decided(view(*loop, of_job=job(max_crashes=50)))
    assert decision.state is JobState.FAILED
    assert decision.reason.startswith("a crash loop: 3 times in a row the command failed with code 1")
    for breaks in (crashed(3, quick=False), ended(Outcome.PREEMPTED, 3)):
        assert state(crashed(1), crashed(2), breaks, crashed(4), of_job=job(max_crashes=50)) is JobState.PROVISIONING


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.NOT_STARTED, Outcome.HOST_ERROR])
def test_vms_that_come_to_nothing_three_times_fail_the_job(outcome: Outcome) -> None:
    """The job fails if nothing newer was saved in between."""
    lost = [ended(outcome, number) for number in (1, 2, 3)]
    assert state(*lost[:2]) is JobState.PROVISIONING
    assert state(*lost) is JobState.FAILED
    assert state(*lost, checkpoint=saved(at("11:00"))) is JobState.PROVISIONING
    assert state(*lost, checkpoint=saved(at("09:00"))) is JobState.FAILED


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ({"checkpoint": saved(at("11:00"))}, JobState.PROVISIONING),
        ({"checkpoint": saved(at("09:00"))}, JobState.FAILED),
        ({"checkpoint": SeenCheckpoint(NOW, error="403")}, JobState.PROVISIONING),
        ({}, JobState.PROVISIONING),
        ({"of_job": job(checkpoint=None)}, JobState.FAILED),
    ],
)
def test_a_vm_that_reached_its_limit_is_followed_where_the_work_came_on(given: Any, means: JobState) -> None:
    """Another VM would do no better where nothing new was saved; where nobody could look, it is tried."""
    assert state(ended(Outcome.TIME_LIMIT), **given) is means


def test_a_limit_that_the_ceiling_set_is_the_ceilings() -> None:
    """The limit asks whether there is more to spend, not whether anything was saved."""
    short = ended(Outcome.TIME_LIMIT, max_run=HOUR)
    decision = decided(view(short, of_job=job(ceiling=Money.of(1), checkpoint=None), cost=Priced(Money.of(1))))
    assert decision.state is JobState.FAILED
    assert decision.reason.startswith("its ceiling of $1.00 leaves $0.00")


@pytest.mark.parametrize(
    ("spent", "stops"),
    [("9.97", False), ("9.98", True), ("11", True)],
)
def test_the_command_gets_its_notice_before_the_ceiling_is_reached(spent: str, stops: bool) -> None:
    """Three minutes before, at $0.50 an hour; then the attempt ends, and the job with it."""
    given: dict[str, Any] = {"of_job": job(ceiling=Money.of(10)), "cost": Priced(Money.of(spent))}
    decision = decided(view(attempt(), **given))
    if not stops:
        assert decision.actions == ()
        assert decision.next_at is not None
        assert decision.next_at < at("12:01")
        return
    action = only(decision)
    assert isinstance(action, TellCommandToStop)
    assert action.why == "ceiling"
    reported = attempt(stop_asked_at=NOW, stop_why="ceiling", agent=agent(exit=exited(0, asked="cancel")))
    end = only(decided(view(reported, **given)))
    assert end == EndAttempt(1, Outcome.TIME_LIMIT, "stopped because its ceiling is reached")
    over = ended(Outcome.TIME_LIMIT, stop_why="ceiling")
    assert decided(view(over, **given)).state is JobState.FAILED


def test_every_vms_download_counts_against_the_ceiling() -> None:
    """The download of the next VM counts too, which has to leave it ten minutes at $0.50 an hour."""
    inputs = (JobInput("s3://acme/v7", "/data", Money.of(4)), JobInput("s3://acme/free", "/more"))
    lost = [ended(Outcome.PREEMPTED, number, agent=agent(exit=exited(0, asked="preemption"))) for number in (1, 2)]
    for ceiling, means in (("12.09", JobState.PROVISIONING), ("12.08", JobState.FAILED), (None, JobState.PROVISIONING)):
        limit = None if ceiling is None else Money.of(ceiling)
        tried = view(*lost, of_job=job(inputs=inputs, ceiling=limit), downloads=Money.of(8))
        assert decided(tried, at("12:30")).state is means


def test_a_download_that_is_staged_already_leaves_more_of_the_ceiling() -> None:
    """The next VM pays for what is not staged yet; $4.09 would pay for the download alone."""
    inputs = (JobInput("s3://acme/v7", "/data", Money.of(4), staged=True),)
    lost = [ended(Outcome.PREEMPTED, agent=agent(exit=exited(0, asked="preemption")))]
    for staged, state in ((Money.of("0"), JobState.PROVISIONING), (Money.of("4"), JobState.FAILED)):
        it = view(*lost, of_job=job(inputs=inputs, ceiling=Money.of("4.09")), downloads=Money.of(4))
        assert decided(replace(it, next_downloads=staged), at("12:30")).state is state


CANCELLED: dict[str, Any] = {"cancel_asked_at": NOW, "cancel_asked_by": ANA}


def test_a_cancel_gives_the_command_its_notice_first() -> None:
    """The notice comes once; then its end is waited for, and then the job is cancelled, by the person that it names."""
    reported = only(decided(view(attempt(), of_job=job(**CANCELLED))))
    assert isinstance(reported, TellCommandToStop)
    assert (reported.why, reported.reason) == ("cancel", f"cancelled by {ANA}; the command gets time to save first")
    waiting = decided(view(attempt(stop_asked_at=NOW, stop_why="cancel"), of_job=job(**CANCELLED)))
    assert (waiting.actions, waiting.next_at) == ((), at("12:01:30"))
    done = attempt(stop_asked_at=NOW, stop_why="cancel", agent=agent(exit=exited(0, asked="cancel")))
    assert only(decided(view(done, of_job=job(**CANCELLED)))) == EndAttempt(
        1, Outcome.CANCELLED, "the command ended after SIGTERM"
    )
    over = decided(view(ended(Outcome.CANCELLED), of_job=job(**CANCELLED)))
    assert (over.state, over.reason) == (JobState.CANCELLED, f"cancelled by {ANA} (on 1 VM)")


def test_where_no_command_runs_a_cancel_ends_the_attempt_at_once() -> None:
    """A VM that boots, one for development, and one whose command has ended."""
    for seen, kind in (
        (attempt(AttemptState.BOOTING), JobKind.TRAINING),
        (attempt(AttemptState.BOOTING), JobKind.DEV),
        (attempt(agent=agent(exit=exited(None, signal=9))), JobKind.TRAINING),
    ):
        action = only(decided(view(seen, of_job=job(kind=kind, **CANCELLED)), at("10:20")))
        assert isinstance(action, EndAttempt)
        assert action.outcome is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("outcome", "means"),
    [
        (Outcome.SUCCEEDED, JobState.SUCCEEDED),
        (Outcome.PREEMPTED, JobState.CANCELLED),
        (Outcome.CRASHED, JobState.CANCELLED),
        (Outcome.STOCKOUT, JobState.CANCELLED),
    ],
)
def test_after_a_cancel_nothing_is_launched_any_more(outcome: Outcome, means: JobState) -> None:
    """A command that finished first has finished."""
    decision = decided(view(ended(outcome), of_job=job(**CANCELLED)))
    assert (decision.state, decision.actions) == (means, ())
    assert decided(view(of_job=job(JobState.QUEUED, **CANCELLED))).state is JobState.CANCELLED


PAUSE: dict[str, Any] = {"pause": "the budget vision is spent", "pause_at": at("11:45")}


def test_a_pause_waits_for_a_checkpoint_and_then_for_half_an_hour() -> None:
    """A pause waits for a Spot VM whose work is saved elsewhere; all others are left to their end."""
    waiting = decided(view(attempt(), checkpoint=saved(at("11:40")), **PAUSE))
    assert (waiting.actions, waiting.next_at) == ((), at("12:10"))
    for given in ({"checkpoint": saved(at("11:50"))}, {"of_job": job(checkpoint=None)}, {"pause_at": None}):
        action = only(decided(view(attempt(), **{**PAUSE, **given})))
        assert isinstance(action, TellCommandToStop)
        assert action.why == "pause"
    assert isinstance(only(decided(view(attempt(agent=agent(at("12:14"))), **PAUSE), at("12:15"))), TellCommandToStop)
    for spared in (
        view(attempt(provisioning_model=ON_DEMAND), checkpoint=saved(at("11:50")), **PAUSE),
        view(attempt(), of_job=job(checkpoint=ON_DISK), **PAUSE),
        view(attempt(AttemptState.BOOTING), of_job=job(kind=JobKind.DEV, checkpoint=None), **PAUSE),
    ):
        assert decided(spared).actions == ()


def test_a_paused_job_goes_on_when_the_budget_lets_it() -> None:
    """It waits, with the budget's words, and is not over."""
    waits = decided(view(ended(Outcome.PAUSED), **PAUSE))
    assert (waits.state, waits.actions) == (JobState.RECOVERING, ())
    assert state(ended(Outcome.PAUSED)) is JobState.PROVISIONING


def test_a_vm_that_rests_too_often_is_not_started_again() -> None:
    """The preemptions of a stopped VM count like any other's."""
    noticed = attempt(agent=agent(noticed_at=at("11:59"), exit=exited(0, asked="preemption")))
    for allowed, kind in ((1, RestAttempt), (0, EndAttempt)):
        action = only(decided(view(noticed, of_job=job(checkpoint=ON_DISK, max_preemptions=allowed))))
        assert isinstance(action, kind)


def setup_failed(number: int) -> AttemptView:
    exit = exited(1, "setup_failed", moment=at("11:51"))
    return ended(
        Outcome.NOT_STARTED, number, agent=agent(started_at=None, exit=exit), reason="the setup failed with code 1"
    )


def test_setup_that_never_succeeded_fails_the_job_at_once() -> None:
    """It would fail on every VM; the reason is the setup's."""
    decision = decided(view(setup_failed(1)), at("12:30"))
    assert decision.state is JobState.FAILED
    assert decision.reason.startswith("the setup failed with code 1; another attempt would fail in the same way")


def test_setup_that_succeeded_before_is_tried_again() -> None:
    """The network may have failed it: it counts like other commands that could not be started."""
    running = agent(started_at=at("09:00"), exit=exited(None, "exited", asked="preemption", moment=at("11:51")))
    preempted = ended(Outcome.PREEMPTED, 1, agent=running)
    assert state(preempted, setup_failed(2)) is not JobState.FAILED
    again = [setup_failed(number) for number in range(2, 6)]
    assert state(preempted, *again) is JobState.FAILED
