"""An agent without a token is heard where it shows what Google signed of its VM, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.api.conftest import deps_of
from tests.authenticators import keyed
from tests.jobs.reports.test_vm_claims import FIRST, GUARD, JOB, SECRET, TOKENS, Ground

from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.errors import SignInRefused
from costguard.jobs.reports.vm_claims import VmClaims
from costguard.model.attempt import AttemptState
from costguard.model.instance import ProvenVm

PATH = "/api/v1/vm-claims"
BODY = {"job": JOB, "document": "first", "secret": SECRET}


@pytest.fixture
def ground(sqlite_database: Database) -> Ground:
    return Ground(sqlite_database)


def client(ground: Ground, claims: VmClaims | None = None) -> TestClient:
    deps = replace(deps_of(ground.database), authenticator=keyed("the operators"), vm_claims=claims or ground.claims)
    return TestClient(create_app(deps))


def test_a_vm_is_answered_without_any_token(ground: Ground) -> None:
    """The document is all that it has."""
    answer = client(ground).post(PATH, json=BODY)
    assert (answer.status_code, answer.json()) == (
        200,
        {"attempt": FIRST.name, "token": TOKENS.of(FIRST.name), "node": 0, "image": ""},
    )


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"secret": "another agent's".ljust(32, ".")}, 401),
        ({"document": "unknown"}, 503),
        ({"job": "another"}, 401),
        ({"secret": "short"}, 422),
        ({"document": "a" * (17 << 10)}, 422),
    ],
    ids=["of another agent", "keys are away", "of another job", "short secret", "long document"],
)
def test_what_is_refused_and_what_is_to_be_sent_again(ground: Ground, change: dict[str, Any], status: int) -> None:
    """A 503 alone says that nothing is known; nothing of the document or the secret is repeated."""
    server = client(ground)
    assert server.post(PATH, json=BODY).status_code == 200
    answer = server.post(PATH, json={**BODY, **change})
    assert answer.status_code == status
    assert SECRET not in answer.text


def test_a_vm_that_was_not_seen_yet_is_told_to_send_it_again(ground: Ground) -> None:
    """A guard looks at a group's VMs every few seconds."""
    ground.change(1, AttemptState.ASKED, gce_id="")
    answer = client(ground).post(PATH, json=BODY)
    assert answer.status_code == 503
    assert "Send it again in a moment." in answer.text


def test_a_bad_document_is_refused_without_its_content(ground: Ground) -> None:
    """The identity room's sentence is the answer."""

    def refuse(document: str, audience: str) -> ProvenVm:
        raise SignInRefused(
            f"The identity document of a VM is not taken: {len(document + audience) and 'it has expired'}."
        )

    claims = VmClaims(ground.database, refuse, TOKENS.of, GUARD)
    answer = client(ground, claims).post(PATH, json=BODY)
    assert answer.status_code == 401
    assert "it has expired" in answer.text


def test_nothing_else_is_open_without_a_token(ground: Ground) -> None:
    """The path opens for agents alone, and only to post to."""
    server = client(ground)
    assert server.get(PATH).status_code == 401
    assert server.post(f"{PATH}/x", json=BODY).status_code == 401
