"""GET /api/v1/executions, and the page of executions."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.spend.test_executions import FLYTE, launched, ran
from tests.within import charge_due

from costguard.db.transaction import Database


def two(database: Database) -> None:
    with database.write() as connection:
        rows.prices(connection)
        launched(connection, "j1", 9, "f1")
        launched(connection, "j2", 5, "f2")
        ran(connection, "cg-j1-1", 3, "j1", flyte_execution="f1")
        charge_due(connection, NOW)


def test_executions_are_listed_with_cost_jobs_vms_and_state(database: Database, client: TestClient) -> None:
    """The newest first; one alone by its label and value."""
    two(database)
    answer = client.get("/api/v1/executions").json()
    assert [(one["value"], one["cost"]["amount"], one["vms"]) for one in answer["executions"]] == [
        ("f2", "0.00", 0),
        ("f1", "1.59", 1),
    ]
    first = answer["executions"][1]
    assert (first["label"], first["state"], first["labels"]) == (FLYTE, "running", {"flyte-workflow": "train"})
    assert [job["id"] for job in first["jobs"]] == ["j1"]
    assert answer["count"] == 2
    alone = client.get("/api/v1/executions", params={"label": FLYTE, "value": "f1"}).json()
    assert [one["value"] for one in alone["executions"]] == ["f1"]
    assert client.get("/api/v1/executions", params={"label": "argo-workflow"}).json()["executions"] == []


def test_a_jobs_spec_has_its_labels(database: Database, client: TestClient) -> None:
    """They are repeated as they were asked for."""
    two(database)
    spec = client.get("/api/v1/jobs/j1").json()["spec"]
    assert spec["labels"] == {FLYTE: "f1", "flyte-workflow": "train"}
