"""One-time sign-in links, stored as digests."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from costguard.db.tables import sign_in_links
from costguard.model.access import Role


def add(connection: Connection, digest: str, address: str, role: Role, made_at: datetime, expires_at: datetime) -> None:
    """Those that have expired are forgotten."""
    connection.execute(delete(sign_in_links).where(sign_in_links.c.expires_at < made_at))
    row = {"digest": digest, "address": address, "role": role.value, "made_at": made_at, "expires_at": expires_at}
    connection.execute(insert(sign_in_links).values(row))


def redeem(connection: Connection, digest: str, now: datetime) -> tuple[str, Role] | None:
    """The address and the role that it stood for. None: it was used before, has expired, or never was."""
    links = sign_in_links.c
    good = (links.digest == digest, links.used_at.is_(None), links.expires_at > now)
    if connection.execute(update(sign_in_links).where(*good).values(used_at=now)).rowcount != 1:
        return None
    row = connection.execute(select(links.address, links.role).where(links.digest == digest)).one()
    return row.address, Role(row.role)


def is_good(connection: Connection, digest: str, now: datetime) -> bool:
    links = sign_in_links.c
    good = (links.digest == digest, links.used_at.is_(None), links.expires_at > now)
    return connection.scalar(select(links.digest).where(*good)) is not None
