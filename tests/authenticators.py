"""Authenticators for tests: one that admits everyone as one principal, and the real one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.access import links
from costguard.access.authentication import Authenticator
from costguard.access.rules import Access
from costguard.access.sessions import Session, Sessions
from costguard.access.sign_ins import SignIns
from costguard.access.signing import Seal
from costguard.access.tokens import digest_of
from costguard.db.transaction import Database
from costguard.model.access import PERMISSIONS, Credentials, Permission, Principal, Role, Stranger, Via
from costguard.model.ports import Clock
from costguard.pages.sign_in import SignInPages
from costguard.web.limits import TokenBucket

SEAL = Seal(b"a key of 32 bytes, for tests only")


def make_principal(
    role: Role = Role.ADMIN,
    address: str = "",
    via: Via = Via.MASTER,
    permissions: Iterable[Permission] | None = None,
    is_granted: bool = True,
) -> Principal:
    allowed = PERMISSIONS[role] if permissions is None else frozenset(permissions)
    return Principal(address, role, allowed, via, is_granted=is_granted)


@dataclass
class FixedAuthenticator:
    """Every caller is this principal, which a test may replace: an application takes long to make."""

    principal: Principal

    def who(self, shown: Credentials) -> Principal | Stranger:
        return self.principal

    def csrf(self, principal: Principal) -> str:
        return "the page's own"

    def is_csrf(self, principal: Principal, text: str) -> bool:
        return text == "the page's own"


ADMIT_ALL = FixedAuthenticator(make_principal())


def signed_in(role: Role, address: str) -> FixedAuthenticator:
    """A person with a session whose role comes from a link of the server's."""
    return FixedAuthenticator(make_principal(role, address, Via.LINK))


def authenticator_of(
    database: Database, clock: Clock, access: Access = Access(), master: str | None = None
) -> Authenticator:
    """The real one."""
    return Authenticator(database, clock, access, SEAL, Sessions(database, clock, timedelta(hours=12)), master)


def begin_session(
    database: Database, sessions: Sessions, address: str, via: Via, role: Role | None = None, client: str = ""
) -> tuple[Session, str]:
    """A person's session, and the cookie of their browser."""
    with database.write() as connection:
        return sessions.begin(connection, address, via, role, client)


def sign_in_pages(database: Database, clock: Clock, access: Access = Access()) -> SignInPages:
    """Where people sign in by links, for `authenticator_of` to know them by."""
    lasts = timedelta(hours=12)
    sign_ins = SignIns(database, clock, access, SEAL, Sessions(database, clock, lasts))
    return SignInPages(sign_ins, TokenBucket(1000), lasts)


@dataclass
class TokenAuthenticator(FixedAuthenticator):
    """Admits only callers with the key."""

    key: str = "s3cret"

    def who(self, shown: Credentials) -> Principal | Stranger:
        return (
            self.principal
            if shown.bearer == self.key
            else Stranger("The bearer token is missing or wrong.", "Set COSTGUARD_TOKEN.")
        )


def keyed(key: str) -> FixedAuthenticator:
    return TokenAuthenticator(make_principal(), key)


def is_good(database: Database, code: str, now: datetime) -> bool:
    """Says whether a link with this code would sign a person in."""
    with database.read() as connection:
        return links.is_good(connection, digest_of(code), now)


def redeem(database: Database, code: str, now: datetime) -> tuple[str, Role] | None:
    """Returns whom it signs in, with which role; it is used up."""
    with database.write() as connection:
        return links.redeem(connection, digest_of(code), now)
