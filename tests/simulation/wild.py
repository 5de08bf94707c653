"""A project where anything happens to any VM: people, Google and chance; and prices that change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from tests.scenario import fleet
from tests.simulation.plan import Plan
from tests.simulation.settings import WILD

from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

_SECOND = timedelta(seconds=1)
_MOST = 25  # VMs that exist at once
_VERBS = {"stop": 4, "start": 6, "suspend": 2, "resume": 2, "delete": 1}
_BURST = {**_VERBS, "preempt": 2, "host-error": 2, "guest-shutdown": 1, "recreate": 1, "preempt-in-start": 2}
_CHANGING = (("gpu:nvidia-tesla-t4", "us-central1"), ("n1:core", "us-east1"), ("a2:ram", "us-central1"))


@dataclass
class Wild:
    world: World
    happened: Counter[str] = field(default_factory=Counter)
    prices_changed_at: datetime | None = None
    may_change_prices: Callable[[], bool] = lambda: True  # the catalogue shows no price but the present one

    def plan(self, plan: Plan) -> None:
        aim = plan.aim
        life = fleet.Life(self.world, plan.seed, aim.wild or min(_MOST, plan.size), (WILD,))
        life.graceful = aim.graceful
        self.happened = life.happened
        for planned in plan.events:
            lot: Callable[[], random.Random] = partial(plan.lot, "event", planned.number)
            kinds = {self._briefly: aim.brief, self._burst: aim.bursts}
            kinds[life.something] = 1 - sum(kinds.values())
            act = lot().choices(list(kinds), list(kinds.values()))[0]
            self.world.at(planned.at, partial(life.create if planned.number < aim.wild else act, lot))
            if lot().random() < aim.reprices:
                self.world.at(planned.at, partial(self._change_prices, lot))

    def _burst(self, lot: Callable[[], random.Random]) -> None:
        """Several things happen to one VM within minutes or an hour, whatever its state: Google refuses some of it."""
        chance = lot()
        there = self.world.instances(WILD)
        if not there:
            return
        vm, at = chance.choice(there), self.world.timeline.now
        for _ in range(chance.randint(2, 5)):
            what = chance.choices(list(_BURST), list(_BURST.values()))[0]
            self.world.at(at, partial(self._do, vm, what))
            at += chance.choice((_SECOND / 4, 10 * _SECOND, 90 * _SECOND, 600 * _SECOND)) * chance.uniform(0.5, 2)

    def _do(self, vm: VM, what: str) -> None:
        if vm.status is Status.DELETED:
            return
        with suppress(Refused):
            if what in _VERBS:
                self.world.request(what, WILD, vm.zone, vm.name, "ben@example.com")
            else:
                self.world.trigger(what, WILD, vm.name, vm.zone)
            self.happened[f"{what} in a burst"] += 1

    def _briefly(self, lot: Callable[[], random.Random]) -> None:
        """A VM that is off is started, and its run ends after about a minute: Google bills a minute at least."""
        chance = lot()
        off = [vm for vm in self.world.instances(WILD) if vm.status is Status.TERMINATED]
        if not off:
            return
        vm, lasts = chance.choice(off), timedelta(seconds=chance.choice((5, 30, 59, 60, 60, 60)))
        ends = partial(self._end_of, vm, len(vm.runs) + 1, lasts, chance.random() < 0.7, 60)
        with suppress(Refused):
            self.world.request("start", WILD, vm.zone, vm.name, "ben@example.com")
            self.world.at(self.world.timeline.now + _SECOND, ends)

    def _end_of(self, vm: VM, run: int, lasts: timedelta, by_google: bool, tries: int) -> None:
        """Looked for each second until the run has begun."""
        now = self.world.timeline.now
        if len(vm.runs) < run:
            if tries and vm.status is not Status.DELETED:
                self.world.at(now + _SECOND, partial(self._end_of, vm, run, lasts, by_google, tries - 1))
            return
        self.world.at(max(now, vm.runs[run - 1].began + lasts), partial(self._end, vm, by_google=by_google))

    def _end(self, vm: VM, *, by_google: bool) -> None:
        with suppress(Refused):
            if by_google and vm.is_spot:
                self.world.trigger("preempt", WILD, vm.name, vm.zone)
            else:
                self.world.request("stop", WILD, vm.zone, vm.name, "ben@example.com")
            self.happened["ran for about a minute"] += 1

    def _change_prices(self, lot: Callable[[], random.Random]) -> None:
        """Google makes some things dearer and some cheaper than they once were, from this moment on."""
        if not self.may_change_prices():
            return
        chance, prices, now = lot(), self.world.prices, self.world.now
        for resource, region in _CHANGING:
            for spot in (False, True):
                _, nanos = prices.history(resource, region, spot)[0]
                prices.change(resource, region, spot, int(nanos * chance.uniform(0.9, 1.1)), now)
        self.prices_changed_at = now
        self.happened["prices changed"] += 1
