"""Stores what commitments cost and cover by the hour, with the export day whose rows say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from sqlalchemy import Connection, delete, select

from costguard.bill.commit_sums import CommitKey, CommitSum
from costguard.bill.commit_words import PartKind
from costguard.db.bulk import CHUNK, add_rows, stored
from costguard.db.tables import bill_commitment_hours

_COLUMNS = tuple(column.name for column in bill_commitment_hours.columns)


def replace_hours(connection: Connection, partition_id: int, sums: Mapping[CommitKey, CommitSum]) -> None:
    """Stores these sums of an export day, instead of those that are stored of it."""
    connection.execute(delete(bill_commitment_hours).where(bill_commitment_hours.c.partition_id == partition_id))
    processed = stored(connection, bill_commitment_hours, _COLUMNS)
    rows = (
        processed((partition_id, *key, one.use, one.covered, one.saved, one.fee, one.offset))
        for key, one in sums.items()
    )
    while chunk := list(islice(rows, CHUNK)):
        add_rows(connection, bill_commitment_hours, _COLUMNS, chunk)


def stored_hours(connection: Connection, partition_id: int) -> dict[CommitKey, CommitSum]:
    """Returns the sums of an export day."""
    table = bill_commitment_hours
    sums = {}
    for row in connection.execute(select(table).where(table.c.partition_id == partition_id)):
        key = CommitKey(**{name: getattr(row, name) for name in CommitKey._fields})._replace(kind=PartKind(row.kind))
        sums[key] = CommitSum(row.use_nanos, row.covered_nanos, row.saved_nanos, row.fee_nanos, row.offset_nanos)
    return sums


def together(*parts: Iterable[tuple[CommitKey, CommitSum]]) -> dict[CommitKey, CommitSum]:
    """Adds sums up by their keys; none that is given is changed."""
    added: dict[CommitKey, CommitSum] = {}
    for part in parts:
        for key, one in part:
            added.setdefault(key, CommitSum()).merge(one)
    return added
