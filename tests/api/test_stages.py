"""Stages are reported by agents with their own token, listed with their cost, and deleted when no job uses them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api.conftest import Standstill, deps_of
from tests.authenticators import keyed
from tests.stages.staged import ADDRESS, DIGEST, RULES, SIZE, SOURCE, job

from costguard.access.rules import JobRules
from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import AgentEvents, AgentTokens
from costguard.jobs.rows import job_rows
from costguard.model.job import JobState

TOKENS = AgentTokens(b"k" * 32)
OPERATOR = {"Authorization": "Bearer the operators"}
BODY = {
    "digest": DIGEST, "address": ADDRESS, "source": SOURCE, "bytes": SIZE, "files": 7, "from_source": SIZE,
    "staged": SIZE, "note": "", "wants": True, "is_whole": True, "error": "",
}  # fmt: skip


class Ground:
    def __init__(self, database: Database) -> None:
        self.database = database
        deps = deps_of(database)
        rules = replace(deps.rules, jobs=JobRules(stage=RULES))
        agents = AgentEvents(database, Standstill(), TOKENS, lambda: None)
        app = create_app(replace(deps, rules=rules, authenticator=keyed("the operators"), agent_events=agents))
        self.client = TestClient(app)
        with database.write() as connection:
            self.lost, self.present = job(connection)

    def report(self, body: dict[str, Any] | None = None, token: str | None = None, attempt: str | None = None) -> Any:
        name = attempt or self.present
        headers = {"Authorization": f"Bearer {TOKENS.of(name) if token is None else token}"}
        return self.client.post(f"/api/v1/attempts/{name}/stage", json=body or BODY, headers=headers)

    def stages(self) -> Any:
        return self.client.get("/api/v1/stages", headers=OPERATOR).json()["stages"]

    def delete(self) -> Any:
        body = {"by": "ana@example.com"}
        return self.client.post(f"/api/v1/stages/{DIGEST}/delete", json=body, headers=OPERATOR)


@pytest.fixture
def ground(sqlite_database: Database) -> Ground:
    return Ground(sqlite_database)


def test_an_agent_reports_with_its_own_token(ground: Ground) -> None:
    """No other attempt's token, and no person's, speaks for it."""
    assert ground.report().json() == {"use": True, "fetch": True, "note": ""}
    assert ground.report(token=TOKENS.of(ground.lost)).status_code == 401
    assert ground.report(token="the operators").status_code == 401


@pytest.mark.parametrize(
    "change",
    [{"digest": "../files"}, {"note": "x"}, {"bytes": -1}, {"from_source": 2**63}, {"source": "s" * 1001}],
    ids=["digest", "note", "size", "too large", "long"],
)
def test_a_report_that_is_no_report_is_refused(ground: Ground, change: dict[str, Any]) -> None:
    """Nothing of it is stored: a digest is a part of the place that is deleted one day."""
    assert ground.report({**BODY, **change}).status_code == 422
    assert ground.stages() == []


def test_a_stage_is_listed_with_what_it_costs_and_who_used_it(ground: Ground) -> None:
    """The storage of 100 GiB in us-central1 is $2.00 a month; the whole of it left the source once."""
    ground.report({**BODY, "from_source": 0}, attempt=ground.lost)
    ground.report()
    (stage,) = ground.stages()
    assert (stage["source"], stage["place"], stage["location"]) == (SOURCE, f"{ADDRESS}/{DIGEST}", "us-central1")
    assert (stage["state"], stage["in_use"], stage["staged"], stage["from_source"]) == ("whole", True, SIZE, SIZE)
    assert stage["a_month"] == "2.00"
    (use,) = stage["uses"]
    assert (use["job"], use["owner"], use["from_source"]) == ("j1", "ada@lab.example", SIZE)
    assert [(share["owner"], share["project"]) for share in stage["shares"]] == [("ada@lab.example", "lab")]


def test_a_stage_is_deleted_once_no_open_job_uses_it(ground: Ground) -> None:
    """The answer says that it goes; a repeat changes nothing."""
    ground.report()
    refused = ground.delete()
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/stage-in-use")
    with ground.database.write() as connection:
        job_rows.set_state(connection, "j1", JobState.SUCCEEDED, "It is done.", None, Standstill().now())
    assert (ground.delete().status_code, ground.delete().status_code) == (202, 200)
    assert [(one["state"], one["delete_asked_by"]) for one in ground.stages()] == [("deleting", "ana@example.com")]
    missing = ground.client.post("/api/v1/stages/abc/delete", json={"by": "ana@example.com"}, headers=OPERATOR)
    assert missing.status_code == 404
