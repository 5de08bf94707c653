"""Google's advice about zones in which the fleet has no history, looked up once a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from threading import Lock

from costguard.deadlines.hazards import ZoneCounts
from costguard.deadlines.history import counts_of_rates
from costguard.errors import CloudError
from costguard.isolation import Isolated
from costguard.model.launch import Recipe

# Of a project, zone and machine type: the share of Spot VMs that were preempted among those that stopped.
ReadRate = Callable[[str, str, str], float | None]
_GOOD_FOR = timedelta(hours=24)
_MOST = 1000


class ZoneAdvice:
    """Threads may share it. What is not known within `patience` is left out and looked up meanwhile."""

    def __init__(self, read: ReadRate, patience: timedelta = timedelta()) -> None:
        self._read = read
        self._patience = patience
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="advice")
        self._asked: dict[tuple[str, str, str], tuple[datetime, Future[float | None]]] = {}

    def counts(self, project: str, recipe: Recipe, zones: Sequence[str], now: datetime) -> Mapping[str, ZoneCounts]:
        """Returns the counts of zones whose rates are known, as seen next to each other."""
        if recipe.attaches_gpus or "custom" in recipe.machine_type:
            return {}  # Google has no history of these
        with self._lock:
            lookups = {zone: self._lookup((project, zone, recipe.machine_type), now) for zone in zones}
        if self._patience:
            wait(lookups.values(), timeout=self._patience.total_seconds())
        answers = {zone: lookup.result() for zone, lookup in lookups.items() if lookup.done()}
        return counts_of_rates({zone: rate for zone, rate in answers.items() if rate is not None})

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

    def _lookup(self, key: tuple[str, str, str], now: datetime) -> Future[float | None]:
        entry = self._asked.get(key)
        if entry is None or now - entry[0] >= _GOOD_FOR:
            if len(self._asked) >= _MOST:
                self._asked.clear()
            entry = self._asked[key] = now, self._pool.submit(self._look, *key)
        return entry[1]

    def _look(self, project: str, zone: str, machine_type: str) -> float | None:
        """Looks up a zone's rate; None also where Google does not answer: it is asked again after a day."""
        with Isolated("zone_advice_not_read", project=project, zone=zone):
            try:
                return self._read(project, zone, machine_type)
            except CloudError:
                return None
        return None
