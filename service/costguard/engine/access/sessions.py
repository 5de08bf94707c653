"""Sessions of people: their browsers hold a signed cookie that names one, and the database holds the rest."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import Connection

from costguard.engine.access.seal import Seal
from costguard.engine.ports import Clock
from costguard.model.access import Role, Via
from costguard.store import sessions
from costguard.store.sessions import Session
from costguard.store.transaction import Database

_PURPOSE = "session"


class Sessions:
    """`lasts` is how long somebody stays signed in."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        seal: Seal,
        lasts: timedelta,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._database, self._clock, self._seal, self._lasts, self._new_id = database, clock, seal, lasts, new_id

    def begin(
        self, connection: Connection, address: str, via: Via, granted: Role | None = None, client: str = ""
    ) -> tuple[Session, str]:
        """The session, and the cookie that is to hold it."""
        now = self._clock.now()
        session = Session(self._new_id(), address.lower(), via, granted, client, now, now + self._lasts)
        sessions.add(connection, session)
        return session, self._seal.seal(_PURPOSE, {"id": session.id})

    def read(self, cookie: str) -> Session | None:
        """None: it is not ours, it has expired, or it was ended, wherever a copy of the cookie lies."""
        told = self._seal.opened(_PURPOSE, cookie)
        if told is None:
            return None
        with self._database.read() as connection:
            return sessions.read(connection, str(told.get("id", "")), self._clock.now())
