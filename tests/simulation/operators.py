"""Operators who start the guard again with other settings, and what was in force when."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tests.simulation.settings import PROJECT, changed

from costguard.access.rules import Rules
from costguard.settings import Settings

if TYPE_CHECKING:
    from tests.simulation.life import Life


@dataclass
class InForce:
    """The rules that guards had, by when each began to have them, oldest first."""

    since: list[tuple[datetime, Rules]]

    def at(self, moment: datetime) -> Rules:
        return self.between(moment, moment)[-1]

    def between(self, begin: datetime, end: datetime) -> list[Rules]:
        """All that were in force at any moment from then to then."""
        earlier = [rules for since, rules in self.since if since <= begin]
        return [*earlier[-1:], *(rules for since, rules in self.since if begin < since <= end)] or [self.since[0][1]]


@dataclass
class Operators:
    """`unwatched`: from the last pass before the second project was taken out of the settings until it was back."""

    life: Life
    in_force: InForce
    unwatched: list[tuple[datetime, datetime]] = field(default_factory=list)
    _closed_at: datetime | None = None

    def watch(self, is_on: bool) -> None:
        """Watches the second project in the settings, or not."""
        life, settings = self.life, self.life.settings
        if is_on:
            assert self._closed_at is not None
            self.unwatched.append((self._closed_at, life.now))
        else:
            self._closed_at = life.passes[-1]
            settings = settings.model_copy(update={"watch": settings.watch.model_copy(update={"projects": [PROJECT]})})
        life.start_with(settings)

    def change(self, lot: random.Random) -> Callable[[], None]:
        """Some of the settings, for a while; what is returned puts them back."""
        self._start_with(changed(lot))
        return lambda: self._start_with(self.life.settings)

    def _start_with(self, settings: Settings) -> None:
        self.in_force.since.append((self.life.now, settings.rules()))
        self.life.start_with(settings)
