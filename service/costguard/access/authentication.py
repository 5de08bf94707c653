"""Credentials of a request, and the principal that they identify."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from costguard.access import sessions, token_rows
from costguard.access.roles import lower_of, permissions_of, role_of
from costguard.access.rules import Access
from costguard.access.sessions import Sessions
from costguard.access.signing import Seal
from costguard.access.tokens import digest_of
from costguard.db.transaction import Database
from costguard.errors import CostguardError, SignInRefused
from costguard.model.access import PERMISSIONS, Credentials, Principal, Role, Stranger, Via
from costguard.model.ports import Clock

log = structlog.get_logger(__name__)

_Write = Callable[[Connection, str, datetime], None]
_NOTED_EVERY = timedelta(minutes=1)
_CSRF = "csrf"
_SIGN_IN = (
    "Sign in at /sign-in, or send `Authorization: Bearer TOKEN`: `costguard token create` makes one, "
    "and the command line reads it from COSTGUARD_TOKEN."
)


class Authenticator:
    """Knows the master token, tokens, sessions, and what Identity-Aware Proxy vouches for, where that is set up.

    What is shown must hold: a wrong token is not made good by a cookie next to it.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        access: Access,
        seal: Seal,
        sessions: Sessions,
        master: str | None = None,
        iap: Callable[[str], str] | None = None,
    ) -> None:
        self._database, self._clock, self._access, self._seal = database, clock, access, seal
        self._sessions, self._iap = sessions, iap
        self._master = master.encode() if master is not None else None
        self._noted: dict[str, datetime] = {}
        self._notes = ThreadPoolExecutor(1, "use")  # an answer does not wait for this write

    def close(self) -> None:
        self._notes.shutdown()

    def who(self, shown: Credentials) -> Principal | Stranger:
        if shown.bearer:
            return self._of_bearer(shown.bearer)
        if shown.session and (session := self._sessions.read(shown.session)) is not None:
            self._note(session.id, session.last_used_at, sessions.used)
            principal = self._person(session.address, session.via, session.granted, session.id)
            is_of_link = session.via is Via.LINK
            return (
                replace(principal, link_session=session.id, link_until=session.expires_at) if is_of_link else principal
            )
        if shown.iap and self._iap is not None:
            try:
                return self._person(self._iap(shown.iap), Via.IAP, None, "")
            except SignInRefused as refused:
                return Stranger(refused.message, refused.what_next)
        if shown.session:
            return Stranger("The session is over.", _SIGN_IN)
        return Stranger("The request came without a token, and nobody is signed in.", _SIGN_IN)

    def csrf(self, principal: Principal) -> str:
        """Returns the token that our own pages send along with each change; no other page can know it."""
        return self._seal.proof(_CSRF, principal.key)

    def is_csrf(self, principal: Principal, text: str) -> bool:
        return self._seal.is_proof(_CSRF, principal.key, text)

    def _of_bearer(self, bearer: str) -> Principal | Stranger:
        if self._master is not None and hmac.compare_digest(bearer.encode("utf-8", "replace"), self._master):
            return Principal("", Role.ADMIN, PERMISSIONS[Role.ADMIN], Via.MASTER, is_granted=True)
        with self._database.read() as connection:
            token = token_rows.of_digest(connection, digest_of(bearer))
        if token is None:
            return Stranger("The token is not known.", _SIGN_IN)
        now = self._clock.now()
        if token.revoked_at is not None:
            return Stranger(f"The token {token.id} ({token.name}) was revoked.", _SIGN_IN)
        if token.is_over(now):
            is_short = token.expires_at is None or token.expires_at > now
            why = ": nobody confirmed it in the time of the link's session" if is_short else ""
            return Stranger(f"The token {token.id} ({token.name}) has expired{why}.", _SIGN_IN)
        self._note(token.id, token.last_used_at, token_rows.used)
        role = token.role if token.is_granted else lower_of(token.role, role_of(token.owner, self._access))
        return Principal(
            address=token.owner,
            role=role,
            permissions=permissions_of(role, token.owner, self._access, token.is_granted) & token.permissions,
            via=Via.TOKEN,
            token_id=token.id,
            is_granted=token.is_granted,
            until=token.expires_at,
            link_session=token.session_id if token.provisional_until is not None else "",
            link_until=token.provisional_until,
        )

    def _person(self, address: str, via: Via, granted: Role | None, session: str) -> Principal:
        role = granted if granted is not None else role_of(address, self._access)
        is_granted = granted is not None
        permissions = permissions_of(role, address, self._access, is_granted)
        return Principal(address, role, permissions, via, session=session, is_granted=is_granted)

    def _note(self, used: str, last: datetime | None, write: _Write) -> None:
        now = self._clock.now()
        last = self._noted.get(used, last)
        if last is None or now - last >= _NOTED_EVERY:
            self._noted[used] = now
            self._notes.submit(self._write, used, now, write)

    def _write(self, used: str, now: datetime, write: _Write) -> None:
        try:
            with self._database.write() as connection:
                write(connection, used, now)
        except CostguardError as error:
            log.warning("use_not_noted", of=used, error=str(error))
        else:
            self._noted.pop(used, None)  # the row says it from now on
