"""Spend by day, project, preset, owner, job, provisioning model and VM, as JSON or CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from fastapi import Query as Parameter
from fastapi import Request, Response
from pydantic import BeforeValidator, Field

from costguard.access.teams import team_of
from costguard.api.deps import Given
from costguard.api.fields import (
    CURRENCY,
    DaysQuery,
    Moment,
    Out,
    Provisioning,
    Text,
    Usd,
    beginning,
    hours,
    one_of,
    read_from,
    usd,
    wrong_parameter,
)
from costguard.api.route import CSV, routes, wants_csv
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Scope
from costguard.model.reminder import Team
from costguard.spend import spend as engine
from costguard.spend.spend_rows import Amounts, Grouping
from costguard.spend.vm_spend import VmSpend, spend_by_vm
from costguard.web import csv_files

router = routes("spend")

_LONGEST = timedelta(days=3660)
_LONGEST_BY_VM = timedelta(days=366)  # as long as the page Spend shows
_LISTED_UNPRICED = 100
_AMOUNTS = ("machine", "gpu", "storage", "total")
_OF_VM = ("project", "vm", "gce_id", "zone", "machine_type", "preset", "owner", "team", "job", "provisioning_model")
_FIGURES = (*(f"{name}_{CURRENCY.lower()}" for name in _AMOUNTS), "seconds", "hours", "unpriced")


class SumsOut(Out):
    machine: Usd = Field(description="vCPUs, memory and local SSDs.")
    gpu: Usd
    storage: Usd = Field(description="Disks, and the saved memory of suspended VMs.")
    total: Usd
    seconds: int = Field(description="Of running VMs.")
    hours: str = Field(description="The same in hours, to four places.")


class SpentVmOut(Out):
    """The VM of a row, and its owner at the time."""

    project: str = read_from("vm.key.project")
    gce_id: str = read_from("vm.key.gce_id")
    name: str = read_from("vm.name")
    zone: str = read_from("vm.zone")
    machine_type: str = read_from("vm.shape.machine_type")
    preset: str = read_from("attribution.preset")
    owner: str = read_from("attribution.owner")
    team: str = Field(description="The owner's team, else the project's; empty: neither has one.")
    job: str = read_from("attribution.job")
    provisioning_model: Provisioning
    labels: Mapping[str, str] = read_from("vm.labels")


class SpendRowOut(SumsOut):
    group: dict[str, str] = Field(description="The value of each grouping.")
    unpriced: int = Field(description="Lifetimes and disks in it without a price: the amounts are too low by them.")
    vm: SpentVmOut | None = Field(None, description="Only where VMs are grouped by.")


class UnpricedSpanOut(Out):
    kind: Annotated[str, one_of(("lifetime", "storage"))]
    project: str = read_from("key.project")
    gce_id: str = read_from("key.gce_id")
    name: str
    preset: str = read_from("attribution.preset")
    owner: str = read_from("attribution.owner")
    started_at: Moment
    ended_at: Moment | None
    reason: str


class SpendResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day; today counts up to now.")
    group_by: list[Annotated[str, one_of(Grouping)]]
    rows: list[SpendRowOut]
    total: SumsOut
    unpriced: int = Field(description="Lifetimes and disks without a price. They are not in the amounts.")
    unpriced_spans: list[UnpricedSpanOut] = Field(description=f"The latest {_LISTED_UNPRICED} of them.")


def split_names(given: object) -> object:
    """Each value may hold several groupings, separated by commas."""
    values = given if isinstance(given, list) else [given]
    return [name.strip() for value in values for name in str(value).split(",") if name.strip()]


class SpendQuery(DaysQuery):
    group_by: Annotated[list[Grouping], BeforeValidator(split_names)] = Field(
        [],
        max_length=100,
        description="Repeated, or separated by commas; default: day. With `vm`, a VM has a row for each owner, preset "
        "and job.",
    )
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None
    job: Text | None = Field(None, description="The id of a job.")
    format: Literal["json", "csv"] | None = Field(None, description="Default: by the Accept header, else json.")


@router.get("/spend", summary="Get spend", operation_id="getSpend", response_model=SpendResponse, responses=CSV)
def spend(deps: Given, query: Annotated[SpendQuery, Parameter()], request: Request) -> Any:
    """Spend over UTC days, including both ends, with today's share so far."""
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
            vms, spent = spend_by_vm(connection, accrual, first, last, group_by, scope)
        else:
            spent = engine.spend(connection, accrual, first, last, group_by, scope)
    teams = deps.rules.teams
    if wants_csv(request, query.format):
        text = _vm_csv(vms, group_by, teams) if by_vm else _csv(spent.rows, group_by)
        headers = {"Content-Disposition": f'attachment; filename="costguard-spend-{first}-{last}.csv"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
    return SpendResponse(
        as_of=now,
        **beginning(first),
        to=last,
        group_by=[grouping.value for grouping in group_by],
        rows=[_vm_row(row, group_by, teams) for row in vms] if by_vm else [_row(row, group_by) for row in spent.rows],
        total=SumsOut.read(spent.total, hours=hours(spent.total.seconds)),
        unpriced=len(spent.unpriced),
        unpriced_spans=[UnpricedSpanOut.read(span) for span in spent.unpriced[:_LISTED_UNPRICED]],
    )


def check_length(first: date, last: date, longest: timedelta = _LONGEST) -> None:
    """Raises a 422 problem where the range is too long."""
    if last - first > longest:
        years = longest.days // 365
        span = "a year" if years == 1 else f"{years} years"
        raise wrong_parameter("from", f"{first} to {last} is longer than {span}.", "Ask for a shorter range.")


def _row(row: engine.SpendRow, group_by: Sequence[Grouping]) -> SpendRowOut:
    group = {grouping.value: value for grouping, value in zip(group_by, row.group, strict=True)}
    return _spend_row(row.amounts, group=group, unpriced=row.unpriced)


def _vm_row(row: VmSpend, group_by: Sequence[Grouping], teams: Sequence[Team]) -> SpendRowOut:
    vm = row.vm
    others: dict[Grouping, str] = dict(
        zip((grouping for grouping in group_by if grouping is not Grouping.VM), row.group, strict=True)
    )
    group = {grouping.value: others.get(grouping, f"{vm.key.project}/{vm.key.gce_id}") for grouping in group_by}
    spent_vm = SpentVmOut.read(row, team=_team_name(row, teams))
    return _spend_row(row.amounts, group=group, unpriced=row.unpriced, vm=spent_vm)


def _spend_row(amounts: Amounts, **more: Any) -> SpendRowOut:
    return SpendRowOut.read(amounts, **{"vm": None, "hours": hours(amounts.seconds), **more})


def _team_name(row: VmSpend, teams: Sequence[Team]) -> str:
    team = team_of(row.vm.key.project, row.attribution.owner, teams)
    return team.name if team is not None else ""


def _csv(rows: Iterable[engine.SpendRow], group_by: Sequence[Grouping]) -> str:
    """One line per group. `unpriced` counts what the amounts of its line leave out."""
    lines = ([*row.group, *_figures(row.amounts, row.unpriced)] for row in rows)
    return csv_files.lines([[*group_by, *_FIGURES], *lines])


def _vm_csv(rows: Iterable[VmSpend], group_by: Sequence[Grouping], teams: Sequence[Team]) -> str:
    """One line per VM and group, with its owner; labels as `key=value`, separated by semicolons."""
    # The groupings come first, as on the page, and only once.
    first = [grouping.value for grouping in group_by if grouping is not Grouping.VM]
    others = [name for name in _OF_VM if name not in first]
    lines: list[list[object]] = [[*first, *others, "labels", *_FIGURES]]
    for row in rows:
        vm, attribution = row.vm, row.attribution
        values = {
            "project": vm.key.project,
            "vm": vm.name,
            "gce_id": vm.key.gce_id,
            "zone": vm.zone,
            "machine_type": vm.shape.machine_type,
            "preset": attribution.preset,
            "owner": attribution.owner,
            "team": _team_name(row, teams),
            "job": attribution.job,
            "provisioning_model": row.provisioning_model,
        }
        labels = "; ".join(f"{key}={value}" for key, value in sorted(vm.labels.items()))
        texts = [*row.group, *(values[name] for name in others), labels]
        lines.append([*texts, *_figures(row.amounts, row.unpriced)])
    return csv_files.lines(lines)


def _figures(amounts: Amounts, unpriced: int) -> list[object]:
    return [*(usd(getattr(amounts, name)) for name in _AMOUNTS), amounts.seconds, hours(amounts.seconds), unpriced]
