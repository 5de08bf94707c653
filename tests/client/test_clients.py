"""Both clients against a server that gives prepared answers: what they send, try again, and raise."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.cli.job_answers import DETAIL, JOB
from tests.client.both import Either, clients
from tests.scripted import Script, scripted

import costguard.client
import costguard.flyte
import costguard_client
import costguard_client.flyte
from costguard.errors import (
    Conflict,
    CostguardError,
    Forbidden,
    Invalid,
    Missing,
    ServerUnreachable,
    SignInRefused,
    Unavailable,
)
from costguard_client import AsyncClient, Client, JobNotSucceeded
from costguard_client.api import operations
from costguard_client.calls import Call, api

PROBLEM = {
    "type": "/problems/job-refused",
    "detail": "The job cannot be taken in.",
    "next": "Nothing was launched.",
    "errors": [{"where": "body.preset", "message": "There is no preset b300."}],
}
EMPTY: Any = {"jobs": [], "next_cursor": None}


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as made:
        yield made


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, script: Script) -> Iterator[Either]:
    with clients(request.param, script.url, "hush") as made:
        yield made


def with_state(state: str, reason: str = "It changed.", **parts: Any) -> dict[str, Any]:
    return {**DETAIL, "job": {**JOB, "state": state, "reason": reason, **parts}}


def test_launch_sends_the_body_under_a_key(client: Either, script: Script) -> None:
    """Times in RFC 3339, exact dollars as text; the key makes a repeat of a lost answer harmless."""
    script.answers = [None, None, (201, DETAIL)]
    job = client.launch(
        preset="t4",
        command=("python", "train.py"),
        ceiling=Decimal("12.50"),
        deadline=datetime(2026, 11, 22, tzinfo=UTC),
    )
    assert (job.id, job.cost) == ("j7k2m9q4", Decimal("5.30"))
    keys = {headers["Idempotency-Key"] for _, _, headers, _ in script.asked}
    assert len(keys) == 1
    assert script.body() == {
        "preset": "t4",
        "command": ["python", "train.py"],
        "ceiling": "12.50",
        "deadline": "2026-11-22T00:00:00+00:00",
    }
    assert client.pauses == [1, 2]
    assert {headers["Authorization"] for _, _, headers, _ in script.asked} == {"Bearer hush"}


def test_two_launches_have_two_keys(client: Either, script: Script) -> None:
    """The second would return the first job otherwise."""
    script.answers = [(201, DETAIL), (201, DETAIL)]
    for _ in range(2):
        client.launch(preset="t4", command=["true"])
    first, second = (headers["Idempotency-Key"] for _, _, headers, _ in script.asked)
    assert first != second


def test_a_time_without_a_zone_is_not_sent(client: Either, script: Script) -> None:
    """The server could only guess what it means."""
    with pytest.raises(TypeError, match="no time zone"):
        client.launch(preset="t4", deadline=datetime(2026, 11, 22))  # noqa: DTZ001
    assert script.asked == []


def test_a_call_without_a_key_is_not_repeated(client: Either, script: Script) -> None:
    """A cancellation whose answer is lost may have been carried out; the caller decides."""
    script.answers = [None]
    with pytest.raises(ServerUnreachable):
        client.call(operations.cancel_job("j1", {}))
    assert len(script.asked) == 1


def test_a_read_is_repeated_when_its_answer_is_lost(client: Either, script: Script) -> None:
    """It changes nothing."""
    script.answers = [None, (200, EMPTY)]
    assert client.call(operations.list_jobs()) == EMPTY
    script.answers = [None, None, None]
    with pytest.raises(ServerUnreachable):
        client.call(operations.list_jobs())


def test_a_busy_server_is_given_the_time_it_asks_for(client: Either, script: Script) -> None:
    """429: nothing was done, so that even a call without a key is sent again; a wait of an hour is the caller's."""
    busy = {"detail": "Too many requests.", "next": "Wait."}
    script.answers = [(429, busy, {"Retry-After": "7"}), (202, DETAIL)]
    assert client.call(operations.cancel_job("j1", {}))["job"]["id"] == "j7k2m9q4"
    assert client.pauses == [7]
    script.answers = [(429, busy, {"Retry-After": "3600"})]
    with pytest.raises(Unavailable, match="Too many requests"):
        client.call(operations.list_jobs())
    script.answers = [(503, busy)]
    with pytest.raises(Unavailable):
        client.call(operations.cancel_job("j1", {}))


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, SignInRefused), (403, Forbidden), (404, Missing), (409, Conflict), (422, Invalid), (500, CostguardError)],
)
def test_each_problem_is_an_error_of_its_kind(
    client: Either, script: Script, status: int, kind: type[CostguardError]
) -> None:
    """The error has the server's words, the problem's name and the fields that it is about."""
    script.answers = [(status, PROBLEM)]
    with pytest.raises(CostguardError) as raised:
        client.call(operations.get_job("j1"))
    assert type(raised.value) is kind
    assert (raised.value.message, raised.value.kind) == ("The job cannot be taken in.", "job-refused")
    assert raised.value.fields == (("body.preset", "There is no preset b300."),)
    assert ("COSTGUARD_TOKEN" in raised.value.what_next) is (status == 401)


@pytest.mark.parametrize("answer", [(200, b"<html>"), (404, b"gone"), (404, []), (502, {"detail": 1}), (302, {})])
def test_an_answer_of_another_server_is_recognised(client: Either, script: Script, answer: tuple[int, Any]) -> None:
    """A proxy's page is no answer of Costguard's, and nothing is known of the job."""
    script.answers = [answer]
    with pytest.raises(ServerUnreachable, match="not as a Costguard server does"):
        client.call(operations.get_job("j1"))


def test_a_redirect_is_not_followed(client: Either, script: Script) -> None:
    """The token is for the named server alone."""
    with scripted() as other:
        script.answers = [(307, {}, {"Location": f"{other.url}/api/v1/jobs"})]
        with pytest.raises(ServerUnreachable):
            client.call(operations.list_jobs())
        assert other.asked == []


def test_names_in_paths_and_filters_are_quoted(client: Either, script: Script) -> None:
    """A name with a slash is one part of the path; a list is one parameter for each of its values."""
    script.answers = [(200, DETAIL), (200, EMPTY)]
    client.call(operations.get_job("../tokens?x"))
    client.call(operations.list_jobs(state=["failed", "queued"], open=False, limit=5))
    assert [path for _, path, _, _ in script.asked] == [
        "/api/v1/jobs/..%2Ftokens%3Fx",
        "/api/v1/jobs?state=failed&state=queued&open=false&limit=5",
    ]


def test_rows_are_read_page_by_page(client: Either, script: Script) -> None:
    """Each page is asked for with the cursor of the one before."""
    script.answers = [(200, {"jobs": [1, 2], "next_cursor": "c1"}), (200, {"jobs": [3], "next_cursor": None})]
    assert client.all(client.client.rows(operations.list_jobs(owner=["ada@lab.example"]), "jobs")) == [1, 2, 3]
    assert script.asked[1][1] == "/api/v1/jobs?owner=ada%40lab.example&cursor=c1"


def test_wait_ends_with_the_job_and_outlives_a_restart_of_the_server(client: Either, script: Script) -> None:
    """Lost answers are asked for again, for as long as it takes."""
    lost = [None] * 6
    script.answers = [(201, DETAIL), (200, with_state("recovering")), *lost, (200, with_state("succeeded"))]
    job = client.launch(preset="t4")
    assert client.finish(job.wait()) is job
    assert (job.state, job.is_settled) == ("succeeded", True)


def test_wait_raises_when_the_job_fails_only_where_that_is_wanted(client: Either, script: Script) -> None:
    """`check` is for scripts that need the result; the error holds the whole answer."""
    failed = with_state("failed", "It crashed.")
    script.answers = [(201, failed)]
    job = client.launch(preset="t4")
    client.finish(job.wait())
    with pytest.raises(JobNotSucceeded, match=r"is failed: It crashed\.") as raised:
        client.finish(job.wait(check=True))
    assert raised.value.detail == failed


def test_wait_has_a_limit(client: Either, script: Script) -> None:
    """TimeoutError says how the job stands; the job goes on."""
    script.answers = [(201, DETAIL)]
    job = client.launch(preset="t4")
    with pytest.raises(TimeoutError, match="j7k2m9q4 is running"):
        client.finish(job.wait(timeout=0))


def test_changes_are_each_shown_once(client: Either, script: Script) -> None:
    """A look that finds nothing new yields nothing."""
    again = with_state("recovering", "It was preempted.")
    script.answers = [(201, DETAIL), (200, again), (200, again), (200, with_state("cancelled"))]
    job = client.launch(preset="t4")
    states = []
    if isinstance(client.client, Client):
        states = [seen.state for seen in job.changes()]  # type: ignore[union-attr]
    else:

        async def watch() -> list[str]:
            return [seen.state async for seen in job.changes()]  # type: ignore[union-attr]

        states = client.finish(watch())
    assert states == ["running", "recovering", "cancelled"]


def test_an_incomplete_cost_is_unknown(client: Either, script: Script) -> None:
    """A sum without the part that has no price would be too low."""
    script.answers = [(201, with_state("running", cost={"amount": "5.30", "currency": "USD", "complete": False}))]
    assert client.launch(preset="t4").cost is None


def test_a_file_is_sent_again_from_its_beginning(script: Script) -> None:
    """A PUT whose answer is lost is repeated, with all of its content."""
    missing = {"detail": "There is no archive.", "next": "Upload it."}
    script.answers = [None, (201, {}), (200, {}), (404, missing)]
    with Client(script.url, environ={}, pause=lambda _: None) as client:
        client.put("code", "abc", file=io.BytesIO(b"archive"), size=7)
        assert [client.has("code", "abc"), client.has("code", "abd")] == [True, False]
    assert [(method, body) for method, _, _, body in script.asked][:2] == [("PUT", b"archive")] * 2
    assert script.asked[-1][:2] == ("GET", "/api/v1/code/abd")


def test_the_async_client_sends_a_file_too(script: Script) -> None:
    """The transport takes no open file, so that the content is read first."""
    script.answers = [(201, {})]
    with clients("async", script.url) as client:
        client.call(Call("PUT", api("code", "abc"), body=io.BytesIO(b"archive"), size=7))
    assert script.body() == b"archive"


def test_address_and_token_come_from_the_environment(script: Script) -> None:
    """The given values go before the environment."""
    script.answers = [(200, EMPTY), (200, EMPTY)]
    environ = {"COSTGUARD_URL": script.url, "COSTGUARD_TOKEN": "t1"}
    for client in (Client(environ=environ), Client(script.url, "t2", environ={**environ, "COSTGUARD_URL": "http://x"})):
        client.jobs()
    assert [headers["Authorization"] for _, _, headers, _ in script.asked] == ["Bearer t1", "Bearer t2"]


@pytest.mark.parametrize("url", ["ftp://guard", "guard:8765", "http://", "http://x:99999999"])
def test_an_address_of_no_server_is_refused(url: str) -> None:
    """The refusal comes before anything is sent."""
    for kind in (Client, AsyncClient):
        with pytest.raises(CostguardError, match="is not an address of a server"):
            kind(url, environ={})


def followed(client: Either, job: Any) -> str:
    flow = job.output(follow=True) if isinstance(client.client, Client) else job.follow_output()
    return "".join(client.all(flow))


def test_output_follows_the_end_where_nothing_is_stored(client: Either, script: Script) -> None:
    """Each piece once: also where the server keeps only the end of it, and where another attempt begins."""
    tail = "".join(f"step {number}\n" for number in range(400))
    ends = [(1, "a\n"), (1, "a\nb\n"), (1, tail), (1, f"{tail[100:]}end\n"), (2, "again\n")]
    script.answers = [(201, DETAIL)]
    for number, (attempt, text) in enumerate(ends):
        is_last = number == len(ends) - 1
        script.answers += [(200, with_state("succeeded" if is_last else "running"))]
        script.answers += [(200, {"attempt": attempt, "output": text, "stored": ""})] * (2 if is_last else 1)
    assert followed(client, client.launch(preset="t4")) == f"a\nb\n{tail}end\nagain\n"
    assert script.answers == []


def test_output_follows_what_is_stored_of_each_attempt(client: Either, script: Script) -> None:
    """The output comes from its beginning, in bounded parts, each once; the rest of an attempt before the next
    one's.
    """

    def page(text: str, place: str, is_end: bool) -> tuple[int, dict[str, Any]]:
        return 200, {"attempt": 1, "output": text, "stored": "s3://x", "next": place, "is_end": is_end}

    def end(attempt: int) -> tuple[int, dict[str, Any]]:
        return 200, {"attempt": attempt, "output": "the end", "stored": "s3://x"}

    running, over = (200, with_state("running")), (200, with_state("succeeded"))
    script.answers = [(201, DETAIL), running, end(1), page("a\n", "1.2", False), page("b\n", "1.4", True)]
    script.answers += [None] * 3  # the server restarts
    script.answers += [over, end(2), page("c\n", "1.6", True), end(2), page("d\n", "1.2", True)]
    assert followed(client, client.launch(preset="t4")) == "a\nb\nc\nd\n"
    places = [path.partition("?")[2] for _, path, _, _ in script.asked if "begin=" in path]
    assert places == ["attempt=1&begin=start", "attempt=1&begin=1.2", "attempt=1&begin=1.4", "attempt=2&begin=start"]


def test_an_error_of_json_is_the_callers(client: Either, script: Script) -> None:
    """A body that JSON cannot hold is a mistake in the program, named before anything is sent."""
    with pytest.raises(TypeError, match="cannot be sent as JSON"):
        client.launch(preset="t4", environment={"A": object()})
    assert script.asked == []


def test_the_owner_comes_from_the_environment(script: Script) -> None:
    """The owner is used as in commands: for launches, and for who cancels; the given value counts more."""
    script.answers = [(201, DETAIL), (202, DETAIL), (201, DETAIL)]
    with Client(script.url, environ={"COSTGUARD_OWNER": "ada@lab.example"}) as client:
        client.launch(preset="t4").cancel()
        client.launch(preset="t4", owner="ben@lab.example")
    assert [script.body(0)["owner"], script.body(1)["by"], script.body(2)["owner"]] == [
        *["ada@lab.example"] * 2,
        "ben@lab.example",
    ]


def test_errors_name_what_a_program_can_give() -> None:
    """The errors do not name the options of commands."""
    with pytest.raises(ServerUnreachable) as gone:
        Client("http://127.0.0.1:1", environ={}, pause=lambda _: None).me()
    assert "Client(url=...)" in gone.value.what_next
    assert "--" not in gone.value.what_next


def test_old_names_lead_to_the_same_classes() -> None:
    """`costguard.client` and `costguard.flyte` hold what the package of the client holds, and no copy of it."""
    names = costguard.client.__all__
    assert [getattr(costguard.client, name) for name in names] == [getattr(costguard_client, name) for name in names]
    assert set(names) == set(costguard_client.__all__)
    assert costguard.flyte.CostguardJob is costguard_client.flyte.CostguardJob
    assert not hasattr(costguard.flyte, "__path__")
