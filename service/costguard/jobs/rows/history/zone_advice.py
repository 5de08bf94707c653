"""Google's advice: about zones in which the fleet has no history, once a day, and about capacity, once an hour."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from threading import Lock
from typing import Generic, TypeVar

from costguard.deadlines.hazards import ZoneCounts
from costguard.deadlines.history import counts_of_rates
from costguard.deadlines.waits import WaitCounts
from costguard.errors import CloudError
from costguard.isolation import Isolated
from costguard.model.instance import ProvisioningModel, region_of
from costguard.model.launch import ADVISED_MODELS, CapacityAdvice, Recipe, SpotListPrice, is_advised
from costguard.model.money import Money

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

# Of a project, zone and machine type: the share of Spot VMs that were preempted among those that stopped.
ReadRate = Callable[[str, str, str], float | None]
# Of a project, region and machine type, for this way to buy, and without one.
ReadAdvice = Callable[[str, str, str, ProvisioningModel], CapacityAdvice | None]
ReadPrices = Callable[[str, str, str], Sequence[SpotListPrice]]
_MOST = 1000


class _Lookups(Generic[Key, Value]):
    """Asks each question once in `good_for`, in a thread of its own. What Google does not answer is not known until
    then, either.
    """

    def __init__(self, read: Callable[[Key], Value | None], good_for: timedelta) -> None:
        self._read = read
        self._good_for = good_for
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="advice")
        self._asked: dict[Key, tuple[datetime, Future[Value | None]]] = {}

    def known(self, keys: Iterable[Key], now: datetime, patience: timedelta) -> dict[Key, Value]:
        """Returns the answers that are there within `patience`; the others are looked up meanwhile."""
        with self._lock:
            lookups = {key: self._lookup(key, now) for key in keys}
        if patience:
            wait(lookups.values(), timeout=patience.total_seconds())
        answers = {key: lookup.result() for key, lookup in lookups.items() if lookup.done()}
        return {key: answer for key, answer in answers.items() if answer is not None}

    def _lookup(self, key: Key, now: datetime) -> Future[Value | None]:
        entry = self._asked.get(key)
        if entry is None or now - entry[0] >= self._good_for:
            if len(self._asked) >= _MOST:
                self._asked.clear()
            entry = self._asked[key] = now, self._pool.submit(self._look, key)
        return entry[1]

    def _look(self, key: Key) -> Value | None:
        with Isolated("advice_not_read", about=str(key)):
            try:
                return self._read(key)
            except CloudError:
                return None
        return None


class ZoneAdvice:
    """Threads may share it. What is not known within `patience` is left out and looked up meanwhile."""

    def __init__(self, read: ReadRate, patience: timedelta = timedelta()) -> None:
        self._patience = patience
        self._rates = _Lookups[tuple[str, str, str], float](lambda key: read(*key), timedelta(hours=24))

    def counts(self, project: str, recipe: Recipe, zones: Sequence[str], now: datetime) -> Mapping[str, ZoneCounts]:
        """Returns the counts of zones whose rates are known, as seen next to each other."""
        if not _is_advised(recipe):
            return {}
        keys = {(project, zone, recipe.machine_type): zone for zone in zones}
        rates = self._rates.known(keys, now, self._patience)
        return counts_of_rates({keys[key]: rate for key, rate in rates.items()})

    def with_own(
        self,
        own: Mapping[str, ZoneCounts],
        project: str,
        recipe: Recipe,
        zones: Sequence[str],
        now: datetime,
    ) -> Mapping[str, ZoneCounts]:
        """The fleet's own history of zones, and the advice on those of `zones` in which it has none."""
        lacking = [zone for zone in dict.fromkeys(zones) if zone not in own]
        return {**self.counts(project, recipe, lacking, now), **own} if lacking else own


class RegionAdvice:
    """Google's estimate of what can be had in regions, and Spot's prices there. Never needed: none is no advice.

    Each region, machine type and way to buy is asked about once an hour at most. Threads may share it.
    """

    def __init__(self, advise: ReadAdvice, prices: ReadPrices, patience: timedelta = timedelta()) -> None:
        self._patience = patience
        hour = timedelta(hours=1)
        self._advice = _Lookups[tuple[str, str, str, ProvisioningModel], CapacityAdvice](lambda key: advise(*key), hour)
        self._prices = _Lookups[tuple[str, str, str], Sequence[SpotListPrice]](lambda key: prices(*key), hour)

    def capacity(
        self, project: str, recipe: Recipe, regions: Iterable[str], model: ProvisioningModel, now: datetime
    ) -> Mapping[str, CapacityAdvice]:
        """Returns the advice by region, as far as it is known: how likely Spot is up, or a flex-start is granted."""
        if model not in ADVISED_MODELS or not _is_advised(recipe):
            return {}
        keys = {(project, region, recipe.machine_type, model): region for region in regions}
        answers = self._advice.known(keys, now, self._patience)
        return {keys[key]: advice for key, advice in answers.items()}

    def waits(self, own: WaitCounts, project: str, recipe: Recipe, zones: Iterable[str], now: datetime) -> WaitCounts:
        """The fleet's own requests of flex-start, with the prior by the lowest advice on the regions of these zones."""
        regions = dict.fromkeys(region_of(zone) for zone in zones)
        answers = self.capacity(project, recipe, regions, ProvisioningModel.FLEX_START, now) if regions else {}
        chances = [min(1.0, max(0.0, advice.obtainability)) for advice in answers.values()]
        return own._replace(never=1 - min(chances)) if chances else own

    def spot_prices(self, project: str, recipe: Recipe, regions: Iterable[str], now: datetime) -> Mapping[str, Money]:
        """Returns the hourly list price of such a Spot VM by Google's own record, by region, as far as it is known."""
        if not _is_advised(recipe):
            return {}
        keys = {(project, region, recipe.machine_type): region for region in regions}
        listed = self._prices.known(keys, now, self._patience)
        # The newest record may have ended with the last whole day.
        begun = {keys[key]: [one for one in records if one.since <= now] for key, records in listed.items()}
        return {region: records[-1].hourly for region, records in begun.items() if records}


def _is_advised(recipe: Recipe) -> bool:
    return is_advised(recipe.machine_type, attaches_gpus=recipe.attaches_gpus)
