"""Quotes: what a job would cost, before anything is launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import (
    AmountsAsOf,
    Moment,
    Out,
    PriceNote,
    Provisioning,
    Seconds,
    Usd,
    one_of,
    read_from,
)
from costguard.api.job.bodies import QuoteBody
from costguard.api.job.jobs import owner_of
from costguard.api.route import routes, takes_body
from costguard.api.vm_parts import AddressOut
from costguard.jobs.submit.cost.offers import Chance
from costguard.jobs.submit.quote import JobQuote
from costguard.jobs.submit.submit import available_service
from costguard.model.access import Permission
from costguard.model.budget import AtLimit, Period
from costguard.model.job import JobKind
from costguard.web.permissions import Asker

router = routes("jobs", Permission.JOBS)  # it reads buckets, with Costguard's own credentials


class QuotedVmOut(Out):
    """The VM to quote. Sizes are 0 where the machine type is not known; it has no price then either."""

    machine_type: str
    vcpus: int
    memory_mib: int
    gpu_type: str | None
    gpu_count: int
    local_ssd_gib: int
    disk_gib: int
    disk_type: str
    max_run_seconds: Seconds = read_from("max_run")


class HourlyRateOut(Out):
    """A rate in dollars per hour; null where there is no price."""

    machine: Usd | None
    gpu: Usd | None
    disk: Usd | None
    address: Usd | None = Field(description="The cost of its external address; 0 where it has none.")
    total: Usd | None
    unpriced: str = Field(description="The parts that have no price; empty where all have one.")


class QuotedPlaceOut(Out):
    zone: str
    spot: HourlyRateOut
    flex: HourlyRateOut
    on_demand: HourlyRateOut
    address: AddressOut | None = Field(
        description="The decision on its external address, as of now; null: it was not looked up."
    )
    note: str = Field(description="Recent stockouts and preemptions there; empty where there were none that count.")


class OfferOut(Out):
    zone: str
    provisioning_model: Provisioning
    rate_per_hour: Usd | None = read_from("rate")
    cost: Usd | None = Field(description="The cost of the hours in the request.")


class BuyingWayOut(Out):
    """A way to buy a job's VMs, and what it is expected to cost to its end.

    The range holds nine of ten cases. A way without a cost would never end the job.
    """

    provisioning_model: Provisioning = read_from("model")
    expected: Usd | None
    low: Usd | None
    high: Usd | None
    lasts_seconds: Seconds | None = read_from("lasts", description="The time until its end, including its waits.")
    preemptions: float = Field(description="The preemptions to expect.")
    text: str = Field(examples=["Spot $50.00 to $71.00"])


class QuotedBudgetOut(Out):
    """A budget that the job would count against."""

    name: str = read_from("budget.name")
    period: Annotated[str, one_of(Period)] = read_from("budget.period")
    ends_at: Moment
    limit: Usd = read_from("budget.limit")
    spent: Usd
    left: Usd = Field(description="The amount left; below zero once it is overspent.")
    left_after: Usd | None = Field(
        description="The amount left if all of the cost falls into this period; null: not known."
    )
    at_limit: Annotated[str, one_of(AtLimit)] = read_from("budget.at_limit")


class JobOutlookOut(Out):
    """The outlook based on `work_hours`, without interruptions. `no` is refused; `at_risk` gives a warning."""

    ends_at: Moment | None = Field(
        description="The expected end if its VM starts within 20 minutes; null: the duration is not known."
    )
    deadline: Moment | None
    meets_deadline: Annotated[str, one_of(Chance)]
    least: OfferOut | None = Field(description="The cost in the cheapest zone that it may use.")
    most: OfferOut | None = Field(description="The cost in the most expensive zone that it may use.")
    ceiling: Usd | None
    within_ceiling: Annotated[str, one_of(Chance)]
    max_vm_seconds: Seconds | None = Field(description="The limit on the time of its VMs; null: none.")
    within_vm_hours: Annotated[str, one_of(Chance)] = Field(
        description="Whether its VM hours suffice for its work; `at_risk`: not if it has to start once more."
    )


class ExpectedCostOut(Out):
    """The cost of a job with a deadline over replayed plans, by the frequency of preemptions."""

    mean: Usd
    low: Usd = Field(description="Nine of ten runs lie between this and `high`.")
    high: Usd
    on_demand_percent: int = Field(description="The percentage of the runs that needed an on-demand VM.")
    preemptions: float = Field(description="The mean number of preemptions of a run.")
    runs: int


class StoredSizeOut(Out):
    bytes: int
    files: int
    is_whole: bool = Field(description="False: counting stopped at a limit; there is at least this much.")


class DataMoveOut(Out):
    """An input or an output. Each VM of a job downloads its inputs again."""

    where: str = Field(description="The path of this input or output in the request's body.", examples=["inputs.0"])
    source: str
    target: str
    size: StoredSizeOut | None = Field(description="The amount of data; null: it is not known.")
    cost: Usd | None = Field(
        description="The cost at the provider's list prices, without its free allowance; null: it is not known."
    )
    note: str


class PresetPriceOut(Out):
    """A preset at today's prices, where and as it is cheapest, next to the peak figures of its accelerators."""

    preset: str
    machine_type: str
    gpu_type: str
    gpu_count: int
    zone: str = Field(description="The zone in which it is cheapest; empty: nothing has a price.")
    provisioning_model: Provisioning | None
    rate_per_hour: Usd | None = read_from("rate")
    peak_tflops: float | None = Field(
        description="The dense peak of all its chips together, in TFLOP/s; null: not known."
    )
    peak_number: str | None = Field(
        description="The number format of the peak: bf16, or the fastest float that the chip has."
    )
    memory_gb_per_s: float | None = read_from(
        "gb_per_s", description="The memory bandwidth of all its chips together, in GB/s; null: not known."
    )
    per_exaflop: Usd | None = Field(description="Dollars for 10^18 operations at the peak; null: not known.")
    per_tb_s_hour: Usd | None = read_from(
        "per_tb_s", description="Dollars an hour for each 1,000 GB/s of memory bandwidth; null: not known."
    )
    source: str | None = Field(description="The data sheet of the peak figures; null: they are not known.")


class RefusalOut(Out):
    where: str = Field(description="The path of this input or output in the request's body.")
    message: str = Field(description="The error, and what to change.")


class QuoteOut(AmountsAsOf):
    preset: str = read_from("spec.preset")
    project: str = read_from("spec.project")
    kind: Annotated[str, one_of(JobKind)] = read_from("spec.kind")
    hours: str
    price_note: PriceNote
    nodes: int = read_from(
        "spec.nodes", description="The number of VMs that these prices are for, together; of a range, the most."
    )
    machine: QuotedVmOut | None = Field(
        description="The machine of each of its VMs; null: there is no such preset, or it cannot be launched."
    )
    places: Sequence[QuotedPlaceOut] = Field(description="The places in the order in which they would be tried now.")
    cheapest: OfferOut | None = Field(
        description="The cheapest of the provisioning models it may use; null: nothing has a price."
    )
    first: OfferOut | None = Field(description="The place in which it would start now.")
    saving_percent: int | None = Field(description="The saving of Spot over on-demand in that zone, in percent.")
    budgets: Sequence[QuotedBudgetOut]
    outlook: JobOutlookOut = Field(description="Whether it can meet its deadline and stay within its ceiling.")
    expected: ExpectedCostOut | None = Field(
        description="The expected cost of a job with a deadline and work_hours; null: not known."
    )
    on_notice: str = Field(
        description="Whether a save fits in the notice of a preemption, as last measured of this command on this "
        "preset; empty: not known."
    )
    warnings: Sequence[str] = Field(description="Concerns that do not refuse the job.")
    moves: Sequence[DataMoveOut] = Field(description="The inputs and outputs with the cost of moving them.")
    ways: Sequence[BuyingWayOut] = Field(
        description="The ways to buy the VMs of a job without a deadline, with work_hours: all that Google sells, "
        "whether its preset uses them or not, the least expected cost to its end first."
    )
    presets: Sequence[PresetPriceOut] = Field(
        description="The presets that can be launched, those with the least dollars for a FLOP at their peak first."
    )
    question: str = Field(description="A question for a person to confirm before an expensive launch; empty: none.")
    refusals: Sequence[RefusalOut] = Field(
        description="The reasons why POST /api/v1/jobs would refuse this; owner and command may still be missing."
    )


@router.post(
    "/quotes",
    summary="Quote a job",
    operation_id="quoteJob",
    **takes_body(finds=False),
)
def quote(deps: Given, asker: Asker, body: QuoteBody) -> QuoteOut:
    """Quotes Spot and on-demand prices in every zone, the cost, the remaining budgets, and the reasons to refuse the
    job.
    """
    owner = owner_of(asker, body)
    job_quote = available_service(deps.jobs).quote(body.submission(owner.address), body.span, owner.authority)
    return quote_out(job_quote, body.hours)


def quote_out(job_quote: JobQuote, hours: float) -> QuoteOut:
    spec = job_quote.spec
    outlook = JobOutlookOut.read(
        job_quote.feasibility, deadline=spec.deadline, ceiling=spec.ceiling, max_vm_seconds=spec.max_vm_time
    )
    return QuoteOut.read(job_quote, hours=f"{hours:g}", machine=quoted_vm(job_quote), outlook=outlook)


def quoted_vm(quote: JobQuote) -> QuotedVmOut | None:
    recipe, shape = quote.recipe, quote.shape
    if recipe is None:
        return None
    return QuotedVmOut.read(
        recipe,
        gpu_type=recipe.gpu_type or None,
        vcpus=shape.vcpus if shape is not None else 0,
        memory_mib=shape.memory_mib if shape is not None else 0,
        local_ssd_gib=shape.local_ssd_gib if shape is not None else 0,
    )
