"""Spend by day, project, preset, owner, job, provisioning model, VM and label, as JSON or CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from fastapi import Path, Request, Response
from fastapi import Query as Parameter
from pydantic import BeforeValidator, Field

from costguard import csv_files
from costguard.access.teams import team_of
from costguard.api.deps import Given
from costguard.api.fields import (
    CURRENCY,
    DaysQuery,
    LabelText,
    Moment,
    Out,
    PriceNote,
    Provisioning,
    Text,
    Usd,
    beginning,
    hours,
    label_filter,
    one_of,
    read_from,
    usd,
    wrong_parameter,
)
from costguard.api.job_id import named_job
from costguard.api.route import CSV, routes, wants_csv
from costguard.bill.basis import closed_days, spend_by_bill
from costguard.ledger.accrual import accrual_at
from costguard.ledger.gaps import gaps
from costguard.model.budget import Scope
from costguard.model.money import Amounts
from costguard.model.reminder import Team
from costguard.spend import spend as engine
from costguard.spend.label_spend import spend_by_label
from costguard.spend.spend_rows import Grouping
from costguard.spend.vm_spend import VmSpend, spend_by_vm

router = routes("spend")

_LONGEST = timedelta(days=3660)
_LONGEST_BY_VM = timedelta(days=366)  # as long as the page Spend shows
_LISTED_UNPRICED = 100
_MOST_VALUES = 2_000  # of a label: many more are an id that each VM has, and no dimension
_AMOUNTS = ("machine", "gpu", "storage", "total")
_OF_VM = ("project", "vm", "gce_id", "zone", "machine_type", "preset", "owner", "team", "job", "provisioning_model")
_FIGURES = (*(f"{name}_{CURRENCY.lower()}" for name in _AMOUNTS), "seconds", "hours", "unpriced")


class SumsOut(Out):
    machine: Usd = Field(description="The cost of vCPUs, memory and local SSDs.")
    gpu: Usd = Field(description="The cost of GPUs, and of TPU chips with their share of the VM.")
    storage: Usd = Field(description="The cost of disks, and of the saved memory of suspended VMs.")
    total: Usd
    seconds: int = Field(description="The running time of VMs in seconds.")
    hours: str = Field(description="The running time of VMs in hours, to four places.")


class SpentVmOut(Out):
    """The VM of a row, and its owner at the time."""

    project: str
    gce_id: str
    name: str
    zone: str
    machine_type: str
    preset: str
    owner: str
    team: str = Field(description="The owner's team, else the project's; empty: neither has one.")
    job: str
    provisioning_model: Provisioning
    labels: Mapping[str, str]


class SpendRowOut(SumsOut):
    group: dict[str, str] = Field(description="The value of each grouping.")
    unpriced: int = Field(
        description="The number of lifetimes and disks without a price: the amounts are too low by their cost."
    )
    vm: SpentVmOut | None = Field(None, description="The VM of the row, only where rows are grouped by VM.")


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
    price_note: PriceNote
    paid_days: int | None = Field(
        description="The days whose amounts are those paid, with basis=bill. The others are at list prices."
    )
    unpriced: int = Field(description="The number of lifetimes and disks without a price. They are not in the amounts.")
    unpriced_spans: list[UnpricedSpanOut] = Field(description=f"The latest {_LISTED_UNPRICED} spans without a price.")


def split_names(given: object) -> object:
    """Each value may hold several groupings, separated by commas."""
    values = given if isinstance(given, list) else [given]
    return [name.strip() for value in values for name in str(value).split(",") if name.strip()]


class SpendQuery(DaysQuery):
    group_by: Annotated[list[Grouping], BeforeValidator(split_names)] = Field(
        [],
        max_length=100,
        description=(
            "The groupings, repeated or separated by commas; default: day. With `vm`, a VM has a row for each "
            "owner, preset and job."
        ),
    )
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None
    job: Text | None = Field(None, description="A job, by its id or name.")
    label: LabelText | None = None
    basis: Literal["ledger", "bill"] = Field(
        "ledger",
        description=(
            "`bill`: the amount paid, after discounts and credits, on days that closed on Google's bill; the "
            "ledger's list prices on the others. Not with `vm` (GET /api/v1/bill has the VMs), and not with "
            "`label`."
        ),
    )
    format: Literal["json", "csv"] | None = Field(
        None, description="The format; default: by the Accept header, else json."
    )


@router.get("/spend", summary="Get spend", operation_id="getSpend", response_model=SpendResponse, responses=CSV)
def spend(deps: Given, query: Annotated[SpendQuery, Parameter()], request: Request) -> Any:
    """Spend over UTC days, including both ends, with today's share so far."""
    now = deps.clock.now()
    first, last = query.days(now.date())
    group_by = list(dict.fromkeys(query.group_by)) or [Grouping.DAY]
    by_vm = Grouping.VM in group_by
    check_length(first, last, _LONGEST_BY_VM if by_vm else _LONGEST)
    if by_vm and query.basis == "bill":
        raise wrong_parameter(
            "basis", "The bill's basis has no rows by VM.", "Leave `vm` out, or ask GET /api/v1/bill."
        )
    if query.label is not None and query.basis == "bill":
        raise wrong_parameter("basis", "The bill's basis has no filter by label.", "Leave `label` or `basis` out.")
    by_basis = spend_by_bill if query.basis == "bill" else engine.spend
    vms: Sequence[VmSpend] = ()
    with deps.database.read() as connection:
        accrual = accrual_at(connection, now)
        job = named_job(connection, query.job)
        scope = Scope(query.project, query.preset, query.owner, job=job, label=label_filter(query.label))
        if by_vm:
            vms, spent = spend_by_vm(connection, accrual, first, last, group_by, scope)
        else:
            spent = by_basis(connection, accrual, first, last, group_by, scope)
        unpriced = gaps(connection, accrual, first, last, scope, _LISTED_UNPRICED)
        paid_days = closed_days(connection, first, last, query.project) if query.basis == "bill" else None
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
        price_note=accrual.price_note,
        paid_days=paid_days,
        unpriced=spent.unpriced,
        unpriced_spans=[UnpricedSpanOut.read(span) for span in unpriced],
    )


class LabelSpendRowOut(SumsOut):
    value: str | None = Field(description="The label's value; null: VMs while they had no such label.")
    unpriced: int = Field(
        description="The number of lifetimes and disks without a price: the amounts are too low by their cost."
    )


class LabelSpendResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    label: str
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day; today counts up to now.")
    rows: list[LabelSpendRowOut]
    total: SumsOut
    unpriced: int = Field(description="The number of lifetimes and disks without a price. They are not in the amounts.")


class LabelSpendQuery(DaysQuery):
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None
    job: Text | None = Field(None, description="A job, by its id or name.")
    format: Literal["json", "csv"] | None = Field(
        None, description="The format; default: by the Accept header, else json."
    )


_LabelKey = Annotated[
    str, Path(pattern=r"^[^\s/,]{1,63}$", description="The label's key, such as `experiment`.", examples=["experiment"])
]


@router.get(
    "/spend/labels/{label}",
    summary="Get spend by a label",
    operation_id="getSpendByLabel",
    response_model=LabelSpendResponse,
    responses=CSV,
)
def spend_of_label(
    label: _LabelKey, deps: Given, query: Annotated[LabelSpendQuery, Parameter()], request: Request
) -> Any:
    """Spend over at most a year of UTC days by the value of a VM label, split at the moment a label changed.

    Changes are known from the day Costguard began to keep them: for earlier time a VM's labels of that day count. Of
    several changes between two looks at a project only the last one is known. It is read from charges, like spend by
    VM, so it takes longer than spend by preset. A label with more than 2,000 values is refused.
    """
    now = deps.clock.now()
    first, last = query.days(now.date())
    check_length(first, last, _LONGEST_BY_VM)
    with deps.database.read() as connection:
        scope = Scope(query.project, query.preset, query.owner, job=named_job(connection, query.job))
        spent, whole = spend_by_label(connection, accrual_at(connection, now), first, last, label, scope)
    if len(spent) > _MOST_VALUES:
        raise wrong_parameter(
            "from",
            f"The label {label} had {len(spent):,} values from {first} to {last}: more than {_MOST_VALUES:,}.",
            "Ask for a shorter range, one project, preset or owner, or for spend by VM: GET /api/v1/spend?group_by=vm.",
        )
    if wants_csv(request, query.format):
        # Without the label is not the same as with an empty one: a column of its own says which it is.
        lines = [
            [row.value or "", "no" if row.value is None else "yes", *_figures(row.amounts, row.unpriced)]
            for row in spent
        ]
        headers = {"Content-Disposition": f'attachment; filename="costguard-spend-label-{first}-{last}.csv"'}
        text = csv_files.lines([[f"label:{label}", "is_labelled", *_FIGURES], *lines])
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
    return LabelSpendResponse(
        as_of=now,
        label=label,
        **beginning(first),
        to=last,
        rows=[
            LabelSpendRowOut.read(row.amounts, value=row.value, unpriced=row.unpriced, hours=hours(row.amounts.seconds))
            for row in spent
        ],
        total=SumsOut.read(whole.total, hours=hours(whole.total.seconds)),
        unpriced=whole.unpriced,
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
    whose, amounts = row.attribution, row.amounts
    # Constructed, not validated: there may be ten thousand, of values that the ledger has.
    spent_vm = SpentVmOut.model_construct(
        project=vm.key.project,
        gce_id=vm.key.gce_id,
        name=vm.name,
        zone=vm.zone,
        machine_type=vm.machine_type,
        preset=whose.preset,
        owner=whose.owner,
        team=_team_name(row, teams),
        job=whose.job,
        provisioning_model=row.provisioning_model,
        labels=vm.labels,
    )
    return SpendRowOut.model_construct(
        machine=usd(amounts.machine),
        gpu=usd(amounts.gpu),
        storage=usd(amounts.storage),
        total=usd(amounts.total),
        seconds=amounts.seconds,
        hours=hours(amounts.seconds),
        group=group,
        unpriced=row.unpriced,
        vm=spent_vm,
    )


def _spend_row(amounts: Amounts, **more: Any) -> SpendRowOut:
    return SpendRowOut.read(amounts, **{"vm": None, "hours": hours(amounts.seconds), **more})


def _team_name(row: VmSpend, teams: Sequence[Team]) -> str:
    team = team_of(row.vm.key.project, row.attribution.owner, teams)
    return team.name if team is not None else ""


def _csv(rows: Iterable[engine.SpendRow], group_by: Sequence[Grouping]) -> str:
    """Writes one line per group. `unpriced` counts what the amounts of its line leave out."""
    lines = ([*row.group, *_figures(row.amounts, row.unpriced)] for row in rows)
    return csv_files.lines([[*group_by, *_FIGURES], *lines])


def _vm_csv(rows: Iterable[VmSpend], group_by: Sequence[Grouping], teams: Sequence[Team]) -> str:
    """Writes one line per VM and group, with its owner; labels as `key=value`, separated by semicolons."""
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
            "machine_type": vm.machine_type,
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
