"""The page Savings: Spot against on-demand, what stops saved, what keeps cost, and what jobs' time went into."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.ledger.accrual import accrual_at
from costguard.pages.goodput import GoodputTables, goodput_tables
from costguard.pages.page import Given, page_router
from costguard.pages.spend import spend_query
from costguard.spend.goodput import METHOD as GOODPUT_METHOD
from costguard.spend.saved import Saved, saved_between
from costguard.spend.savings import KEEP_METHOD, SHADOW_METHOD, STOP_METHOD
from costguard.spend.spot import METHOD
from costguard.web.memo import memo_of

LISTED = 200  # of each kind
_METHODS = {
    "spot": METHOD,
    "stop": STOP_METHOD,
    "shadow": SHADOW_METHOD,
    "keep": KEEP_METHOD,
    "goodput": GOODPUT_METHOD,
}

router = page_router()


@router.get("/savings")
def show_savings(request: Request, pages: Given) -> HTMLResponse:
    source = pages.source
    now = source.clock.now()
    wanted = spend_query(request.query_params, now.date())

    def read() -> tuple[Saved, GoodputTables]:
        with source.database.read() as connection:
            accrual = accrual_at(connection, now)
            saved = saved_between(connection, accrual, wanted.first, wanted.last, wanted.scope)
            return saved, goodput_tables(connection, accrual, wanted.first, wanted.last, wanted.scope)

    as_of, (saved, goodput) = memo_of(request).once(("savings", wanted), lambda: (now, read()))
    return pages.renderer.page(
        request,
        "savings.html",
        as_of,
        query=wanted,
        savings=saved,
        goodput=goodput,
        is_shadow=source.rules.is_shadow,
        methods=_METHODS,
        listed=LISTED,
    )
