"""The page Budgets: what is left of each budget, day by day, and where it is heading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.ledger.accrual import accrual_at
from costguard.model.budget import AtLimit, Budget, Period
from costguard.model.money import about_text
from costguard.pages.charts import Curve, burn_down
from costguard.pages.page import Given, Source, page_router
from costguard.pages.show import day, link
from costguard.spend import budgets
from costguard.spend.budget import TOO_EARLY, Standing
from costguard.spend.spend_rows import Grouping
from costguard.web.memo import memo_of

_DAY = timedelta(days=1)
_AT_LIMIT = {
    AtLimit.TELL: "People are notified; nothing is stopped.",
    AtLimit.REFUSE: "Jobs under this budget get no VM until the period ends.",
    AtLimit.STOP_SPOT: "Jobs under this budget get no VM until the period ends, and their Spot VMs stop once they "
    "have saved.",
}

router = page_router()


@dataclass(frozen=True, slots=True)
class BudgetCard:
    standing: Standing
    curve: Curve
    tone: str  # "over", "soon", "early" or "well"
    verdict: str
    left: timedelta  # of the period
    period: str
    at_limit: str
    contact: str  # "" where there is none
    spend_address: str


@dataclass(frozen=True, slots=True)
class BudgetsPage:
    cards: Sequence[BudgetCard]
    over: int
    soon: int
    methods: Sequence[str]


@router.get("/budgets")
def show_budgets(request: Request, pages: Given) -> HTMLResponse:
    now = pages.source.clock.now()
    as_of, page = memo_of(request).once("budgets", lambda: (now, _gathered(pages.source, now)))
    return pages.renderer.page(request, "budgets.html", as_of, budgets=page)


def _gathered(source: Source, now: datetime) -> BudgetsPage:
    """Everything that the page shows, read in one transaction."""
    rules = source.rules
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        standings = budgets.standings(connection, accrual, rules.budgets, rules.teams)
    cards = [_card(standing, rules.contact, now) for standing in standings]
    tones = [card.tone for card in cards]
    methods = tuple(dict.fromkeys(standing.outlook.forecast.method for standing in standings))
    return BudgetsPage(cards, tones.count("over"), tones.count("soon"), methods)


def _card(standing: Standing, contact: str, now: datetime) -> BudgetCard:
    tone, verdict = _verdict(standing)
    budget, ends_at = standing.budget, standing.outlook.ends_at
    return BudgetCard(
        standing=standing,
        curve=burn_down(standing, now),
        tone=tone,
        verdict=verdict,
        left=ends_at - now,
        period="today (UTC)"
        if budget.period is Period.DAY
        else f"this {budget.period.value}, to {day(ends_at.date() - _DAY)}",
        at_limit=_AT_LIMIT[budget.at_limit],
        contact=budget.contact or contact,
        spend_address=_spend_address(budget, standing.outlook.starts_at, now),
    )


def _spend_address(budget: Budget, starts_at: datetime, now: datetime) -> str:
    """The spend that it counts. For a team this is everyone's by owner, because Spend has no filter for teams."""
    scope = budget.scope
    group_by = Grouping.OWNER if scope.team or scope.preset else Grouping.PRESET
    return link(
        "/spend",
        from_=starts_at.date(),
        to=now.date(),
        group_by=group_by.value,
        project=scope.project,
        preset=scope.preset,
        owner=scope.owner,
        job=scope.job,
        label=scope.label,
    )


def _verdict(standing: Standing) -> tuple[str, str]:
    limit, spent, forecast = standing.budget.limit, standing.outlook.spent, standing.outlook.forecast
    if spent >= limit:
        return "over", f"overspent by {spent - limit}"
    if not forecast.is_grounded:
        return "early", TOO_EARLY
    if forecast.expected >= limit:
        return "soon", f"on course to overspend by {about_text(str(forecast.expected - limit))}"
    if forecast.high >= limit:
        return "well", "on course, but could still overspend"
    return "well", "on course"
