"""GET /api/v1/jobs/{job_id}/lineage."""

from __future__ import annotations

from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.jobs.rows.lineage.test_lineage import family, submitted
from tests.within import charge_due

from costguard.db.transaction import Database


def test_a_lineage_has_each_job_with_its_cost_and_the_sums(database: Database, client: TestClient) -> None:
    """The tree of a fine-tuning: its pretraining above, what started from it below, and the address between them."""
    with database.write() as connection:
        family(connection)
        charge_due(connection, NOW)
    answer = client.get("/api/v1/jobs/tune1/lineage").json()
    assert [(one["id"], one["depth"], one["cost"]["amount"]) for one in answer["ancestors"]] == [("base", -1, "5.30")]
    assert [(one["id"], one["parent"]) for one in answer["descendants"]] == [("tune3", "tune1")]
    assert answer["job"]["origins"] == [{"address": "gs://lab/base/step-9", "uses": "input", "parent": "base"}]
    sums = {name: answer[name]["amount"] for name in ("upward", "downward", "total")}
    assert sums == {"upward": "6.36", "downward": "1.59", "total": "6.89"}
    assert (answer["unknown"], answer["is_whole"]) == ([], True)


def test_what_no_known_job_saved_is_named(database: Database, client: TestClient) -> None:
    """The parent of such a checkpoint is null."""
    with database.write() as connection:
        submitted(connection, "tuned", 1, "gs://lab/tuned/step-7")
    answer = client.get("/api/v1/jobs/tuned/lineage").json()
    assert answer["unknown"] == [{"address": "gs://lab/tuned/step-7", "uses": "checkpoint", "parent": None}]
    assert client.get("/api/v1/jobs/nothere/lineage").status_code == 404
