"""The cost of jobs so far: stored charges, and what has accrued since."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, exists, literal_column, or_, select, text

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import LIVE_ATTEMPT, attempts, charges, instances, lifetimes, storage_spans
from costguard.ledger.accrual import Accrual, lifetime_of, select_lifetimes, select_storage, storage_of
from costguard.ledger.charged.spans import charged_sums
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.money import Money, Priced


def costs(connection: Connection, accrual: Accrual, job_ids: Collection[str]) -> dict[str, Priced]:
    """Machines and disks of all attempts of each job; not whole where it has a VM that no look has shown yet."""
    # A page asks of the same jobs again. The turns ask of all that run, which are others each time.
    read = _known_ledger_of if len(job_ids) <= _PAGE else _ledger_of
    stored, unfinished = read(connection, tuple(sorted(set(job_ids))))
    costs = {job: stored.get(job, Priced()) for job in job_ids}
    for one in unfinished:
        amount, unpriced, ended_at = Money(), one.unpriced, one.span.ended_at
        if ended_at is None or one.charged_to is None or one.charged_to < ended_at:  # else all of it is stored
            accrued = accrual.cost(one.span, one.charged_to)
            amount, unpriced = accrued.amount, unpriced or accrued.unpriced
        costs[one.job] += Priced(amount, not unpriced)
    for job in with_unseen_vms(connection, costs):
        costs[job] += Priced(whole=False)
    return costs


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A span that may have accrued something that is not stored, or that has no price."""

    job: str
    span: Lifetime | StorageSpan
    charged_to: datetime | None
    unpriced: str


_PAGE = 201
_KINDS: tuple[tuple[Table, Callable[[], Select[Any]], Callable[[Row[Any]], Lifetime | StorageSpan]], ...] = (
    (lifetimes, select_lifetimes, lifetime_of),
    (storage_spans, select_storage, storage_of),
)


def _ledger_of(connection: Connection, job_ids: tuple[str, ...]) -> tuple[dict[str, Priced], list[_Unfinished]]:
    stored: dict[str, Priced] = {}
    spans: list[_Unfinished] = []
    for some in chunks(job_ids):
        for table in (lifetimes, storage_spans):
            job_of = {row.id: row.job for row in connection.execute(*_spans_of(table, some))}
            for span_id, charged in charged_sums(connection, table, list(job_of)).items():
                stored[job_of[span_id]] = stored.get(job_of[span_id], Priced()) + Priced(charged)
        for table, query, span_of in _KINDS:
            spans += [
                _Unfinished(row.job, span_of(row), row.charged_to, row.unpriced)
                for row in connection.execute(*_unfinished(table, query, some))
            ]
    return stored, spans


def with_unseen_vms(connection: Connection, job_ids: Collection[str]) -> set[str]:
    """Jobs with a VM that the ledger does not have: what it costs is not known, which is not zero."""
    return {job for some in chunks(job_ids) for job in connection.scalars(*_unseen(some))}


@prepared
def _unseen(job_ids: list[str]) -> Select[Any]:
    """Selects attempts whose VM was not seen.

    An attempt that Google had no room for has an id too, and is no VM: it ended before it was known to be there.
    """
    columns = attempts.c
    is_seen = exists().where(instances.c.project == columns.project, instances.c.gce_id == columns.gce_id)
    may_be = or_(columns.made_at.is_not(None), text(LIVE_ATTEMPT))
    return select(columns.job_id).where(columns.job_id.in_(job_ids), columns.gce_id != "", may_be, ~is_seen)


@prepared
def _spans_of(table: Table, job_ids: list[str]) -> Select[Any]:
    return spans_of(table, job_ids)


@prepared
def _unfinished(table: Table, query: Callable[[], Select[Any]], job_ids: list[str]) -> Select[Any]:
    return unfinished(table, query(), job_ids)


_known_ledger_of = remembers(charges, lifetimes, storage_spans)(_ledger_of)


def spans_of(spans: Table, job_ids: Sequence[str]) -> Select[Any]:
    """Selects the spans of jobs. Joined with charges at once, SQLite would read all charges there are."""
    return select(spans.c.id, spans.c.job).where(_has_job(spans), spans.c.job.in_(job_ids))


def unfinished(spans: Table, query: Select[Any], job_ids: Sequence[str]) -> Select[Any]:
    """Spans that may have accrued something that is not stored, or that have no price."""
    behind = or_(spans.c.ended_at.is_(None), spans.c.charged_to.is_(None), spans.c.charged_to < spans.c.ended_at)
    return query.join(instances, instances.c.id == spans.c.instance_id).where(
        _has_job(spans), spans.c.job.in_(job_ids), or_(behind, spans.c.unpriced != "")
    )


def _has_job(spans: Table) -> ColumnElement[bool]:
    """Returns the index's own condition: with a parameter in it neither database could use the index."""
    return spans.c.job != literal_column("''")
