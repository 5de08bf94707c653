"""Spend by day, project, preset, owner, job and provisioning model, as JSON or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from fastapi import Query as Parameter
from fastapi import Request, Response
from pydantic import BeforeValidator, Field

from costguard.access.teams import team_of
from costguard.api import spend_csv
from costguard.api.days import DaysQuery, beginning, wrong
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Provisioning, Text, Usd, hours, one_of, usd
from costguard.api.route import CSV, routes, wants_csv
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Scope
from costguard.model.reminder import Team
from costguard.spend import spend as engine
from costguard.spend.spend_rows import Amounts, Grouping, UnpricedSpan
from costguard.spend.vm_spend import VmSpend, spend_by_vm

router = routes("spend")

_LONGEST = timedelta(days=3660)
_LONGEST_BY_VM = timedelta(days=366)  # as long as the page Spend shows
_LISTED_UNPRICED = 100


class Sums(Out):
    machine: Usd = Field(description="vCPUs, memory and local SSDs.")
    gpu: Usd
    storage: Usd = Field(description="Disks, and the saved memory of suspended VMs.")
    total: Usd
    seconds: int = Field(description="Of running VMs.")
    hours: str = Field(description="The same in hours, to four places.")


class SpentOn(Out):
    """The VM of a row, and whose it was then."""

    project: str
    gce_id: str
    name: str
    zone: str
    machine_type: str
    preset: str
    owner: str
    team: str = Field(description="The owner's, else the project's; empty: neither has one.")
    job: str
    provisioning_model: Provisioning
    labels: dict[str, str]


class SpendRow(Sums):
    group: dict[str, str] = Field(description="The group's value of each thing that was grouped by.")
    unpriced: int = Field(description="Lifetimes and disks in it that have no price: the amounts are too low by them.")
    vm: SpentOn | None = Field(None, description="Where VMs were grouped by.")


class Unpriced(Out):
    kind: Annotated[str, one_of(("lifetime", "storage"))]
    project: str
    gce_id: str
    name: str
    preset: str
    owner: str
    started_at: Moment
    ended_at: Moment | None
    reason: str


class Spend(Out):
    as_of: Moment
    currency: str = CURRENCY
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day; today's is what has run up by now.")
    group_by: list[Annotated[str, one_of(Grouping)]]
    rows: list[SpendRow]
    total: Sums
    unpriced: int = Field(description="Lifetimes and disks that have no price. They are not in the amounts.")
    unpriced_spans: list[Unpriced] = Field(description=f"The latest {_LISTED_UNPRICED} of them.")


def _split(given: object) -> object:
    """Each value may hold several groupings, with commas between them."""
    values = given if isinstance(given, list) else [given]
    return [name.strip() for value in values for name in str(value).split(",") if name.strip()]


class SpendQuery(DaysQuery):
    group_by: Annotated[list[Grouping], BeforeValidator(_split)] = Field(
        [],
        max_length=100,
        description="Repeated, or with commas; default: day. By `vm`, a VM has a row for each owner, preset and job.",
    )
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None
    job: Text | None = Field(None, description="The id of a job.")
    format: Literal["json", "csv"] | None = Field(None, description="Default: what Accept asks for, else json.")


@router.get("/spend", summary="What was spent", operation_id="getSpend", response_model=Spend, responses=CSV)
def spend(deps: Given, query: Annotated[SpendQuery, Parameter()], request: Request) -> Any:
    """Spend over UTC days, both ends included, with today's share up to this moment."""
    now = deps.clock.now()
    first, last = query.days(now.date())
    group_by = list(dict.fromkeys(query.group_by)) or [Grouping.DAY]
    by_vm = Grouping.VM in group_by
    check_length(first, last, _LONGEST_BY_VM if by_vm else _LONGEST)
    vms: Sequence[VmSpend] = ()
    with deps.database.read() as connection:
        accrual = accrual_at(connection, now)
        scope = Scope(query.project, query.preset, query.owner, job=query.job)
        if by_vm:
            vms, found = spend_by_vm(connection, accrual, first, last, group_by, scope)
        else:
            found = engine.spend(connection, accrual, first, last, group_by, scope)
    teams = deps.rules.teams
    if wants_csv(request, query.format):
        text = spend_csv.write_vms(vms, group_by, teams) if by_vm else spend_csv.write(found.rows, group_by)
        name = f"costguard-spend-{first}-{last}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
    return Spend(
        as_of=now,
        **beginning(first),
        to=last,
        group_by=[grouping.value for grouping in group_by],
        rows=[_of_vm(row, group_by, teams) for row in vms] if by_vm else [_row(row, group_by) for row in found.rows],
        total=Sums(**_sums(found.total)),
        unpriced=len(found.unpriced),
        unpriced_spans=[_unpriced(span) for span in found.unpriced[:_LISTED_UNPRICED]],
    )


def check_length(first: date, last: date, longest: timedelta = _LONGEST) -> None:
    """Raises a 422 problem for too long a range."""
    if last - first > longest:
        years = longest.days // 365
        span = "a year" if years == 1 else f"{years} years"
        raise wrong("from", f"{first} to {last} is longer than {span}.", "Ask for a shorter range.")


def _row(row: engine.SpendRow, group_by: Sequence[Grouping]) -> SpendRow:
    group = {grouping.value: value for grouping, value in zip(group_by, row.group, strict=True)}
    return SpendRow(group=group, unpriced=row.unpriced, **_sums(row.amounts))


def _of_vm(row: VmSpend, group_by: Sequence[Grouping], teams: Sequence[Team]) -> SpendRow:
    vm, whose = row.vm, row.attribution
    team = team_of(vm.key.project, whose.owner, teams)
    others: dict[Grouping, str] = dict(
        zip((each for each in group_by if each is not Grouping.VM), row.group, strict=True)
    )
    group = {each.value: others.get(each, f"{vm.key.project}/{vm.key.gce_id}") for each in group_by}
    return SpendRow(
        group=group,
        unpriced=row.unpriced,
        vm=SpentOn(
            project=vm.key.project,
            gce_id=vm.key.gce_id,
            name=vm.name,
            zone=vm.zone,
            machine_type=vm.shape.machine_type,
            preset=whose.preset,
            owner=whose.owner,
            team=team.name if team is not None else "",
            job=whose.job,
            provisioning_model=row.provisioning_model,
            labels=dict(vm.labels),
        ),
        **_sums(row.amounts),
    )


def _sums(amounts: Amounts) -> dict[str, Any]:
    return {
        "machine": usd(amounts.machine),
        "gpu": usd(amounts.gpu),
        "storage": usd(amounts.storage),
        "total": usd(amounts.total),
        "seconds": amounts.seconds,
        "hours": hours(amounts.seconds),
    }


def _unpriced(span: UnpricedSpan) -> Unpriced:
    return Unpriced(
        kind=span.kind,
        project=span.key.project,
        gce_id=span.key.gce_id,
        name=span.name,
        preset=span.attribution.preset,
        owner=span.attribution.owner,
        started_at=span.started_at,
        ended_at=span.ended_at,
        reason=span.reason,
    )
