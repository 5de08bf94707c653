"""Keys for signing what comes back to us, made once and kept."""

from __future__ import annotations

import secrets
from datetime import datetime

from sqlalchemy import Connection, insert, select

from costguard.db.tables import signing_keys
from costguard.db.transaction import Database

_BYTES = 32


def key(connection: Connection, name: str, now: datetime) -> bytes:
    """The key of this name. The first call makes it, and so must be within a write."""
    stored = connection.scalar(select(signing_keys.c.value).where(signing_keys.c.name == name))
    if stored is None:
        stored = secrets.token_hex(_BYTES)
        connection.execute(insert(signing_keys).values(name=name, value=stored, made_at=now))
    return bytes.fromhex(stored)


def kept(database: Database, name: str, now: datetime) -> bytes:
    """The key of this name. Once it is made no write is needed, so a start waits for no writer."""
    with database.read() as connection:
        stored = connection.scalar(select(signing_keys.c.value).where(signing_keys.c.name == name))
    if stored is not None:
        return bytes.fromhex(stored)
    with database.write() as connection:
        return key(connection, name, now)
