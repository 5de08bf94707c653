"""Sessions of people: their browsers hold a secret, and the database its digest and the rest."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import Connection

from costguard.access import session_rows
from costguard.access.session_rows import Session
from costguard.access.tokens import digest_of
from costguard.db.transaction import Database
from costguard.model.access import Role, Via
from costguard.model.ports import Clock


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
        session_rows.add(connection, session, digest_of(secret))
        return session, secret

    def read(self, cookie: str) -> Session | None:
        """None: it is not ours, it has expired, or it was ended, wherever a copy of the cookie lies."""
        with self._database.read() as connection:
            return session_rows.of_digest(connection, digest_of(cookie), self._clock.now())
