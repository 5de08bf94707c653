"""Who is signed in, and how that is ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from fastapi import Query as Parameter
from pydantic import Field

from costguard.access import session_rows as sessions
from costguard.access.session_office import SessionOffice
from costguard.api import cursors
from costguard.api.deps import Deps, Given
from costguard.api.fields import Address, Moment, Out, Query, Text, one_of
from costguard.api.route import routes
from costguard.model.access import Permission, Principal, Role, Via
from costguard.web.problems import NOT_FOUND
from costguard.web.who import Asker

router = routes("sessions", Permission.TOKENS)

_CURSOR = (int, str)


class Session(Out):
    id: str
    address: str = Field(description="Who is signed in.", examples=["ana@example.com"])
    role: Annotated[str, one_of(Role)] = Field(description="What they are today.", examples=["operator"])
    via: Annotated[str, one_of(Via)] = Field(description="How they signed in.", examples=["oidc"])
    client: str = Field(description="The address that they came from; empty: not known.", examples=["10.0.0.7"])
    began_at: Moment
    expires_at: Moment
    last_used_at: Moment | None = Field(description="To the minute; null: not yet.")
    is_this: bool = Field(description="The one that this request came with.")


class SessionAnswer(Out):
    as_of: Moment
    session: Session


class Sessions(Out):
    as_of: Moment
    sessions: list[Session]
    next_cursor: str | None


class SessionsEnded(Out):
    as_of: Moment
    sessions: list[Session] = Field(description="Those that are over now.")


class SessionQuery(Query):
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class EndQuery(Query):
    address: Address | None = Field(None, description="Whose; default: who asks. Only admins name another.")


@router.get("/sessions", summary="Who is signed in, those who came last first", operation_id="listSessions")
def listed(deps: Given, asker: Asker, query: Annotated[SessionQuery, Parameter()]) -> Sessions:
    """One's own sessions in browsers; an admin sees everybody's. Who comes by a proxy has none here."""
    before = None
    if query.cursor is not None:
        micros, session_id = cursors.decode(query.cursor, "sessions", _CURSOR)
        before = (cursors.moment(int(micros)), str(session_id))
    found = _office(deps).listing(asker, before, query.limit + 1)
    page, more = found[: query.limit], None
    if len(found) > query.limit:
        more = cursors.encode("sessions", cursors.micros(page[-1].began_at), page[-1].id)
    return Sessions(as_of=deps.clock.now(), sessions=[_session(deps, asker, each) for each in page], next_cursor=more)


@router.delete("/sessions/{session_id}", summary="End a session", operation_id="endSession", responses=NOT_FOUND)
def end(deps: Given, asker: Asker, session_id: Annotated[Text, Path()]) -> SessionAnswer:
    """Its browser is signed out from now on. One that is over is not known any more."""
    ended = _office(deps).end(session_id, asker)
    return SessionAnswer(as_of=deps.clock.now(), session=_session(deps, asker, ended))


@router.delete("/sessions", summary="Sign somebody out everywhere", operation_id="endSessions")
def end_all(deps: Given, asker: Asker, query: Annotated[EndQuery, Parameter()]) -> SessionsEnded:
    """All sessions of one person. Their tokens stay: revoke those, too, where somebody leaves."""
    ended = _office(deps).end_all(query.address or "", asker)
    return SessionsEnded(as_of=deps.clock.now(), sessions=[_session(deps, asker, each) for each in ended])


def _office(deps: Deps) -> SessionOffice:
    return SessionOffice(deps.database, deps.clock, deps.rules.access)


def _session(deps: Deps, asker: Principal, of: sessions.Session) -> Session:
    return Session(
        id=of.id,
        address=of.address,
        role=_office(deps).role(of).value,
        via=of.via.value,
        client=of.client,
        began_at=of.began_at,
        expires_at=of.expires_at,
        last_used_at=of.last_used_at,
        is_this=of.id == asker.session,
    )
