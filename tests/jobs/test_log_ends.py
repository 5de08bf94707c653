"""What a command's output says of its end: in the job's reason, and whether another attempt is made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import at
from tests.jobs.jobbed import agent, decided, ended, exited, job, view

from costguard.jobs.log_ends import hang_by_log, said_by
from costguard.jobs.view import AttemptView, LaunchAttempt
from costguard.model.attempt import Outcome
from costguard.model.job import JobState

FULL = "step 100: loss 2.1\nOSError: [Errno 28] No space left on device\n"
BUG = "Traceback (most recent call last):\nTypeError: 'NoneType' object is not callable\n"
ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
TIMEOUT = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2) ran for 1800449 milliseconds\n"


def crashed(output: str, stop_why: str = "") -> AttemptView:
    end = replace(exited(1, moment=at("11:51")), asked=stop_why)
    spoke = replace(agent(started_at=at("06:00"), exit=end), output=output)
    return ended(Outcome.CRASHED, 1, agent=spoke, reason=f"the command failed with code 1{said_by(output)}")


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


def test_a_command_that_was_asked_to_stop_is_not_judged_by_its_output() -> None:
    """Its last lines may be those of its own clean-up."""
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
