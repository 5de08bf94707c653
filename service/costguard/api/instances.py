"""Instances: the fleet, one VM with its history, and the lifetimes of all VMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Query as Parameter
from pydantic import Field

from costguard.access.rules import Rules
from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import (
    Amount,
    AmountsAsOf,
    Moment,
    Out,
    PriceNote,
    Provisioning,
    Query,
    Seconds,
    Text,
    Texts,
    Usd,
    When,
    one_of,
    read_from,
)
from costguard.api.route import NOT_FOUND, routes
from costguard.api.vm_parts import (
    GceId,
    IdleOut,
    KeeperOut,
    Project,
    UnreadOut,
    UnusedReservationsOut,
    decimal_of,
    unread_parts,
)
from costguard.ledger import fleet_rows, history, prices, projects
from costguard.ledger.accrual import accrual_at
from costguard.ledger.charged.spans import ChargeSum, LifetimeFilters
from costguard.ledger.history import LifetimeView, StorageView
from costguard.ledger.owner import OwnerSource
from costguard.model.instance import InstanceKey, InstanceKind, Status
from costguard.model.keeper import KeeperKind
from costguard.model.lifetime import EndReason
from costguard.model.money import Money
from costguard.model.price import Price, Unit
from costguard.reminders import gather
from costguard.reminders.not_stopped import StopBlocker
from costguard.spend import fleet
from costguard.web.problems import ProblemError

router = routes("instances")

_CURSOR = (int, int, str, int)
_LATEST = 2**53  # microseconds since 1970: the year 2255


class InstanceOut(Out):
    project: str = read_from("instance.key.project")
    gce_id: str = read_from(
        "instance.key.gce_id",
        description="Google's numeric id, of a TPU node after `tpu.`, of what Vertex AI runs after `vertex.`, "
        "its list and its region.",
    )
    kind: Annotated[str, one_of(InstanceKind)] = read_from(
        "instance.key.kind", description="A VM of Compute Engine, a node of the Cloud TPU API, or what Vertex AI runs."
    )
    name: str = read_from("instance.name")
    zone: str = read_from("instance.zone")
    status: Annotated[str, one_of(Status)] = read_from(
        "instance.status", description="running, stopped (Google: TERMINATED), suspended, ...", examples=["running"]
    )
    preset: str = read_from("instance.preset")
    owner: str = read_from("instance.owner", description="The owner's address; empty: it is unowned.")
    owner_source: Annotated[str, one_of(OwnerSource)] = read_from(
        "instance.owner_source", description="The source of the owner; empty: it is unowned."
    )
    job: str = read_from("instance.job")
    created_by: str = read_from("instance.created_by", description="The creator's account; empty when unknown.")
    keeper: KeeperOut = read_from("instance.kept", description="The keeper, with the evidence.")
    never_stopped: str = Field(
        description="The reason why nothing stops it, and what to do instead; empty: it can be stopped."
    )
    machine_type: str = read_from("instance.shape.machine_type")
    vcpus: int = read_from("instance.shape.vcpus", description="0: not known, as for a TPU node.")
    memory_mib: int = read_from("instance.shape.memory_mib", description="0: not known, as for a TPU node.")
    gpu_type: str | None = read_from("instance.shape.gpu_type", description="The type of its GPUs or TPUs.")
    gpu_count: int = read_from("instance.shape.gpu_count", description="The number of its GPUs or TPU chips.")
    local_ssd_gib: int = read_from("instance.shape.local_ssd_gib")
    provisioning_model: Provisioning = read_from("instance.provisioning_model", description="standard or spot.")
    labels: Mapping[str, str] = read_from("instance.labels")
    created_at: Moment = read_from("instance.created_at")
    started_at: Moment | None = Field(description="The start of the open lifetime; null: it is not running.")
    due_at: Moment | None = Field(description="The time of the preset's limit; null: no limit, or not running.")
    terminates_at: Moment | None = read_from(
        "instance.terminates_at", description="The time at which Google's run-time limit ends it."
    )
    first_seen_at: Moment = read_from("instance.first_seen_at")
    last_seen_at: Moment | None = read_from(
        "instance.last_seen_at", description="The last time it was surely there; null: its project was never read."
    )
    gone_at: Moment | None = read_from("instance.gone_at", description="The time of its deletion, as far as known.")
    unread: str = read_from("instance.unread", description="The reason its zone cannot be read; empty when it can.")
    rate_per_hour: Amount = read_from(
        "rate", description="The cost per hour now: its machines while it runs, and its storage."
    )
    lifetime_cost: Amount = Field(description="The cost of the open lifetime so far, without storage.")
    total_cost: Amount = Field(description="The cost of all its lifetimes and storage so far.")
    unpriced: Sequence[str] = Field(description="The parts that have no price, in sentences.")
    idle: IdleOut | None = Field(description="The measured use; null: not running, or not measured recently.")


class FleetTotalsOut(Out):
    """The totals of all instances that match the filters, not just this page, without deleted ones."""

    instances: int
    running: int
    rate_per_hour: Usd = read_from("rate", description="The hourly cost of everything that has a price.")
    unpriced: int = Field(description="Instances with a part that has no price: the rate is too low by those parts.")


class FleetResponse(AmountsAsOf):
    totals: FleetTotalsOut
    unused_reservations: UnusedReservationsOut | None = Field(
        description="The sum over all watched projects, which `GET /loose` lists; null: Google was not asked yet."
    )
    price_note: PriceNote
    unread: list[UnreadOut]
    instances: list[InstanceOut]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page; null: this was the last.")


class ChargeOut(Out):
    """All charges of one billed resource at one price."""

    resource: str = Field(examples=["gpu:nvidia-tesla-t4"])
    quantity: Annotated[str, decimal_of(1000)] = read_from(
        "quantity_millis",
        description="The number of vCPUs, GiB, GPUs or TPU chips.",
        examples=["4", "3.75"],
    )
    rate: Usd | None = Field(description="Dollars per unit; null: the price is no longer known.")
    unit: Annotated[str, one_of(Unit)] | None = Field(
        description="`h`, `GiBy.h` or `GiBy.mo` (the calendar month in US Pacific time)."
    )
    price_source: str | None
    started_at: Moment
    ended_at: Moment
    seconds: int
    amount: Usd


class LifetimeOut(Out):
    id: int = read_from("stored.id")
    project: str = read_from("stored.span.key.project")
    gce_id: str = read_from("stored.span.key.gce_id")
    name: str = read_from("stored.name")
    zone: str = read_from("stored.span.zone")
    machine_type: str = read_from("stored.span.shape.machine_type")
    gpu_type: str | None = read_from("stored.span.shape.gpu_type")
    gpu_count: int = read_from("stored.span.shape.gpu_count")
    provisioning_model: Provisioning = read_from("stored.span.provisioning_model")
    preset: str = read_from("stored.attribution.preset")
    owner: str = read_from("stored.attribution.owner")
    job: str = read_from("stored.attribution.job")
    started_at: Moment = read_from("stored.span.started_at")
    ended_at: Moment | None = read_from("stored.span.ended_at", description="The end; null: still running.")
    end_reason: Annotated[str, one_of(EndReason)] | None = read_from("stored.span.end_reason")
    ended_by: str = read_from("stored.span.ended_by", description="An account, `system`, or empty when unknown.")
    end_is_estimate: bool = read_from(
        "stored.span.end_is_estimate",
        description="True: no operation shows the exact time, and `ended_at` is the latest it can be.",
    )
    seconds: Seconds = Field(description="The seconds from its start to its end, or to now.")
    cost: Amount
    unpriced: str


class LifetimeDetailOut(LifetimeOut):
    charges: list[ChargeOut]


class StorageOut(Out):
    """A disk, the saved memory of a suspended VM, or external IPv4 addresses in use."""

    id: int = read_from("stored.id")
    name: str = read_from(
        "stored.span.name",
        description="The disk's name, `saved memory` or `external address`.",
    )
    resource: str | None = read_from("stored.span.resource")
    size_gib: Annotated[str, decimal_of(1024)] = read_from(
        "stored.span.stored_mib", description="The size in GiB, as a decimal; 0 for addresses."
    )
    addresses: int = read_from("stored.span.addresses", description="The number of external addresses; 0 for storage.")
    zone: str = read_from("stored.span.zone")
    started_at: Moment = read_from("stored.span.started_at")
    ended_at: Moment | None = read_from("stored.span.ended_at")
    cost: Amount
    unpriced: str
    charges: list[ChargeOut]


class LifetimesResponse(AmountsAsOf):
    lifetimes: list[LifetimeOut]
    next_cursor: str | None


class NotStoppedOut(Out):
    """The reason why it is not stopped; the first where there are several."""

    cause: Annotated[str, one_of(StopBlocker)]
    sentence: str = Field(description="The whole explanation for people, with times in UTC.")
    rule: str = Field(description="The rule that could stop it; empty where none can.")
    missing: Sequence[str] = Field(description="The conditions still missing, in order: evidence, warnings, grace.")
    at: Moment | None = Field(description="The time of the next missing condition; null where no time is known.")


class InstanceResponse(AmountsAsOf):
    instance: InstanceOut
    price_note: PriceNote
    not_stopped: NotStoppedOut
    lifetimes: list[LifetimeDetailOut]
    storage: list[StorageOut]


class InstanceQuery(Query):
    project: Texts = Field(default_factory=list)
    preset: Texts = Field(default_factory=list)
    owner: Texts = Field(default_factory=list, description="The owner's address; an empty value finds what is unowned.")
    status: list[Status] = Field(default_factory=list)
    name: Text | None = None
    gce_id: Text | None = None
    gpu: Text | None = Field(None, description="An accelerator type, `any` or `none`.", examples=["nvidia-tesla-t4"])
    spot: bool | None = None
    keeper: list[KeeperKind] = Field(default_factory=list, description="Restricts the list to what this keeper keeps.")
    cluster: Text | None = Field(
        None,
        description="Restricts the list to VMs of this cluster, or of one of its node pools: `cluster/pool`.",
        examples=["train/t4"],
    )
    gone: bool = Field(False, description="True: includes deleted instances; they come last, the latest first.")
    sort: fleet.Sort = Field(fleet.Sort.RATE, description="The order; `rate`: the most expensive per hour first.")
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class LifetimeQuery(Query):
    project: Texts = Field(default_factory=list)
    gce_id: Text | None = None
    preset: Texts = Field(default_factory=list)
    owner: Texts = Field(default_factory=list)
    end_reason: list[EndReason] = Field(default_factory=list)
    state: Literal["open", "ended"] | None = None
    started_from: When | None = None
    started_before: When | None = None
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


def _instance(view: fleet.InstanceView, rules: Rules) -> InstanceOut:
    return InstanceOut.read(view, never_stopped=view.instance.never_stopped(rules.stop_through))


@router.get("/instances", summary="List instances with their cost", operation_id="listInstances")
def instances(deps: Given, query: Annotated[InstanceQuery, Parameter()]) -> FleetResponse:
    """Lists all VMs and other resources with their cost an hour and so far, and what of the fleet cannot be read."""
    filters = fleet_rows.Filters(
        projects=tuple(query.project),
        presets=tuple(query.preset),
        owners=tuple(query.owner),
        statuses=tuple(query.status),
        name=query.name,
        gce_id=query.gce_id,
        gpu=query.gpu,
        spot=query.spot,
        keepers=tuple(query.keeper),
        cluster=query.cluster,
    )
    after = None if query.cursor is None else _cursor(query.cursor, query.sort)
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        page = fleet.fleet_page(
            connection,
            accrual,
            deps.rules.presets,
            filters,
            sort=query.sort,
            with_gone=query.gone,
            after=after,
            size=query.limit,
        )
        looks = projects.read_all(connection)
    end, loose = page.next, None if deps.loose is None else deps.loose.unused(accrual.book)
    return FleetResponse(
        as_of=accrual.now,
        totals=FleetTotalsOut.read(page.totals),
        unused_reservations=None if loose is None else UnusedReservationsOut.read(loose),
        price_note=accrual.price_note,
        unread=unread_parts(looks),
        instances=[_instance(row, deps.rules) for row in page.rows],
        next_cursor=None if end is None else cursors.encode(query.sort, int(end.gone), end.rank, end.name, end.id),
    )


@router.get(
    "/instances/{project}/{gce_id}",
    summary="Get a VM or other resource with its whole history",
    operation_id="getInstance",
    responses=NOT_FOUND,
)
def instance(deps: Given, project: Project, gce_id: GceId) -> InstanceResponse:
    """Gets a VM or other resource: why it has not been stopped, its lifetimes and storage, and each charge."""
    with deps.database.read() as connection:
        instance_id = fleet_rows.instance_id(connection, InstanceKey(project, gce_id))
        if instance_id is None:
            raise ProblemError(
                HTTPStatus.NOT_FOUND,
                f"Costguard has never seen an instance {gce_id} in project {project}.",
                "GET /api/v1/instances?gone=true lists all instances.",
            )
        accrual, by_id = accrual_at(connection, deps.clock.now()), prices.by_id(connection)
        (view,) = fleet.views(connection, accrual, deps.rules.presets, [instance_id])
        lifetimes = history.lifetimes_of(connection, accrual, instance_id)
        storage = history.storage_of(connection, accrual, instance_id)
        why_not = gather.why_not_stopped(connection, deps.rules, instance_id, view.idle, accrual.now)
    return InstanceResponse(
        as_of=accrual.now,
        instance=_instance(view, deps.rules),
        price_note=accrual.note_of(view.instance.shape, view.instance.zone, view.instance.provisioning_model),
        not_stopped=NotStoppedOut.read(why_not, sentence=why_not.sentence(accrual.now)),
        lifetimes=[
            LifetimeDetailOut.read(run, seconds=run.stored.span.ran(accrual.now), charges=_charges(run, by_id))
            for run in lifetimes
        ],
        storage=[StorageOut.read(disk, charges=_charges(disk, by_id)) for disk in storage],
    )


@router.get("/lifetimes", summary="List lifetimes, the latest recorded first", operation_id="listLifetimes")
def lifetimes(deps: Given, query: Annotated[LifetimeQuery, Parameter()]) -> LifetimesResponse:
    """Lists continuous billed runs of instances, each with its end, the reason for it, and its actor."""
    filters = LifetimeFilters(
        projects=query.project,
        gce_id=query.gce_id,
        presets=query.preset,
        owners=query.owner,
        end_reasons=query.end_reason,
        is_open=None if query.state is None else query.state == "open",
        started_from=query.started_from,
        started_before=query.started_before,
    )
    before = cursors.decode_id(query.cursor, "lifetimes")
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        runs = history.lifetimes(connection, accrual, filters, before, query.limit)
    page = runs[: query.limit]
    return LifetimesResponse(
        as_of=accrual.now,
        lifetimes=[LifetimeOut.read(run, seconds=run.stored.span.ran(accrual.now)) for run in page],
        next_cursor=cursors.encode("lifetimes", page[-1].stored.id) if len(runs) > query.limit else None,
    )


def _charges(view: LifetimeView | StorageView, by_id: Mapping[int, Price]) -> list[ChargeOut]:
    return [ChargeOut.read(charge, **_priced(charge, by_id)) for charge in view.charges]


def _priced(charge: ChargeSum, by_id: Mapping[int, Price]) -> dict[str, Any]:
    price = by_id.get(charge.price_id)
    if price is None:
        return {"rate": None, "unit": None, "price_source": None}
    return {"rate": Money(price.rate_nanos), "unit": price.unit, "price_source": price.source}


def _cursor(text: str, sort: fleet.Sort) -> fleet.Cursor:
    gone, rank, name, instance_id = cursors.decode(text, sort, _CURSOR)
    if gone == 1 and not 0 <= int(rank) <= _LATEST:
        raise cursors.bad()
    return fleet.Cursor(gone == 1, int(rank), str(name), int(instance_id))
