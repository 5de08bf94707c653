"""The page Savings: Spot against on-demand, what stops saved, what keeps cost, and what jobs' time went into."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from zoneinfo import ZoneInfo

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.jobs.listing.tips import tips_of_quarter
from costguard.ledger.accrual import accrual_at
from costguard.model.instance import InstanceKey, noun_of
from costguard.pages.goodput import GoodputTables, goodput_tables
from costguard.pages.page import Given, Pages, page_router
from costguard.pages.query import BadAddress
from costguard.pages.spend import spend_query
from costguard.spend.goodput import METHOD as GOODPUT_METHOD
from costguard.spend.saved import Saved, saved_between
from costguard.spend.savings import KEEP_METHOD, SHADOW_METHOD, STOP_METHOD
from costguard.spend.spot import METHOD
from costguard.spend.tips.quarter import Quarter
from costguard.spend.tips.rules import METHODS as TIP_METHODS
from costguard.spend.tips.rules import TipAccount
from costguard.web.memo import memo_of

LISTED = 200  # of each kind
_METHODS = {
    "spot": METHOD,
    "stop": STOP_METHOD,
    "shadow": SHADOW_METHOD,
    "keep": KEEP_METHOD,
    "goodput": GOODPUT_METHOD,
    "tips": " ".join(TIP_METHODS.values()),
}

router = page_router()


class TipsOfQuarter(NamedTuple):
    quarter: Quarter
    account: TipAccount


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
        stopped=_heading([one.stop.key for one in saved.stops] + [shadow.stop.key for shadow in saved.shadows]),
        kept=_heading(kept.keep.key for kept in saved.keeps),
        tips=tips_of(request, pages),
    )


def _heading(keys: Iterable[InstanceKey]) -> str:
    """Heads a column with these: `VM`, `Custom job`, or `Resource` where they are of several kinds."""
    noun = noun_of(key.kind for key in keys)
    return noun[0].upper() + noun[1:]


def tips_of(request: Request, pages: Pages) -> TipsOfQuarter:
    """Returns the account of the quarter that the address names, or of the present one. Raises BadAddress."""
    source = pages.source
    zone = ZoneInfo(source.rules.time_zone)
    now, typed = source.clock.now(), request.query_params.get("quarter", "")[:10]
    try:
        quarter = Quarter.parse(typed) if typed else Quarter.at(now, zone)
    except ValueError as wrong:
        raise BadAddress(str(wrong), "Open the page Savings without it.") from None

    def read() -> TipAccount:
        with source.database.read() as connection:
            return tips_of_quarter(connection, accrual_at(connection, now), quarter, zone)

    return TipsOfQuarter(quarter, memo_of(request).once(("tips", quarter), read))
