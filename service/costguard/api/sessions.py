"""Sessions: who is signed in, and signing people out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from fastapi import Query as Parameter
from pydantic import Field

from costguard.access.session_service import SessionService
from costguard.access.sessions import Session
from costguard.api import cursors
from costguard.api.deps import Deps, Given
from costguard.api.fields import Address, AsOf, Moment, Out, Query, Text, one_of
from costguard.api.route import NOT_FOUND, routes
from costguard.model.access import Permission, Principal, Role, Via
from costguard.web.permissions import Asker

router = routes("sessions", Permission.TOKENS)


class SessionOut(Out):
    id: str
    address: str = Field(description="The person who is signed in.", examples=["ana@example.com"])
    role: Annotated[str, one_of(Role)] = Field(description="The person's role today.", examples=["operator"])
    via: Annotated[str, one_of(Via)] = Field(description="The way in which the person signed in.", examples=["oidc"])
    client: str = Field(description="The network address of the browser; empty: not known.", examples=["10.0.0.7"])
    began_at: Moment
    expires_at: Moment
    last_used_at: Moment | None = Field(description="The last use, to the minute; null: not used yet.")
    is_this: bool = Field(description="True: this request belongs to the session.")


class SessionResponse(AsOf):
    session: SessionOut


class SessionsResponse(AsOf):
    sessions: list[SessionOut]
    next_cursor: str | None


class EndedSessionsResponse(AsOf):
    sessions: list[SessionOut] = Field(description="The sessions that were ended.")


class SessionQuery(Query):
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class EndSessionsQuery(Query):
    address: Address | None = Field(
        None, description="The person's address; default: the caller's. Only admins name another."
    )


@router.get("/sessions", summary="List sessions, the latest first", operation_id="listSessions")
def sessions(deps: Given, asker: Asker, query: Annotated[SessionQuery, Parameter()]) -> SessionsResponse:
    """Lists your own browser sessions; admins see everyone's. People who sign in through a proxy have none here."""
    rows = _sessions(deps).listing(asker, cursors.decode_place(query.cursor, "sessions"), query.limit + 1)
    page, more = rows[: query.limit], None
    if len(rows) > query.limit:
        more = cursors.encode_place("sessions", page[-1].began_at, page[-1].id)
    return SessionsResponse(
        as_of=deps.clock.now(), sessions=[_session(deps, asker, session) for session in page], next_cursor=more
    )


@router.delete("/sessions/{session_id}", summary="End a session", operation_id="endSession", responses=NOT_FOUND)
def end(deps: Given, asker: Asker, session_id: Annotated[Text, Path()]) -> SessionResponse:
    """Ends the session: its browser is signed out at once. A session that has ended is not found."""
    ended = _sessions(deps).end(session_id, asker)
    return SessionResponse(as_of=deps.clock.now(), session=_session(deps, asker, ended))


@router.delete("/sessions", summary="Sign a person out everywhere", operation_id="endSessions")
def end_all(deps: Given, asker: Asker, query: Annotated[EndSessionsQuery, Parameter()]) -> EndedSessionsResponse:
    """Ends all sessions of one person. Their tokens stay valid: when a person leaves, revoke those too."""
    ended = _sessions(deps).end_all(query.address or "", asker)
    return EndedSessionsResponse(as_of=deps.clock.now(), sessions=[_session(deps, asker, session) for session in ended])


def _sessions(deps: Deps) -> SessionService:
    return SessionService(deps.database, deps.clock, deps.rules.access)


def _session(deps: Deps, asker: Principal, session: Session) -> SessionOut:
    return SessionOut.read(session, role=_sessions(deps).role(session), is_this=session.id == asker.session)
