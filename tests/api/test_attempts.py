"""Agents are heard with their own token alone, in bodies of any make, and learn whether their command is to stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api.conftest import Standstill, deps_of
from tests.api.rows import NOW
from tests.authenticators import keyed
from tests.jobs import job_rows

from costguard.api.app import create_app
from costguard.api.deps import Deps
from costguard.api.job.attempts import AgentEventsResponse
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import AgentEvents, AgentTokens
from costguard.jobs.reports.gang.gang_words import GoAhead
from costguard.jobs.rows import attempts
from costguard.jobs.rows import job_rows as jobs
from costguard.jobs.rows.recovery import interruptions
from costguard.model.attempt import AttemptState, Interruption, Notice, Outcome

NAME = "cg-j7k2m9q4-1"
PATH = f"/api/v1/attempts/{NAME}/events"
TOKENS = AgentTokens(b"k" * 32)
BEARER = {"Authorization": f"Bearer {TOKENS.of(NAME)}"}
OPERATOR = {"Authorization": "Bearer the operators"}

NO_WORDS = dict.fromkeys(("go", "regroup", "save", "save_every_s"))


class Guard:
    """An API that listens to agents, with one attempt that boots."""

    def __init__(self, deps: Deps) -> None:
        self.database = deps.database
        self.woken = 0
        agent_events = AgentEvents(deps.database, Standstill(), TOKENS, self._wake)
        self.client = TestClient(
            create_app(replace(deps, authenticator=keyed("the operators"), agent_events=agent_events))
        )
        with self.database.write() as connection:
            job_rows.added(connection)
            self.attempt_id = job_rows.attempt(connection, state=AttemptState.BOOTING, gce_id="71").id

    def _wake(self) -> None:
        self.woken += 1

    def tell(self, *events: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
        return self.client.post(PATH, json={"events": list(events)}, headers=headers or BEARER)


@pytest.fixture
def guard(deps: Deps) -> Guard:
    return Guard(deps)


@pytest.fixture
def sqlite_guard(sqlite_database: Database) -> Guard:
    """Makes a guard on one database alone, for requests that never reach it."""
    return Guard(deps_of(sqlite_database))


def event(seq: int, kind: str, ago: int = 0, **fields: Any) -> dict[str, Any]:
    at = (NOW - timedelta(seconds=ago)).isoformat()
    return {"seq": seq, "kind": kind, "at": at, "run": 1, **fields}


def test_an_attempt_is_heard_once(guard: Guard) -> None:
    """Events are stored, a repeat gets the same answer, and only new events wake the daemon."""
    report = [
        event(1, "boot", 60),
        event(2, "start", 50),
        event(3, "heartbeat", step=7, output="step 7", machine={"cpu": 0.5}),
    ]
    with guard.database.write() as connection:
        job_rows.attempt(connection, number=2)
        interrupted = Interruption(guard.attempt_id, "j7k2m9q4", 0, Outcome.PREEMPTED, NOW, NOW, Notice.STATUS)
        interruptions.add(connection, interrupted)
    for _ in range(2):
        answer = guard.tell(*report)
        assert (answer.status_code, answer.json()) == (
            200,
            {
                "cancel": False,
                "accepted_through": 3,
                "drill": None,
                "go": None,
                "regroup": None,
                "save": None,
                "save_every_s": None,
                "why": "",
            },
        )
    with guard.database.read() as connection:
        attempt = attempts.read(connection, guard.attempt_id)
        resumed = interruptions.of_jobs(connection, ["j7k2m9q4"])["j7k2m9q4"][0].resumed_at
    assert attempt is not None
    assert (attempt.state, attempt.agent.step, attempt.agent.output) == (AttemptState.RUNNING, 7, "step 7")
    assert (attempt.agent.machine, resumed, guard.woken) == ({"cpu": 0.5}, NOW - timedelta(seconds=50), 1)


@pytest.mark.parametrize("why", ["the job", "the attempt", "over"])
def test_an_agent_learns_that_its_command_is_to_stop(guard: Guard, why: str) -> None:
    """When its job is cancelled, the attempt is to stop, or it is over; its last words are kept all the same."""
    with guard.database.write() as connection:
        if why == "the job":
            jobs.ask_cancel(connection, "j7k2m9q4", "ada", "ada cancelled it.", NOW)
        elif why == "the attempt":
            attempts.change(connection, guard.attempt_id, list(AttemptState), stop_asked_at=NOW, stop_why="pause")
        else:
            over = {"state": AttemptState.OVER, "outcome": Outcome.LOST}
            attempts.change(connection, guard.attempt_id, list(AttemptState), **over)  # type: ignore[arg-type]
    assert guard.tell(event(1, "start", output="late")).json() == {
        "cancel": True,
        "accepted_through": 1,
        "drill": None,
        "go": None,
        "regroup": None,
        "save": None,
        "save_every_s": None,
        "why": "",
    }
    assert guard.tell().json()["cancel"] is True
    with guard.database.read() as connection:
        attempt = attempts.read(connection, guard.attempt_id)
    assert attempt is not None
    assert (attempt.state is AttemptState.OVER, attempt.agent.output) == (why == "over", "late")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        OPERATOR,
        {"Authorization": f"Basic {TOKENS.of(NAME)}"},
        {"Authorization": f"Bearer {TOKENS.of('cg-j7k2m9q4-2')}"},
        {"Authorization": f"Bearer {TOKENS.of(NAME).upper()}"},
    ],
)
def test_no_other_token_speaks_for_an_attempt(sqlite_guard: Guard, headers: dict[str, str]) -> None:
    """The operator's does not either; nothing is kept, and the problem is a 401."""
    answer = sqlite_guard.client.post(PATH, json={"events": [event(1, "start")]}, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
    assert sqlite_guard.woken == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", PATH),
        ("GET", "/api/v1/instances"),
        ("POST", PATH + "/"),
        ("POST", "/api/v1/attempts/a%2Fb/events"),
        ("POST", "/api/v1/attempts/cg-unknown-1/events"),
        ("GET", "/openapi.json"),
    ],
)
def test_an_attempts_token_opens_nothing_else(sqlite_guard: Guard, method: str, path: str) -> None:
    """The token opens neither the same path in other ways, nor the rest of the API; an unknown attempt's opens nothing
    at all.
    """
    token = TOKENS.of("cg-unknown-1") if "unknown" in path else TOKENS.of(NAME)
    headers = {"Authorization": f"Bearer {token}"}
    assert sqlite_guard.client.request(method, path, json={"events": []}, headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"[1, 2", 422),
        (b"[" * 100_000, 422),
        (b'{"events": {}}', 422),
        (json.dumps({"events": [{"kind": "boot", "at": NOW.isoformat()}]}).encode(), 422),
        (json.dumps({"events": [event(0, "boot")]}).encode(), 422),
        (json.dumps({"events": [event(2**63, "boot")]}).encode(), 422),
        (json.dumps({"events": [{**event(1, "boot"), "at": "2026-11-20T12:00:00"}]}).encode(), 422),
        (json.dumps({"events": [{**event(1, "start"), "at": "1970-01-01T00:00:07Z"}]}).encode(), 200),
        (json.dumps({"events": [{**event(1, "start"), "at": "0001-01-01T00:00:00+14:00"}]}).encode(), 422),
        (json.dumps({"events": [event(n, "heartbeat") for n in range(1, 202)]}).encode(), 422),
        (json.dumps({"events": [], "mood": "x" * (1 << 20)}).encode(), 413),
        (json.dumps({"events": [event(1, "dance", output=7)], "mood": "good"}).encode(), 200),
        (
            b'{"events": [{"seq": 1, "kind": "heartbeat", "at": "2026-11-20T12:00:00Z", "run": NaN, "step": 1e999}]}',
            200,
        ),
    ],
)
def test_what_is_not_understood_is_refused_for_good(sqlite_guard: Guard, body: bytes, status: int) -> None:
    """The refusal makes an agent give up that one event; fields that a newer agent adds are passed over."""
    assert sqlite_guard.client.post(PATH, content=body, headers=BEARER).status_code == status


def test_a_body_without_an_announced_length_is_cut_off(sqlite_guard: Guard) -> None:
    """No more is read of it than is allowed."""
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while read < 100 << 20:
            read += 1 << 16
            yield b" " * (1 << 16)

    assert sqlite_guard.client.post(PATH, content=endless(), headers=BEARER).status_code == 413


def test_a_guard_without_jobs_listens_to_nobody(client: TestClient) -> None:
    """It says what to set."""
    answer = client.post(PATH, json={"events": []}, headers=BEARER)
    assert (answer.status_code, "guard_url" in answer.json()["next"]) == (404, True)
    described = client.get("/openapi.json").json()["paths"]["/api/v1/attempts/{attempt}/events"]["post"]
    assert described["requestBody"]["content"]["application/json"]["schema"]["properties"]["events"]["maxItems"] == 200


def test_words_of_a_gang_are_answered_whole() -> None:
    """The word that lets a round begin is a result with tuples; nothing of an answer is coerced."""
    go = GoAhead(
        "gs://lab/step-3",
        3,
        ("--from", "gs://lab/step-3"),
        2,
        ("10.0.0.5", "10.0.0.6"),
        "secret",
        1,
        ("cg-j1-1", "cg-j1-5"),
    )
    said = {"cancel": False, "accepted_through": 7, "why": "", "drill": None, **NO_WORDS, "go": go}
    answer = AgentEventsResponse.read(SimpleNamespace(**said)).model_dump(mode="json")
    assert answer["go"] == {
        "resume_from": "gs://lab/step-3",
        "step": 3,
        "arguments": ["--from", "gs://lab/step-3"],
        "round": 2,
        "addresses": ["10.0.0.5", "10.0.0.6"],
        "vms": ["cg-j1-1", "cg-j1-5"],
        "secret": "secret",
        "rank": 1,
    }
