"""Sessions that are over before their time."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, select

from costguard.store.tables import ended_sessions
from costguard.store.upsert import upsert


def is_ended(connection: Connection, session_id: str) -> bool:
    return connection.scalar(select(ended_sessions.c.id).where(ended_sessions.c.id == session_id)) is not None


def end(connection: Connection, session_id: str, expires_at: datetime, now: datetime) -> None:
    """Those whose cookies have expired by themselves are forgotten."""
    connection.execute(delete(ended_sessions).where(ended_sessions.c.expires_at < now))
    upsert(connection, ended_sessions, [{"id": session_id, "expires_at": expires_at}], ["id"], update_columns=[])
