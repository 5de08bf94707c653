"""The bill as it is stored: sums of the export's rows, a row for each resource, terms and day of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from costguard.bill.commitments import YEARS_OF_FEE
from costguard.bill.export_fields import is_rate
from costguard.db.tables import bill_partitions, bill_resources, bill_terms, bill_usage
from costguard.model.billing.bill import BilledKind, BillRow, CostType, Credit

DETAILED = "detailed"
FOCUS = "focus"
_DAY = timedelta(days=1)
_FETCH = 2000  # rows of the database held at a time


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """An export day of a source, as last read."""

    source: str
    day: date
    row_count: int
    last_export_at: datetime | None
    read_at: datetime
    origin: str


def rows_of(connection: Connection, first: date, last: date) -> Iterator[BillRow]:
    """Yields the rows of the US Pacific days from first to last, both included; by resource, then terms, then day.

    Rows of one resource, terms and day stand several times where several export days brought them: add them up. Of an
    account whose detailed export was read, the FOCUS table's rows are left out: they bill the same again.
    """
    statement = (
        _rows(connection)
        .where(bill_usage.c.pacific_day.between(first, last))
        .order_by(bill_usage.c.resource, bill_usage.c.terms, bill_usage.c.pacific_day, bill_usage.c.utc_day)
        .order_by(bill_usage.c.partition_id)
    )
    for row in connection.execution_options(yield_per=_FETCH).execute(statement):
        if is_rate(Decimal(row.rate)):  # earlier releases stored rows whatever their rate: amounts are divided by it
            yield _bill_row(row)


def fees_of(connection: Connection, day: date) -> Iterator[BillRow]:
    """Yields the rows of a UTC day that may be fees of commitments, by their SKU or its words."""
    says_so = bill_terms.c.sku_text.icontains("commitment") | bill_terms.c.sku_id.in_(sorted(YEARS_OF_FEE))
    of_day = bill_usage.c.pacific_day.between(day - _DAY, day), bill_usage.c.utc_day == day
    statement = _rows(connection).where(*of_day, says_so)
    return (_bill_row(row) for row in connection.execute(statement) if is_rate(Decimal(row.rate)))


def _rows(connection: Connection) -> Select[Any]:
    return (
        select(bill_usage, bill_resources, bill_terms, bill_partitions.c.source)
        .join(bill_partitions, bill_partitions.c.id == bill_usage.c.partition_id)
        .join(bill_resources, bill_resources.c.id == bill_usage.c.resource)
        .join(bill_terms, bill_terms.c.id == bill_usage.c.terms)
        .where(bill_partitions.c.source.in_(counted_sources(connection)))
    )


def counted_sources(connection: Connection) -> list[str]:
    """The sources that the bill is made of: one for each billing account, the detailed export before FOCUS."""
    stored = set(connection.scalars(select(bill_partitions.c.source).distinct()))
    accounts = {source.partition(":")[2] for source in stored if source.startswith(f"{DETAILED}:")}
    return sorted(
        source for source in stored if source.startswith(f"{DETAILED}:") or source.partition(":")[2] not in accounts
    )


def sources_of_projects(connection: Connection) -> dict[str, set[str]]:
    """Returns the sources that bill each project: several where it moved between billing accounts."""
    sources = counted_sources(connection)
    if len(sources) == 1:
        return {project: set(sources) for project in connection.scalars(select(bill_resources.c.project_id).distinct())}
    statement = (
        select(bill_resources.c.project_id, bill_partitions.c.source)
        .select_from(bill_usage)
        .join(bill_partitions, bill_partitions.c.id == bill_usage.c.partition_id)
        .join(bill_resources, bill_resources.c.id == bill_usage.c.resource)
        .where(bill_partitions.c.source.in_(sources))
        .distinct()
    )
    of_projects: dict[str, set[str]] = {}
    for row in connection.execute(statement):
        of_projects.setdefault(row.project_id, set()).add(row.source)
    return of_projects


def partitions(connection: Connection) -> list[StoredPartition]:
    """Every partition that was read, by source and day."""
    newest = (
        select(bill_usage.c.partition_id, func.max(bill_usage.c.export_time).label("last_export_at"))
        .group_by(bill_usage.c.partition_id)
        .subquery()
    )
    statement = (
        select(bill_partitions, newest.c.last_export_at)
        .outerjoin(newest, newest.c.partition_id == bill_partitions.c.id)
        .order_by(bill_partitions.c.source, bill_partitions.c.day)
    )
    return [
        StoredPartition(row.source, row.day, row.row_count, row.last_export_at, row.read_at, row.origin)
        for row in connection.execute(statement)
    ]


def _bill_row(row: Row[Any]) -> BillRow:
    return BillRow(
        project_number=row.project_number,
        project_id=row.project_id,
        kind=BilledKind(row.kind),
        resource_id=row.resource_id,
        resource_name=row.resource_name,
        zone=row.zone,
        service_id=row.service_id,
        sku_id=row.sku_id,
        sku_text=row.sku_text,
        usage_start=row.usage_start,
        usage_end=row.usage_end,
        pacific_day=row.pacific_day,
        utc_day=row.utc_day,
        amount=Decimal(row.amount),
        unit=row.unit,
        list_nanos=row.list_nanos,
        default_nanos=row.default_nanos,
        cost_nanos=row.cost_nanos,
        credits=tuple(Credit(*credit) for credit in row.credits or ()),
        currency=row.currency,
        rate=Decimal(row.rate),
        cost_type=CostType(row.cost_type),
        invoice_month=row.invoice_month,
        consumption_model=row.consumption_model,
        reservation_name=row.reservation_name,
        is_unused_reservation=row.is_unused_reservation,
        product=row.product,
        adjustment=row.adjustment,
        export_time=row.export_time,
        source=row.source,
        row_count=row.row_count,
        repeated_count=row.repeated_count,
    )
