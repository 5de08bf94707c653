"""Asks Google how VMs of a subnetwork get out, and remembers the answers for some minutes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TypeAlias

import structlog

from costguard.errors import CloudError
from costguard.jobs.decide.buy.addresses import choice_of, is_open
from costguard.model.instance import region_of
from costguard.model.job import JobSpec
from costguard.model.launch import AddressChoice, Recipe, WayOut
from costguard.model.ports import Clock

# Project, region, network, subnetwork ("" leaves it to Google). Raises CloudError.
WaysOut: TypeAlias = Callable[[str, str, str, str], WayOut]

_SERVES, _FAILURE_SERVES = timedelta(minutes=5), timedelta(minutes=1)
_WORKERS = 8

log = structlog.get_logger(__name__)
_Place: TypeAlias = tuple[str, str, str, str]


class AddressFinder:
    """Thread-safe. What cannot be read stops no launch: the VM has an address then."""

    def __init__(self, ways_out: WaysOut, clock: Clock) -> None:
        self._ways_out = ways_out
        self._clock = clock
        self._read: dict[_Place, tuple[datetime, WayOut | str]] = {}  # until when it serves, and the answer

    def choices(self, wanted: Collection[tuple[JobSpec, Recipe]]) -> list[Mapping[str, AddressChoice]]:
        """Returns by region, for each job and its recipe, whether its VMs get addresses. Asks Google."""
        open_ones = [(spec, recipe) for spec, recipe in wanted if is_open(spec.kind, recipe)]
        self._ask({place for spec, recipe in open_ones for place in _places(spec.project, recipe)})
        return [self._choices(spec, recipe) for spec, recipe in wanted]

    def _choices(self, spec: JobSpec, recipe: Recipe) -> Mapping[str, AddressChoice]:
        reads = is_open(spec.kind, recipe)
        return {
            place[1]: choice_of(spec.kind, recipe, self._read[place][1] if reads else "")
            for place in _places(spec.project, recipe)
        }

    def _ask(self, places: Iterable[_Place]) -> None:
        now = self._clock.now()
        old = [place for place in places if place not in self._read or self._read[place][0] <= now]
        if not old:
            return
        with ThreadPoolExecutor(min(_WORKERS, len(old)), thread_name_prefix="addresses") as pool:
            for place, answer in zip(old, pool.map(self._answer, old), strict=True):
                self._read[place] = (now + (_FAILURE_SERVES if isinstance(answer, str) else _SERVES), answer)

    def _answer(self, place: _Place) -> WayOut | str:
        try:
            return self._ways_out(*place)
        except CloudError as error:
            log.warning("subnetwork_not_read", project=place[0], region=place[1], error=str(error))
            return error.message.rstrip(".")


def _places(project: str, recipe: Recipe) -> list[_Place]:
    regions = dict.fromkeys(region_of(zone) for zone in recipe.zones)
    return [(project, region, recipe.network, recipe.subnetwork) for region in regions]
