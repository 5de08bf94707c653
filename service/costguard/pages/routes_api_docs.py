"""The route of the API's documentation."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from costguard.model.access import Permission
from costguard.pages import api_docs
from costguard.pages.route import Given, PageRoute
from costguard.web.who import needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.READ)])


@router.get("/api/docs")
def show_api_docs(request: Request, board: Given) -> HTMLResponse:
    """Made from the same document as /openapi.json."""
    docs = api_docs.read(request.app.openapi())
    return board.renderer.page(request, "api_docs.html", board.source.clock.now(), docs=docs)
