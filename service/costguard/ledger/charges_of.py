"""The single charges of a period, from rows and archives alike, as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, Select, Table, literal, select

from costguard.db import archive_file
from costguard.db.bulk import chunks
from costguard.db.tables import archives, charges, instances, lifetimes, storage_spans
from costguard.ledger.accrual import stand_by_day
from costguard.ledger.roll_up import LIFETIME, STORAGE, TABLES
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.model.money import Money

_AT_ONCE = 5000

ChargeLine: TypeAlias = list[str | int]
"""A charge in an archive: resource, start, end, UTC day, seconds, thousandths of units, price's id, nano-dollars."""


@dataclass(frozen=True, slots=True)
class SpanCharge:
    """A stored charge, with its VM and its attribution.

    `disk` is the disk's name; "" for a run. `quantity_millis` are thousandths of the unit of the price.
    """

    kind: str  # LIFETIME or STORAGE
    span_id: int
    key: InstanceKey
    name: str  # of the VM
    zone: str
    disk: str
    attribution: Attribution
    provisioning_model: ProvisioningModel
    resource: str
    started_at: datetime
    ended_at: datetime
    day: date  # UTC
    seconds: int
    quantity_millis: int
    price_id: int
    amount: Money


def charges_of(connection: Connection, first: date, last: date, archive: Path | None = None) -> Iterator[SpanCharge]:
    """Every stored charge of the UTC days [first, last] once, of rows in the order of the days, then of archives.

    What has accrued since charges were stored is not among them. `archive` is the folder of the archives
    (`settings.retention.folder`). Raises Missing or Invalid where a file of the period cannot be read, so that a sum is
    never short without a word.
    """
    for kind, spans in TABLES.items():
        rows = connection.execute(_rows_of(spans, first, last).execution_options(yield_per=_AT_ONCE))
        for row in rows:
            yield _charge(kind, row)
    files = select(archives).where(
        archives.c.kind == "charges", archives.c.first_day <= last, archives.c.last_day >= first
    )
    for file in connection.execute(files.order_by(archives.c.id)).all():
        yield from _archived(connection, file, archive, first, last)


def span_line(span: Row[Any], kind: str, charged: list[ChargeLine]) -> dict[str, Any]:
    """A span and all its charges as one row of an archive, which can be read without the database."""
    return {
        "span": kind,
        "id": span.id,
        "project": span.project,
        "gce_id": span.gce_id,
        "name": span.instance_name,
        "zone": span.zone,
        "disk": span.name if kind == STORAGE else "",
        "preset": span.preset,
        "owner": span.owner,
        "job": span.job,
        "provisioning_model": span.provisioning_model if kind == LIFETIME else ProvisioningModel.STANDARD.value,
        "charges": charged,
    }


def _rows_of(spans: Table, first: date, last: date) -> Select[Any]:
    is_run = spans is lifetimes
    named = (
        (literal("").label("disk"), spans.c.provisioning_model)
        if is_run
        else (spans.c.name.label("disk"), literal(ProvisioningModel.STANDARD.value).label("provisioning_model"))
    )
    columns = (spans.c.zone, spans.c.preset, spans.c.owner, spans.c.job, *named)
    return (
        select(charges, instances.c.project, instances.c.gce_id, instances.c.name.label("instance_name"), *columns)
        .join_from(charges, spans, spans.c.id == charges.c.span_id)
        .join(instances, instances.c.id == spans.c.instance_id)
        .where(charges.c.day.between(first, last), *stand_by_day(spans))
        .order_by(charges.c.day)
    )


def _charge(kind: str, row: Row[Any]) -> SpanCharge:
    return SpanCharge(
        kind=kind,
        span_id=row.span_id,
        key=InstanceKey(row.project, row.gce_id),
        name=row.instance_name,
        zone=row.zone,
        disk=row.disk,
        attribution=Attribution(row.preset, row.owner, row.job),
        provisioning_model=ProvisioningModel(row.provisioning_model),
        resource=row.resource,
        started_at=row.started_at,
        ended_at=row.ended_at,
        day=row.day,
        seconds=row.seconds,
        quantity_millis=row.quantity_millis,
        price_id=row.price_id,
        amount=Money(row.amount_nanos),
    )


def _archived(
    connection: Connection, file: Row[Any], folder: Path | None, first: date, last: date
) -> Iterator[SpanCharge]:
    path = archive_file.named(folder or Path(), file.file)
    some: list[dict[str, Any]] = []
    for line in archive_file.read(path, file.sha256):
        some.append(line)
        if len(some) == _AT_ONCE:
            yield from _still_archived(connection, file.id, some, first, last)
            some = []
    yield from _still_archived(connection, file.id, some, first, last)


def _still_archived(
    connection: Connection, archive_id: int, lines: list[dict[str, Any]], first: date, last: date
) -> Iterator[SpanCharge]:
    """Yields the spans whose charges are in this archive alone: the database says so, whatever a file holds."""
    holding: set[tuple[str, int]] = set()
    for kind, spans in ((LIFETIME, lifetimes), (STORAGE, storage_spans)):
        for ids in chunks([line["id"] for line in lines if line["span"] == kind]):
            query = select(spans.c.id).where(spans.c.id.in_(ids), spans.c.archive_id == archive_id)
            holding.update((kind, span_id) for span_id in connection.scalars(query))
    for line in lines:
        if (line["span"], line["id"]) in holding:
            yield from _charges_of_line(line, first, last)


def _charges_of_line(line: dict[str, Any], first: date, last: date) -> Iterator[SpanCharge]:
    for resource, started_at, ended_at, day, seconds, millis, price_id, nanos in line["charges"]:
        on = date.fromisoformat(day)
        if first <= on <= last:
            yield SpanCharge(
                kind=line["span"],
                span_id=line["id"],
                key=InstanceKey(line["project"], line["gce_id"]),
                name=line["name"],
                zone=line["zone"],
                disk=line["disk"],
                attribution=Attribution(line["preset"], line["owner"], line["job"]),
                provisioning_model=ProvisioningModel(line["provisioning_model"]),
                resource=resource,
                started_at=datetime.fromisoformat(started_at),
                ended_at=datetime.fromisoformat(ended_at),
                day=on,
                seconds=seconds,
                quantity_millis=millis,
                price_id=price_id,
                amount=Money(nanos),
            )
