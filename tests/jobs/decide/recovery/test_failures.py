"""A command's failure is an error of its owner, a crash after progress, or the fault of its VM or network."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import at
from tests.jobs.jobbed import agent, decided, ended, exited, interruption, job, view
from tests.jobs.world import world

from costguard.jobs.decide.recovery.log_ends import last_line, retry_of
from costguard.jobs.decide.view import AttemptView
from costguard.model.attempt import Outcome, Retry
from costguard.model.job import JobKind, JobSpec, JobState

# What each prints, word for word: CPython 3.11; PyTorch 2.5 (torch/cuda/__init__.py, torch/_C); NVIDIA's driver tools.
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
ENVIRONMENT = (
    NO_DRIVER,
    "RuntimeError: No CUDA GPUs are available",
    "RuntimeError: CUDA error: no CUDA-capable device is detected",
    'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the"
    " latest NVIDIA driver is installed and running.",
    "Failed to initialize NVML: Driver/library version mismatch",
    "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at THCCachingHostAllocator.cpp:265",
    "socket.gaierror: [Errno -3] Temporary failure in name resolution",
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded"
    " with url: /api/models (Caused by NewConnectionError('[Errno 101] Network is unreachable'))",
    "net/http: TLS handshake timeout",
    "requests.exceptions.HTTPError: 502 Bad Gateway",
    "requests.exceptions.HTTPError: 503 Server Error: Service Temporarily Unavailable for url: https://hf.co/x",
)
TYPOS = (
    (2, "train.py: error: unrecognized arguments: --epohcs 3"),
    (2, "python: can't open file '/job/trian.py': [Errno 2] No such file or directory"),
    (127, "/bin/sh: 1: pyhton: not found"),
    (126, "/bin/sh: 1: ./train.py: Permission denied"),
    (1, "ModuleNotFoundError: No module named 'trasnformers'"),
    (1, "  File \"train.py\", line 3\n    def main(\n            ^\nSyntaxError: '(' was never closed"),
)


def crash(number: int = 1, code: int = 1, output: str = "", began: str = "11:58:30", **given: Any) -> AttemptView:
    """It ended at 11:59."""
    end = exited(code, moment=at("11:59"), last_line=last_line(output), retry=retry_of(output))
    reason = f"the command failed with code {code}"
    step = given.pop("step", None)
    return ended(
        Outcome.CRASHED, number, agent=agent(started_at=at(began), exit=end, step=step), reason=reason, **given
    )


def state(*attempts: AttemptView, **given: Any) -> JobState:
    return decided(view(*attempts, of_job=job(**given)), at("12:30")).state


@pytest.mark.parametrize(("code", "output"), TYPOS)
def test_a_typing_error_buys_one_vm(code: int, output: str) -> None:
    """The line that says what is wrong is in the reason, whatever number of crashes is allowed."""
    decision = decided(view(crash(code=code, output=output), of_job=job(max_crashes=50)))
    assert decision.state is JobState.FAILED
    assert decision.actions == ()
    assert "another attempt would fail in the same way" in decision.reason
    assert decision.reason.endswith(f'its output ends with "{output.splitlines()[-1].strip()}"')


def test_an_error_within_the_first_minute_is_not_tried_again() -> None:
    """A command that fails within a minute, before its first step, fails again: whatever its code and its output."""
    assert state(crash(code=1, began="11:58:30"), max_crashes=50) is JobState.FAILED
    assert state(crash(code=1, began="11:57:50"), max_crashes=50) is JobState.PROVISIONING


def test_wrong_usage_is_known_by_its_code_where_a_script_comes_to_it_late() -> None:
    """The code counts within ten minutes and before a step; any other code only within the first."""
    assert state(crash(code=2, began="11:50"), max_crashes=50) is JobState.FAILED
    assert state(crash(code=2, began="11:40"), max_crashes=50) is JobState.PROVISIONING
    assert state(crash(code=1, began="11:57:59"), max_crashes=50) is JobState.PROVISIONING


def test_a_step_or_an_earlier_run_that_worked_makes_it_a_crash() -> None:
    """The command is right then: a crash of those that are allowed."""
    for code in (1, 2, 127):
        assert state(crash(code=code, step=3), max_crashes=1) is JobState.PROVISIONING
        assert state(crash(code=code, step=3), max_crashes=0) is JobState.FAILED
        before = ended(Outcome.PREEMPTED, 1)
        worked = (interruption(1, started_at=at("10:05")),)
        after = view(before, crash(2, code), of_job=job(max_crashes=1), interruptions=worked)
        assert decided(after, at("12:30")).state is JobState.PROVISIONING


@pytest.mark.parametrize("output", ENVIRONMENT)
def test_a_vm_or_a_network_that_fails_is_not_the_commands_error(output: str) -> None:
    """It is tried again where no crash is allowed, and not for ever."""
    failed = [crash(number, output=output) for number in (1, 2, 3)]
    assert state(*failed[:1], max_crashes=0) is JobState.PROVISIONING
    assert state(*failed[:2], max_crashes=0) is JobState.PROVISIONING
    assert state(*failed, max_crashes=0) is JobState.FAILED


@pytest.mark.parametrize(("worked", "means"), [(True, JobState.PROVISIONING), (False, JobState.FAILED)])
def test_a_quick_crash_before_a_restart_counts_unless_the_command_had_worked(worked: bool, means: JobState) -> None:
    """A run before the last one of its VM is known by its length alone: after work, the checkpoint may be to blame."""
    begun = at("10:05") if worked else at("11:57:30")
    runs = (
        interruption(1, started_at=begun, happened_at=at("11:58"), noticed_at=at("11:58")),
        interruption(1, 2, Outcome.CRASHED, started_at=at("11:58:10"), happened_at=at("11:58:30")),
    )
    last = ended(Outcome.PREEMPTED, 1, agent=agent(run=3, started_at=at("11:58:40")))
    decision = decided(view(last, of_job=job(max_crashes=0), interruptions=runs), at("12:30"))
    assert decision.state is means


def test_what_never_came_to_the_command_is_no_crash() -> None:
    """An image that was not pulled, data that did not arrive, outputs that were not published."""
    for outcome in (Outcome.NOT_STARTED, Outcome.NOT_PUBLISHED):
        failed = [ended(outcome, number, agent=agent(exit=exited(reason=str(outcome)))) for number in (1, 2, 3)]
        assert state(*failed[:2], max_crashes=0) is JobState.PROVISIONING
        assert state(*failed, max_crashes=0) is JobState.FAILED


def test_a_checkpoint_that_cannot_be_resumed_from_is_no_error_of_the_command() -> None:
    """The one before it is tried next, a few times at most, also where no crash is allowed."""
    worked = (interruption(1, started_at=at("10:05")),)
    first = ended(Outcome.PREEMPTED, 1)
    torn = [crash(number, resume_from=f"gs://runs/one/{number}", resume_step=9) for number in (2, 3, 4)]
    for tried, means in ((torn[:1], JobState.PROVISIONING), (torn, JobState.FAILED)):
        given = view(first, *tried, of_job=job(max_crashes=0), interruptions=worked)
        assert decided(given, at("12:30")).state is means


def test_by_default_a_command_that_fails_is_not_run_again() -> None:
    """SkyPilot's managed jobs (max_restarts_on_errors: 0) and dstack's runs (no retry) have the same default."""
    default = JobSpec(JobKind.TRAINING, "t4", "acme", "ana@example.com").max_crashes
    assert default == 0
    decision = decided(view(crash(began="09:00", step=7), of_job=job(max_crashes=default)))
    assert decision.state is JobState.FAILED
    assert "none is allowed (--max-crashes)" in decision.reason


def test_an_output_that_says_it_repeats_ends_the_job() -> None:
    """The reader of the output decides where another try may do better."""
    said = ended(Outcome.CRASHED, agent=agent(step=7, exit=exited(1, retry=Retry.NO)))
    assert state(said, max_crashes=3) is JobState.FAILED
    assert retry_of("CUDA out of memory") is None
    assert retry_of(NO_DRIVER) is Retry.OTHER_VM


def test_the_end_keeps_what_its_output_said(sqlite_url: str) -> None:
    """The text goes from the agent's report to the job's reason; one VM was launched."""
    with world(sqlite_url) as w:
        w.submit(max_crashes=0)
        w.until_up("cg-j1-1")
        w.start("cg-j1-1")
        output = ["usage: train.py [--epochs N]", "train.py: error: unrecognized arguments: --epohcs", ""]
        w.say("cg-j1-1", ("exit", {"run": 1, "reason": "exited", "code": 2, "output": output}))
        w.settle(2)
        assert w.job().state is JobState.FAILED
        assert w.job().reason.endswith('its output ends with "train.py: error: unrecognized arguments: --epohcs"')
        assert len(w.attempts()) == 1
        assert w.cloud.running() == []
