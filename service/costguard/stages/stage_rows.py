"""Rows of data stages, and of what each VM took by way of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select, text, update

from costguard.db.bulk import chunks
from costguard.db.tables import OPEN_JOB, STORED_STAGE, data_stages, jobs, stage_uses
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.stages.stage import DataStage, StageReport, StageState


@dataclass(frozen=True, slots=True)
class StageUse:
    """The bytes that a job's VMs together fetched from a stage's source. `used_at` is the last report of any."""

    digest: str
    job_id: str
    owner: str
    project: str
    is_open: bool
    from_source: int
    used_at: datetime


def lock(connection: Connection, digest: str) -> DataStage | None:
    """Reads a stage for a change: until the transaction's end another one waits. None: there is none."""
    query = select(data_stages).where(data_stages.c.digest == storable(digest)).with_for_update()
    row = connection.execute(query).first()
    return None if row is None else _stage(row)


def save(connection: Connection, stage: DataStage, *, is_new: bool) -> bool:
    """Stores a stage. Returns False where it was to be new and another transaction was first: then it is read again."""
    row = {
        "digest": stage.digest,
        "address": storable(stage.address),
        "source": storable(stage.source),
        "size": stage.size,
        "files": stage.files,
        "state": stage.state.value,
        "staged": stage.staged,
        "note": stage.note,
        "holder": storable(stage.holder),
        "renewed_at": stage.renewed_at,
        "made_at": stage.made_at,
        "used_at": stage.used_at,
        "whole_at": stage.whole_at,
        "deleted_at": stage.deleted_at,
        "delete_asked_by": storable(stage.delete_asked_by),
        "error": storable(stage.error),
    }
    if is_new:
        return upsert(connection, data_stages, [row], ["digest"], []) == 1
    connection.execute(update(data_stages).where(data_stages.c.digest == stage.digest).values(row))
    return True


def use(connection: Connection, report: StageReport, attempt: str, job_id: str, now: datetime) -> None:
    """Stores how much a VM has fetched from the source; the most that it ever said counts."""
    key = (stage_uses.c.attempt == attempt) & (stage_uses.c.digest == report.digest)
    before = connection.scalar(select(stage_uses.c.from_source).where(key))
    row = {
        "attempt": attempt,
        "digest": report.digest,
        "job_id": job_id,
        "source": storable(report.source),
        "size": report.size,
        "from_source": max(report.from_source, before or 0),
        "used_at": now,
    }
    upsert(connection, stage_uses, [row], ["attempt", "digest"])


def stored(connection: Connection) -> list[DataStage]:
    """Returns all stages whose objects may be there, the one used last first."""
    rows = connection.execute(select(data_stages).where(text(STORED_STAGE)))
    return sorted((_stage(row) for row in rows), key=lambda one: (one.used_at, one.digest), reverse=True)


def read(connection: Connection, digest: str) -> DataStage | None:
    row = connection.execute(select(data_stages).where(data_stages.c.digest == storable(digest))).first()
    return None if row is None else _stage(row)


def uses(connection: Connection, digests: Collection[str]) -> Mapping[str, list[StageUse]]:
    """Returns who used these stages, by digest: a row for each job, the last first."""
    columns = stage_uses.c
    query = (
        select(columns.digest, columns.job_id, columns.from_source, columns.used_at)
        .add_columns(jobs.c.owner, jobs.c.project, jobs.c.settled_at)
        .join_from(stage_uses, jobs, jobs.c.id == columns.job_id)
    )
    of_jobs: dict[tuple[str, str], StageUse] = {}
    for some in chunks(digests):
        for row in connection.execute(query.where(columns.digest.in_(some))):
            before = of_jobs.get((row.digest, row.job_id))
            fetched = row.from_source + (before.from_source if before is not None else 0)
            used_at = max(row.used_at, before.used_at) if before is not None else row.used_at
            is_open = row.settled_at is None
            of_jobs[row.digest, row.job_id] = StageUse(
                row.digest, row.job_id, row.owner, row.project, is_open, fetched, used_at
            )
    result: dict[str, list[StageUse]] = {}
    for one in sorted(of_jobs.values(), key=lambda one: one.used_at, reverse=True):
        result.setdefault(one.digest, []).append(one)
    return result


def in_use(connection: Connection) -> frozenset[str]:
    """Returns the digests of stages that open jobs use, or will: those that name the same source."""
    named: set[str] = set()
    for inputs in connection.scalars(select(jobs.c.spec["inputs"]).where(text(OPEN_JOB))):
        named.update(str(one["source"]) for one in inputs or () if one.get("staged"))
    of_jobs = (
        select(stage_uses.c.digest)
        .join_from(stage_uses, jobs, jobs.c.id == stage_uses.c.job_id)
        .where(jobs.c.settled_at.is_(None))
    )
    digests = set(connection.scalars(of_jobs))
    for some in chunks(named):
        digests.update(connection.scalars(select(data_stages.c.digest).where(data_stages.c.source.in_(some))))
    return frozenset(digests)


def _stage(row: Row[Any]) -> DataStage:
    return DataStage(
        digest=row.digest,
        address=row.address,
        source=row.source,
        size=row.size,
        files=row.files,
        made_at=row.made_at,
        used_at=row.used_at,
        state=StageState(row.state),
        staged=row.staged,
        note=row.note,
        holder=row.holder,
        renewed_at=row.renewed_at,
        whole_at=row.whole_at,
        deleted_at=row.deleted_at,
        delete_asked_by=row.delete_asked_by,
        error=row.error,
    )
