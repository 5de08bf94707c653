"""Rows of API tokens; only digests of them are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from costguard.db.tables import api_tokens, requests
from costguard.db.types import storable
from costguard.model.access import Permission, Role


@dataclass(frozen=True, slots=True)
class ApiToken:
    """`role` is the most that it may be used for; without `is_granted` its owner's role today decides too.

    `expires_at` is as long as was asked for. One that was made in a session of a one-time link is provisional: it ends
    with the session `session_id`, and at `provisional_until` at the latest, unless it is confirmed.
    """

    id: str
    name: str
    owner: str
    role: Role
    is_granted: bool
    permissions: frozenset[Permission]
    made_at: datetime
    made_by: str
    expires_at: datetime | None
    revoked_at: datetime | None = None
    revoked_by: str = ""
    last_used_at: datetime | None = None
    provisional_until: datetime | None = None
    session_id: str = ""
    confirmed_at: datetime | None = None
    confirmed_by: str = ""

    @property
    def ends_at(self) -> datetime | None:
        """Returns when the token ends as things stand; None: never."""
        return min((end for end in (self.expires_at, self.provisional_until) if end is not None), default=None)

    def is_over(self, now: datetime) -> bool:
        return self.revoked_at is not None or (self.ends_at is not None and self.ends_at <= now)


def add(connection: Connection, token: ApiToken, digest: str, idempotency_key: str | None) -> None:
    connection.execute(
        insert(api_tokens).values(
            id=token.id,
            digest=digest,
            name=storable(token.name),
            owner=storable(token.owner),
            role=token.role.value,
            is_granted=token.is_granted,
            permissions=sorted(permission.value for permission in token.permissions),
            idempotency_key=idempotency_key,
            made_at=token.made_at,
            made_by=storable(token.made_by),
            expires_at=token.expires_at,
            provisional_until=token.provisional_until,
            session_id=token.session_id,
        )
    )


def of_digest(connection: Connection, digest: str) -> ApiToken | None:
    return _one(connection, api_tokens.c.digest == digest)


def of_key(connection: Connection, idempotency_key: str) -> ApiToken | None:
    return _one(connection, api_tokens.c.idempotency_key == idempotency_key)


def read(connection: Connection, token_id: str) -> ApiToken | None:
    return _one(connection, api_tokens.c.id == token_id)


def page(
    connection: Connection, owner: str | None, before: tuple[datetime, str] | None, limit: int
) -> Sequence[ApiToken]:
    """The newest first, also those that are over; `before` is the time and the id of the last one already shown."""
    made_at, token_id = api_tokens.c.made_at, api_tokens.c.id
    query = select(api_tokens).order_by(made_at.desc(), token_id.desc()).limit(limit)
    if owner is not None:
        query = query.where(api_tokens.c.owner == owner)
    if before is not None:
        query = query.where((made_at < before[0]) | ((made_at == before[0]) & (token_id < before[1])))
    return [_token(row) for row in connection.execute(query)]


def revoke(connection: Connection, token_id: str, by: str, at: datetime) -> bool:
    """False: it was revoked before."""
    query = update(api_tokens).where(api_tokens.c.id == token_id, api_tokens.c.revoked_at.is_(None))
    return connection.execute(query.values(revoked_at=at, revoked_by=storable(by))).rowcount == 1


def confirm(connection: Connection, token_id: str, by: str, at: datetime) -> bool:
    """It lasts as long as was asked for. False: it was not provisional, or is revoked."""
    columns = api_tokens.c
    query = update(api_tokens).where(
        columns.id == token_id, columns.provisional_until.is_not(None), columns.revoked_at.is_(None)
    )
    values = {"provisional_until": None, "confirmed_at": at, "confirmed_by": storable(by)}
    return connection.execute(query.values(values)).rowcount == 1


def ending_with(connection: Connection, session_ids: Sequence[str]) -> Sequence[ApiToken]:
    """Returns the tokens that were made in these sessions, are not revoked, and were not confirmed."""
    columns = api_tokens.c
    where = (columns.session_id.in_(session_ids), columns.provisional_until.is_not(None), columns.revoked_at.is_(None))
    return [
        _token(row)
        for row in connection.execute(select(api_tokens).where(*where).order_by(columns.made_at, columns.id))
    ]


def used(connection: Connection, token_id: str, at: datetime) -> None:
    connection.execute(update(api_tokens).where(api_tokens.c.id == token_id).values(last_used_at=at))


def withdraw_requests(connection: Connection, token_id: str, outcome: str, at: datetime) -> int:
    """Refuses the open requests made with this token, and returns their number."""
    values = {"status": "refused", "outcome": storable(outcome), "settled_at": at}
    of_token = (requests.c.status == "open", requests.c.token_id == token_id, requests.c.token_id != "")
    return connection.execute(update(requests).where(*of_token).values(values)).rowcount


def _one(connection: Connection, condition: Any) -> ApiToken | None:
    row = connection.execute(select(api_tokens).where(condition)).one_or_none()
    return None if row is None else _token(row)


def _token(row: Row[Any]) -> ApiToken:
    return ApiToken(
        id=row.id,
        name=row.name,
        owner=row.owner,
        role=Role(row.role),
        is_granted=row.is_granted,
        permissions=frozenset(Permission(name) for name in row.permissions),
        made_at=row.made_at,
        made_by=row.made_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        revoked_by=row.revoked_by,
        last_used_at=row.last_used_at,
        provisional_until=row.provisional_until,
        session_id=row.session_id,
        confirmed_at=row.confirmed_at,
        confirmed_by=row.confirmed_by,
    )
