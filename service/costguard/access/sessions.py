"""Browser sessions: the browser holds a secret, the database its digest."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from costguard.access.tokens import digest_of
from costguard.db.tables import sessions
from costguard.db.transaction import Database
from costguard.db.types import storable
from costguard.model.access import Role, Via
from costguard.model.ports import Clock


@dataclass(frozen=True, slots=True)
class Session:
    """`id` is what people see of it, and opens nothing.

    `granted` is the role that came with a link of the server's; None: the settings' lists say it each time.
    `client` is the address that they signed in from; "" where that is not known.
    """

    id: str
    address: str
    via: Via
    granted: Role | None
    client: str
    began_at: datetime
    expires_at: datetime
    last_used_at: datetime | None = None


def add(connection: Connection, session: Session, digest: str) -> None:
    """`digest` is of the secret that opens it. Those that have expired are forgotten."""
    connection.execute(delete(sessions).where(sessions.c.expires_at <= session.began_at))
    connection.execute(
        insert(sessions).values(
            id=session.id,
            digest=digest,
            address=storable(session.address),
            via=session.via.value,
            role=session.granted.value if session.granted is not None else "",
            client=storable(session.client),
            began_at=session.began_at,
            expires_at=session.expires_at,
        )
    )


def read(connection: Connection, session_id: str, now: datetime) -> Session | None:
    """Reads a session. None: it has expired, was ended, or never was."""
    return _one(connection, sessions.c.id == session_id, now)


def of_digest(connection: Connection, digest: str, now: datetime) -> Session | None:
    """The session that the secret with this digest opens; None as above."""
    return _one(connection, sessions.c.digest == digest, now)


def page(
    connection: Connection, address: str | None, now: datetime, before: tuple[datetime, str] | None, limit: int
) -> Sequence[Session]:
    """The newest first; `before` is the time and the id of the last one already shown."""
    columns = sessions.c
    query = (
        select(sessions)
        .where(columns.expires_at > now)
        .order_by(columns.began_at.desc(), columns.id.desc())
        .limit(limit)
    )
    if address is not None:
        query = query.where(columns.address == address)
    if before is not None:
        query = query.where(
            (columns.began_at < before[0]) | ((columns.began_at == before[0]) & (columns.id < before[1]))
        )
    return [_session(row) for row in connection.execute(query)]


def end(connection: Connection, ids: Sequence[str]) -> None:
    connection.execute(delete(sessions).where(sessions.c.id.in_(ids)))


def used(connection: Connection, session_id: str, at: datetime) -> None:
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(last_used_at=at))


def _one(connection: Connection, condition: Any, now: datetime) -> Session | None:
    row = connection.execute(select(sessions).where(condition)).one_or_none()
    return None if row is None or row.expires_at <= now else _session(row)


def _session(row: Row[Any]) -> Session:
    return Session(
        id=row.id,
        address=row.address,
        via=Via(row.via),
        granted=Role(row.role) if row.role else None,
        client=row.client,
        began_at=row.began_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
    )


class Sessions:
    """`lasts` is how long a person stays signed in. A secret has 256 random bits."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        lasts: timedelta,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
        new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(32),
    ) -> None:
        self._database, self._clock, self._lasts = database, clock, lasts
        self._new_id, self._new_secret = new_id, new_secret

    def begin(
        self, connection: Connection, address: str, via: Via, granted: Role | None = None, client: str = ""
    ) -> tuple[Session, str]:
        """The session, and the cookie that is to hold it."""
        now, secret = self._clock.now(), self._new_secret()
        session = Session(self._new_id(), address.lower(), via, granted, client, now, now + self._lasts)
        add(connection, session, digest_of(secret))
        return session, secret

    def read(self, cookie: str) -> Session | None:
        """Reads a cookie's session.

        None: it is not ours, it has expired, or it was ended, wherever a copy of the cookie lies.
        """
        with self._database.read() as connection:
            return of_digest(connection, digest_of(cookie), self._clock.now())
