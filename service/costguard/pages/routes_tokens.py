"""The routes of access: API tokens, and sessions."""

from __future__ import annotations

import secrets
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from costguard.model.access import Permission, Principal
from costguard.pages import sessions, tokens
from costguard.pages.cookies import drop
from costguard.pages.forms import Fields, Form, is_in_place
from costguard.pages.route import Dashboard, Given, PageRoute
from costguard.pages.sign_in import LEFT
from costguard.pages.tokens import Made
from costguard.web.door import COOKIES
from costguard.web.who import Asker, needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.TOKENS)])

admin_router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.ADMIN)])


@router.get("/tokens")
def show_access(request: Request, board: Given, me: Asker, before: str = "", sessions: str = "") -> HTMLResponse:
    return _page(request, board, me, before, sessions)


@router.post("/tokens")
def make(request: Request, board: Given, me: Asker, form: Fields) -> HTMLResponse:
    """Answers with the page itself: a secret is in no address, and is shown this once."""
    return _page(request, board, me, "", "", tokens.make(board.source, me, form))


@router.get("/tokens/{token_id}/revoke")
def ask_first(request: Request, board: Given, me: Asker, token_id: str) -> HTMLResponse:
    found = tokens.token_of(board.source, me, token_id)
    return board.renderer.page(request, "revoke.html", board.source.clock.now(), token=found)


@router.post("/tokens/{token_id}/revoke")
def revoke(request: Request, board: Given, me: Asker, token_id: str) -> Response:
    token = tokens.office(board.source).revoke(token_id, me)
    if not is_in_place(request):
        return _to("/tokens")
    return _told(request, board, f"Revoked {token.name}. What shows it is refused from now on.")


@admin_router.post("/tokens/{token_id}/confirm")
def confirm(request: Request, board: Given, me: Asker, token_id: str) -> Response:
    token = tokens.office(board.source).confirm(token_id, me)
    if not is_in_place(request):
        return _to("/tokens")
    return _told(request, board, f"Confirmed {token.name}: it does not end with the session that it was made in.")


@router.get("/sessions/end")
def ask_for_all(request: Request, board: Given, me: Asker, address: str = "") -> HTMLResponse:
    return _question(request, board, sessions.question_of_all(me, address or me.address))


@router.post("/sessions/end")
def end_all(request: Request, board: Given, me: Asker, form: Form) -> Response:
    found = sessions.question_of_all(me, form.get("address", ""))
    ended = sessions.office(board.source).end_all(found.address, me)
    what = "1 session" if len(ended) == 1 else f"{len(ended)} sessions"
    return _ended(request, board, found, f"{found.address} is signed out: {what} ended.")


@router.get("/sessions/{session_id}/end")
def ask_to_end(request: Request, board: Given, me: Asker, session_id: str) -> HTMLResponse:
    return _question(request, board, sessions.question(board.source, me, session_id))


@router.post("/sessions/{session_id}/end")
def end(request: Request, board: Given, me: Asker, session_id: str) -> Response:
    found = sessions.question(board.source, me, session_id)
    sessions.office(board.source).end(session_id, me)
    return _ended(request, board, found, f"Ended. That browser is signed out as {found.address}.")


def _page(
    request: Request, board: Dashboard, me: Principal, before: str, older: str, made: Made | None = None
) -> HTMLResponse:
    form = secrets.token_urlsafe(12)
    shown = tokens.tokens_page(board.source, me, before, form, made)
    signed_in = sessions.sessions_page(board.source, me, older)
    return board.renderer.page(request, "tokens.html", shown.now, tokens=shown, sessions=signed_in)


def _question(request: Request, board: Dashboard, found: sessions.Question) -> HTMLResponse:
    return board.renderer.page(request, "end_session.html", board.source.clock.now(), question=found)


def _ended(request: Request, board: Dashboard, found: sessions.Question, text: str) -> Response:
    """Who ended their own is shown where to sign in, as after signing out."""
    if not found.is_here:
        return _told(request, board, text) if is_in_place(request) else _to("/tokens")
    answer = Response(headers={"HX-Redirect": LEFT}) if is_in_place(request) else _to(LEFT)
    drop(request, answer, COOKIES)
    return answer


def _told(request: Request, board: Dashboard, text: str) -> Response:
    told = board.renderer.page(request, "_notice.html", board.source.clock.now(), text=text)
    told.headers["HX-Trigger"] = "asked"
    return told


def _to(address: str) -> Response:
    return RedirectResponse(address, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})
