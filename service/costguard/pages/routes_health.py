"""The route of health."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from costguard.model.access import Permission
from costguard.pages import health
from costguard.pages.route import Given, PageRoute
from costguard.web.who import needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.READ)])


@router.get("/health")
def show_health(request: Request, board: Given) -> HTMLResponse:
    """Answers, as a page, while the database does not."""
    shown = health.health_page(board.source)
    return board.renderer.page(request, "health.html", shown.found.as_of, health=shown)
