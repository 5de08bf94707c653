"""The answers about instances, lifetimes and storage."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from costguard.api.fields import CURRENCY, Amount, Moment, Out, Provisioning, Usd, one_of
from costguard.ledger.owner import OwnerSource
from costguard.model.instance import Status
from costguard.model.lifetime import EndReason
from costguard.model.price import Unit
from costguard.model.utilisation import IdleState
from costguard.reminders.not_stopped import StopBlocker


class Idle(Out):
    state: Annotated[str, one_of(IdleState)] = Field(
        description="busy, idle or unknown. What was not measured is unknown, never idle."
    )
    since: Moment
    evidence: str = Field(examples=["GPU under 5 % for 2 h 10 min (max 3 %)"])
    is_weak: bool = Field(description="It has GPUs, and only CPU and network were measured.")


class Instance(Out):
    project: str
    gce_id: str = Field(description="Google's numeric id: which VM this is for ever. Names are reused.")
    name: str
    zone: str
    status: Annotated[str, one_of(Status)] = Field(
        description="running, stopped (Google: TERMINATED), suspended, ...", examples=["running"]
    )
    preset: str
    owner: str = Field(description="Empty: nobody is known to own it.")
    owner_source: Annotated[str, one_of(OwnerSource)] = Field(description="How the owner is known; empty: unowned.")
    job: str
    created_by: str = Field(description="The account that made the VM; empty when unknown.")
    machine_type: str
    vcpus: int
    memory_mib: int
    gpu_type: str | None
    gpu_count: int
    local_ssd_gib: int
    provisioning_model: Provisioning = Field(description="standard or spot.")
    labels: dict[str, str]
    created_at: Moment
    started_at: Moment | None = Field(description="When the lifetime that is open began; null: it does not run.")
    due_at: Moment | None = Field(description="When the preset's limit passes; null: no limit, or it does not run.")
    terminates_at: Moment | None = Field(description="When Google's own run-time limit fires.")
    first_seen_at: Moment
    last_seen_at: Moment | None = Field(description="When it was surely seen last; null: its project was never read.")
    gone_at: Moment | None = Field(description="When it was deleted, or found absent; null: it is there.")
    unread: str = Field(description="Why its zone could not be read just now; empty when it could.")
    rate_per_hour: Amount = Field(description="What it costs an hour now: the machine if it runs, and its storage.")
    lifetime_cost: Amount = Field(description="The machine's cost in the lifetime that is open, so far.")
    total_cost: Amount = Field(description="All lifetimes and all storage, since ever.")
    unpriced: list[str] = Field(description="What of it has no price, in sentences.")
    idle: Idle | None = Field(description="What was measured of it; null: it does not run, or nothing was, lately.")


class Unread(Out):
    """A part of a project that the last look could not read. Unread is not absent."""

    project: str
    scope: str = Field(description="A zone, instances, disks, operations, or project.")
    code: str
    reason: str
    command: str = Field(description="What makes it readable, for a shell; empty where no one command does.")
    last_complete_at: Moment | None = Field(description="The last look that read every zone.")


class FleetTotals(Out):
    """Over all instances that pass the filters, not this page alone; those that are gone do not count."""

    instances: int
    running: int
    rate_per_hour: Usd = Field(description="The burn rate of what can be priced.")
    unpriced: int = Field(description="Instances of which something has no price: the burn rate is too low by them.")


class Fleet(Out):
    as_of: Moment
    currency: str = CURRENCY
    totals: FleetTotals
    unread: list[Unread]
    instances: list[Instance]
    next_cursor: str | None = Field(description="Ask again with it for the next page; null: this was the last.")


class Charge(Out):
    """All charges of one billed resource at one price."""

    resource: str = Field(examples=["gpu:nvidia-tesla-t4"])
    quantity: str = Field(description="vCPUs, GiB or GPUs, as a decimal.", examples=["4", "3.75"])
    rate: Usd | None = Field(description="Dollars per unit; null: the price is no longer known.")
    unit: Annotated[str, one_of(Unit)] | None = Field(
        description="h, GiBy.h or GiBy.mo (the calendar month in US Pacific time)."
    )
    price_source: str | None
    started_at: Moment
    ended_at: Moment
    seconds: int
    amount: Usd


class Lifetime(Out):
    id: int
    project: str
    gce_id: str
    name: str
    zone: str
    machine_type: str
    gpu_type: str | None
    gpu_count: int
    provisioning_model: Provisioning
    preset: str
    owner: str
    job: str
    started_at: Moment
    ended_at: Moment | None = Field(description="null: it runs.")
    end_reason: Annotated[str, one_of(EndReason)] | None
    ended_by: str = Field(description="An account, system, or empty when nobody knows.")
    end_is_estimate: bool = Field(description="No operation shows when: ended_at is the latest it can be.")
    seconds: int = Field(description="From its start to its end, or to now.")
    cost: Amount
    unpriced: str


class LifetimeDetail(Lifetime):
    charges: list[Charge]


class Storage(Out):
    id: int
    name: str = Field(description="The disk's name, or memory for the saved memory of a suspended VM.")
    resource: str | None
    size_gib: str = Field(description="GiB, as a decimal.")
    zone: str
    started_at: Moment
    ended_at: Moment | None
    cost: Amount
    unpriced: str
    charges: list[Charge]


class Lifetimes(Out):
    as_of: Moment
    currency: str = CURRENCY
    lifetimes: list[Lifetime]
    next_cursor: str | None


class NotStopped(Out):
    """What keeps a VM from being stopped; the first thing that does, where several do."""

    cause: Annotated[str, one_of(StopBlocker)]
    sentence: str = Field(description="All of it for people, moments in UTC.")
    rule: str = Field(description="The rule that could stop it; empty where none can.")
    missing: list[str] = Field(description="What the rule still needs, in order: evidence, warnings, grace.")
    at: Moment | None = Field(description="When the next of it happens; null where no moment is known.")


class InstanceDetail(Out):
    as_of: Moment
    currency: str = CURRENCY
    instance: Instance
    not_stopped: NotStopped
    lifetimes: list[LifetimeDetail]
    storage: list[Storage]
