"""Stores what was read of an export, an export day at a time. Reading the same again changes nothing.

An export is appended only, and all rows of one append share their export time (KO-egress: nine rows of different hours,
one time). So what is stored of a day is compared with what is read by its appends:

- appends that are stored: nothing to do
- all that is stored and more: the day is replaced
- other appends of the day: they are added
- all that is stored, of a day that an earlier version read without its hours: only these are added
- anything else: a part of a day, or a day that was changed. A table's own partition is whole and replaces what is
  stored; a file may be a piece, and is refused unless it is said to be whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, update

from costguard.bill.commit_store import replace_hours, stored_hours, together
from costguard.bill.export_fields import from_billionths, stored_billionths
from costguard.bill.export_row import BillTerms, Resource
from costguard.bill.export_sums import LeftOut, PartitionSums, SumKey, UsageSum
from costguard.db.bulk import CHUNK, add_rows, stored
from costguard.db.lease import Lease
from costguard.db.tables import bill_partitions, bill_resources, bill_terms, bill_usage
from costguard.db.transaction import Database
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.errors import Conflict
from costguard.model.billing.bill import BilledKind, CostType
from costguard.model.words import count_text

_COLUMNS = tuple(column.name for column in bill_usage.columns)


@dataclass(frozen=True, slots=True)
class BillRead:
    """The number of rows read, of their export days, and of those that were new or changed."""

    row_count: int = 0
    days: int = 0
    days_changed: int = 0
    bytes_billed: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)

    def __add__(self, other: BillRead) -> BillRead:
        return BillRead(
            self.row_count + other.row_count,
            self.days + other.days,
            self.days_changed + other.days_changed,
            self.bytes_billed + other.bytes_billed,
            self.left_out + other.left_out,
        )


def store(
    database: Database,
    partitions: Iterable[PartitionSums],
    origin: str,
    now: datetime,
    fence: Lease | None = None,
    *,
    is_whole: bool = False,
) -> BillRead:
    """Stores export days, one transaction each. `is_whole`: each day holds all that the export has of it by now.

    Raises Conflict where a day can be neither replaced nor added; the days before it are stored.
    """
    read = BillRead()
    for partition in partitions:
        with database.write(fence) as connection:
            changed = _store(connection, partition, origin, now, is_whole=is_whole)
        read += BillRead(partition.row_count, 1, int(changed))
    return read


def _store(connection: Connection, partition: PartitionSums, origin: str, now: datetime, *, is_whole: bool) -> bool:
    place = (bill_partitions.c.source == partition.source) & (bill_partitions.c.day == partition.day)
    before = connection.execute(select(bill_partitions).where(place)).one_or_none()
    batches: dict[str, Any] = {
        moment: [batch.row_count, f"{batch.digest:016x}"] for moment, batch in partition.batches.items()
    }
    stored_batches = {} if before is None else dict(before.batches)
    if before is not None and batches == stored_batches and not before.has_hours:
        connection.execute(update(bill_partitions).where(place).values(has_hours=True))
        replace_hours(connection, before.id, partition.commitments)
        return True
    if batches == stored_batches or (not is_whole and _contains(stored_batches, batches)):
        return False
    usage, hours, has_hours = partition.usage, partition.commitments, True
    if before is not None and not is_whole and not _contains(batches, before.batches):
        if batches.keys() & before.batches.keys():
            raise Conflict(
                f"{origin} has other rows of the export day {partition.day} than those that are stored: "
                f"{count_text(partition.row_count, 'row')}, where {before.row_count:,} are stored.",
                "Give all files of that day in one command. If they hold the whole day as the export has it now, "
                "give --whole, and the day is replaced.",
            )
        batches = {**before.batches, **batches}
        usage = _together(usage, _stored_usage(connection, before.id))
        hours, has_hours = together(hours.items(), stored_hours(connection, before.id).items()), before.has_hours
    values = {
        "source": partition.source,
        "day": partition.day,
        "row_count": sum(count for count, _ in batches.values()),
        "batches": batches,
        "read_at": now,
        "origin": storable(origin),
        "has_hours": has_hours,
    }
    if before is None:
        partition_id = connection.execute(
            insert(bill_partitions).values(values).returning(bill_partitions.c.id)
        ).scalar_one()
    else:
        partition_id = before.id
        connection.execute(delete(bill_usage).where(bill_usage.c.partition_id == partition_id))
        connection.execute(update(bill_partitions).where(bill_partitions.c.id == partition_id).values(values))
    _add_usage(connection, partition_id, usage)
    if has_hours:
        replace_hours(connection, partition_id, hours)
    return True


def _contains(more: Mapping[str, Any], fewer: Mapping[str, Any]) -> bool:
    return not [moment for moment, batch in fewer.items() if more.get(moment) != batch]


def _together(read: Mapping[SumKey, UsageSum], before: Mapping[SumKey, UsageSum]) -> dict[SumKey, UsageSum]:
    added = dict(before)
    for key, usage in read.items():
        if key in added:
            added[key].merge(usage)
        else:
            added[key] = usage
    return added


def _add_usage(connection: Connection, partition_id: int, usage: Mapping[SumKey, UsageSum]) -> None:
    resources = _resource_ids(connection, {resource for _, _, resource, _ in usage})
    terms = _term_ids(connection, {one for _, _, _, one in usage})
    processed = stored(connection, bill_usage, _COLUMNS)
    rows = (
        processed(
            (
                partition_id,
                pacific_day,
                utc_day,
                resources[resource],
                terms[one],
                value.start,
                value.end,
                value.export,
                f"{from_billionths(value.amount):f}",
                value.list_nanos,
                value.cost_nanos,
                [[*key, nanos] for key, nanos in sorted(value.credits.items())] if value.credits else None,
                value.row_count,
                value.repeated_count,
                value.default_nanos,
            )
        )
        for (pacific_day, utc_day, resource, one), value in usage.items()
    )
    while chunk := list(islice(rows, CHUNK)):  # all at once would take as much memory as the sums
        add_rows(connection, bill_usage, _COLUMNS, chunk)


def _resource_ids(connection: Connection, resources: Collection[Resource]) -> dict[Resource, int]:
    names = Resource._fields
    upsert(connection, bill_resources, [dict(zip(names, one, strict=True)) for one in resources], names, [])
    ids: dict[Resource, int] = {}
    for chunk in _chunks(sorted({one.resource_id for one in resources})):
        for row in connection.execute(select(bill_resources).where(bill_resources.c.resource_id.in_(chunk))):
            ids[Resource(*(BilledKind(row.kind) if name == "kind" else getattr(row, name) for name in names))] = row.id
    return ids


def _term_ids(connection: Connection, terms: Collection[BillTerms]) -> dict[BillTerms, int]:
    digests = {blake2b(repr(tuple(map(str, one))).encode(), digest_size=16).hexdigest(): one for one in terms}
    rows = [{"digest": digest, **one._asdict()} for digest, one in digests.items()]
    upsert(connection, bill_terms, rows, ("digest",), [])
    ids: dict[BillTerms, int] = {}
    for chunk in _chunks(sorted(digests)):
        statement = select(bill_terms.c.digest, bill_terms.c.id).where(bill_terms.c.digest.in_(chunk))
        ids |= {digests[row.digest]: row.id for row in connection.execute(statement)}
    return ids


def _chunks(values: list[str]) -> Iterable[list[str]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def _stored_usage(connection: Connection, partition_id: int) -> dict[SumKey, UsageSum]:
    statement = (
        select(bill_usage, *_named(bill_resources, Resource._fields), *_named(bill_terms, BillTerms._fields))
        .join(bill_resources, bill_resources.c.id == bill_usage.c.resource)
        .join(bill_terms, bill_terms.c.id == bill_usage.c.terms)
        .where(bill_usage.c.partition_id == partition_id)
    )
    usage: dict[SumKey, UsageSum] = {}
    for row in connection.execute(statement).mappings():
        resource = Resource(**{**{name: row[name] for name in Resource._fields}, "kind": BilledKind(row["kind"])})
        terms = BillTerms(
            **{**{name: row[name] for name in BillTerms._fields}, "cost_type": CostType(row["cost_type"])}
        )
        usage[row["pacific_day"], row["utc_day"], resource, terms] = UsageSum(
            row["usage_start"],
            row["usage_end"],
            row["export_time"],
            stored_billionths(row["amount"]),
            row["list_nanos"],
            row["default_nanos"],
            row["cost_nanos"],
            {(kind, name, identity): nanos for kind, name, identity, nanos in row["credits"] or ()} or None,
            row["row_count"],
            row["repeated_count"],
        )
    return usage


def _named(table: Table, names: Iterable[str]) -> list[Any]:
    return [table.c[name] for name in names]
