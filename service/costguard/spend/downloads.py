"""Costs of the inputs that jobs' VMs download, on the bill of the cloud that holds them.

Ceilings and budgets count it; Spend, which is Google's bill, does not. A VM has paid once its agent was heard, and no
second time when the same VM is started again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_, select

from costguard.db.bulk import chunks
from costguard.db.tables import attempts, jobs
from costguard.model.budget import LabelFilter
from costguard.model.job import JobInput, download_cost
from costguard.model.money import Money
from costguard.spend.burning import Whose

_INPUTS = TypeAdapter(tuple[JobInput, ...])
# Its value is `null` in jobs of versions that knew no inputs.
_HAS_INPUTS = jobs.c.spec["inputs"].as_string() != "[]"
_PAID_AT = func.coalesce(attempts.c.made_at, attempts.c.intended_at)


@dataclass(frozen=True, slots=True)
class Download:
    """The amount that one VM paid, with its UTC day."""

    whose: Whose
    day: date
    cost: Money


def has_paid(heard_at: datetime | None) -> bool:
    """Says whether a VM has paid for its inputs, by when its agent was heard last."""
    return heard_at is not None


def of_next_vms(connection: Connection, job_ids: Collection[str]) -> dict[str, Money]:
    """Returns the amount that the next VM of each of these jobs would pay. Jobs without inputs are left out."""
    query: Select[Any] = select(jobs.c.id, jobs.c.spec["inputs"].label("inputs")).where(_HAS_INPUTS)
    return {
        row.id: _cost(row) for some in chunks(job_ids) for row in connection.execute(query.where(jobs.c.id.in_(some)))
    }


def of_jobs(connection: Connection, job_ids: Collection[str]) -> dict[str, Money]:
    """Returns the amount that all VMs of each of these jobs have paid so far, at list prices.

    Jobs that paid nothing are left out.
    """
    paid = Counter[str]()
    for some in chunks(job_ids):
        for row in connection.execute(_paid(jobs.c.id.in_(some))):
            paid[row.id] += _cost(row).nanos
    return {job_id: Money(nanos) for job_id, nanos in paid.items() if nanos}


def since(connection: Connection, first: date, label: LabelFilter | None) -> list[Download]:
    """Lists the payments from that day on; of a label, those of VMs that were launched with it."""
    # Few jobs have inputs, so they are asked for first: attempts have no index of when they began.
    begin = datetime.combine(first, time(), UTC)
    recent = or_(jobs.c.settled_at.is_(None), jobs.c.settled_at >= begin)
    return [
        Download(Whose(row.project, row.preset, row.owner, row.id), row.paid_at.date(), cost)
        for row in connection.execute(_paid(recent, begin <= _PAID_AT))
        if (cost := _cost(row)) and (label is None or label.holds({**(row.own_labels or {}), **(row.labels or {})}))
    ]


def _paid(*conditions: ColumnElement[bool]) -> Select[Any]:
    """A row for each VM that has paid."""
    columns = jobs.c
    return (
        select(
            *(columns.id, columns.project, columns.preset, columns.owner, _PAID_AT.label("paid_at")),
            columns.spec["inputs"].label("inputs"),
            columns.recipe["labels"].label("labels"),
            columns.spec["labels"].label("own_labels"),
        )
        .join_from(attempts, jobs, jobs.c.id == attempts.c.job_id)
        .where(_HAS_INPUTS, attempts.c.heard_at.is_not(None), *conditions)
    )


def _cost(row: Row[Any]) -> Money:
    return download_cost(_INPUTS.validate_python(row.inputs))
