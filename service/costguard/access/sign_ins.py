"""Signing in, by a one-time link or through the identity provider. Each sign-in is an event."""

from __future__ import annotations

import contextlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from costguard.access import links
from costguard.access.links import GOOD_FOR
from costguard.access.roles import role_of
from costguard.access.rules import Access
from costguard.access.session_service import SessionService
from costguard.access.sessions import Session, Sessions
from costguard.access.signing import Seal
from costguard.access.tokens import digest_of
from costguard.db.transaction import Database
from costguard.db.types import EPOCH
from costguard.errors import Missing, SignInRefused
from costguard.events import audit_log
from costguard.model.access import Principal, Role, Via
from costguard.model.event import Event, new_event
from costguard.model.ports import Clock, OidcProvider

CALLBACK = "/sign-in/oidc/callback"
_PURPOSE = "oidc"
_SECOND = timedelta(seconds=1)

USED_LINK = (
    "This link was used before, or is older than ten minutes.",
    "Have a new one made on the machine where the server runs.",
)
_NOT_BEGUN = ("This sign-in was begun in another browser, or more than ten minutes ago.", "Begin again.")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Provider:
    """`name` is what people call it; `url` is where the server is reached, and so where it sends them back.

    `patience` is how long a sign-in through it may take.
    """

    name: str
    url: str
    oidc: OidcProvider
    patience: timedelta = GOOD_FOR


@dataclass(frozen=True, slots=True)
class Arrival:
    """A successful sign-in: the cookie of its session, and the page that was requested."""

    cookie: str
    next: str = "/"


class SignIns:
    """Signs people in, by a link or through a provider. Nothing secret is logged, or in any message.

    `client` is the network address of the browser, for the record; `count` hears of each try whether it succeeded.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        access: Access,
        seal: Seal,
        sessions: Sessions,
        provider: Provider | None = None,
        new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(32),
        count: Callable[[Via, bool], None] = lambda _via, _is_in: None,
    ) -> None:
        self._database, self._clock, self._access, self._seal = database, clock, access, seal
        self._sessions, self._new_secret = sessions, new_secret
        self.provider, self._count = provider, count

    def is_good(self, code: str) -> bool:
        """Says whether this link is still good; checking does not use it up."""
        with self._database.read() as connection:
            return links.is_good(connection, digest_of(code), self._clock.now())

    def by_link(self, code: str, client: str) -> Arrival:
        """Raises SignInRefused: it was used before, has expired, or never was."""
        now = self._clock.now()
        with self._database.write() as connection:
            redeemed = links.redeem(connection, digest_of(code), now)
            if redeemed is not None:
                address, role = redeemed
                session, cookie = self._sessions.begin(connection, address, Via.LINK, role, client)
                audit_log.append(
                    connection, [_event(session, role, "with a link made on the server", client, now)], now
                )
        if redeemed is None:
            raise self.refused(Via.LINK, client, SignInRefused(*USED_LINK))
        self._came_in(session, client)
        return Arrival(cookie)

    def begin(self, next_: str, client: str) -> tuple[str, str]:
        """Where to send the browser, and the cookie that it must bring back. Raises SignInRefused."""
        provider = self._provider()
        secrets = {name: self._new_secret() for name in ("state", "nonce", "verifier")}
        try:
            url = provider.oidc.begin(f"{provider.url}{CALLBACK}", **secrets)
        except SignInRefused as refused:
            raise self.refused(Via.OIDC, client, refused) from None
        until = (self._clock.now() + provider.patience - EPOCH) // _SECOND
        return url, self._seal.seal(_PURPOSE, {**secrets, "next": next_, "until": until})

    def finish(self, cookie: str, state: str, code: str, client: str) -> Arrival:
        """Completes a sign-in that the provider redirected back. Raises SignInRefused."""
        provider = self._provider()
        sealed_state = self._seal.opened(_PURPOSE, cookie) or {}
        is_late = int(sealed_state.get("until", 0)) < (self._clock.now() - EPOCH) // _SECOND
        if (
            not sealed_state
            or is_late
            or not hmac.compare_digest(str(sealed_state["state"]).encode(), state.encode("utf-8", "replace"))
        ):
            raise self.refused(Via.OIDC, client, SignInRefused(*_NOT_BEGUN))
        try:
            back = f"{provider.url}{CALLBACK}"
            address = provider.oidc.finish(code, back, str(sealed_state["nonce"]), str(sealed_state["verifier"]))
        except SignInRefused as refused:
            raise self.refused(Via.OIDC, client, refused) from None
        role, now = role_of(address, self._access), self._clock.now()
        with self._database.write() as connection:
            session, sealed = self._sessions.begin(connection, address, Via.OIDC, client=client)
            if role is not Role.NOBODY:  # the audit log is no place for anyone who has an account somewhere
                audit_log.append(connection, [_event(session, role, f"through {provider.name}", client, now)], now)
        self._came_in(session, client)
        return Arrival(sealed, str(sealed_state["next"]))

    def leave(self, who: Principal) -> None:
        """It is no matter if the session was ended meanwhile."""
        with contextlib.suppress(Missing):
            SessionService(self._database, self._clock, self._access).end(who.session, who)

    def refused(self, via: Via, client: str, why: SignInRefused) -> SignInRefused:
        """The same, logged and counted."""
        self._count(via, False)
        log.warning("sign_in_refused", via=via.value, client=client, reason=why.message)
        return why

    def _came_in(self, session: Session, client: str) -> None:
        self._count(session.via, True)
        log.info("signed_in", via=session.via.value, client=client, who=session.address)

    def _provider(self) -> Provider:
        if self.provider is None:
            raise SignInRefused(
                "Nobody signs in by OpenID Connect here.", "Set oidc_issuer under [sign_in] in the settings file."
            )
        return self.provider


def _event(session: Session, role: Role, how: str, client: str, now: datetime) -> Event:
    """The session's id is no secret of use to anybody, but none of the log's readers need it either."""
    return new_event(
        "SignedIn",
        now,
        f"{session.address} signed in {how}, as {role.value}.",
        digest_of(session.id)[:32],
        actor=session.address,
        data={"via": session.via.value, "role": role.value, "from": client},
    )
