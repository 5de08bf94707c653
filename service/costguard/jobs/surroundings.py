"""What choosing a place rests on: what VMs cost there, what happened there lately, which quotas are used up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from costguard.errors import CloudError
from costguard.jobs import attempts
from costguard.jobs.placement import REMEMBERED, Place, PlaceEvent, Score, Where, lost_zone, places, scores
from costguard.jobs.rates import Shapes, hourly
from costguard.jobs.view import JobView
from costguard.ledger.accrual import Accrual, region_of
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.launch import Quota, Recipe
from costguard.model.money import Money
from costguard.model.ports import Clock, Launcher

_QUOTAS_SERVE = timedelta(seconds=60)
_WORKERS = 8

log = structlog.get_logger(__name__)

Scores = Mapping[Where, Score]


def lately(connection: Connection, now: datetime) -> Scores:
    """How every place did lately."""
    history = attempts.recent(connection, now - REMEMBERED)
    events = (PlaceEvent(one.zone, one.gpu_type, one.provisioning_model, one.outcome, one.at) for one in history)
    return scores(events, now)


def may_launch(view: JobView) -> bool:
    """Whether a place may be asked for: no attempt of it is under way."""
    return not view.job.state.is_over and (view.last is None or not view.last.attempt.is_open)


class Surroundings:
    """Asks Google for quotas and machine types, and remembers the answers. What is not known holds nothing up."""

    def __init__(self, launcher: Launcher, shapes: Shapes, clock: Clock) -> None:
        self._launcher = launcher
        self._shapes = shapes
        self._clock = clock
        self._quotas: dict[tuple[str, str], tuple[datetime, Mapping[str, Quota]]] = {}
        self._known: dict[tuple[str, str, str], Shape] = {}

    def places(self, views: Sequence[JobView], accrual: Accrual, known: Scores) -> dict[str, list[Place]]:
        """By job, the best first. Asks Google: not within a transaction."""
        self._read_quotas(
            {(view.job.spec.project, region_of(zone)) for view in views for zone in view.job.recipe.zones}
        )
        rates: dict[object, Mapping[tuple[str, ProvisioningModel], Money | None]] = {}
        found: dict[str, list[Place]] = {}
        for view in views:
            job, recipe = view.job, view.job.recipe
            kind = (job.spec.project, recipe.machine_type, recipe.gpu_type, recipe.gpu_count)
            key = (*kind, recipe.disk_type, recipe.disk_gib, recipe.zones)
            if key not in rates:
                rates[key] = hourly(recipe, self._shape(job.spec.project, recipe), recipe.zones, accrual)
            regions = {region_of(zone) for zone in recipe.zones}
            quotas = {region: self._quotas[job.spec.project, region][1] for region in regions}
            found[job.id] = places(
                recipe, rates[key], known, quotas, lost_zone(view), accrual.now, recipe.falls_back_to_on_demand
            )
        return found

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
