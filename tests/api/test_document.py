"""The OpenAPI document: complete, readable, and true to what is answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
import pytest
from fastapi.testclient import TestClient
from tests.api import story
from tests.api.examples import TOKEN_ID, made
from tests.docstrings import is_fragment

from costguard.api.document import operations
from costguard.db.transaction import Database
from costguard.errors import KINDS

_REPEATABLE = {
    "putCode",
    "quoteJob",
    "cancelJob",
    "deleteDisk",
    "drillJob",  # while one is open, another is refused
    "quoteSweep",
    "cancelSweep",
    "resumeSweep",
    "keepSweepMembers",
    "quoteSchedule",
    "pauseSchedule",
    "resumeSchedule",
    "endSchedule",
    "deleteStage",
    "reportAgentEvents",
    "revokeToken",
    "confirmToken",
    "endSession",
    "endSessions",
    "neverMind",
}
_STREAMED = {"downloadOutput", "streamEvents", "getMetrics"}  # answered with no JSON


@pytest.fixture
def lab(sqlite_database: Database) -> Iterator[story.Story]:
    lab = story.make_story(sqlite_database)
    yield lab
    lab.authenticator.close()


def test_every_operation_is_described(lab: story.Story) -> None:
    """A name of its own that reads well, words, a known tag, who may ask, every error, examples of all that is JSON."""
    document = lab.app.openapi()
    tags = {tag["name"] for tag in document["tags"]}
    described = list(operations(document))
    names = [operation["operationId"] for _, _, operation in described]
    assert len(set(names)) == len(names) > 35
    for path, method, operation in described:
        where = f"{method} {path}"
        assert re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", operation["operationId"]), where
        assert operation["summary"], where
        assert operation["description"], where
        assert set(operation["tags"]) <= tags, where
        assert (operation["security"] == []) == (path in ("/healthz", "/readyz")), where
        if operation["security"]:
            assert {"401", "403", "422", "429", "500", "503"} <= set(operation["responses"]), where
        if method != "get" and operation["operationId"] not in _REPEATABLE:
            assert "Idempotency-Key" in {parameter["name"] for parameter in operation["parameters"]}, where
        if operation["operationId"] not in _STREAMED:
            assert all("example" in content for content in _json_of(operation)), where


def test_examples_are_what_the_api_says(lab: story.Story) -> None:
    """They have the shape that the document gives, and so has what is answered today, with ids that never change."""
    document = lab.app.openapi()
    today = made(lab)
    assert today["createToken"]["201"]["token"]["id"] == TOKEN_ID
    checked = 0
    for _, _, operation in operations(document):
        for status, answer in today.get(operation["operationId"], {}).items():
            where = operation["requestBody"] if status == "body" else operation["responses"][status]
            content = where["content"]["application/json"]
            schema = {**content["schema"], "components": document["components"]}
            validator = jsonschema_rs.Draft202012Validator(schema)
            for example in (answer, content["example"]):
                validator.validate(example)
                checked += 1
    assert checked > 80


def test_problems_lead_to_what_they_mean(lab: story.Story) -> None:
    """The `type` of a problem is an address, where it is not about:blank."""
    client = TestClient(lab.app, headers={"Authorization": f"Bearer {story.MASTER}"})
    for kind in KINDS:
        assert client.get(f"/problems/{kind}").json()["type"] == f"/problems/{kind}"
    assert client.get("/problems/else").status_code == 404


def _json_of(operation: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    for where in (operation.get("requestBody", {}), *answers[-1:]):
        if "application/json" in where.get("content", {}):
            yield where["content"]["application/json"]


def _descriptions(part: object) -> Iterator[str]:
    if isinstance(part, Mapping):
        if isinstance(text := part.get("description"), str):
            yield text
        for inner in part.values():
            yield from _descriptions(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _descriptions(inner)


def test_no_description_is_a_fragment(lab: story.Story) -> None:
    """Each begins with its subject or its verb: "The mean number of preemptions.", not "In the mean."."""
    texts = set(_descriptions(lab.app.openapi()))
    assert len(texts) > 500
    assert sorted(text for text in texts if is_fragment(text) and not text.startswith("Whether ")) == []
