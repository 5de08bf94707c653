"""Events of sign-ins, sessions and tokens, recorded by the services that people use."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

from tests.access import access_setup
from tests.api.rows import NOW
from tests.authenticators import SEAL, authenticator_of, make_principal
from tests.fakes import HandClock
from tests.jobs import job_rows

from costguard.access.links import make_link
from costguard.access.rules import Access
from costguard.access.session_service import SessionService
from costguard.access.sessions import Sessions
from costguard.access.sign_ins import SignIns
from costguard.access.tokens import NewToken, TokenService
from costguard.db.transaction import Database
from costguard.model.access import Credentials, Principal, Role
from costguard.model.delivery.interaction import JobChoice, JobClick

ADA = "ada@lab.example"
_ACCESS = Access(admins=frozenset({ADA}))


def record(database: Database) -> None:
    _signed_in(database)
    _chosen(database)


def _chosen(database: Database) -> None:
    """Ada presses a button about a job in Slack, and a stranger does."""
    office = access_setup.SlackHandlers(database)
    with closing(office.handler):
        office.know("ada")
        with database.write() as connection:
            job_rows.added(connection, "j7k2m9q4", owner=access_setup.ADA)
        for number, user in enumerate(("ada", "eve")):
            user_id = access_setup.user_id(user)
            key = f"slack/T0/C0GPU/1.0/1.{number}/{user_id}"
            office.handler.click(JobClick(key, user_id, "C0GPU", "1.0", "", "j7k2m9q4", JobChoice.STOP_AFTER))


def _signed_in(database: Database) -> None:
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
