"""Lists and ends sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from costguard.access import sessions
from costguard.access.roles import role_of
from costguard.access.rules import Access
from costguard.access.sessions import Session
from costguard.access.tokens import digest_of, end_with_sessions
from costguard.db.transaction import Database
from costguard.errors import Forbidden, Invalid, Missing
from costguard.events import audit_log
from costguard.model.access import Permission, Principal, Role
from costguard.model.event import Event, new_event
from costguard.model.moments import utc_text
from costguard.model.ports import Clock

_MOST = 10_000


class SessionService:
    """Anybody sees and ends their own sessions, an admin everybody's. Those who come through a proxy have none."""

    def __init__(self, database: Database, clock: Clock, access: Access) -> None:
        self._database, self._clock, self._access = database, clock, access

    def listing(self, by: Principal, before: tuple[datetime, str] | None = None, limit: int = 100) -> Sequence[Session]:
        """Lists valid sessions, the latest begun first."""
        address = None if by.may(Permission.ADMIN) else by.address
        with self._database.read() as connection:
            return sessions.page(connection, address, self._clock.now(), before, limit)

    def find(self, session_id: str, by: Principal) -> Session:
        """Raises Missing, for those of others too."""
        with self._database.read() as connection:
            return self._found(connection, session_id, by)

    def end(self, session_id: str, by: Principal) -> Session:
        """Ends a session: its cookie opens nothing from now on, nor do unconfirmed tokens made in it.

        Raises Missing.
        """
        with self._database.write() as connection:
            session = self._found(connection, session_id, by)
            self._end(connection, [session], by)
        return session

    def end_all(self, address: str, by: Principal) -> Sequence[Session]:
        """All of this person's; "" is the caller. Raises Invalid, or Forbidden: only admins name another."""
        whose = address.strip().lower() or by.address
        if not whose:
            raise Invalid(
                "This token speaks for nobody, and has no sessions.",
                "Say by address whose to end.",
                kind="name-refused",
            )
        if whose != by.address and not by.may(Permission.ADMIN):
            raise Forbidden(
                f"You are {by.address}, and only admins end the sessions of others.",
                "Leave the address out: yours.",
                kind="name-refused",
            )
        with self._database.write() as connection:
            open_sessions = sessions.page(connection, whose, self._clock.now(), None, _MOST)
            self._end(connection, open_sessions, by)
        return open_sessions

    def role(self, session: Session) -> Role:
        """The role of its holder today."""
        return session.granted if session.granted is not None else role_of(session.address, self._access)

    def _found(self, connection: Connection, session_id: str, by: Principal) -> Session:
        session = sessions.read(connection, session_id, self._clock.now())
        if session is None or not (by.may(Permission.ADMIN) or session.address == by.address):
            raise Missing(
                f"There is no session {session_id[:40]!r} of yours: it may be over.",
                "`costguard session list` shows them.",
            )
        return session

    def _end(self, connection: Connection, open_sessions: Sequence[Session], by: Principal) -> None:
        now = self._clock.now()
        ended = [session.id for session in open_sessions]
        sessions.end(connection, ended)
        end_with_sessions(connection, ended, by, now)
        # The audit log is no place for anyone who has an account somewhere, and comes and goes again.
        recorded = [
            session
            for session in open_sessions
            if self.role(session) is not Role.NOBODY or session.address != by.address
        ]
        audit_log.append(connection, [_event(session, by, now) for session in recorded], now)


def _event(session: Session, by: Principal, now: datetime) -> Event:
    who = by.address or "the server's operator"
    since = f"begun {utc_text(session.began_at)}"
    text = f"{who} ended a session of {session.address}, {since}."
    if session.address == by.address:
        text = f"{who} signed out." if session.id == by.session else f"{who} ended another session of theirs, {since}."
    return new_event(
        "SessionEnded",
        now,
        text,
        digest_of(session.id)[:32],
        actor=who,
        data={"of": session.address, "via": session.via.value, "from": session.client},
    )
