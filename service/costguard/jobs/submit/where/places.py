"""Reads what ranking places is based on: prices, recent outcomes, quotas and machine types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

import structlog
from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.errors import CloudError
from costguard.jobs.decide.buy.placement import (
    REMEMBERED,
    LaunchPlace,
    PlaceEvent,
    Score,
    Where,
    lost_zone,
    places,
    scores,
)
from costguard.jobs.decide.gang.members import is_in_want, vms_wanted
from costguard.jobs.decide.view import JobView
from costguard.jobs.rows.history import place_rows
from costguard.jobs.submit.cost.offers import HourlyRate
from costguard.jobs.submit.where.addresses import AddressFinder
from costguard.ledger.accrual import Accrual
from costguard.ledger.billed.addresses import address_in_use
from costguard.ledger.billed.machine_parts import is_billed_as_gpus
from costguard.model.attempt import Outcome
from costguard.model.buying import RESERVED, models_of
from costguard.model.instance import LIST_PRICED, ProvisioningModel, Shape, region_of
from costguard.model.launch import AddressChoice, Quota, Recipe
from costguard.model.lifetime import ONE_ADDRESS
from costguard.model.money import Money
from costguard.model.ports import Clock, Launcher

_COUNTED = frozenset({Outcome.STOCKOUT, Outcome.PREEMPTED})
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class PlaceScore:
    """`where` is zone, GPU type and model; `events` are what the score rests on, the newest first, ten at most."""

    where: Where
    score: Score
    presets: tuple[str, ...]
    events: tuple[PlaceEvent, ...]


def place_scores(connection: Connection, rules: Rules, now: datetime) -> list[PlaceScore]:
    """Every place that a preset launches in, and every other where something happened; by GPU type and zone."""
    hour = now.replace(minute=0, second=0, microsecond=0)  # so that the same is asked for an hour
    history = [
        PlaceEvent(one.zone, one.gpu_type, one.provisioning_model, one.outcome, one.at)
        for one in place_rows.recent(connection, hour - REMEMBERED)
        if one.outcome in _COUNTED and one.at >= now - REMEMBERED
    ]
    by_place = scores(history, now)
    events: dict[Where, list[PlaceEvent]] = defaultdict(list)
    for event in reversed(history):
        events[event.zone, event.gpu_type, event.provisioning_model].append(event)
    presets: dict[Where, list[str]] = defaultdict(list)
    for preset in rules.presets.values():
        if preset.launch is not None:
            for zone in preset.launch.zones:
                for model in models_of(preset.launch):
                    presets[zone, preset.launch.gpu_type, model].append(preset.name)
    return [
        PlaceScore(
            where, by_place.get(where, Score()), tuple(presets.get(where, ())), tuple(events.get(where, ())[:_SHOWN])
        )
        for where in sorted({*presets, *by_place}, key=lambda where: (where[1], where[0], where[2]))
    ]


# Project, zone, machine type; None: not known.
Shapes: TypeAlias = Callable[[str, str, str], Shape | None]


def rates(
    recipe: Recipe,
    machine: Shape | None,
    zones: Iterable[str],
    accrual: Accrual,
    choices: Mapping[str, AddressChoice] | None = None,
) -> dict[tuple[str, ProvisioningModel], HourlyRate]:
    """Spot, on demand and flex-start in each zone, and the reservation where the recipe names one.

    `machine` is what the recipe's machine type is made of.

    `choices` are by region, of external addresses: where none is known, the VM is taken to have one.
    """
    having = {region: choice.is_external for region, choice in (choices or {}).items()}
    return {
        (zone, model): _rate(
            recipe, machine, zone, model, accrual, having.get(region_of(zone), recipe.external_address is not False)
        )
        for zone in zones
        for model in (*LIST_PRICED, *((RESERVED,) if recipe.reservation else ()))
    }


def hourly(
    recipe: Recipe,
    machine: Shape | None,
    zones: Iterable[str],
    accrual: Accrual,
    choices: Mapping[str, AddressChoice] | None = None,
) -> dict[tuple[str, ProvisioningModel], Money | None]:
    """Machine, GPUs, disk and external address in one figure; None where a part has no price."""
    return {place: rate.total for place, rate in rates(recipe, machine, zones, accrual, choices).items()}


def _rate(
    recipe: Recipe,
    machine: Shape | None,
    zone: str,
    model: ProvisioningModel,
    accrual: Accrual,
    has_address: bool,
) -> HourlyRate:
    """Returns an hour by its parts. What is reserved costs as on demand; where that is not sold, as calendar mode.

    Google, "Reservations of zonal resources", section "Billing": a reservation bills at the on-demand rates of what it
    reserves, used or not.
    """
    if model is not RESERVED:
        return _of_model(recipe, machine, zone, model, accrual, has_address)
    usual = _of_model(recipe, machine, zone, ProvisioningModel.STANDARD, accrual, has_address)
    return usual if usual.total is not None else _of_model(recipe, machine, zone, RESERVED, accrual, has_address)


def _of_model(
    recipe: Recipe,
    machine: Shape | None,
    zone: str,
    model: ProvisioningModel,
    accrual: Accrual,
    has_address: bool,
) -> HourlyRate:
    disk = accrual.storage_rate(f"disk:{recipe.disk_type}", recipe.disk_gib * 1024, zone)
    address = accrual.storage_rate(address_in_use(model), ONE_ADDRESS, zone) if has_address else Money()
    if machine is None:
        return HourlyRate(disk=disk, address=address)
    shape = recipe.shape(machine)
    if shape.gpu_type is None:
        return HourlyRate(accrual.rate(shape, zone, model), Money(), disk, address)
    whole = accrual.rate(shape, zone, model)
    bare = (
        Money() if is_billed_as_gpus(shape) else accrual.rate(replace(shape, gpu_type=None, gpu_count=0), zone, model)
    )
    return HourlyRate(bare, whole - bare if whole is not None and bare is not None else None, disk, address)


_QUOTAS_SERVE = timedelta(seconds=60)
_WORKERS = 8

log = structlog.get_logger(__name__)

Scores = Mapping[Where, Score]


def recent_scores(connection: Connection, now: datetime) -> Scores:
    """Scores every place by its recent past."""
    history = place_rows.recent(connection, now - REMEMBERED)
    events = (PlaceEvent(one.zone, one.gpu_type, one.provisioning_model, one.outcome, one.at) for one in history)
    return scores(events, now)


def may_launch(view: JobView) -> bool:
    """Says whether a place may be asked for: no attempt of it is under way, or a node of a gang has none."""
    if view.job.is_gang:
        return not view.job.state.is_over and is_in_want(view)
    return not view.job.state.is_over and (view.last is None or not view.last.attempt.is_open)


class PlaceFinder:
    """Asks Google for quotas, machine types and ways out, and remembers the answers. The unknown holds nothing up."""

    def __init__(self, launcher: Launcher, shapes: Shapes, clock: Clock) -> None:
        self._launcher = launcher
        self._shapes = shapes
        self._clock = clock
        self._addresses = AddressFinder(launcher.way_out, clock)
        self._quotas: dict[tuple[str, str], tuple[datetime, Mapping[str, Quota]]] = {}
        self._known: dict[tuple[str, str, str], Shape] = {}

    def places(self, views: Sequence[JobView], accrual: Accrual, place_scores: Scores) -> dict[str, list[LaunchPlace]]:
        """Returns places by job, the best first, at the price of all its VMs. Asks Google: not within a transaction."""
        self._read_quotas(
            {(view.job.spec.project, region_of(zone)) for view in views for zone in view.job.recipe.zones}
        )
        rates: dict[object, Mapping[tuple[str, ProvisioningModel], Money | None]] = {}
        by_job: dict[str, list[LaunchPlace]] = {}
        addresses = self._addresses.choices([(view.job.spec, view.job.recipe) for view in views])
        for view, choices in zip(views, addresses, strict=True):
            job, recipe = view.job, view.job.recipe
            kind = (job.spec.project, recipe.machine_type, recipe.gpu_type, recipe.gpu_count)
            with_addresses = tuple(choice.is_external for choice in choices.values())
            count, wanted = job.spec.nodes, vms_wanted(view)
            key = (count, *kind, recipe.disk_type, recipe.disk_gib, recipe.zones, recipe.reservation, with_addresses)
            if key not in rates:
                of_one = hourly(recipe, self._shape(job.spec.project, recipe), recipe.zones, accrual, choices)
                rates[key] = {place: None if rate is None else rate.times(count) for place, rate in of_one.items()}
            regions = {region_of(zone) for zone in recipe.zones}
            quotas = {region: self._quotas[job.spec.project, region][1] for region in regions}
            ranked = places(recipe, rates[key], place_scores, quotas, lost_zone(view), accrual.now, wanted)
            by_job[job.id] = [replace(place, address=choices[region_of(place.zone)]) for place in ranked]
        return by_job

    def _shape(self, project: str, recipe: Recipe) -> Shape | None:
        """The same in all zones that have it; None while nobody can say."""
        key = (project, recipe.zones[0] if recipe.zones else "", recipe.machine_type)
        if key not in self._known:
            try:
                shape = self._shapes(*key)
            except CloudError as error:
                log.warning("machine_type_not_read", machine_type=recipe.machine_type, error=str(error))
                return None
            if shape is None:
                return None
            self._known[key] = shape
        return self._known[key]

    def _read_quotas(self, regions: Collection[tuple[str, str]]) -> None:
        now = self._clock.now()
        old = [one for one in regions if one not in self._quotas or self._quotas[one][0] <= now - _QUOTAS_SERVE]
        if not old:
            return
        with ThreadPoolExecutor(min(_WORKERS, len(old)), thread_name_prefix="quotas") as pool:
            for one, quotas in zip(old, pool.map(self._quotas_of, old), strict=True):
                self._quotas[one] = (now, quotas)

    def _quotas_of(self, region: tuple[str, str]) -> Mapping[str, Quota]:
        """Nothing where Google does not say: then the insert will tell."""
        try:
            return self._launcher.quotas(*region)
        except CloudError as error:
            log.warning("quotas_not_read", project=region[0], region=region[1], error=str(error))
            return {}
