"""The page Access: API tokens and sessions, with their forms."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from costguard.access import token_rows as tokens
from costguard.access.session_service import SessionService
from costguard.access.sessions import Session
from costguard.access.token_rows import ApiToken
from costguard.access.tokens import NewToken, TokenService
from costguard.errors import Missing
from costguard.model.access import Permission, Principal, Role
from costguard.pages.page import Fields, Form, Given, Pages, Source, is_in_place, page_router, redirect
from costguard.pages.query import BadAddress, place_before
from costguard.pages.show import link
from costguard.pages.sign_in import SIGNED_OUT, drop
from costguard.web.authentication import COOKIES
from costguard.web.permissions import Asker

_PAGE_SIZE = 50
_LIFETIMES = {"30": 30, "90": 90, "365": 365, "never": None}  # days
_PERMISSIONS = {
    Permission.READ: "view everything",
    Permission.JOBS: "launch and cancel jobs",
    Permission.INSTANCES: "stop, keep and claim VMs",
    Permission.TOKENS: "create and revoke tokens, end sessions",
    Permission.METRICS: "read /metrics, for Prometheus",
    Permission.ADMIN: "act for other people, and manage their tokens",
}
_SIGNED_IN = {"link": "with a one-time link", "oidc": "with the identity provider"}

router = page_router(Permission.TOKENS)
admin_router = page_router(Permission.ADMIN)


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A token that was just created; its secret is None where the same form had created it before."""

    token: ApiToken
    secret: str | None


@dataclass(frozen=True, slots=True)
class TokenList:
    tokens: Sequence[ApiToken]
    next: str | None  # the address of older ones
    now: datetime
    choices: Mapping[str, str]  # the permissions that the viewer may give, in words
    lifetimes: Sequence[str]
    form: str  # names the form, so that sending it twice creates one
    made: MadeToken | None = None
    confirms: bool = False  # whether the viewer may confirm tokens that were created in a link's session

    def state(self, token: ApiToken) -> str:
        if token.revoked_at is not None:
            return "revoked"
        return "expired" if token.is_over(self.now) else "usable"


@dataclass(frozen=True, slots=True)
class SessionList:
    sessions: Sequence[Session]
    roles: Mapping[str, Role]  # by session: its holder's role today
    mine: int  # of those shown
    next: str | None  # the address of older ones
    how: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EndSessionQuestion:
    """The question to end this session, or all sessions of this address where `session` is None."""

    session: Session | None
    address: str
    is_me: bool
    is_here: bool  # it signs the viewer out
    action: str
    others: str  # where all of theirs can be ended; "" where this is the only one, or all are meant already
    how: Mapping[str, str]


@router.get("/tokens")
def show_access(request: Request, pages: Given, me: Asker, before: str = "", sessions: str = "") -> HTMLResponse:
    return _page(request, pages, me, before, sessions)


@router.post("/tokens")
def make_token(request: Request, pages: Given, me: Asker, form: Fields) -> HTMLResponse:
    """Answers with the page itself: a secret is never in an address, and is shown only once."""
    return _page(request, pages, me, "", "", _made_token(pages.source, me, form))


@router.get("/tokens/{token_id}/revoke")
def confirm_revoke(request: Request, pages: Given, me: Asker, token_id: str) -> HTMLResponse:
    return pages.render(request, "revoke.html", token=_token_of(pages.source, me, token_id))


@router.post("/tokens/{token_id}/revoke")
def revoke_token(request: Request, pages: Given, me: Asker, token_id: str) -> Response:
    token = _tokens(pages.source).revoke(token_id, me)
    return pages.after_action(request, f"Revoked {token.name}. Requests with it are refused from now on.", "/tokens")


@admin_router.post("/tokens/{token_id}/confirm")
def confirm_token(request: Request, pages: Given, me: Asker, token_id: str) -> Response:
    token = _tokens(pages.source).confirm(token_id, me)
    text = f"Confirmed {token.name}: it outlives the session that it was created in."
    return pages.after_action(request, text, "/tokens")


@router.get("/sessions/end")
def confirm_end_all(request: Request, pages: Given, me: Asker, address: str = "") -> HTMLResponse:
    return pages.render(request, "end_session.html", question=_question_of_all(me, address or me.address))


@router.post("/sessions/end")
def end_all_sessions(request: Request, pages: Given, me: Asker, form: Form) -> Response:
    question = _question_of_all(me, form.get("address", ""))
    ended = _sessions(pages.source).end_all(question.address, me)
    count = "1 session" if len(ended) == 1 else f"{len(ended)} sessions"
    return _after_end(request, pages, question, f"{question.address} is signed out: {count} ended.")


@router.get("/sessions/{session_id}/end")
def confirm_end(request: Request, pages: Given, me: Asker, session_id: str) -> HTMLResponse:
    return pages.render(request, "end_session.html", question=_question(pages.source, me, session_id))


@router.post("/sessions/{session_id}/end")
def end_session(request: Request, pages: Given, me: Asker, session_id: str) -> Response:
    question = _question(pages.source, me, session_id)
    _sessions(pages.source).end(session_id, me)
    return _after_end(request, pages, question, f"Session ended. That browser is signed out as {question.address}.")


def _page(
    request: Request, pages: Pages, me: Principal, before: str, older: str, made: MadeToken | None = None
) -> HTMLResponse:
    shown = _token_list(pages.source, me, before, secrets.token_urlsafe(12), made)
    signed_in = _session_list(pages.source, me, older)
    return pages.renderer.page(request, "access.html", shown.now, tokens=shown, sessions=signed_in)


def _after_end(request: Request, pages: Pages, question: EndSessionQuestion, text: str) -> Response:
    """Viewers who ended their own session see where to sign in, as after signing out."""
    if not question.is_here:
        return pages.after_action(request, text, "/tokens")
    answer = Response(headers={"HX-Redirect": SIGNED_OUT}) if is_in_place(request) else redirect(SIGNED_OUT)
    drop(request, answer, COOKIES)
    return answer


def _token_list(source: Source, me: Principal, before: str, form: str, made: MadeToken | None) -> TokenList:
    """Raises BadAddress."""
    listed = _tokens(source).listing(me, place_before(before, "tokens", "/tokens"), _PAGE_SIZE + 1)
    here = listed[:_PAGE_SIZE]
    more = link("/tokens", before=f"{here[-1].made_at.isoformat()} {here[-1].id}") if len(listed) > _PAGE_SIZE else None
    choices = {permission.value: words for permission, words in _PERMISSIONS.items() if me.may(permission)}
    confirms = me.may(Permission.ADMIN) and not me.link_session
    return TokenList(here, more, source.clock.now(), choices, tuple(_LIFETIMES), form, made, confirms)


def _made_token(source: Source, me: Principal, form: Sequence[tuple[str, str]]) -> MadeToken:
    """Raises BadAddress for a form that none of our pages sends, and Invalid."""
    fields = dict(form)
    lifetime = fields.get("lifetime", "")
    if lifetime not in _LIFETIMES:
        raise BadAddress("The form does not say how long the token lasts.", f"Choose one of {', '.join(_LIFETIMES)}.")
    chosen = [value for name, value in form if name == "permission"]
    if not set(chosen) <= set(Permission):
        raise BadAddress("The form names a permission that does not exist.", "Reload the page and try again.")
    days = _LIFETIMES[lifetime]
    new = NewToken(
        name=fields.get("name", ""),
        permissions=frozenset(map(Permission, chosen)),
        lasts=None if days is None else timedelta(days=days),
        owner=fields.get("owner", ""),
    )
    return MadeToken(*_tokens(source).make(new, me, fields.get("key") or None))


def _token_of(source: Source, me: Principal, token_id: str) -> ApiToken:
    """Raises Missing for other people's tokens too."""
    with source.database.read() as connection:
        token = tokens.read(connection, token_id)
    if token is None or (token.owner != me.address and not me.may(Permission.ADMIN)):
        raise Missing(f"You have no token {token_id[:40]!r}.", "The page Access lists your tokens.")
    return token


def _session_list(source: Source, me: Principal, before: str) -> SessionList:
    """Raises BadAddress."""
    office = _sessions(source)
    listed = office.listing(me, place_before(before, "sessions", "/tokens"), _PAGE_SIZE + 1)
    here, more = listed[:_PAGE_SIZE], None
    if len(listed) > _PAGE_SIZE:
        more = link("/tokens", sessions=f"{here[-1].began_at.isoformat()} {here[-1].id}")
    roles = {session.id: office.role(session) for session in here}
    return SessionList(here, roles, sum(session.address == me.address for session in here), more, _SIGNED_IN)


def _question(source: Source, me: Principal, session_id: str) -> EndSessionQuestion:
    """Raises Missing."""
    office = _sessions(source)
    session = office.find(session_id, me)
    theirs = [other for other in office.listing(me, limit=_PAGE_SIZE) if other.address == session.address]
    return EndSessionQuestion(
        session=session,
        address=session.address,
        is_me=session.address == me.address,
        is_here=session.id == me.session,
        action=f"/sessions/{session.id}/end",
        others=link("/sessions/end", address=session.address) if len(theirs) > 1 else "",
        how=_SIGNED_IN,
    )


def _question_of_all(me: Principal, address: str) -> EndSessionQuestion:
    """Raises BadAddress where no address is given."""
    address = address.strip().lower()
    if not address:
        raise BadAddress("The form does not say whose sessions to end.", "Choose a session on the page Access.")
    is_me = address == me.address
    return EndSessionQuestion(None, address, is_me, is_me and bool(me.session), "/sessions/end", "", _SIGNED_IN)


def _tokens(source: Source) -> TokenService:
    return TokenService(source.database, source.clock)


def _sessions(source: Source) -> SessionService:
    return SessionService(source.database, source.clock, source.rules.access)
