"""The connectors work over REST, against a server that gives prepared answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from tests.cli.job_answers import DETAIL, JOB
from tests.loops import run
from tests.scripted import Script, scripted

from costguard.errors import Invalid, Missing
from costguard.model.job import JobState
from costguard_client.flyte import connection
from costguard_client.flyte.job import CostguardJob, request_of

REQUEST = request_of(CostguardJob(preset="t4", command=("true",)), {}, (), "s3://x")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    with scripted() as made:
        monkeypatch.setenv("COSTGUARD_URL", made.url)
        monkeypatch.setenv("COSTGUARD_TOKEN", "hush")
        yield made


def with_state(state: str, **parts: Any) -> dict[str, Any]:
    return {**DETAIL, "job": {**JOB, "state": state, **parts}}


def test_the_same_execution_is_the_same_job(script: Script) -> None:
    """flytepropeller repeats a create whose answer it lost; another execution, or another try, is another job."""
    script.answers = [(201, DETAIL)] * 3
    for identity in (
        ("s3://x/0", "run-1", "n0", "0"),
        ("s3://x/0", "run-1", "n0", "0"),
        ("s3://x/1", "run-1", "n0", "1"),
    ):
        assert run(connection.create(REQUEST, *identity)) == "j7k2m9q4"
    first, again, other = (headers["Idempotency-Key"] for _, _, headers, _ in script.asked)
    assert first == again != other
    assert script.asked[0][2]["Authorization"] == "Bearer hush"


def test_a_refused_job_fails_the_task_with_the_servers_words(script: Script) -> None:
    """The words cover every part that is wrong: Flyte shows the message of the error alone."""
    problem = {
        "detail": "The job cannot be taken in.",
        "next": "x",
        "errors": [{"where": f"body.{part}", "message": "No."} for part in ("preset", "ceiling")],
    }
    script.answers = [(422, problem)]
    with pytest.raises(Invalid, match=r"preset: No\. ceiling: No\."):
        run(connection.create(REQUEST, "a"))


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("queued", "QUEUED"),
        ("provisioning", "INITIALIZING"),
        ("running", "RUNNING"),
        ("recovering", "RUNNING"),
        ("succeeded", "SUCCEEDED"),
        ("failed", "FAILED"),
        ("cancelled", "ABORTED"),
    ],
)
def test_each_state_is_a_phase_of_flyte(script: Script, state: str, phase: str) -> None:
    """A preempted job is running for Flyte: it goes on by itself."""
    script.answers = [(200, with_state(state))]
    status = run(connection.look("j7k2m9q4"))
    assert (status.phase, status.page) == (phase, f"{script.url}/jobs/j7k2m9q4")


def test_no_state_is_left_out() -> None:
    """The table above holds every state of a job."""
    assert {str(state) for state in JobState} == set(connection._PHASES)
    assert set(connection._PHASES.values()) == set(get_args(connection.PhaseName))


def test_the_message_says_why_and_how_far() -> None:
    """The message has the step, the preemptions and the cost; a cost that is not wholly known is left out."""
    detail: Any = with_state("recovering", reason="It was preempted.", preemptions=2)
    assert connection.message(detail) == "It was preempted. Step 41,200. Preempted 2 times. $5.30 so far."
    unknown: Any = with_state(
        "running", reason="It runs.", preemptions=1, step=None, cost={"amount": "1", "complete": False}
    )
    assert connection.message(unknown) == "It runs. Preempted once."


def test_a_server_that_does_not_answer_ends_no_task(script: Script) -> None:
    """A job whose state is unknown is neither failed nor gone; Flyte asks again."""
    script.answers = [None] * 3
    status = run(connection.look("j7k2m9q4"))
    assert status.phase == "RUNNING"
    assert "asked again" in status.message


def test_an_unknown_job_fails_the_task(script: Script) -> None:
    """The server answers, and has no such job: nothing will ever come of it."""
    script.answers = [(404, {"detail": "There is no job 'x'.", "next": ""})]
    with pytest.raises(Missing):
        run(connection.look("x"))


@pytest.mark.parametrize("answer", [(202, DETAIL), (409, {"detail": "It has ended.", "next": ""})])
def test_cancelling_twice_is_harmless(script: Script, answer: tuple[int, Any]) -> None:
    """Flyte's delete must be idempotent; a job that has ended needs nothing."""
    script.answers = [answer]
    run(connection.cancel("j7k2m9q4", "ada@lab.example"))
    assert script.asked[0][:2] == ("POST", "/api/v1/jobs/j7k2m9q4/cancel")
    assert script.body()["by"] == "ada@lab.example"


def test_log_lines_are_the_jobs_output(script: Script) -> None:
    """The last part, as the server keeps it."""
    script.answers = [(200, {"output": "a\nb\n"})]
    assert run(connection.last_lines("j7k2m9q4")) == ["a", "b"]
