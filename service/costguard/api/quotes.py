"""What a job would cost, before anything is launched."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from costguard.api import job_mapping
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Provisioning, Usd, one_of, usd
from costguard.api.job_fields import QuoteBody
from costguard.api.jobs import office, owner_of
from costguard.api.route import routes
from costguard.api.writing import CHECKED, WRITTEN
from costguard.jobs import offers as policy
from costguard.jobs import quote as engine
from costguard.jobs.budget_holds import BudgetLeft
from costguard.jobs.offers import Chance
from costguard.model.access import Permission
from costguard.model.budget import AtLimit, Period
from costguard.model.job import JobKind
from costguard.web.who import Asker

router = routes("jobs", Permission.JOBS)  # it looks into buckets, with what the guard may read


class Machine(Out):
    """Zeros where nobody knows what the machine type is made of: then it has no price either."""

    machine_type: str
    vcpus: int
    memory_mib: int
    gpu_type: str | None
    gpu_count: int
    local_ssd_gib: int
    disk_gib: int
    disk_type: str
    max_run_seconds: int


class Rate(Out):
    """Dollars an hour; null where there is no price."""

    machine: Usd | None
    gpu: Usd | None
    disk: Usd | None
    total: Usd | None
    unpriced: str = Field(description="What has no price; empty where all has.")


class QuotedPlace(Out):
    zone: str
    spot: Rate
    on_demand: Rate
    note: str = Field(description="What happened there lately; empty: nothing that counts.")


class Offer(Out):
    zone: str
    provisioning_model: Provisioning
    rate_per_hour: Usd | None
    cost: Usd | None = Field(description="Of the hours asked about.")


class QuotedBudget(Out):
    """One that the job would count against."""

    name: str
    period: Annotated[str, one_of(Period)]
    ends_at: Moment
    limit: Usd
    spent: Usd
    left: Usd = Field(description="Below zero once it is overspent.")
    left_after: Usd | None = Field(description="Were all of the cost spent in this period; null: it is not known.")
    at_limit: Annotated[str, one_of(AtLimit)]


class Outlook(Out):
    """By `expected_hours`, and without interruptions. What is `no` is refused; what is `at_risk` is a warning."""

    ends_at: Moment | None = Field(
        description="If its VM starts within 20 minutes; null: nobody says how long it takes."
    )
    deadline: Moment | None
    meets_deadline: Annotated[str, one_of(Chance)]
    least: Offer | None = Field(description="In the cheapest place that it may use.")
    most: Offer | None = Field(description="In the dearest one.")
    ceiling: Usd | None
    within_ceiling: Annotated[str, one_of(Chance)]


class Refusal(Out):
    where: str = Field(description="Which part of the body.")
    message: str = Field(description="What is wrong with it, and what to change.")


class Quote(Out):
    as_of: Moment
    currency: str = CURRENCY
    preset: str
    project: str
    kind: Annotated[str, one_of(JobKind)]
    hours: str
    machine: Machine | None = Field(description="null: there is no such preset, or it cannot be launched.")
    places: list[QuotedPlace] = Field(description="In the order in which they would be tried now.")
    cheapest: Offer | None = Field(description="Of the models that may be used; null: nothing has a price.")
    first: Offer | None = Field(description="Where it would start now.")
    saving_percent: int | None = Field(description="Spot against on-demand, in that zone.")
    budgets: list[QuotedBudget]
    outlook: Outlook = Field(description="Whether it can meet its deadline and stay within its ceiling.")
    warnings: list[str] = Field(description="What speaks against it, and refuses nothing.")
    refusals: list[Refusal] = Field(description="Why POST /api/v1/jobs would refuse this; owner and command may wait.")


@router.post(
    "/quotes",
    summary="What a job would cost, and why it would be refused",
    operation_id="quoteJob",
    dependencies=[CHECKED],
    responses=WRITTEN,
)
def quote(deps: Given, asker: Asker, body: QuoteBody) -> Quote:
    """Spot and on-demand in every zone, what so many hours cost, and what is left of budgets. Nothing is stored."""
    owner = owner_of(asker, body)
    found = office(deps).quote(body.submission(owner.address), body.span, owner.authority)
    return Quote(
        as_of=found.as_of,
        preset=found.spec.preset,
        project=found.spec.project,
        kind=found.spec.kind.value,
        hours=f"{body.hours:g}",
        machine=_machine(found),
        places=[
            QuotedPlace(zone=each.zone, spot=_rate(each.spot), on_demand=_rate(each.on_demand), note=each.note)
            for each in found.places
        ],
        cheapest=_offer(found.cheapest),
        first=_offer(found.first),
        saving_percent=found.saving_percent,
        budgets=[_budget(each) for each in found.budgets],
        outlook=_outlook(found),
        warnings=list(found.warnings),
        refusals=[Refusal(where=each.where, message=each.message) for each in found.refusals],
    )


def _machine(of: engine.JobQuote) -> Machine | None:
    recipe, shape = of.recipe, of.shape
    if recipe is None:
        return None
    return Machine(
        machine_type=recipe.machine_type,
        vcpus=shape.vcpus if shape is not None else 0,
        memory_mib=shape.memory_mib if shape is not None else 0,
        gpu_type=recipe.gpu_type or None,
        gpu_count=recipe.gpu_count,
        local_ssd_gib=shape.local_ssd_gib if shape is not None else 0,
        disk_gib=recipe.disk_gib,
        disk_type=recipe.disk_type,
        max_run_seconds=int(recipe.max_run.total_seconds()),
    )


def _rate(of: policy.HourlyRate) -> Rate:
    money = job_mapping.money
    return Rate(
        machine=money(of.machine),
        gpu=money(of.gpu),
        disk=money(of.disk),
        total=money(of.total),
        unpriced=of.unpriced,
    )


def _offer(of: policy.PlaceOffer | None) -> Offer | None:
    if of is None:
        return None
    return Offer(
        zone=of.zone,
        provisioning_model=of.provisioning_model.value,
        rate_per_hour=job_mapping.money(of.rate),
        cost=job_mapping.money(of.cost),
    )


def _outlook(of: engine.JobQuote) -> Outlook:
    ahead = of.feasibility
    return Outlook(
        ends_at=ahead.ends_at,
        deadline=of.spec.deadline,
        meets_deadline=ahead.meets_deadline.value,
        least=_offer(ahead.least),
        most=_offer(ahead.most),
        ceiling=job_mapping.money(of.spec.ceiling),
        within_ceiling=ahead.within_ceiling.value,
    )


def _budget(of: BudgetLeft) -> QuotedBudget:
    return QuotedBudget(
        name=of.budget.name,
        period=of.budget.period.value,
        ends_at=of.ends_at,
        limit=usd(of.budget.limit),
        spent=usd(of.spent),
        left=usd(of.left),
        left_after=job_mapping.money(of.left_after),
        at_limit=of.budget.at_limit.value,
    )
