"""The routes of spend and budgets."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from costguard.dashboard import budgets, spend
from costguard.dashboard.route import Given, PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/spend")
def show_spend(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    wanted = spend.spend_asked(request.query_params, moment.date())
    shown = spend.spend_page(board.source, wanted, moment)
    return board.renderer.page(request, "spend.html", moment, asked=wanted, spend=shown, groupings=spend.GROUPINGS)


@router.get("/budgets")
def show_budgets(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    shown = budgets.budgets_page(board.source, moment)
    return board.renderer.page(request, "budgets.html", moment, budgets=shown)
