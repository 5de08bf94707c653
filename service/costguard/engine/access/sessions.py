"""Sessions of people: kept by their browsers in a signed cookie, and ended here."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.engine.access.seal import Seal
from costguard.engine.ports import Clock
from costguard.model.access import Role, Via
from costguard.store import sessions
from costguard.store.transaction import Database
from costguard.store.types import EPOCH

_PURPOSE = "session"
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Session:
    """`granted` is the role that came with a link of the server's; None: the settings' lists say it each time."""

    id: str
    address: str
    via: Via
    granted: Role | None
    expires_at: datetime


class Sessions:
    """`lasts` is how long somebody stays signed in."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        seal: Seal,
        lasts: timedelta,
        new_id: Callable[[], str] = secrets.token_urlsafe,
    ) -> None:
        self._database, self._clock, self._seal, self._lasts, self._new_id = database, clock, seal, lasts, new_id

    def begin(self, address: str, via: Via, granted: Role | None = None) -> tuple[Session, str]:
        """The session, and the cookie that is to hold it."""
        session = Session(self._new_id(), address.lower(), via, granted, self._clock.now() + self._lasts)
        told = {
            "id": session.id,
            "address": session.address,
            "via": via.value,
            "role": granted.value if granted is not None else "",
            "until": (session.expires_at - EPOCH) // _SECOND,
        }
        return session, self._seal.seal(_PURPOSE, told)

    def read(self, cookie: str) -> Session | None:
        """None: it is not ours, it has expired, or it was ended."""
        told = self._seal.opened(_PURPOSE, cookie)
        if told is None:
            return None
        session = Session(
            id=told["id"],
            address=told["address"],
            via=Via(told["via"]),
            granted=Role(told["role"]) if told["role"] else None,
            expires_at=EPOCH + told["until"] * _SECOND,
        )
        if session.expires_at <= self._clock.now():
            return None
        with self._database.read() as connection:
            return None if sessions.is_ended(connection, session.id) else session

    def end(self, session_id: str) -> None:
        """From now on the cookie opens nothing, wherever a copy of it lies."""
        now = self._clock.now()
        with self._database.write() as connection:
            sessions.end(connection, session_id, now + self._lasts, now)
