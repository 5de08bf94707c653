"""A server whose people sign in by a link, through a provider or behind the proxy, on a clock that is moved by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from fastapi import FastAPI
from tests.api.conftest import deps_of
from tests.authenticators import SEAL
from tests.fakes import HandClock
from tests.identity.provider import CLIENT, SECRET, Provider
from tests.identity.signing import NOW

from costguard.access import sign_ins
from costguard.access.authentication import Authenticator
from costguard.access.rules import Access
from costguard.access.sessions import Sessions
from costguard.access.sign_ins import SignIns
from costguard.api.app import create_app
from costguard.db.transaction import Database
from costguard.errors import SignInRefused
from costguard.identity.oidc import Oidc, OidcClient
from costguard.model.access import Via
from costguard.pages.app import add_pages
from costguard.pages.sign_in import SignInPages, add_sign_in
from costguard.web.limits import TokenBucket

ACCESS = Access(frozenset(), frozenset({"ana@example.com"}), frozenset())


@dataclass
class Wired:
    app: FastAPI
    clock: HandClock
    authenticator: Authenticator
    pages: SignInPages
    counted: Counter[tuple[Via, bool]]


def iap_of(shown: str) -> str:
    if shown == "ana":
        return "ana@example.com"
    if shown == "eve":
        return "eve@example.com"
    raise SignInRefused(
        "The assertion is not taken: it is for another server.", "Tell the person who runs this server."
    )


@contextmanager
def wired(
    database: Database, address: str, provider: Provider | None = None, tries: int = 1000, iap: bool = False
) -> Iterator[Wired]:
    """`address` is where people reach it."""
    clock = HandClock(NOW)
    sessions = Sessions(database, clock, timedelta(hours=12))
    authenticator = Authenticator(database, clock, ACCESS, SEAL, sessions, iap=iap_of if iap else None)
    through = None
    if provider is not None:
        client = OidcClient(provider.issuer, CLIENT, SECRET)
        through = sign_ins.Provider("Google", address, Oidc(client, clock, timeout_s=30))
    counted: Counter[tuple[Via, bool]] = Counter()
    pages = SignInPages(
        SignIns(database, clock, ACCESS, SEAL, sessions, through, count=lambda *tried: counted.update([tried])),
        TokenBucket(tries, lambda: 0.0),
        timedelta(hours=12),
        is_https=address.startswith("https"),
        is_behind_iap=iap,
        ask="lead@example.com",
    )
    deps = replace(deps_of(database), clock=clock, authenticator=authenticator)
    app = create_app(deps)
    add_pages(app, deps)
    add_sign_in(app, pages)
    try:
        yield Wired(app, clock, authenticator, pages, counted)
    finally:
        authenticator.close()
