"""Budgets: how much of each is spent, and what any scope will have cost at the end of a period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import (
    AmountsAsOf,
    LabelOut,
    LabelText,
    Moment,
    Out,
    Query,
    Text,
    Usd,
    label_filter,
    one_of,
    read_from,
    wrong_parameter,
)
from costguard.api.job_id import named_job
from costguard.api.route import routes
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Period, Scope
from costguard.spend import budget as policy
from costguard.spend import budgets as engine

router = routes("budgets")


class ForecastOut(Out):
    """An estimate of the spend at the end of the period, never below what is already spent."""

    expected: Usd
    low: Usd
    high: Usd
    method: str = Field(description="The method of the forecast, in sentences.")
    days_known: int = Field(description="The number of full days that it is based on, at most 28.")
    is_grounded: bool = Field(
        description=(
            "False: it is too early to forecast. Pages and commands then show no figure, and it crosses no threshold."
        )
    )


class ForecastResponse(AmountsAsOf):
    project: str | None = read_from("scope.project")
    preset: str | None = read_from("scope.preset")
    owner: str | None = read_from("scope.owner")
    team: str | None = read_from("scope.team")
    job: str | None = read_from("scope.job")
    label: LabelOut = read_from("scope.label", description="The label with its value, such as `experiment=a`.")
    period: Annotated[str, one_of(Period)] = Field(description="A day, a week from Monday, or a month, in UTC.")
    starts_at: Moment
    ends_at: Moment
    spent: Usd
    rate_per_hour: Usd = read_from("rate", description="The present hourly cost of everything that has a price.")
    forecast: ForecastOut
    unpriced: int = Field(
        description="The number of lifetimes and disks without a price: the amounts are too low by their cost."
    )


class ThresholdOut(Out):
    on: Annotated[str, one_of(policy.On)]
    percent: int
    amount: Usd
    is_crossed: bool = Field(description="True: it is crossed now. A forecast can fall again.")
    first_at: Moment | None = Field(
        description="The time at which people were notified in this period; null: they were not."
    )


class BudgetOut(Out):
    project: str | None = read_from("outlook.scope.project")
    preset: str | None = read_from("outlook.scope.preset")
    owner: str | None = read_from("outlook.scope.owner")
    team: str | None = read_from("outlook.scope.team")
    job: str | None = read_from("outlook.scope.job")
    label: LabelOut = read_from("outlook.scope.label", description="The label with its value, such as `experiment=a`.")
    period: Annotated[str, one_of(Period)] = read_from(
        "outlook.period", description="A day, a week from Monday, or a month, in UTC."
    )
    starts_at: Moment = read_from("outlook.starts_at")
    ends_at: Moment = read_from("outlook.ends_at")
    spent: Usd = read_from("outlook.spent")
    downloads: Usd = read_from(
        "outlook.downloads",
        description=(
            "The part of the spend that jobs' VMs paid for their inputs, at list prices, on another cloud's bill."
        ),
    )
    rate_per_hour: Usd = read_from(
        "outlook.rate", description="The present hourly cost of everything that has a price."
    )
    forecast: ForecastOut = read_from("outlook.forecast")
    unpriced: int = read_from(
        "outlook.unpriced",
        description="The number of lifetimes and disks without a price: the amounts are too low by their cost.",
    )
    name: str = read_from("budget.name")
    contact: str = read_from("budget.contact", description="The address of the person responsible; empty: none.")
    limit: Usd = read_from("budget.limit")
    at_limit: Annotated[str, one_of(("tell", "refuse", "stop-spot"))] = read_from(
        "budget.at_limit",
        description=(
            "The action once the limit is spent: `tell` notifies people, `refuse` launches no VMs for jobs, "
            "and `stop-spot` also stops their Spot VMs."
        ),
    )
    spent_percent: int = read_from("percent", description="The spend in percent of the limit, rounded down.")
    forecast_percent: int
    thresholds: Sequence[ThresholdOut]


class BudgetsResponse(AmountsAsOf):
    budgets: list[BudgetOut]


class ForecastQuery(Query):
    period: Literal["day", "week", "month"] = "month"
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None
    team: Text | None = None
    job: Text | None = Field(None, description="A job, by its id or name.")
    label: LabelText | None = None


@router.get("/budgets", summary="List budgets", operation_id="listBudgets")
def budgets(deps: Given) -> BudgetsResponse:
    """Lists the spend, forecast, limit and thresholds of each budget in its present period."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        standings = engine.standings(connection, accrual_at(connection, now), deps.budgets, deps.rules.teams)
    return BudgetsResponse(as_of=now, budgets=[BudgetOut.read(standing) for standing in standings])


@router.get("/forecast", summary="Forecast the spend of a period", operation_id="getForecast")
def forecast(deps: Given, query: Annotated[ForecastQuery, Parameter()]) -> ForecastResponse:
    """Forecasts the spend at the end of the present day, week or month; of everything where no scope is given."""
    now = deps.clock.now()
    if query.team is not None and all(team.name != query.team for team in deps.rules.teams):
        names = ", ".join(team.name for team in deps.rules.teams) or "none"
        raise wrong_parameter(
            "team",
            f"There is no team {query.team} in the settings.",
            f"The teams under [teams] are: {names}.",
            "no such team",
        )
    with deps.database.read() as connection:
        job = named_job(connection, query.job)
        scope = Scope(query.project, query.preset, query.owner, query.team, job, label_filter(query.label))
        accrual = accrual_at(connection, now)
        (outlook,) = engine.outlooks(connection, accrual, [(scope, Period(query.period))], deps.rules.teams)
    return ForecastResponse.read(outlook, as_of=now)
