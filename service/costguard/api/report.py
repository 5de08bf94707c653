"""Report: what the rules did or would have done since watching began, what it comes to a month, and the GPU use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Amount, AmountsAsOf, Moment, Out, Query, Seconds, Usd, one_of, read_from
from costguard.api.route import routes
from costguard.model.moments import zone_of
from costguard.reminders import report_words
from costguard.reminders.report import METHOD, RuleOutcome
from costguard.reminders.report_rows import MOST_DAYS, fleet_report

router = routes("reminders")


class ReportedVmOut(Out):
    project: str = read_from("key.project")
    gce_id: str = read_from("key.gce_id")
    name: str
    zone: str
    preset: str
    owner: str = Field(description="The owner's address; empty: unowned.")
    asks: str = Field(description="The address or channel that is reminded first; empty: nobody can be.")
    step: Annotated[str, one_of(RuleOutcome)] = Field(
        description="stopped: a rule stopped it; would_stop: shadow mode recorded a stop, or one would have been due "
        "had its preset said `stop`; reminded: it is due, and no stop is."
    )
    why: str = Field(description="The rule in words.")
    due_at: Moment = Field(description="The moment at which it was past its limit, or known to be idle.")
    stop_at: Moment | None = Field(
        description="The time of its stop; in the future: it follows unless someone answers. Null: it ended before."
    )
    ended_at: Moment | None = Field(description="The end of its run; null: it runs.")
    reminders: int = Field(description="The reminders that Slack accepted.")
    rate_per_hour: Usd | None = read_from(
        "rate", description="The price of the VM without its disks; null: no price is known."
    )
    month_at_rate: Usd | None = Field(description="730 hours at that rate; null: it ended, or no price is known.")
    cost_since_due: Amount = read_from("due_cost", description="The cost in this span after `due_at`.")
    cost_since_stop: Amount = read_from(
        "left_cost", description="The cost in this span after `stop_at`, where that has come."
    )
    saved: Amount | None = Field(description="The estimated saving of a stop; null: it was not stopped.")


class LeftAloneCountOut(Out):
    count: int
    reason: str = read_from("words")


class GpuUseOut(Out):
    gpu_seconds: Seconds = read_from("gpu_time", description="The time of all GPUs of VMs that ran, in seconds.")
    known_percent: int | None = Field(
        description="The share of it with a measured utilisation, rounded down; null: no GPU ran."
    )
    used_basis_points: int | None = read_from(
        "used_bp", description="The mean utilisation of that share, in basis points; null: nothing was measured."
    )
    field_percent: int = Field(report_words.FIELD_PERCENT, description="The field's mean utilisation, in percent.")
    field_source: str = report_words.FIELD_SOURCE


class ReportResponse(AmountsAsOf):
    since: Moment
    until: Moment
    watched_since: Moment | None = Field(
        description="The time of the first look at any project; null: there was none yet."
    )
    is_shadow: bool = Field(description="True: rules stop nothing; the stops that they would have made are recorded.")
    is_early: bool = Field(description="True: less than a day was watched, which says nothing about a month.")
    mode: str = Field(description="A sentence: since when it has watched, and whether rules stop VMs.")
    summary: str = Field(description="The outcome in a sentence or two, with its money.")
    notes: Sequence[str] = Field(
        description="Sentences: who is reminded, what is left alone, the GPU use, and what was not read."
    )
    running: int = Field(description="The VMs that run now.")
    vms: Sequence[ReportedVmOut] = Field(
        description="The VMs that were due; those with a stop first, then the dearest."
    )
    cost_since_due: Amount = read_from("due_cost")
    cost_since_due_a_month: Amount | None = read_from(
        "due_month", description="The same for a month; null: less than a day was watched."
    )
    cost_since_stop: Amount = read_from("left_cost", description="The cost after stops that would have been made.")
    cost_since_stop_a_month: Amount | None = read_from(
        "left_month", description="The same for a month; null: less than a day was watched."
    )
    saved: Amount = Field(description="The estimated saving of stops that rules made.")
    left_alone: Sequence[LeftAloneCountOut] = Field(description="The running VMs that no rule would stop now.")
    gpu_use: GpuUseOut
    unread: Sequence[str] = Field(description="Projects that the last look could not read whole.")
    what_next: Sequence[str] = Field(
        description="The lines of costguard.toml that let rules stop VMs; empty: they may."
    )
    method: str = METHOD


class ReportQuery(Query):
    days: int = Field(
        30,
        ge=1,
        le=MOST_DAYS,
        description="The number of last UTC days, including today; days before watching began do not count.",
    )


@router.get("/report", summary="Get what rules would have done, and a month of it", operation_id="getReport")
def report(deps: Given, query: Annotated[ReportQuery, Parameter()]) -> ReportResponse:
    """Reports since watching began: the VMs that rules stopped or would have stopped, their cost after that, and the
    fleet's GPU use.
    """
    now = deps.clock.now()
    with deps.database.read() as connection:
        made = fleet_report(connection, deps.rules, now, query.days)
    zone = zone_of(deps.rules.time_zone)
    return ReportResponse.read(
        made,
        as_of=now,
        mode=report_words.mode(made, zone),
        summary=report_words.summary(made),
        notes=report_words.notes(made),
        what_next=report_words.what_next(made),
    )
