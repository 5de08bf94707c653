"""What goes wrong with Slack, with Google and with the guard's machine, for how long, decided by one seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tests.scenario.fleet import HOUR
from tests.scenario.quarter.fleet import CHANNEL, DAY, ZONES
from tests.scenario.quarter.guard import PROJECT

from costguard_sandbox.world import World

QUARTER = 91 * DAY
GUARD_OFF, ARCHIVED = "guard off", "channel archived"


@dataclass(frozen=True, slots=True)
class Kind:
    """So many times in a quarter, from `least` to `most` long. `begin` returns what ends it."""

    name: str
    times: int
    least: timedelta
    most: timedelta
    begin: Callable[[World, random.Random], Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Spell:
    kind: Kind
    begins: datetime
    ends: datetime


def _slack(kind: str, **values: Any) -> Callable[[World, random.Random], Callable[[], object]]:
    def begin(world: World, _chance: random.Random) -> Callable[[], object]:
        return partial(world.slack.faults.remove, world.slack.faults.add(kind, **values).id)

    return begin


def _google(kind: str, **values: Any) -> Callable[[World, random.Random], Callable[[], object]]:
    def begin(world: World, chance: random.Random) -> Callable[[], object]:
        more = {"zone": chance.choice(ZONES)} if kind == "unreachable_zone" else {}
        return partial(world.faults.remove, world.faults.add(kind, **values, **more).id)

    return begin


def _archived(world: World, _chance: random.Random) -> Callable[[], object]:
    world.slack.archive(CHANNEL)
    return partial(world.slack.archive, CHANNEL, False)


def _revoked(world: World, _chance: random.Random) -> Callable[[], object]:
    world.slack.tokens.invalidate("token_revoked")
    return world.slack.tokens.restore


def _nothing(_world: World, _chance: random.Random) -> Callable[[], object]:
    return lambda: None


_KINDS = (
    Kind("slack down", 10, HOUR / 3, 9 * HOUR, _slack("down")),
    Kind("slack broken", 4, HOUR / 3, 5 * HOUR, _slack("broken", chance=0.6)),
    Kind("slack in error", 3, HOUR / 3, 5 * HOUR, _slack("error", code="internal_error", chance=0.7)),
    Kind("slack limits", 6, HOUR, 8 * HOUR, _slack("rate_limited", seconds=20.0, chance=0.4)),
    Kind("answers lost", 12, HOUR, 10 * HOUR, _slack("lost_answer", method="chat.*", chance=0.5)),
    Kind("answers lost in a 500", 8, HOUR, 10 * HOUR, _slack("lost_answer_error", method="chat.*", chance=0.5)),
    Kind(ARCHIVED, 1, 7 * DAY, 7 * DAY, _archived),
    Kind("token revoked", 1, DAY, DAY, _revoked),
    Kind("zone unreachable", 12, HOUR, 10 * HOUR, _google("unreachable_zone")),
    Kind("google in error", 6, HOUR / 2, 4 * HOUR, _google("server_error", code=503)),
    Kind("no stop is taken", 6, HOUR, 8 * HOUR, _google("server_error", code=502, path="/stop$")),
    Kind("stops answered with garbage", 4, HOUR, 8 * HOUR, _google("garbage", path="/stop$")),
    Kind("permission lost", 3, HOUR, 6 * HOUR, _google("forbidden", project=PROJECT)),
    Kind(GUARD_OFF, 8, 2 * HOUR, 30 * HOUR, _nothing),
)


class Weather:
    """Bad spells of all kinds, begun and ended as the clock is moved."""

    def __init__(self, world: World, chance: random.Random, start: datetime, span: timedelta) -> None:
        self._world = world
        self._chance = chance
        self._active: dict[str, tuple[Spell, Callable[[], object]]] = {}
        self.counts: Counter[str] = Counter()
        self._coming: list[Spell] = []
        for kind in _KINDS:
            for _ in range(max(1, round(kind.times * (span / QUARTER)))):
                begins = start + DAY + chance.random() * (span - 2 * DAY)
                ends = begins + min(kind.least + chance.random() * (kind.most - kind.least), span / 10)
                self._coming.append(Spell(kind, begins, ends))
        self._coming.sort(key=lambda spell: spell.begins)

    @property
    def bad(self) -> frozenset[str]:
        return frozenset(self._active)

    def turn(self, now: datetime) -> None:
        for name, (spell, end) in list(self._active.items()):
            if spell.ends <= now:
                end()
                del self._active[name]
        while self._coming and self._coming[0].begins <= now:
            spell = self._coming.pop(0)
            if spell.ends > now and spell.kind.name not in self._active:
                self._active[spell.kind.name] = (spell, spell.kind.begin(self._world, self._chance))
                self.counts[spell.kind.name] += 1

    def clear(self) -> None:
        self._coming.clear()
        for _, end in self._active.values():
            end()
        self._active.clear()
