"""Requests about VMs: each is stored once and settled once, by a pass."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers, remembers_each
from costguard.db.tables import requests
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.model.access import PERMISSIONS, Authority, Permission, Role, Via
from costguard.model.reminder import Request, RequestKind, Subject


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request and what came of it: "open", "done" or "refused", with a sentence."""

    request: Request
    status: str
    outcome: str
    settled_at: datetime | None


def add(connection: Connection, new: Request) -> bool:
    """False: a request with this key is there already, and nothing is changed."""
    row = {
        "key": storable(new.key),
        "kind": new.kind.value,
        "subject": str(new.subject),
        "instance_id": new.subject.instance_id,
        "by": storable(new.by),
        "user_id": storable(new.user_id),
        "via": storable(new.via),
        "at": new.at,
        "hours": new.hours,
        "reason": storable(new.reason),
        "due_at": new.due_at,
        **_authority_row(new.authority),
    }
    return upsert(connection, requests, [row], ["key"], update_columns=[]) == 1


@remembers(requests)
def open_requests(connection: Connection) -> list[tuple[int, Request]]:
    """Each with the row id of its instance, in the order in which they were made."""
    return [(row.instance_id, _request(row)) for row in connection.execute(_OPEN)]


_OPEN = select(requests).where(requests.c.status == "open").order_by(requests.c.id)


def settle(connection: Connection, request_id: int | None, status: str, outcome: str, at: datetime) -> None:
    """The first settlement stands."""
    values = {"status": status, "outcome": storable(outcome), "settled_at": at}
    connection.execute(update(requests).where(requests.c.id == request_id, requests.c.status == "open").values(values))


def of_subject(connection: Connection, subject: Subject) -> list[StoredRequest]:
    """The oldest first."""
    return [_stored(row) for row in connection.execute(*_of_subject(str(subject)))]


@prepared
def _of_subject(subject: str) -> Select[Any]:
    return select(requests).where(requests.c.subject == subject).order_by(requests.c.id)


@remembers_each(requests)
def of_subjects(connection: Connection, subjects: Collection[Subject]) -> dict[Subject, list[StoredRequest]]:
    """The oldest first; subjects without any are left out."""
    by_subject: dict[Subject, list[StoredRequest]] = {}
    for some in chunks({str(subject) for subject in subjects}):
        for row in connection.execute(*_of_subjects(some)):
            stored = _stored(row)
            by_subject.setdefault(stored.request.subject, []).append(stored)
    return by_subject


@prepared
def _of_subjects(subjects: list[str]) -> Select[Any]:
    return select(requests).where(requests.c.subject.in_(subjects)).order_by(requests.c.id)


def read(connection: Connection, request_id: int) -> StoredRequest | None:
    row = connection.execute(select(requests).where(requests.c.id == request_id)).one_or_none()
    return None if row is None else _stored(row)


def page(
    connection: Connection, status: str | None, instance_id: int | None, before: int | None, limit: int
) -> list[StoredRequest]:
    """The newest first; `before` is the id of the last one that was read."""
    query = select(requests).order_by(requests.c.id.desc()).limit(limit)
    for column, wanted in ((requests.c.status, status), (requests.c.instance_id, instance_id)):
        query = query if wanted is None else query.where(column == wanted)
    if before is not None:
        query = query.where(requests.c.id < before)
    return [_stored(row) for row in connection.execute(query)]


def of_key(connection: Connection, key: str) -> StoredRequest | None:
    row = connection.execute(select(requests).where(requests.c.key == storable(key))).one_or_none()
    return None if row is None else _stored(row)


def _authority_row(authority: Authority | None) -> dict[str, object]:
    if authority is None:
        return {}
    return {
        "role": authority.role.value,
        "known_by": authority.via.value,
        "asked_by": storable(authority.address),
        "is_granted": authority.is_granted,
        "permissions": sorted(permission.value for permission in authority.permissions),
        "token_id": authority.token_id,
    }


def _authority(row: Row[Any]) -> Authority | None:
    if not row.known_by:
        return None
    role = Role(row.role)
    permissions = PERMISSIONS[role] if row.permissions is None else frozenset(map(Permission, row.permissions))
    return Authority(row.asked_by, role, permissions, Via(row.known_by), row.is_granted, row.token_id)


def _stored(row: Row[Any]) -> StoredRequest:
    return StoredRequest(_request(row), row.status, row.outcome, row.settled_at)


def _request(row: Row[Any]) -> Request:
    return Request(
        key=row.key,
        kind=RequestKind(row.kind),
        subject=Subject.parse(row.subject),
        by=row.by,
        user_id=row.user_id,
        via=row.via,
        at=row.at,
        hours=row.hours,
        reason=row.reason,
        due_at=row.due_at,
        authority=_authority(row),
        id=row.id,
    )
