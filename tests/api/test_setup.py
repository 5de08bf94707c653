"""GET /doctor: what the set-up needs, as the server found it when it started."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.testclient import TestClient
from tests.api.rows import NOW

from costguard.doctor.finding import SetupReport, Topic, needs, ok


def test_findings_with_the_worst_state_of_all(client_with: Callable[..., TestClient]) -> None:
    """A program reads the state of all and the command of each."""
    command = "gcloud services enable compute.googleapis.com --project=lab"
    findings = [
        ok(Topic.SERVER, "clock", "The clock is right."),
        needs(Topic.APIS, "compute.googleapis.com", "It is off.", command, "lab"),
    ]
    answer = client_with(setup=lambda: SetupReport(NOW, findings)).get("/api/v1/doctor").json()
    assert answer["state"] == "needs"
    assert answer["findings"][1] == {
        "topic": "apis",
        "name": "compute.googleapis.com",
        "where": "lab",
        "state": "needs",
        "sentence": "It is off.",
        "command": command,
    }


def test_nothing_is_claimed_before_the_check_has_ended(client_with: Callable[..., TestClient]) -> None:
    """No findings are no verdict."""
    answer = client_with().get("/api/v1/doctor").json()
    assert answer == {"as_of": None, "state": None, "findings": []}
