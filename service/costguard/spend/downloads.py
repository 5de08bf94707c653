"""Costs of the inputs that jobs' VMs download, on the bill of the cloud that holds them.

Ceilings and budgets count it; Spend, which is Google's bill, does not. A VM has paid once its agent was heard, and no
second time when the same VM is started again. Of a staged input it has paid for the bytes that it fetched from the
source, as its agent says before it fetches them; where its command runs and nothing was said, for all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_, select, text

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import STORED_STAGE, attempts, data_stages, jobs, stage_uses
from costguard.model.budget import LabelFilter
from costguard.model.data import StagedShare
from costguard.model.job import Job, JobInput
from costguard.model.moments import day_start
from costguard.model.money import ZERO, Money
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


@dataclass(frozen=True, slots=True)
class NextDownload:
    """The amount that a job's next VM pays for its inputs: `own` by itself, and for each staged source what is not
    staged yet, which the first VM of all that name it pays.
    """

    own: Money
    staged: Mapping[str, Money]

    @property
    def total(self) -> Money:
        return sum(self.staged.values(), self.own)

    def without(self, sources: Collection[str]) -> Money:
        """Returns the amount where other VMs pay for these sources."""
        return sum((cost for source, cost in self.staged.items() if source not in sources), self.own)


def of_next_vms(connection: Connection, job_ids: Collection[str]) -> dict[str, NextDownload]:
    """Returns the amount that the next VM of each of these jobs would pay. Jobs without inputs are left out."""
    query: Select[Any] = select(jobs.c.id, jobs.c.spec["inputs"].label("inputs")).where(_HAS_INPUTS)
    rows = [row for some in chunks(job_ids) for row in connection.execute(query.where(jobs.c.id.in_(some)))]
    inputs = {row.id: _INPUTS.validate_python(row.inputs) for row in rows}
    staged = staged_shares(connection, {one.source for some in inputs.values() for one in some if one.staged})
    return {
        job_id: NextDownload(
            sum((_yet_to_pay(one, staged) for one in some if not one.staged), ZERO),
            {one.source: _yet_to_pay(one, staged) for one in some if one.staged},
        )
        for job_id, some in inputs.items()
    }


def of_all_next(connection: Connection, given: Sequence[Job]) -> dict[str, Money]:
    """Returns the amount that the next VMs of each of these jobs would pay together.

    VMs of a gang share the bytes of a staged input.
    """
    staged = staged_shares(connection, {one.source for job in given for one in job.spec.inputs if one.staged})
    return {
        job.id: sum(
            (_yet_to_pay(one, staged).times(1 if one.staged else job.spec.nodes) for one in job.spec.inputs), ZERO
        )
        for job in given
    }


def staged_shares(connection: Connection, sources: Collection[str]) -> dict[str, StagedShare]:
    """Returns what is staged of these sources; those of which nothing is are left out."""
    columns = data_stages.c
    query = select(columns.source, columns.staged, columns.size).where(text(STORED_STAGE)).order_by(columns.used_at)
    rows = (row for some in chunks(sources) for row in connection.execute(query.where(columns.source.in_(some))))
    return {row.source: StagedShare(row.staged, row.size) for row in rows}


def _yet_to_pay(one: JobInput, staged: Mapping[str, StagedShare]) -> Money:
    if one.cost is None:
        return ZERO
    return staged[one.source].left_of(one.cost) if one.staged and one.source in staged else one.cost


def of_jobs(connection: Connection, job_ids: Collection[str]) -> dict[str, Money]:
    """Returns the amount that all VMs of each of these jobs have paid so far, at list prices.

    Jobs that paid nothing are left out.
    """
    paid = Counter[str]()
    for some in chunks(job_ids):
        for row, cost in _costs(connection, _paid(jobs.c.id.in_(some))):
            paid[row.id] += cost.nanos
    return {job_id: Money(nanos) for job_id, nanos in paid.items() if nanos}


def since(connection: Connection, first: date, label: LabelFilter | None) -> list[Download]:
    """Lists the payments from that day on; of a label, those of VMs that were launched with it."""
    # Few jobs have inputs, so they are asked for first: attempts have no index of when they began.
    return [
        Download(Whose(row.project, row.preset, row.owner, row.id), row.paid_at.date(), cost)
        for row, cost in _costs(connection, *_paid_since(day_start(first)))
        if cost and (label is None or label.holds({**(row.own_labels or {}), **(row.labels or {})}))
    ]


@prepared
def _paid_since(begin: datetime) -> Select[Any]:
    return _paid(or_(jobs.c.settled_at.is_(None), jobs.c.settled_at >= begin), begin <= _PAID_AT)


def _paid(*conditions: ColumnElement[bool]) -> Select[Any]:
    """A row for each VM that has paid."""
    columns = jobs.c
    return (
        select(
            *(columns.id, columns.project, columns.preset, columns.owner, _PAID_AT.label("paid_at")),
            *(attempts.c.name.label("attempt"), attempts.c.started_at),
            columns.spec["inputs"].label("inputs"),
            columns.recipe["labels"].label("labels"),
            columns.spec["labels"].label("own_labels"),
        )
        .join_from(attempts, jobs, jobs.c.id == attempts.c.job_id)
        .where(_HAS_INPUTS, attempts.c.heard_at.is_not(None), *conditions)
    )


def _costs(
    connection: Connection, query: Select[Any], values: Mapping[str, Any] | None = None
) -> list[tuple[Row[Any], Money]]:
    """Returns each VM's row with the amount that it paid for all of its inputs."""
    rows = [(row, _INPUTS.validate_python(row.inputs)) for row in connection.execute(query, values)]
    fetched = _fetched(connection, [row.attempt for row, inputs in rows if any(one.staged for one in inputs)])
    return [(row, sum((_cost(row, one, fetched) for one in inputs), ZERO)) for row, inputs in rows]


def _fetched(connection: Connection, names: Collection[str]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Returns the bytes that these attempts' VMs fetched of each source, with its size, by attempt and source.

    A source that changed meanwhile has several.
    """
    columns = stage_uses.c
    query = select(columns.attempt, columns.source, columns.from_source, columns.size)
    result: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for some in chunks(names):
        for row in connection.execute(query.where(columns.attempt.in_(some))):
            result.setdefault((row.attempt, row.source), []).append((row.from_source, row.size))
    return result


def _cost(row: Row[Any], one: JobInput, fetched: Mapping[tuple[str, str], list[tuple[int, int]]]) -> Money:
    if one.cost is None:
        return ZERO
    if not one.staged:
        return one.cost
    reports = fetched.get((row.attempt, one.source))
    if reports is None:
        return one.cost if row.started_at is not None else ZERO
    return Money(sum(one.cost.nanos * size // whole for size, whole in reports if whole))
