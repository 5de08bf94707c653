"""What jobs came to so far: the charges that are stored, and what ran up since."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, literal_column, or_, select

from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.money import Money, Priced
from costguard.store.accruing import chunks, lifetime_of, select_lifetimes, select_storage, storage_of
from costguard.store.spans import charged_sums
from costguard.store.tables import instances, lifetimes, storage_spans


class RunUp(Protocol):
    """What was billed of a span, and why not all of it could be priced ("" when it could)."""

    @property
    def amount(self) -> Money: ...

    @property
    def unpriced(self) -> str: ...


class Accrues(Protocol):
    """Bills what is not stored, from `since` (None: from the start) to the moment that it was made for."""

    def cost_of_lifetime(self, lifetime: Lifetime, since: datetime | None) -> RunUp: ...

    def cost_of_storage(self, span: StorageSpan, since: datetime | None) -> RunUp: ...


def costs(connection: Connection, accrual: Accrues, job_ids: Collection[str]) -> dict[str, Priced]:
    """Machines and disks of all attempts of each job; nothing for one of which the ledger has seen no VM."""
    found = dict.fromkeys(job_ids, Priced())
    for some in chunks(set(job_ids)):
        for table in (lifetimes, storage_spans):
            job_of = {row.id: row.job for row in connection.execute(spans_of(table, some))}
            for span_id, charged in charged_sums(connection, table, list(job_of)).items():
                found[job_of[span_id]] += Priced(charged)
        for row in connection.execute(unfinished(lifetimes, select_lifetimes(), some)):
            since_stored = None if _is_charged(row) else accrual.cost_of_lifetime(lifetime_of(row), row.charged_to)
            found[row.job] += _priced(row, since_stored)
        for row in connection.execute(unfinished(storage_spans, select_storage(), some)):
            since_stored = None if _is_charged(row) else accrual.cost_of_storage(storage_of(row), row.charged_to)
            found[row.job] += _priced(row, since_stored)
    return found


def spans_of(spans: Table, job_ids: Sequence[str]) -> Select[Any]:
    """Which spans are of which job. Joined with charges at once, SQLite would read all charges there are."""
    return select(spans.c.id, spans.c.job).where(_has_job(spans), spans.c.job.in_(job_ids))


def unfinished(spans: Table, query: Select[Any], job_ids: Sequence[str]) -> Select[Any]:
    """Spans that may have run up something that is not stored, or that have no price."""
    behind = or_(spans.c.ended_at.is_(None), spans.c.charged_to.is_(None), spans.c.charged_to < spans.c.ended_at)
    return query.join(instances, instances.c.id == spans.c.instance_id).where(
        _has_job(spans), spans.c.job.in_(job_ids), or_(behind, spans.c.unpriced != "")
    )


def _has_job(spans: Table) -> ColumnElement[bool]:
    """In the index's own words: with a parameter in it neither database could use the index."""
    return spans.c.job != literal_column("''")


def _is_charged(row: Row[Any]) -> bool:
    return row.ended_at is not None and row.charged_to is not None and row.charged_to >= row.ended_at


def _priced(row: Row[Any], since_stored: RunUp | None) -> Priced:
    amount = Money() if since_stored is None else since_stored.amount
    unpriced = row.unpriced or ("" if since_stored is None else since_stored.unpriced)
    return Priced(amount, not unpriced)
