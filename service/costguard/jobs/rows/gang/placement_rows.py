"""Rows of jobs' placement policies: intended before Google is asked, and open until they are seen to be gone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, exists, or_, select, text, update

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import LIVE_ATTEMPT, OPEN_JOB, OPEN_POLICY, attempts, jobs, placement_policies
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.job import Job
from costguard.model.launch import Placement, PlacementPolicy

_OF = placement_policies.c
_COLUMNS = [placement_policies.c[one.name] for one in fields(PlacementPolicy)]


def want(connection: Connection, job_id: str, project: str, region: str, now: datetime) -> PlacementPolicy:
    """Intends the policy of a job in a region, once, and returns it as it stands."""
    row = {"job_id": storable(job_id), "region": storable(region), "project": storable(project), "wanted_at": now}
    upsert(connection, placement_policies, [row], ["job_id", "region"], update_columns=[])
    mine = select(*_COLUMNS).where(_OF.job_id == job_id, _OF.region == region)
    return _policy(connection.execute(mine).one())


def change(connection: Connection, policy: PlacementPolicy, **values: Any) -> bool:
    """Changes a policy that is not gone. False: it is."""
    mine = update(placement_policies).where(_OF.job_id == policy.job_id, _OF.region == policy.region)
    return connection.execute(mine.where(_OF.gone_at.is_(None)).values(values)).rowcount == 1


def of_jobs(connection: Connection, some_jobs: Collection[Job]) -> dict[str, list[PlacementPolicy]]:
    """Returns the policies of those jobs whose VMs are to stand close together; the others cost no query."""
    policies: dict[str, list[PlacementPolicy]] = {}
    for some in chunks({job.id for job in some_jobs if job.spec.placement is Placement.COMPACT}):
        for row in connection.execute(select(*_COLUMNS).where(_OF.job_id.in_(some)).order_by(_OF.job_id, _OF.region)):
            policies.setdefault(row.job_id, []).append(_policy(row))
    return policies


def unused(connection: Connection, now: datetime) -> list[PlacementPolicy]:
    """Returns the policies to be deleted now: their job is over, and none of its attempts may have a VM."""
    return [_policy(row) for row in connection.execute(*_unused(now))] if _are_any_open(connection) else []


@prepared
def _unused(now: datetime) -> Select[Any]:
    is_open = exists().where(jobs.c.id == _OF.job_id, text(OPEN_JOB.replace("state", "jobs.state")))
    has_vm = exists().where(attempts.c.job_id == _OF.job_id, text(LIVE_ATTEMPT.replace("state", "attempts.state")))
    due = or_(_OF.try_after.is_(None), _OF.try_after <= now)
    query = select(*_COLUMNS).where(text(OPEN_POLICY), due, ~is_open, ~has_vm)
    return query.order_by(_OF.job_id, _OF.region)


@remembers(placement_policies)
def _are_any_open(connection: Connection) -> bool:
    return connection.scalar(_FIRST_OPEN) is not None


_FIRST_OPEN = select(_OF.job_id).where(text(OPEN_POLICY)).limit(1)


def _policy(row: Row[Any]) -> PlacementPolicy:
    return PlacementPolicy(**row._mapping)
