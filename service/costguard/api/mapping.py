"""From the engine's values to answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from costguard.api import schemas
from costguard.api.fields import Amount, usd
from costguard.ledger.history import LifetimeView, StorageView
from costguard.ledger.projects import ProjectLook
from costguard.ledger.spans import ChargeSum
from costguard.model.mending import command_for
from costguard.model.money import Money
from costguard.model.price import Price
from costguard.model.utilisation import Evidence
from costguard.reminders.not_stopped import StopDiagnosis
from costguard.spend.fleet import FleetTotals, InstanceView


def instance(view: InstanceView) -> schemas.Instance:
    known, shape = view.instance, view.instance.shape
    return schemas.Instance(
        project=known.key.project,
        gce_id=known.key.gce_id,
        name=known.name,
        zone=known.zone,
        status=known.status.value,
        preset=known.preset,
        owner=known.owner,
        owner_source=known.owner_source,
        job=known.job,
        created_by=known.created_by,
        machine_type=shape.machine_type,
        vcpus=shape.vcpus,
        memory_mib=shape.memory_mib,
        gpu_type=shape.gpu_type,
        gpu_count=shape.gpu_count,
        local_ssd_gib=shape.local_ssd_gib,
        provisioning_model=known.provisioning_model.value,
        labels=dict(known.labels),
        created_at=known.created_at,
        started_at=view.started_at,
        due_at=view.due_at,
        terminates_at=known.terminates_at,
        first_seen_at=known.first_seen_at,
        last_seen_at=known.last_seen_at,
        gone_at=known.gone_at,
        unread=known.unread,
        rate_per_hour=Amount.of(view.rate),
        lifetime_cost=Amount.of(view.lifetime_cost),
        total_cost=Amount.of(view.total_cost),
        unpriced=list(view.unpriced),
        idle=None if view.idle is None else idle(view.idle),
    )


def not_stopped(of: StopDiagnosis, now: datetime) -> schemas.NotStopped:
    return schemas.NotStopped(
        cause=of.cause.value, sentence=of.sentence(now), rule=of.rule, missing=list(of.missing), at=of.at
    )


def idle(of: Evidence) -> schemas.Idle:
    return schemas.Idle(state=of.state.value, since=of.since, evidence=of.sentence, is_weak=of.is_weak)


def totals(of: FleetTotals) -> schemas.FleetTotals:
    return schemas.FleetTotals(
        instances=of.instances, running=of.running, rate_per_hour=usd(of.rate), unpriced=of.unpriced
    )


def unread(looks: Iterable[ProjectLook]) -> list[schemas.Unread]:
    return [
        schemas.Unread(
            project=look.project,
            scope=part.scope,
            code=part.code,
            reason=part.reason,
            command=command_for(look.project, part),
            last_complete_at=look.last_complete_at,
        )
        for look in looks
        for part in look.unread
    ]


def lifetime(view: LifetimeView, now: datetime) -> schemas.Lifetime:
    return schemas.Lifetime(**_lifetime(view, now))


def lifetime_detail(view: LifetimeView, now: datetime, prices: Mapping[int, Price]) -> schemas.LifetimeDetail:
    return schemas.LifetimeDetail(**_lifetime(view, now), charges=[charge(each, prices) for each in view.charges])


def storage(view: StorageView, prices: Mapping[int, Price]) -> schemas.Storage:
    span = view.stored.span
    return schemas.Storage(
        id=view.stored.id,
        name=span.name,
        resource=span.resource,
        size_gib=_decimal(Decimal(span.size_mib) / 1024),
        zone=span.zone,
        started_at=span.started_at,
        ended_at=span.ended_at,
        cost=Amount.of(view.cost),
        unpriced=view.unpriced,
        charges=[charge(each, prices) for each in view.charges],
    )


def charge(of: ChargeSum, prices: Mapping[int, Price]) -> schemas.Charge:
    price = prices.get(of.price_id)
    return schemas.Charge(
        resource=of.resource,
        quantity=_decimal(Decimal(of.quantity_millis) / 1000),
        rate=None if price is None else usd(Money(price.rate_nanos)),
        unit=None if price is None else price.unit.value,
        price_source=None if price is None else price.source,
        started_at=of.started_at,
        ended_at=of.ended_at,
        seconds=of.seconds,
        amount=usd(of.amount),
    )


def _lifetime(view: LifetimeView, now: datetime) -> dict[str, Any]:
    of, stored = view.stored.lifetime, view.stored
    return {
        "id": stored.id,
        "project": of.key.project,
        "gce_id": of.key.gce_id,
        "name": stored.name,
        "zone": of.zone,
        "machine_type": of.shape.machine_type,
        "gpu_type": of.shape.gpu_type,
        "gpu_count": of.shape.gpu_count,
        "provisioning_model": of.provisioning_model.value,
        "preset": stored.attribution.preset,
        "owner": stored.attribution.owner,
        "job": stored.attribution.job,
        "started_at": of.started_at,
        "ended_at": of.ended_at,
        "end_reason": None if of.end_reason is None else of.end_reason.value,
        "ended_by": of.ended_by,
        "end_is_estimate": of.end_is_estimate,
        "seconds": of.ran(now) // timedelta(seconds=1),
        "cost": Amount.of(view.cost),
        "unpriced": view.unpriced,
    }


def _decimal(value: Decimal) -> str:
    return f"{value.normalize():f}"
