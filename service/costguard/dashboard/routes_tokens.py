"""The routes of API tokens."""

from __future__ import annotations

import secrets
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from costguard.dashboard import tokens
from costguard.dashboard.forms import Fields, is_in_place
from costguard.dashboard.route import Dashboard, Given, PageRoute
from costguard.dashboard.tokens import Made
from costguard.model.access import Permission, Principal
from costguard.web.who import Asker, needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.TOKENS)])


@router.get("/tokens")
def show_tokens(request: Request, board: Given, me: Asker, before: str = "") -> HTMLResponse:
    return _page(request, board, me, before)


@router.post("/tokens")
def make(request: Request, board: Given, me: Asker, form: Fields) -> HTMLResponse:
    """Answers with the page itself: a secret is in no address, and is shown this once."""
    return _page(request, board, me, "", tokens.make(board.source, me, form))


@router.get("/tokens/{token_id}/revoke")
def ask_first(request: Request, board: Given, me: Asker, token_id: str) -> HTMLResponse:
    found = tokens.token_of(board.source, me, token_id)
    return board.renderer.page(request, "revoke.html", board.source.clock.now(), token=found)


@router.post("/tokens/{token_id}/revoke")
def revoke(request: Request, board: Given, me: Asker, token_id: str) -> Response:
    token = tokens.office(board.source).revoke(token_id, me)
    if not is_in_place(request):
        return RedirectResponse("/tokens", HTTPStatus.SEE_OTHER)
    text = f"Revoked {token.name}. What shows it is refused from now on."
    told = board.renderer.page(request, "_notice.html", board.source.clock.now(), text=text)
    told.headers["HX-Trigger"] = "asked"
    return told


def _page(request: Request, board: Dashboard, me: Principal, before: str, made: Made | None = None) -> HTMLResponse:
    form = secrets.token_urlsafe(12)
    shown = tokens.tokens_page(board.source, me, before, form, made)
    return board.renderer.page(request, "tokens.html", shown.now, tokens=shown)
