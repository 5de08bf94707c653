"""The route of prices."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from costguard.model.access import Permission
from costguard.pages import prices
from costguard.pages.route import Given, PageRoute
from costguard.web.who import needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.READ)])


@router.get("/prices")
def show_prices(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    wanted = prices.prices_asked(request.query_params)
    shown = prices.prices_page(board.source, wanted, moment)
    return board.renderer.page(request, "prices.html", moment, asked=wanted, prices=shown)
