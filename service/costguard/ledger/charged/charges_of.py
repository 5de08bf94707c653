"""The single charges of a period, from rows and archives alike, as a stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, collate, func, literal, select

from costguard.db import archive_file
from costguard.db.bulk import chunks
from costguard.db.tables import archives, charge_days, charges, instances, lifetimes
from costguard.errors import Invalid, Missing
from costguard.ledger.accrual import stand_by_day
from costguard.ledger.archived import day_file
from costguard.ledger.archived.history_days import DAYS, name_of
from costguard.ledger.roll_up import LIFETIME, STORAGE, TABLES
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.model.money import Money
from costguard.model.ports import Archives

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


@dataclass(frozen=True, slots=True)
class ArchivePlaces:
    """Charges that are no rows any more lie in these: the folder of archives, and the history's bucket or folder."""

    folder: Path | None = None
    history: Archives | None = None


NOWHERE = ArchivePlaces()


def charges_of(
    connection: Connection, first: date, last: date, archived: ArchivePlaces = NOWHERE
) -> Iterator[SpanCharge]:
    """Every stored charge of the UTC days [first, last] once, of rows in the order of the days, then of archives.

    What has accrued since charges were stored is not among them. Raises Missing or Invalid where a file of the period
    cannot be read, and CheckpointError where the history's place cannot, so that a sum is never short without a word.
    """
    for kind, spans in TABLES.items():
        rows = connection.execute(_rows_of(spans, first, last).execution_options(yield_per=_AT_ONCE))
        for row in rows:
            yield _charge(kind, row)
    yield from _of_archives(connection, archived.folder, first, last)
    day = first
    while day <= last:
        yield from _of_history(connection, archived.history, day)
        day += timedelta(days=1)


def charges_by_project(connection: Connection, day: date, archived: ArchivePlaces) -> Iterator[SpanCharge]:
    """Every stored charge of one UTC day, project after project. Raises as `charges_of`."""
    streams: list[Iterator[SpanCharge]] = []
    for kind, spans in TABLES.items():
        rows = connection.execute(_by_project(connection, spans, day).execution_options(yield_per=_AT_ONCE))
        streams.append(map(partial(_charge, kind), rows))
    old = sorted(_of_archives(connection, archived.folder, day, day), key=_project)
    return merge(*streams, iter(old), _of_history(connection, archived.history, day), key=_project)


def _project(one: SpanCharge) -> str:
    return one.key.project


def _by_project(connection: Connection, spans: Table, day: date) -> Select[Any]:
    project = instances.c.project
    in_order = collate(project, "C") if connection.dialect.name == "postgresql" else project
    return _rows_of(spans, day, day).order_by(None).order_by(in_order, charges.c.span_id, charges.c.started_at)


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


def _of_archives(connection: Connection, folder: Path | None, first: date, last: date) -> Iterator[SpanCharge]:
    files = select(archives).where(
        archives.c.kind == "charges", archives.c.first_day <= last, archives.c.last_day >= first
    )
    for file in connection.execute(files.order_by(archives.c.id)).all():
        yield from _archived(connection, file, folder, first, last)


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
    named = [(line["span"], line["id"]) for line in lines]
    alone = _in_archive(connection, set(named), archives.c.id == archive_id)
    for span, line in zip(named, lines, strict=True):
        if span in alone:
            yield from _charges_of_line(line, first, last)


def _in_archive(
    connection: Connection, named: Collection[tuple[str, int]], is_wanted: ColumnElement[bool]
) -> set[tuple[str, int]]:
    """Returns those of these spans, by kind and id, whose charges are in an archive that meets the condition."""
    within: set[tuple[str, int]] = set()
    for kind, spans in TABLES.items():
        query = select(spans.c.id).join(archives, archives.c.id == spans.c.archive_id).where(is_wanted)
        for ids in chunks(sorted(span_id for of_kind, span_id in named if of_kind == kind)):
            within.update((kind, span_id) for span_id in connection.scalars(query.where(spans.c.id.in_(ids))))
    return within


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


def _of_history(connection: Connection, store: Archives | None, day: date) -> Iterator[SpanCharge]:
    """The charges of a day that are in the history alone. Their sum is checked against what the ledger kept of them."""
    parts, kept = _kept_of_history(connection, day)
    if not parts:
        return
    if store is None:
        text = f"The single charges of {day} are in the history, and the settings name none."
        raise Missing(text, "Say in [history] where it is: location is the bucket or folder.")
    nanos = 0
    with day_file.fetched(store, day) as path:
        rows = day_file.read(path, name_of(day))
        while some := list(islice(rows, _AT_ONCE)):
            for one in _in_history_alone(connection, some, day):
                nanos += one.amount.nanos
                yield one
    if nanos != kept:
        sums = f"its charges come to ${Money(nanos).dollars}, not to ${Money(kept).dollars}"
        text = f"{name_of(day)} in the history is not what was written: {sums}."
        raise Invalid(text, "Put the file back from a copy of the history; totals do not need it.")


def _kept_of_history(connection: Connection, day: date) -> tuple[int, int]:
    """Returns what the ledger kept of the day's charges that are in the history alone: parts, and nano-dollars."""
    parts = nanos = 0
    for kind, spans in TABLES.items():
        query = (
            select(func.count(), func.sum(charge_days.c.amount_nanos))
            .join_from(charge_days, spans, spans.c.id == charge_days.c.span_id)
            .join(archives, archives.c.id == spans.c.archive_id)
            .where(charge_days.c.day == day, charge_days.c.is_storage == (kind == STORAGE), archives.c.kind == DAYS)
        )
        of_kind = connection.execute(query).one()
        parts, nanos = parts + of_kind[0], nanos + int(of_kind[1] or 0)
    return parts, nanos


def _in_history_alone(connection: Connection, rows: list[dict[str, Any]], day: date) -> Iterator[SpanCharge]:
    named = [(row["x_SpanKind"], row["x_SpanId"]) for row in rows]
    alone = _in_archive(connection, set(named), archives.c.kind == DAYS)
    for span, row in zip(named, rows, strict=True):
        if span in alone:
            yield _of_day_file(row, day)


def _of_day_file(row: dict[str, Any], day: date) -> SpanCharge:
    return SpanCharge(
        kind=row["x_SpanKind"],
        span_id=row["x_SpanId"],
        key=InstanceKey(row["SubAccountId"], row["x_InstanceId"]),
        name=row["x_InstanceName"],
        zone=row["AvailabilityZone"],
        disk=row["x_DiskName"],
        attribution=Attribution(row["x_Preset"], row["x_Owner"], row["x_Job"]),
        provisioning_model=ProvisioningModel(row["x_ProvisioningModel"]),
        resource=row["SkuMeter"],
        started_at=row["x_StartedAt"].replace(tzinfo=UTC),
        ended_at=row["x_EndedAt"].replace(tzinfo=UTC),
        day=day,
        seconds=row["x_Seconds"],
        quantity_millis=row["x_QuantityMillis"],
        price_id=row["x_PriceId"],
        amount=Money(int(row[day_file.COST].scaleb(9))),
    )
