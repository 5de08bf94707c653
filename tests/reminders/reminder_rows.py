"""Rows of reminders, keeps and stops, for tests of what is read from them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert
from tests.api.rows import NOW

from costguard.db import tables


def message(connection: Connection, key: str, **given: Any) -> int:
    """An accepted reminder to an owner, unless something else is given."""
    row = {
        "key": key,
        "kind": "reminder",
        "address": "ada@lab.example",
        "data": {},
        "status": "accepted",
        "intended_at": NOW,
        "try_after": NOW,
        "target": "owner" if given.get("kind", "reminder") == "reminder" else "",
        **given,
    }
    return _insert(connection, tables.messages, row)


def stop(connection: Connection, instance_id: int, lifetime_id: int, intended_at: datetime, **given: Any) -> int:
    """Stores a stop that a rule decided on and that was carried out."""
    subject = f"run:{instance_id}:{lifetime_id}"
    row = {
        "key": f"stop/{subject}/{intended_at.isoformat()}",
        "subject": subject,
        "instance_id": instance_id,
        "rule": "preset t4",
        "reason": "past the limit of preset t4 (8 h) by 2 h",
        "evidence": {"idle": "GPU under 5 % for 2 h (max 3 %)"},
        "reminder": f"reminder/{subject}/0/2/owner",
        "request_uuid": "00000000-0000-5000-8000-000000000000",
        "outcome": "done",
        "intended_at": intended_at,
        "try_after": intended_at,
        **given,
    }
    return _insert(connection, tables.stops, row)


def request(connection: Connection, instance_id: int, subject: str, **given: Any) -> int:
    row = {
        "key": f"press/{subject}/{given.get('kind', 'stop')}",
        "kind": "stop",
        "subject": subject,
        "instance_id": instance_id,
        "by": "bob@lab.example",
        "user_id": "U2",
        "via": "slack",
        "at": NOW,
        "reason": "",
        "status": "done",
        **given,
    }
    return _insert(connection, tables.requests, row)


def keep(connection: Connection, instance_id: int, subject: str, until: datetime, **given: Any) -> int:
    request_id = request(connection, instance_id, subject, kind="keep")
    row = {
        "subject": subject,
        "instance_id": instance_id,
        "until": until,
        "by": "bob@lab.example",
        "at": NOW,
        "reason": "",
        "request_id": request_id,
        **given,
    }
    return _insert(connection, tables.keeps, row)


def _insert(connection: Connection, table: Any, row: dict[str, Any]) -> int:
    (row_id,) = connection.execute(insert(table).values(**row).returning(table.c.id)).one()
    return int(row_id)
