"""The lineages of jobs that were submitted before they were written down."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

from sqlalchemy import text
from tests.upgrades.placing import upgrade_to

from costguard.db.transaction import Database
from costguard.jobs.decide.lineage import place_key

_JOB = (
    "INSERT INTO jobs (id, kind, name, owner, preset, project, spec, recipe, state, reason, via, created_at) VALUES "
    "(:id, 'training', '', 'ada@lab.example', 't4', 'lab', {json}, {empty}, 'succeeded', 'done', 'api', :created_at)"
)
_ATTEMPT = (
    "INSERT INTO attempts (id, job_id, number, name, project, zone, gpu_type, provisioning_model, request_uuid, "
    "max_run_s, state, intended_at, resume_from) VALUES (1, 'again', 1, 'cg-again-1', 'lab', 'z', 't4', 'spot', 'u', "
    "60, 'over', 3, 'gs://lab/base/step-9')"
)


def spec(location: str, **given: Any) -> str:
    return json.dumps({"checkpoint": {"location": location}, "inputs": [], "outputs": [], **given})


def test_jobs_of_before_get_their_places_and_parents(empty_database_url: str) -> None:
    """The migration goes by the addresses in their requests, the oldest first, and what their first VM resumed from."""
    upgrade_to(empty_database_url, "0110")
    jobs = {
        "base": spec("gs://lab/base/"),
        "tuned": spec("gs://lab/tuned", inputs=[{"source": "gs://lab/base/step-9", "path": "/base"}]),
        "again": spec("gs://lab/base", command=["python", "eval.py", "--model", "gs://lab/tuned/step-1"]),
        "older": spec("/ckpt", environment={"BASE": "gs://lab/later/x"}),
        "later": spec("gs://lab/later"),
    }
    with closing(Database.open(empty_database_url, migrating=True)) as database, database.write() as connection:
        is_postgres = connection.dialect.name == "postgresql"
        cast = ("CAST(:spec AS JSONB)", "CAST('{}' AS JSONB)") if is_postgres else (":spec", "'{}'")
        statement = text(_JOB.format(json=cast[0], empty=cast[1]).replace("'{}'", "'{}'"))
        for number, (job_id, value) in enumerate(jobs.items(), 1):
            connection.execute(statement, {"id": job_id, "spec": value, "created_at": number})
        connection.execute(text(_ATTEMPT))
    upgrade_to(empty_database_url, "0111")
    with closing(Database.open(empty_database_url)) as database, database.read() as connection:
        origins = {
            tuple(row) for row in connection.execute(text("SELECT job_id, uses, address, parent_id FROM job_origins"))
        }
        places = {tuple(row) for row in connection.execute(text("SELECT job_id, place_key FROM job_places"))}
    assert origins == {
        ("tuned", "input", "gs://lab/base/step-9", "base"),
        ("again", "checkpoint", "gs://lab/base/step-9", "base"),
        ("again", "command", "gs://lab/tuned/step-1", "tuned"),
    }
    stores = {"base": "base", "again": "base", "tuned": "tuned", "later": "later"}
    assert places == {(job_id, place_key(f"gs://lab/{name}")) for job_id, name in stores.items()}
