"""The page Loose: what bills and nothing uses. It has no button: Costguard removes nothing of it."""

from __future__ import annotations

from functools import partial

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.pages.page import Given, page_router
from costguard.spend.loose import METHOD, prices_of

LISTED = 500

router = page_router()


@router.get("/loose")
def show_loose(request: Request, pages: Given) -> HTMLResponse:
    source = pages.source
    report = None if source.loose is None else source.loose.report(partial(prices_of, source.database))
    as_of = source.clock.now()
    return pages.renderer.page(request, "loose.html", as_of, report=report, method=METHOD, listed=LISTED)
