"""Where jobs may be launched, and what is read from Google before anything is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from costguard.jobs.rows.history.zone_advice import RegionAdvice, ZoneAdvice
from costguard.jobs.submit.where.addresses import AddressFinder
from costguard.jobs.submit.where.places import Shapes
from costguard.ledger.discovery.watch import Watched
from costguard.model.job import JobSpec
from costguard.model.launch import AddressChoice, Recipe, ReservedVms

# Project, zone, name as in `Recipe.reservation`; None: the zone has none of it. Raises CloudError.
Reservations: TypeAlias = Callable[[str, str, str], ReservedVms | None]


@dataclass(frozen=True, slots=True)
class LaunchTargets:
    """Where VMs may be launched, and what Google says a machine type is made of, and of zones without history."""

    watched: Watched
    shapes: Shapes
    advice: ZoneAdvice | None = None
    addresses: AddressFinder | None = None
    reservations: Reservations | None = None
    capacity: RegionAdvice | None = None

    @property
    def projects(self) -> Sequence[str]:
        """Returns the projects that are watched now. Raises StoreError."""
        return self.watched()

    def known(self, project: str) -> str:
        """The project itself where it is watched, else the first that is: machine types are the same in all."""
        projects = self.projects
        return project if project in projects or not projects else projects[0]

    def address_choices(self, spec: JobSpec, recipe: Recipe) -> Mapping[str, AddressChoice]:
        """Returns by region whether VMs would get external addresses; empty where Google is not asked."""
        if self.addresses is None or spec.project not in self.projects:
            return {}
        (choices,) = self.addresses.choices([(spec, recipe)])
        return choices
