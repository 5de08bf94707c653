"""One-time sign-in links, made on the server by its operator."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from costguard.access import link_rows
from costguard.access.tokens import digest_of
from costguard.db.transaction import Database
from costguard.model.access import Role

GOOD_FOR = timedelta(minutes=10)
PATH = "/sign-in/link/"


def make_link(
    database: Database,
    address: str,
    role: Role,
    now: datetime,
    good_for: timedelta = GOOD_FOR,
    new_code: Callable[[], str] = lambda: secrets.token_urlsafe(32),
) -> str:
    """Its code. Anyone who can write to the database is trusted with any role."""
    code = new_code()
    with database.write() as connection:
        link_rows.add(connection, digest_of(code), address.lower(), role, now, now + good_for)
    return code
