"""Reads the ledger's history of Spot VMs by zone: lifetimes of all VMs, and the stockouts that jobs met.

VMs count as one kind where their GPUs are alike in type and number, or, without GPUs, their machine types.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, and_, or_, select

from costguard.db.tables import attempts, jobs, lifetimes
from costguard.deadlines.hazards import NO_COUNTS, ZoneCounts, counts_of
from costguard.deadlines.history import SpotRun, ZoneHistory, periods_of, series_of_history
from costguard.model.attempt import Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import Recipe
from costguard.model.lifetime import EndReason
from costguard.model.money import Money

LOOKED_BACK = timedelta(days=90)
_MOST_ROWS = 50_000
_EPOCH_STEP = timedelta(hours=1)
_SPOT = ProvisioningModel.SPOT.value


class VMKind(NamedTuple):
    """`what` is the GPU's type, or the machine type of a VM without GPUs."""

    what: str
    gpus: int

    @classmethod
    def of_recipe(cls, recipe: Recipe) -> VMKind:
        return cls(recipe.gpu_type, recipe.gpu_count) if recipe.gpu_type else cls(recipe.machine_type, 0)

    def __str__(self) -> str:
        return f"{self.what}_{self.gpus}" if self.gpus else self.what


def zone_counts(connection: Connection, now: datetime) -> Mapping[VMKind, Mapping[str, ZoneCounts]]:
    """Returns the counts of every kind, by zone, for the hazards of its Spot VMs; zones without history are
    left out.
    """
    since = now - LOOKED_BACK
    now_h = (now - since) / _EPOCH_STEP
    counts: dict[VMKind, dict[str, ZoneCounts]] = defaultdict(dict)
    for (kind, zone), one in _histories(connection, since, now).items():
        counts[kind][zone] = counts_of(periods_of(one, now_h), now_h)
    return counts


def counts_of_zone(connection: Connection, kind: VMKind, zone: str, now: datetime) -> ZoneCounts:
    """Returns the counts of one kind in one zone; of a zone without history, none."""
    since = now - LOOKED_BACK
    now_h = (now - since) / _EPOCH_STEP
    one = _histories(connection, since, now, zone).get((kind, zone))
    return NO_COUNTS if one is None else counts_of(periods_of(one, now_h), now_h)


@dataclass(frozen=True, slots=True)
class FleetSeries:
    """A zone's Spot VMs of one kind, as a recorded series: no names, owners or moments. Prices are of an hour."""

    name: str  # `us-central1-a_nvidia-tesla-t4_1`
    gap: timedelta
    ups: list[int]
    seen: int  # points at which a VM ran, or one was asked for shortly before
    price: Money | None
    on_demand_price: Money | None


def fleet_series(connection: Connection, since: datetime, now: datetime, gap: timedelta) -> list[FleetSeries]:
    """Returns series by name. The series of one kind begin together, with the first that was seen of any of them."""
    histories = _histories(connection, since, now)
    prices = _prices(connection, since)
    now_h, gap_h = (now - since) / _EPOCH_STEP, gap / _EPOCH_STEP
    begins: dict[VMKind, float] = {}
    for (kind, _), one in histories.items():
        if one.begins_h is not None:
            begins[kind] = min(max(0.0, one.begins_h), begins.get(kind, now_h))
    series = []
    for (kind, zone), one in sorted(histories.items()):
        points = series_of_history(one, begins.get(kind, 0.0), now_h, gap_h)
        if len(points.ups) < 2:
            continue
        spot, on_demand = (prices.get((kind, zone, model.value)) for model in _MODELS)
        series.append(FleetSeries(f"{zone}_{kind}", gap, points.ups, points.seen, spot, on_demand))
    return series


_MODELS = (ProvisioningModel.SPOT, ProvisioningModel.STANDARD)


def _histories(
    connection: Connection, since: datetime, until: datetime, zone_alone: str = ""
) -> dict[tuple[VMKind, str], ZoneHistory]:
    """The newest rows where there are very many. `zone_alone`: of this zone, not of all."""
    runs: dict[tuple[VMKind, str], list[SpotRun]] = defaultdict(list)
    columns = lifetimes.c
    query = (
        select(
            columns.zone, columns.gpu_type, columns.gpu_count, columns.machine_type,
            columns.started_at, columns.ended_at, columns.end_reason,
        )
        .where(columns.provisioning_model == _SPOT, columns.started_at < until)
        .where(or_(columns.ended_at.is_(None), columns.ended_at > since))
        .where(*([columns.zone == zone_alone] if zone_alone else ()))
        .order_by(columns.started_at.desc(), columns.id)
        .limit(_MOST_ROWS)
    )  # fmt: skip
    for zone, gpu_type, gpus, machine_type, began, ended, reason in connection.execute(query):
        kind = VMKind(gpu_type, gpus or 0) if gpu_type else VMKind(machine_type, 0)
        end = None if ended is None else _hours(since, ended)
        runs[kind, zone].append(SpotRun(_hours(since, began), end, reason == EndReason.PREEMPTED.value))
    stockouts: dict[tuple[VMKind, str], list[float]] = defaultdict(list)
    tried, recipe = attempts.c, jobs.c.recipe
    refused = (
        select(
            tried.zone, tried.gpu_type, recipe["gpu_count"].as_integer(), recipe["machine_type"].as_string(),
            tried.intended_at, tried.ended_at,
        )
        .join_from(attempts, jobs, jobs.c.id == tried.job_id)
        .where(and_(tried.outcome == Outcome.STOCKOUT.value, tried.provisioning_model == _SPOT))
        .where(tried.ended_at > since, tried.ended_at <= until)
        .where(*([tried.zone == zone_alone] if zone_alone else ()))
        .order_by(tried.ended_at.desc(), tried.id)
        .limit(_MOST_ROWS)
    )  # fmt: skip
    for zone, gpu_type, gpus, machine_type, intended, ended in connection.execute(refused):
        kind = VMKind(gpu_type, gpus or 0) if gpu_type else VMKind(machine_type, 0)
        stockouts[kind, zone].append(_hours(since, ended or intended))
    keys = {**runs, **stockouts}
    return {
        key: ZoneHistory(sorted(runs.get(key, ()), key=lambda run: run.began_h), sorted(stockouts.get(key, ())))
        for key in keys
    }


def _prices(connection: Connection, since: datetime) -> dict[tuple[VMKind, str, str], Money]:
    """The rate of the latest attempt of each kind, zone and provisioning model."""
    tried, recipe = attempts.c, jobs.c.recipe
    query = (
        select(
            tried.zone, tried.gpu_type, recipe["gpu_count"].as_integer(), recipe["machine_type"].as_string(),
            tried.provisioning_model, tried.rate_nanos,
        )
        .join_from(attempts, jobs, jobs.c.id == tried.job_id)
        .where(tried.intended_at > since, tried.rate_nanos.is_not(None))
        .order_by(tried.intended_at, tried.id)
        .limit(_MOST_ROWS)
    )  # fmt: skip
    return {
        (VMKind(gpu_type, gpus or 0) if gpu_type else VMKind(machine_type, 0), zone, model): Money(nanos)
        for zone, gpu_type, gpus, machine_type, model, nanos in connection.execute(query)
        if nanos
    }


def _hours(since: datetime, at: datetime) -> float:
    return (at - since) / _EPOCH_STEP
