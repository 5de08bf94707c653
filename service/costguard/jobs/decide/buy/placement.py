"""Ranks the places where a VM can be requested: by price, recent stockouts and preemptions, and quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction

from costguard.jobs.decide.view import JobView, an_hour
from costguard.model.attempt import Outcome
from costguard.model.buying import RESERVED, models_of
from costguard.model.instance import ProvisioningModel, region_of
from costguard.model.launch import AddressChoice, Quota, Recipe, gpu_metrics
from costguard.model.money import ZERO, Money
from costguard.model.words import count_text


def used_up(
    recipe: Recipe, zone: str, model: ProvisioningModel, quotas: Mapping[str, Mapping[str, Quota]], count: int = 1
) -> str:
    """Explains why there is no room for so many VMs in this zone's region, in a few words; "" where there is, or nobody
    knows.
    """
    quota = _quota(recipe.gpu_type, model, quotas.get(region_of(zone), {}))
    wanted = recipe.gpu_count * count
    if quota is None or not wanted or quota.usage + wanted <= quota.limit:
        return ""
    if quota.limit < wanted and count > 1:
        need = f"{count_text(count, 'VM')} need {count_text(wanted, 'GPU')}"
        limit = f"the quota {quota.metric} of {region_of(zone)} is {quota.limit:g}"
        return f"{need}, and {limit}: request a higher one from Google"
    return f"the quota {quota.metric} of {region_of(zone)} is used up ({quota.usage:g} of {quota.limit:g})"


def _quota(gpu_type: str, model: ProvisioningModel, of_region: Mapping[str, Quota]) -> Quota | None:
    """Spot VMs count against the quota for preemptible GPUs once one was granted, and against the common one before."""
    *preemptible, common = (of_region.get(metric) for metric in gpu_metrics(gpu_type, model))
    return next((one for one in preemptible if one is not None and one.limit > 0), common)


STOCKOUT_HALF_LIFE = timedelta(minutes=30)
PREEMPTION_HALF_LIFE = timedelta(hours=6)
REMEMBERED = 8 * PREEMPTION_HALF_LIFE  # what is older weighs nothing any more

# Shares of an hour's price that one fresh event counts for.
STOCKOUT_PENALTY = 0.5
PREEMPTION_PENALTY = 0.25

Where = tuple[str, str, ProvisioningModel]  # zone, GPU type, Spot or not


@dataclass(frozen=True, slots=True)
class PlaceEvent:
    """A stockout or a preemption of any job's VM; quota errors say nothing about a zone."""

    zone: str
    gpu_type: str
    provisioning_model: ProvisioningModel
    outcome: Outcome
    at: datetime


@dataclass(frozen=True, slots=True)
class Score:
    """Stockouts and preemptions, each fading with its age: 1.0 is one that happened just now."""

    stockouts: float = 0.0
    preemptions: float = 0.0

    @property
    def penalty(self) -> float:
        return STOCKOUT_PENALTY * self.stockouts + PREEMPTION_PENALTY * self.preemptions


@dataclass(frozen=True, slots=True)
class LaunchPlace:
    """A zone and provisioning model. `passed_over` is why it is not asked now; "" where it may be."""

    zone: str
    provisioning_model: ProvisioningModel
    rate: Money | None = None  # an hour of machine, disk and address
    score: Score = field(default_factory=Score)
    reasons: tuple[str, ...] = ()
    passed_over: str = ""
    address: AddressChoice | None = None  # None: nobody looked


def scores(history: Iterable[PlaceEvent], now: datetime) -> Mapping[Where, Score]:
    """Scores every place in which something happened that is not forgotten yet."""
    by_place: dict[Where, Score] = {}
    for event in history:
        where = (event.zone, event.gpu_type, event.provisioning_model)
        age = max(now - event.at, timedelta(0))
        if age > REMEMBERED or event.outcome not in _COUNTED:
            continue
        before = by_place.get(where, Score())
        if event.outcome is Outcome.STOCKOUT:
            by_place[where] = Score(before.stockouts + _faded(age, STOCKOUT_HALF_LIFE), before.preemptions)
        else:
            by_place[where] = Score(before.stockouts, before.preemptions + _faded(age, PREEMPTION_HALF_LIFE))
    return by_place


def places(
    recipe: Recipe,
    rates: Mapping[tuple[str, ProvisioningModel], Money | None],
    history: Sequence[PlaceEvent] | Mapping[Where, Score],
    quotas: Mapping[str, Mapping[str, Quota]],
    last_zone: str,
    now: datetime,
    count: int = 1,
) -> list[LaunchPlace]:
    """All places that the recipe allows for so many VMs, the best first: what it buys before what it falls back to.

    By what an hour costs with its penalty; a zone whose price is not known comes after the others, and the one that
    was just lost last. `quotas` are by region and metric. Those without room are passed over, and stand at the end.
    """
    place_scores = history if isinstance(history, Mapping) else scores(history, now)
    # A reservation took its quota when it was made ("Reservations of zonal resources", section "Quotas").
    full = {
        (zone, model): "" if model is RESERVED else used_up(recipe, zone, model, quotas, count)
        for zone in recipe.zones
        for model in models_of(recipe)
    }
    launch_places: list[LaunchPlace] = []
    for models in [models_of(recipe)] if recipe.buys_cheapest else [(model,) for model in models_of(recipe)]:
        some = [
            _place(recipe, zone, model, rates, place_scores, full[zone, model], last_zone)
            for model in models
            for zone in recipe.zones
        ]
        launch_places += sorted(
            some, key=lambda place: _order(place, last_zone)
        )  # the recipe's order where all else is equal
    return [place for place in launch_places if not place.passed_over] + [
        place for place in launch_places if place.passed_over
    ]


def with_advice(
    recipe: Recipe, some: Sequence[LaunchPlace], obtainability: Mapping[str, float], last_zone: str
) -> list[LaunchPlace]:
    """Ranks places again with Google's advice on Spot in their regions, from 0 to 1, where nothing was seen of them.

    What is missing to certainty counts as so much of a stockout just now: the fleet's own history comes first.
    """
    advised = [_advised(place, obtainability.get(region_of(place.zone))) for place in some]
    models = () if recipe.buys_cheapest else tuple(dict.fromkeys(place.provisioning_model for place in some))

    def rank(place: LaunchPlace) -> tuple[bool, int, tuple[bool, bool, Fraction]]:
        kind = models.index(place.provisioning_model) if models else 0
        return bool(place.passed_over), kind, _order(place, last_zone)

    return sorted(advised, key=rank)


def _advised(place: LaunchPlace, chance: float | None) -> LaunchPlace:
    if chance is None or place.provisioning_model is not ProvisioningModel.SPOT or place.score != Score():
        return place
    missing = 1 - min(1.0, max(0.0, chance))
    reason = f"Google rates it {chance * 100:.0f} % obtainable"
    return replace(place, score=Score(stockouts=missing), reasons=(*place.reasons, reason))


def lost_zone(view: JobView) -> str:
    """The zone in which the last VM of a job that came up was preempted; "" where its last one was not."""
    had = (attempt.attempt for attempt in reversed(view.attempts) if attempt.attempt.made_at is not None)
    last = next(had, None)
    return last.zone if last is not None and last.outcome is Outcome.PREEMPTED else ""


def _place(
    recipe: Recipe,
    zone: str,
    model: ProvisioningModel,
    rates: Mapping[tuple[str, ProvisioningModel], Money | None],
    place_scores: Mapping[Where, Score],
    passed_over: str,
    last_zone: str,
) -> LaunchPlace:
    score = place_scores.get((zone, recipe.gpu_type, model), Score())
    rate = rates.get((zone, model))
    reasons = [an_hour(rate)]
    reasons += [f"{_lately(score.stockouts, 'stockout')}"] if score.stockouts >= _WORTH_TELLING else []
    reasons += [f"{_lately(score.preemptions, 'preemption')}"] if score.preemptions >= _WORTH_TELLING else []
    reasons += ["just lost there"] if zone == last_zone else []
    return LaunchPlace(zone, model, rate, score, tuple(reasons), passed_over)


def _order(place: LaunchPlace, last_zone: str) -> tuple[bool, bool, Fraction]:
    rate = place.rate if place.rate is not None else ZERO
    return place.zone == last_zone, place.rate is None, rate.nanos * (1 + Fraction(place.score.penalty))


def _faded(age: timedelta, half_life: timedelta) -> float:
    return float(0.5 ** (age / half_life))


def _lately(number: float, what: str) -> str:
    return f"{count_text(max(round(number), 1), what)} lately"


_COUNTED = frozenset({Outcome.STOCKOUT, Outcome.PREEMPTED})
_WORTH_TELLING = 0.5
