"""Rows of the plans of jobs with deadlines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Select, select

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import job_plans
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.jobs.decide.planned import StoredPlan

_PLAN = TypeAdapter(StoredPlan)


def of_jobs(connection: Connection, job_ids: Collection[str]) -> dict[str, StoredPlan]:
    """Reads the plans of jobs with a deadline; jobs without a plan are left out."""
    rows = (row for some in chunks(set(job_ids)) for row in connection.execute(*_of_jobs(some)))
    return {row.job_id: _PLAN.validate_python(row.plan) for row in rows}


@prepared
def _of_jobs(job_ids: list[str]) -> Select[Any]:
    return select(job_plans.c.job_id, job_plans.c.plan).where(job_plans.c.job_id.in_(job_ids))


def save(connection: Connection, plans: Sequence[StoredPlan]) -> None:
    """Stores these plans in one statement, each in the place of its job's last one."""
    rows = [
        {
            "job_id": one.job_id,
            "updated_at": one.updated_at,
            "plan": storable(_PLAN.dump_python(one, mode="json")),
        }
        for one in plans
    ]
    upsert(connection, job_plans, rows, ["job_id"], update_columns=["updated_at", "plan"])
