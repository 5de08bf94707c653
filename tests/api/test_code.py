"""Archives of code over HTTP: uploaded by operators in pieces of any size, fetched by the attempt's agent alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from tests import loops
from tests.api.conftest import Standstill, deps_of
from tests.api.rows import NOW
from tests.authenticators import keyed
from tests.fakes import HandClock
from tests.jobs import job_rows
from tests.jobs.archives import MemoryArchives, packed

from costguard.api.app import create_app
from costguard.api.job.code import received_archive
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import AgentEvents, AgentTokens
from costguard.jobs.submit.code import CodeArchives
from costguard.model.job import JobCode
from costguard.web.problems import ProblemError

CONTENT, SHA256 = packed({"train.py": "print('step 1')"})
PATH = f"/api/v1/code/{SHA256}"
NAME = "cg-j7k2m9q4-1"
TOKENS = AgentTokens(b"k" * 32)
OPERATOR = {"Authorization": "Bearer the operators"}


class Guard:
    def __init__(self, database: Database) -> None:
        self.store = MemoryArchives()
        code = CodeArchives(self.store, database, HandClock(NOW))
        events = AgentEvents(database, Standstill(), TOKENS, lambda: None)
        deps = replace(deps_of(database), authenticator=keyed("the operators"), agent_events=events, code=code)
        self.client = TestClient(create_app(deps), headers=OPERATOR)
        with database.write() as connection:
            job_rows.added(connection, code=JobCode(SHA256, len(CONTENT), 1))
            job_rows.attempt(connection)


@pytest.fixture
def guard(sqlite_database: Database) -> Guard:
    return Guard(sqlite_database)


def test_archive_is_uploaded_once(guard: Guard) -> None:
    """HEAD says whether it has to be; a repeat changes nothing."""
    assert guard.client.head(PATH).status_code == 404
    for _ in range(2):
        stored = guard.client.put(PATH, content=CONTENT)
        assert stored.status_code == 200
        assert stored.json() == {
            "sha256": SHA256,
            "size": len(CONTENT),
            "uploaded_at": NOW.isoformat().replace("+00:00", "Z"),
        }
    assert guard.client.head(PATH).status_code == 200
    assert guard.store.objects[f"{SHA256}.tar.gz"][0] == CONTENT


def test_upload_may_be_larger_than_other_bodies(guard: Guard) -> None:
    """Other requests keep their limit of half a MiB; this one is read in pieces, not held in memory."""
    large, sha256 = packed({f"f{number}": f"{number}" * (1 << 20) for number in range(3)})

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(large), 1000):
            yield large[start : start + 1000]

    assert guard.client.put(f"/api/v1/code/{sha256}", content=pieces()).status_code == 200
    refused = guard.client.put("/api/v1/presets", content=b"x" * (3 << 20))
    assert refused.status_code == 413


def test_upload_beyond_the_limit_is_cut_short(guard: Guard) -> None:
    """An upload is cut short whether it says its size or not."""
    said = guard.client.put(PATH, content=b"", headers={"Content-Length": str(1 << 30)})
    assert said.status_code == 413

    with pytest.raises(ProblemError) as refused:
        loops.run(read_all(100_000, most := 3 << 20))
    assert refused.value.status == 413
    assert f"larger than {most >> 20} MiB" in refused.value.detail


async def read_all(pieces: int, most: int) -> None:
    """Reads a body of so many KiB, which does not say its size."""
    left = iter(range(pieces))

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": bytes(1024), "more_body": next(left, None) is not None}

    received = received_archive(Request({"type": "http", "headers": []}, receive), most)
    try:
        await anext(received)
    finally:
        assert pieces - len(list(left)) <= (most >> 10) + 1, "it is read no further than to the limit"


def test_wrong_archive_is_a_problem_with_a_reason(guard: Guard) -> None:
    """The name must be its hash."""
    refused = guard.client.put(f"/api/v1/code/{'0' * 64}", content=CONTENT)
    assert refused.status_code == 422
    assert f"its SHA-256 is {SHA256}" in refused.json()["detail"]
    assert guard.client.put("/api/v1/code/..%2f..%2fetc", content=CONTENT).status_code in (404, 422)


def test_store_that_is_away_is_unavailable(guard: Guard) -> None:
    """The store is unavailable for uploads and for agents, which try again."""
    guard.store.is_away = True
    assert guard.client.put(PATH, content=CONTENT).status_code == 503
    fetch = guard.client.get(f"/api/v1/attempts/{NAME}/code", headers={"Authorization": f"Bearer {TOKENS.of(NAME)}"})
    assert fetch.status_code == 503


def test_agent_fetches_the_code_of_its_own_attempt(guard: Guard) -> None:
    """The agent uses its own token; no other token opens it, and it opens nothing else."""
    guard.client.put(PATH, content=CONTENT)
    mine = {"Authorization": f"Bearer {TOKENS.of(NAME)}"}
    fetched = guard.client.get(f"/api/v1/attempts/{NAME}/code", headers=mine)
    assert fetched.status_code == 200
    assert fetched.content == CONTENT
    assert fetched.headers["content-length"] == str(len(CONTENT))
    other = {"Authorization": f"Bearer {TOKENS.of('cg-j7k2m9q4-2')}"}
    for headers in (other, OPERATOR, {"Authorization": ""}):
        assert guard.client.get(f"/api/v1/attempts/{NAME}/code", headers=headers).status_code == 401
    assert guard.client.get(PATH, headers=mine).status_code == 401


def test_stranger_uploads_nothing(guard: Guard) -> None:
    """Neither without a token nor with one that may only read."""
    assert guard.client.put(PATH, content=CONTENT, headers={"Authorization": "Bearer x"}).status_code == 401
    assert guard.store.objects == {}
