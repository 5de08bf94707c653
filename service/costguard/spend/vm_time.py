"""The time for which jobs' VMs ran, added up over all of them: what a limit of VM hours counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, and_, exists, literal_column, or_, select

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import attempts, instances, lifetimes
from costguard.model.duration import elapsed


def of_jobs(connection: Connection, job_ids: Collection[str], now: datetime) -> dict[str, timedelta]:
    """Returns the time by job, in whole seconds; jobs without a VM are left out.

    A VM that is stopped does not count while it is. A run that the ledger has not seen counts from when its VM was
    known to be there.
    """
    ran: defaultdict[str, timedelta] = defaultdict(timedelta)
    for some in chunks(job_ids):
        for row in connection.execute(*_runs(some)):
            ran[row.job] += elapsed(row.started_at, row.ended_at or now)
        for row in connection.execute(*_unseen(some)):
            ends = [end for end in (row.gone_at, row.rested_at, now) if end is not None and end >= row.made_at]
            ran[row.job_id] += elapsed(row.made_at, min(ends, default=row.made_at))
    return dict(ran)


@prepared
def _runs(job_ids: list[str]) -> Select[Any]:
    columns = lifetimes.c
    is_of_job = columns.job != literal_column("''")  # the index's own condition
    return select(columns.job, columns.started_at, columns.ended_at).where(is_of_job, columns.job.in_(job_ids))


@prepared
def _unseen(job_ids: list[str]) -> Select[Any]:
    columns, runs = attempts.c, lifetimes.c
    is_vm = and_(instances.c.project == columns.project, instances.c.gce_id == columns.gce_id)
    lasted = or_(runs.ended_at.is_(None), runs.ended_at > columns.made_at)
    is_seen = exists().where(is_vm, runs.instance_id == instances.c.id, lasted)
    return select(columns.job_id, columns.made_at, columns.gone_at, columns.rested_at).where(
        columns.job_id.in_(job_ids), columns.gce_id != "", columns.made_at.is_not(None), ~is_seen
    )
