"""The end of a command's output is in the job's reason, and decides whether another attempt is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import ON_DISK, agent, attempt, decided, ended, exited, interruption, job, only, view

from costguard.jobs.decide.actions import EndAttempt, LaunchAttempt
from costguard.jobs.decide.recovery.log_ends import hang_by_log, retry_of, said_by
from costguard.jobs.decide.view import AttemptView
from costguard.model.attempt import Outcome
from costguard.model.job import JobState

FULL = "step 100: loss 2.1\nOSError: [Errno 28] No space left on device\n"
BUG = "Traceback (most recent call last):\nTypeError: 'NoneType' object is not callable\n"
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check"
TIMEOUT = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2) ran for 1800449 milliseconds\n"


def crashed(output: str, stop_why: str = "", number: int = 1, began: str = "06:00", **given: Any) -> AttemptView:
    end = replace(exited(1, moment=at("11:51"), retry=retry_of(output)), asked=stop_why)
    spoke = replace(agent(started_at=at(began), exit=end), output=output)
    reason = f"the command failed with code 1{said_by(output)}"
    return ended(Outcome.CRASHED, number, agent=spoke, reason=reason, **given)


@pytest.mark.parametrize(
    ("output", "cause"), [(FULL, "the disk is full"), (BUG, "TypeError: 'NoneType' object is not callable")]
)
def test_a_cause_that_repeats_is_not_tried_again(output: str, cause: str) -> None:
    """A bug, a full disk: the reason names it, however many crashes are allowed."""
    decision = decided(view(crashed(output), of_job=job(max_crashes=5)), at("12:30"))
    assert decision.state is JobState.FAILED
    assert cause in decision.reason
    assert "another attempt would fail in the same way" in decision.reason


@pytest.mark.parametrize(
    "output", [ECC, TIMEOUT, "Killed\n", "Segmentation fault (core dumped)\n", "step 1: loss 2.0\n"]
)
def test_what_may_do_better_elsewhere_gets_another_vm(output: str) -> None:
    """Hardware, the network, the host's memory, and what the output does not explain: each attempt has its own VM."""
    decision = decided(view(crashed(output), of_job=job(max_crashes=5)), at("12:30"))
    assert decision.state is JobState.PROVISIONING
    assert [type(action) for action in decision.actions][-1:] == [LaunchAttempt]


@pytest.mark.parametrize(
    "output", ["RuntimeError: No CUDA GPUs are available\n", f"{NO_DRIVER} that has an NVIDIA GPU\n"]
)
def test_a_vm_without_its_gpu_is_no_bug_of_the_command(output: str) -> None:
    """PyTorch raises it like any other error. It counts as no crash, and is tried three times at most."""
    first = decided(view(crashed(output), of_job=job(max_crashes=0)), at("12:30"))
    assert first.state is JobState.PROVISIONING
    vms = [crashed(output, number=number) for number in (1, 2, 3)]
    assert decided(view(*vms, of_job=job(max_crashes=0)), at("12:30")).state is JobState.FAILED


def test_one_failure_that_repeats_is_said_once() -> None:
    """The reason has its cause, its meaning for another attempt, and its last line."""
    decision = decided(view(crashed(BUG), of_job=job(max_crashes=5)), at("12:30"))
    cause = "TypeError: 'NoneType' object is not callable"
    means = "another attempt would fail in the same way"
    assert decision.reason == f"the command failed with code 1: {cause}; {means} (on 1 VM, 1 crash)"


def test_a_bug_at_once_after_a_resume_may_be_the_checkpoints() -> None:
    """The same command worked before: the checkpoint before it is tried, three times at most."""
    worked = (interruption(1, started_at=at("06:00")),)
    before = ended(Outcome.PREEMPTED, 1)
    resumed = [crashed(BUG, number=number, began="11:50", resume_from=f"gs://runs/{number}") for number in (2, 3, 4)]
    for tried, means in ((resumed[:1], JobState.PROVISIONING), (resumed, JobState.FAILED)):
        decision = decided(view(before, *tried, of_job=job(max_crashes=0), interruptions=worked), at("12:30"))
        assert decision.state is means


def test_a_vm_is_not_restarted_for_a_bug() -> None:
    """A bug ends the job also where its own disk holds the checkpoints, and the same VM would be started again."""
    end = exited(1, moment=at("11:51"), retry=retry_of(BUG))
    spoke = replace(agent(step=7, started_at=at("06:00"), exit=end), output=BUG)
    run = attempt(agent=spoke)
    decision = decided(view(run, of_job=job(checkpoint=ON_DISK, max_crashes=5)))
    assert isinstance(only(decision), EndAttempt)


def test_a_command_that_was_asked_to_stop_is_not_judged_by_its_output() -> None:
    """The last lines of such a command may be those of its own clean-up."""
    decision = decided(view(crashed(BUG, stop_why="hung"), of_job=job(max_crashes=5)), at("12:30"))
    assert decision.state is not JobState.FAILED


def test_a_reason_says_no_more_than_the_output() -> None:
    """No cause is guessed of an exception that could mean anything."""
    assert said_by("RuntimeError: something\n") == ""
    assert said_by("step 1: loss 2.0\n") == ""
    assert said_by("Killed\n") == ": the host's memory ran out"


def test_a_message_about_a_hang_names_what_the_output_shows() -> None:
    """A collective that timed out; nothing where the output shows no reason, or that it went on."""
    assert "a collective timed out" in hang_by_log(TIMEOUT)
    assert hang_by_log("step 1: loss 2.0\n") == ""
