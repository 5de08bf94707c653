"""Rows of operations, kept for ever: Google forgets them after about two weeks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, delete, exists, select, tuple_

from costguard.db.prepared import prepared
from costguard.db.tables import attempts, operations
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.observation import OperationStatus, SeenOperation

_KEY = ("project", "operation_id")
_Id = TypeVar("_Id")
_AT_ONCE = 1000  # values in one query, well below what either database allows


def news(connection: Connection, ops: Sequence[SeenOperation]) -> list[SeenOperation]:
    """Returns operations that are new, or that went on since they were stored, in the given order; each once."""
    seen: dict[tuple[str, str], SeenOperation] = {}
    for operation in ops:
        key = (operation.project, operation.operation_id)
        if key not in seen or _ahead(operation, seen[key]):
            seen[key] = operation
    stored = _stored(connection, seen)
    return [operation for key, operation in seen.items() if key not in stored or _ahead(operation, stored[key])]


def record(connection: Connection, ops: Sequence[SeenOperation]) -> list[SeenOperation]:
    """Stores them and returns those that are new, or that went on since they were stored, in the given order.

    What is done stays done: an older answer, such as a page that was read before, changes nothing.
    """
    new = news(connection, ops)
    by_name = _by_name(connection, new)
    new = [_further(op, by_name.get((op.project, op.name))) for op in new]
    upsert(connection, operations, [_row(operation) for operation in new], _KEY)
    drop(connection, by_name)
    return new


def _by_name(connection: Connection, ops: Sequence[SeenOperation]) -> dict[tuple[str, str], SeenOperation]:
    """Operations that the feed stored by their names, because it did not hear their numbers, which `ops` have."""
    names = [(op.project, op.name) for op in ops if op.name and op.name != op.operation_id]
    return _stored(connection, names) if names else {}


def _further(op: SeenOperation, entry: SeenOperation | None) -> SeenOperation:
    """Returns an operation that a list showed while it ran as an entry has told of it since: as done."""
    if entry is None or _STAGES.index(entry.status) <= _STAGES.index(op.status):
        return op
    return replace(
        op,
        status=entry.status,
        ended_at=entry.ended_at,
        error_code=entry.error_code,
        error_message=entry.error_message,
        end_from_entry=True,
    )


def drop(connection: Connection, keys: Iterable[tuple[str, str]]) -> None:
    """Drops operations that are stored under their numbers now."""
    some = list(keys)
    if some:
        connection.execute(delete(operations).where(tuple_(operations.c.project, operations.c.operation_id).in_(some)))


def stored_of(connection: Connection, ops: Sequence[SeenOperation]) -> list[SeenOperation]:
    """Returns those that are stored, by their numbers or their names."""
    stored = _stored(connection, [(op.project, one) for op in ops for one in {op.operation_id, op.name} if one])
    return [op for op in ops if {(op.project, op.operation_id), (op.project, op.name)} & stored.keys()]


def heard_ends(connection: Connection, ops: Sequence[SeenOperation]) -> dict[str, dict[datetime, SeenOperation]]:
    """Returns, by VM, the ends that entries told of operations, and these operations as they are known now.

    Ask before they are recorded.
    """
    stored = _stored(connection, [(op.project, one) for op in ops for one in {op.operation_id, op.name} if one])
    ends: dict[str, dict[datetime, SeenOperation]] = defaultdict(dict)
    for op in ops:
        for key in (op.operation_id, op.name):
            before = stored.get((op.project, key))
            if before is not None and before.end_from_entry and before.ended_at is not None:
                ends[op.target_id][before.ended_at] = op
    return ends


def of_vms(connection: Connection, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[SeenOperation]]:
    """All operations known of VMs of any projects, by project and id, oldest first."""
    by_vm: dict[tuple[str, str], list[SeenOperation]] = defaultdict(list)
    columns = operations.c
    for some in _pairs(keys):
        query = select(operations).where(tuple_(columns.project, columns.target_id).in_(some))
        for row in connection.execute(query.order_by(columns.inserted_at, columns.operation_id)):
            by_vm[row.project, row.target_id].append(_operation(row))
    return dict(by_vm)


def store(connection: Connection, ops: Sequence[SeenOperation]) -> None:
    """Stores operations as they are."""
    upsert(connection, operations, [_row(operation) for operation in ops], _KEY)


def of_targets(connection: Connection, project: str, target_ids: Iterable[str]) -> dict[str, list[SeenOperation]]:
    """All operations known of these VMs, oldest first. VMs without any are left out."""
    by_target: dict[str, list[SeenOperation]] = defaultdict(list)
    for some in _chunks(set(target_ids)):
        for row in connection.execute(*_of_targets(project, [*some])):
            by_target[row.target_id].append(_operation(row))
    return dict(by_target)


@prepared
def _of_targets(project: str, target_ids: list[str]) -> Select[Any]:
    columns = operations.c
    query = select(operations).where(columns.project == project, columns.target_id.in_(target_ids))
    return query.order_by(columns.inserted_at, columns.operation_id)


def inserted_without_attempt(connection: Connection) -> list[str]:
    """Names that VMs of attempts would have, which were inserted, and which no attempt of their project has."""
    columns = operations.c
    has_attempt = exists().where(attempts.c.project == columns.project, attempts.c.name == columns.target_name)
    query = (
        select(columns.target_name)
        .distinct()
        .where(columns.kind == "insert", columns.target_name.like("cg-%"), ~has_attempt)
    )
    return list(connection.scalars(query.where(columns.error_code.is_(None)).order_by(columns.target_name)))


def _stored(connection: Connection, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], SeenOperation]:
    by_id = {}
    for some in _chunks(sorted(keys)):
        for row in connection.execute(*_of_projects(sorted({key[0] for key in some}), [key[1] for key in some])):
            by_id[(row.project, row.operation_id)] = _operation(row)
    return by_id


@prepared
def _of_projects(projects: list[str], operation_ids: list[str]) -> Select[Any]:
    columns = operations.c
    return select(operations).where(columns.project.in_(projects), columns.operation_id.in_(operation_ids))


_STAGES = list(OperationStatus)


def _ahead(new: SeenOperation, stored: SeenOperation) -> bool:
    """Says whether `new` tells more about the same operation than the stored one."""
    if new.status is not stored.status:
        return _STAGES.index(new.status) > _STAGES.index(stored.status)
    # What was stored before operations had names is no news by its name alone.
    return {**_row(new), "name": ""} != {**_row(stored), "name": ""}


def _row(operation: SeenOperation) -> dict[str, Any]:
    values = zip(_NAMES, _values(operation), strict=True)
    return {name: storable(value) if isinstance(value, str) else value for name, value in values}


# A hundred thousand of them are read at once by the first look: `asdict` would take ten times as long.
_NAMES = tuple(field.name for field in fields(SeenOperation))
_values = attrgetter(*_NAMES)


def _operation(row: Row[Any]) -> SeenOperation:
    return SeenOperation(**{**row._mapping, "status": OperationStatus(row.status)})


def _pairs(keys: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    rest = iter(sorted(set(keys)))
    while some := list(islice(rest, _AT_ONCE)):
        yield some


def _chunks(ids: Iterable[_Id]) -> Iterator[list[_Id]]:
    rest = iter(ids)
    while some := list(islice(rest, _AT_ONCE)):
        yield some
