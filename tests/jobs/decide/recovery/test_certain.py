"""Ends that would repeat on every VM are tried once.

126 and 127 are a shell's own for a program that cannot be executed or is not there: POSIX.1-2017, Shell Command
Language, section 2.8.2, "Exit Status for Commands".
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import agent, decided, ended, exited, job, view

from costguard.jobs.decide.actions import JobDecision
from costguard.jobs.decide.view import AttemptView
from costguard.model.attempt import Exit, Outcome
from costguard.model.job import JobState

NO_PROGRAM = "[Errno 2] No such file or directory: 'trian.py'"


def never_started(repeats: bool, number: int = 1) -> AttemptView:
    end = exited(None, "not_started", at("11:51"), error=NO_PROGRAM, repeats=repeats)
    words = f"the command could not be started: {NO_PROGRAM}"
    return ended(Outcome.NOT_STARTED, number, agent=agent(started_at=None, exit=end), reason=words)


def crashed(end: Exit, **given: Any) -> AttemptView:
    said = agent(**{"started_at": at("11:50"), "exit": end, "step": None, **given})
    return ended(Outcome.CRASHED, agent=said, reason=f"the command failed with code {end.code}")


def after(attempt: AttemptView, **given: Any) -> JobDecision:
    """`given` is what was asked for."""
    return decided(view(attempt, of_job=job(**given)), at("12:30"))


def test_what_the_agent_calls_certain_is_tried_once() -> None:
    """A program or an image that does not exist: one VM, and its words in the reason."""
    result = after(never_started(repeats=True))
    assert result.state is JobState.FAILED
    assert NO_PROGRAM in result.reason
    assert "another attempt would fail in the same way" in result.reason


def test_what_another_vm_may_do_better_is_tried_again() -> None:
    """GPUs that never came, or a registry that did not answer."""
    assert after(never_started(repeats=False)).state is not JobState.FAILED


@pytest.mark.parametrize("code", [126, 127])
def test_a_shell_without_its_program_is_tried_once(code: int) -> None:
    """The job fails at once, and before any step."""
    assert after(crashed(exited(code, moment=at("11:51")))).state is JobState.FAILED


@pytest.mark.parametrize(
    ("end", "given"),
    [
        (exited(1, moment=at("11:51")), {}),
        (exited(127, moment=at("11:51")), {"step": 40}),
        (exited(127, moment=at("11:51")), {"started_at": at("09:00")}),
        (exited(127, moment=at("11:51"), asked="cancel"), {}),
    ],
)
def test_a_failure_that_is_not_certain_is_tried_again(end: Exit, given: dict[str, Any]) -> None:
    """Any other code; a script that made a step, or ran for hours; one that was asked to stop."""
    assert after(crashed(end, **given)).state is not JobState.FAILED


def test_no_crash_allowed_means_one_vm_where_the_command_failed() -> None:
    """A command that could not be started for a reason that may pass is tried again: that is no crash."""
    assert after(never_started(repeats=False), max_crashes=0).state is JobState.PROVISIONING
    result = after(crashed(exited(1, moment=at("11:51"))), max_crashes=0)
    assert result.state is JobState.FAILED
    assert "none is allowed" in result.reason


def test_a_preemption_is_not_a_crash_where_none_is_allowed() -> None:
    """Preemptions are counted by themselves."""
    assert after(ended(Outcome.PREEMPTED), max_crashes=0).state is not JobState.FAILED
