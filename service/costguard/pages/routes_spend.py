"""The routes of spend, of what was saved, of budgets and of presets."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from costguard.model.access import Permission
from costguard.pages import budgets, presets, saved, spend
from costguard.pages.route import Given, PageRoute
from costguard.pages.spend_asked import GROUPINGS, spend_asked
from costguard.web.memo import memo_of
from costguard.web.who import needs

router = APIRouter(route_class=PageRoute, dependencies=[needs(Permission.READ)])


@router.get("/spend")
def show_spend(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    wanted = spend_asked(request.query_params, moment.date())
    as_of, shown = memo_of(request).once(
        ("spend", wanted), lambda: (moment, spend.spend_page(board.source, wanted, moment))
    )
    return board.renderer.page(request, "spend.html", as_of, asked=wanted, spend=shown, groupings=GROUPINGS)


@router.get("/spend/saved")
def show_saved(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    wanted = spend_asked(request.query_params, moment.date())
    as_of, shown = memo_of(request).once(
        ("saved", wanted), lambda: (moment, saved.saved_page(board.source, wanted, moment))
    )
    return board.renderer.page(
        request,
        "saved.html",
        as_of,
        asked=wanted,
        saved=shown,
        is_shadow=board.source.rules.is_shadow,
        methods=saved.METHODS,
        listed=saved.LISTED,
    )


@router.get("/budgets")
def show_budgets(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    as_of, shown = memo_of(request).once("budgets", lambda: (moment, budgets.budgets_page(board.source, moment)))
    return board.renderer.page(request, "budgets.html", as_of, budgets=shown)


@router.get("/presets")
def show_presets(request: Request, board: Given) -> HTMLResponse:
    moment = board.source.clock.now()
    as_of, shown = memo_of(request).once("presets", lambda: (moment, presets.presets_page(board.source, moment)))
    return board.renderer.page(request, "presets.html", as_of, presets=shown)
