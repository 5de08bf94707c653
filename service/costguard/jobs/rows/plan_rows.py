"""The stored plan of a job with a deadline: as it is now, the last decisions, and the curve of its progress."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import TypeAdapter
from sqlalchemy import Connection, select

from costguard.db.bulk import chunks
from costguard.db.tables import job_plans
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.jobs.decide.planned import JobPlan, ShadowChoice

_DECISIONS = 60
_POINTS = 240


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A decision, which holds from `at` until the next one."""

    at: datetime
    act: str
    zone: str
    reason: str
    latest_safe_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProgressPoint:
    """The work left at a moment, as it was estimated then."""

    at: datetime
    work_left: timedelta
    latest_safe_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """`plan` is None for a job without a deadline, of which only the shadow is known; it is drawn for `as_if`."""

    job_id: str
    updated_at: datetime
    plan: JobPlan | None = None
    decisions: tuple[PlannedStep, ...] = ()
    curve: tuple[ProgressPoint, ...] = ()
    shadow: tuple[ShadowChoice, ...] = ()
    as_if: datetime | None = None

    def after(
        self, plan: JobPlan | None, shadow: tuple[ShadowChoice, ...], as_if: datetime | None, now: datetime
    ) -> StoredPlan:
        """Adds this plan from now on; decisions are added where they changed, and the curve is thinned evenly."""
        decisions, curve = self.decisions, self.curve
        if plan is not None:
            last = decisions[-1] if decisions else None
            if last is None or (last.act, last.zone) != (plan.act.value, plan.zone):
                new = PlannedStep(now, plan.act.value, plan.zone, plan.reason, plan.latest_safe_at)
                decisions = (*decisions, new)[-_DECISIONS:]
            if plan.work_left is not None:
                curve = thinned((*curve, ProgressPoint(now, plan.work_left.likely, plan.latest_safe_at)))
        return replace(
            self, updated_at=now, plan=plan, decisions=decisions, curve=curve, shadow=shadow or self.shadow, as_if=as_if
        )


def thinned(curve: tuple[ProgressPoint, ...]) -> tuple[ProgressPoint, ...]:
    """Every second of the older points is left out once there are too many; the newest stays."""
    return curve if len(curve) <= _POINTS else (*curve[:-1:2], curve[-1])


_STORED = TypeAdapter(StoredPlan)


def read(connection: Connection, job_ids: Collection[str]) -> dict[str, StoredPlan]:
    """Reads plans by job; jobs without a plan are left out."""
    columns = (job_plans.c.job_id, job_plans.c.plan)
    rows = (
        row
        for some in chunks(set(job_ids))
        for row in connection.execute(select(*columns).where(job_plans.c.job_id.in_(some)))
    )
    return {row.job_id: _STORED.validate_python(row.plan) for row in rows}


def save(connection: Connection, stored: StoredPlan) -> None:
    row = {
        "job_id": stored.job_id,
        "updated_at": stored.updated_at,
        "plan": storable(_STORED.dump_python(stored, mode="json")),
    }
    upsert(connection, job_plans, [row], ["job_id"], update_columns=["updated_at", "plan"])
