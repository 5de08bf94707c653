"""Idempotency keys belong to a person: what another asked for under the same key is not theirs."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api.story import ADA, ROOT, Story, make_story

from costguard.db.transaction import Database
from costguard.model.access import Role

JOB = {"preset": "t4", "project": "lab", "command": ["python", "train.py"]}
SWEEP = {"grid": {"lr": ["1", "2"]}, "job": {**JOB, "command": ["train", "{lr}"]}}
SCHEDULE = {"every": "day", "job": JOB}


@pytest.fixture
def story(sqlite_database: Database) -> Story:
    return make_story(sqlite_database)


@pytest.mark.parametrize(
    ("path", "body", "what"), [("jobs", JOB, "job"), ("sweeps", SWEEP, "sweep"), ("schedules", SCHEDULE, "schedule")]
)
def test_same_key_of_two_people_is_two_keys(story: Story, path: str, body: dict[str, Any], what: str) -> None:
    """Each launches their own, and a repeat gives each their own, with another token too."""
    client = TestClient(story.app)
    ids: dict[str, str] = {}
    for owner, role in ((ADA, Role.OPERATOR), (ROOT, Role.ADMIN)):
        for status in (201, 200):
            headers = {"Authorization": f"Bearer {story.token(role, owner)}", "Idempotency-Key": "nightly"}
            answer = client.post(f"/api/v1/{path}", json=body, headers=headers)
            assert answer.status_code == status, answer.text
            made = answer.json()[what]
            assert (made["owner"], made["id"]) == (owner, ids.setdefault(owner, made["id"]))
    assert len(set(ids.values())) == 2
