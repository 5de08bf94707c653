"""Where the budgets stand, and what any scope will have cost at the end of a period."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Query, Text, Usd, one_of, usd
from costguard.api.route import routes
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Period, Scope
from costguard.spend import budget as policy
from costguard.spend import budgets as engine
from costguard.web.problems import FieldError, ProblemError

router = routes("budgets")


class Forecast(Out):
    """An estimate of the spend at the period's end, never below what is spent."""

    expected: Usd
    low: Usd
    high: Usd
    method: str = Field(description="How it was made, in sentences.")
    days_known: int = Field(description="Whole days that it looks back on, 28 at most.")
    is_grounded: bool = Field(
        description="False: too early to say. No page or command shows a figure then, and it crosses no threshold."
    )


class Outlook(Out):
    project: str | None
    preset: str | None
    owner: str | None
    team: str | None
    job: str | None
    period: Annotated[str, one_of(Period)] = Field(description="A day, a week from Monday, or a month, in UTC.")
    starts_at: Moment
    ends_at: Moment
    spent: Usd
    rate_per_hour: Usd = Field(description="Of what bills now and can be priced.")
    forecast: Forecast
    unpriced: int = Field(description="Lifetimes and disks without a price: the amounts are too low by them.")


class Threshold(Out):
    on: Annotated[str, one_of(policy.On)]
    percent: int
    amount: Usd
    is_crossed: bool = Field(description="Now. A forecast can fall again.")
    first_at: Moment | None = Field(description="When it was told in this period; null: it was not.")


class Budget(Outlook):
    name: str
    contact: str = Field(description="The address of who answers for it; empty: nobody does.")
    limit: Usd
    at_limit: Literal["tell", "refuse", "stop-spot"] = Field(
        description="Once all of it is spent: nothing but telling, no new VM for jobs, or their Spot VMs stop as well."
    )
    spent_percent: int = Field(description="Of the limit, cut off to whole percents.")
    forecast_percent: int
    thresholds: list[Threshold]


class Budgets(Out):
    as_of: Moment
    currency: str = CURRENCY
    budgets: list[Budget]


class Stamped(Out):
    as_of: Moment
    currency: str = CURRENCY


class ForecastAnswer(Outlook, Stamped):
    """Fields of the last base come first."""


class ForecastQuery(Query):
    period: Literal["day", "week", "month"] = "month"
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None
    team: Text | None = None
    job: Text | None = None


@router.get("/budgets", summary="Where the budgets stand", operation_id="listBudgets")
def budgets(deps: Given) -> Budgets:
    """Spent, forecast, limit and thresholds of each budget in its present period."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        accrual = accrual_at(connection, now)
        standings = engine.standings(connection, accrual, deps.budgets, deps.rules.teams)
    return Budgets(as_of=now, budgets=[_budget(each) for each in standings])


@router.get("/forecast", summary="What will have been spent at the end of a period", operation_id="getForecast")
def forecast(deps: Given, query: Annotated[ForecastQuery, Parameter()]) -> ForecastAnswer:
    """The present day, week or month of whatever is asked for; of everything where nothing is."""
    now = deps.clock.now()
    if query.team is not None and all(team.name != query.team for team in deps.rules.teams):
        known = ", ".join(team.name for team in deps.rules.teams) or "none"
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"There is no team {query.team} in the settings.",
            f"Ask for one of these teams: {known}. They stand under [teams].",
            [FieldError(where="query.team", message="no such team")],
        )
    scope = Scope(query.project, query.preset, query.owner, query.team, query.job)
    with deps.database.read() as connection:
        accrual = accrual_at(connection, now)
        (found,) = engine.outlooks(connection, accrual, [(scope, Period(query.period))], deps.rules.teams)
    return ForecastAnswer(as_of=now, **_outlook(found))


def _budget(of: policy.Standing) -> Budget:
    return Budget(
        **_outlook(of.outlook),
        name=of.budget.name,
        contact=of.budget.contact,
        limit=usd(of.budget.limit),
        at_limit=of.budget.at_limit.value,
        spent_percent=of.percent,
        forecast_percent=of.forecast_percent,
        thresholds=[
            Threshold(
                on=each.on.value,
                percent=each.percent,
                amount=usd(each.amount),
                is_crossed=each.is_crossed,
                first_at=each.first_at,
            )
            for each in of.thresholds
        ],
    )


def _outlook(of: policy.Outlook) -> dict[str, Any]:
    return {
        "project": of.scope.project,
        "preset": of.scope.preset,
        "owner": of.scope.owner,
        "team": of.scope.team,
        "job": of.scope.job,
        "period": of.period.value,
        "starts_at": of.starts_at,
        "ends_at": of.ends_at,
        "spent": usd(of.spent),
        "rate_per_hour": usd(of.rate),
        "forecast": _forecast(of),
        "unpriced": of.unpriced,
    }


def _forecast(of: policy.Outlook) -> Forecast:
    made = of.forecast
    return Forecast(
        expected=usd(made.expected),
        low=usd(made.low),
        high=usd(made.high),
        method=made.method,
        days_known=made.days_known,
        is_grounded=made.is_grounded,
    )
