"""Events of sign-ins, sessions and tokens, recorded by the services that people use."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

from tests.api.rows import NOW
from tests.authenticators import SEAL, authenticator_of, make_principal
from tests.fakes import HandClock

from costguard.access.links import make_link
from costguard.access.rules import Access
from costguard.access.session_service import SessionService
from costguard.access.sessions import Sessions
from costguard.access.sign_ins import SignIns
from costguard.access.tokens import NewToken, TokenService
from costguard.db.transaction import Database
from costguard.model.access import Credentials, Principal, Role

ADA = "ada@lab.example"
_ACCESS = Access(admins=frozenset({ADA}))


def record(database: Database) -> None:
    """Ada signs in by a link, makes a token, which another admin confirms and revokes, and her session is ended."""
    clock = HandClock(NOW)
    sessions = Sessions(database, clock, timedelta(hours=12))
    link = make_link(database, ADA, Role.ADMIN, NOW)
    cookie = SignIns(database, clock, _ACCESS, SEAL, sessions).by_link(link, "10.0.0.7").cookie
    service = SessionService(database, clock, _ACCESS)
    root = make_principal(address="root@lab.example")
    (session,) = service.listing(root)
    tokens = TokenService(database, clock, lambda: "0123456789", lambda: "secret")
    with closing(authenticator_of(database, clock, _ACCESS)) as authenticator:
        by_link = authenticator.who(Credentials("", cookie, ""))
    assert isinstance(by_link, Principal)
    token, _ = tokens.make(NewToken("laptop"), by_link)
    tokens.confirm(token.id, root)
    tokens.revoke(token.id, root)
    service.end(session.id, root)
