"""A quarter lived through: the clock moved, the weather turned, people pressing, and guards coming and going."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.scenario.fleet import HOUR, MINUTE
from tests.scenario.quarter.crashing import FragileDatabase, Fuse, Killed
from tests.scenario.quarter.fleet import DAY, RULES, ZONES, Fleet
from tests.scenario.quarter.guard import PROJECT, Guard, Place
from tests.scenario.quarter.people import Meant, People
from tests.scenario.quarter.weather import GUARD_OFF, Weather

from costguard.daemon.lease_keeper import LEASE_TTL
from costguard.errors import LeaseLost, StoreError
from costguard.gce.prices import snapshot_prices
from costguard.ledger import price_refresh
from costguard_sandbox.gce.vm import Load, Status
from costguard_sandbox.world import World

_MOMENT = timedelta(milliseconds=100)
_PATIENCE = 2 * MINUTE  # for an outbox that has to wait; the next step goes on with it


@dataclass(frozen=True, slots=True)
class Look:
    """The fleet as a guard read and recorded it."""

    at: datetime
    is_whole: bool
    unread_zones: frozenset[str]


@dataclass(frozen=True, slots=True)
class Step:
    """What a guard did from one moment to another, and what was wrong meanwhile."""

    began: datetime
    ended: datetime
    bad: frozenset[str]


@dataclass
class Quarter:
    """Made by `live`; everything that the oracle goes by is in here."""

    world: World
    database_url: str
    endpoint: str
    seed: int
    start: datetime
    span: timedelta
    size: int
    pace: float = 1  # how long the gaps between passes are
    mean_steps: float = 220  # between two crashes
    looks: list[Look] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"{self.seed}/life")
        self.fleet = Fleet(self.world, random.Random(f"{self.seed}/fleet"))
        self.weather = Weather(self.world, random.Random(f"{self.seed}/weather"), self.start, self.span)
        self.people = People(self.world.slack, random.Random(f"{self.seed}/people"))
        self.fuse = Fuse(random.Random(f"{self.seed}/fuse"), self.mean_steps, self._meanwhile)
        self._never = Fuse(random.Random(0), 0)
        self._place, self._side_tasks = (
            Place(FragileDatabase.around(self.database_url, fuse), self.endpoint, self.world.clock, RULES, self._loses)
            for fuse in (self.fuse, self._never)
        )
        self._guard: Guard | None = None
        self._guards = 0
        self._measured_at = self.start

    def live(self) -> None:
        """To the end of the quarter, and on until all is settled: in good weather, with nobody pressing."""
        self.fleet.plan(self.start, self.span - 3 * DAY, self.size)
        nearby = [price for price in snapshot_prices() if ZONES[0].startswith(price.key.region)]
        price_refresh.seed_snapshot(self._booted().database, nearby, self.world.now)
        end = self.start + self.span
        while self.world.now < end:
            self._move(self._gap())
            self.weather.turn(self.world.now)
            if GUARD_OFF in self.weather.bad:
                continue
            self.people.read()
            for meant in self.people.due():
                self._press(meant)
            self._step()
        self._wind_up()

    # One step.

    def _step(self) -> None:
        began, bad = self.world.now, self.weather.bad
        while not self._is_done():
            self.counts["begun again"] += 1
        self.steps.append(Step(began, self.world.now, bad | self.weather.bad))

    def _is_done(self) -> bool:
        """One pass and everything due to be sent; False when the guard ended on the way, or may not act yet."""
        try:
            guard = self._booted()
            if not guard.hold():
                self._move(LEASE_TTL / 3)
                return False
            if self._is_to_be_measured():
                guard.measure()
            self._pass(guard)
            self._drain(guard)
            while guard.look_up():
                self._pass(guard)
                self._drain(guard)
        except Killed:
            self._kill()
            return False
        except LeaseLost:
            self.counts["lease lost"] += 1
            if self._guard is not None:
                self._guard.lease = None
            return False
        return True

    def _pass(self, guard: Guard) -> None:
        guard.cloud.looks.clear()
        guard.run_pass()
        self.counts["passes"] += 1
        for seen in guard.cloud.looks:
            self.looks.append(Look(seen.read_at, seen.instances_complete, seen.unread_zones))

    def _drain(self, guard: Guard) -> None:
        while True:
            wait = guard.deliver()
            if wait is None or wait > _PATIENCE:
                return
            self._move(max(wait, _MOMENT))
            guard.hold()

    def _press(self, meant: Meant) -> None:
        try:
            guard = self._booted()
            self.people.press(meant, guard.press)
        except Killed:
            self._kill()
            self.people.meant.append(meant)  # nothing came of it, so it is pressed again
        except StoreError:
            self.people.meant.append(meant)

    # Guards.

    def _booted(self) -> Guard:
        if self._guard is None:
            self._guards += 1
            self._guard = Guard(self._place, self._guards, self.fuse)
        return self._guard

    def _kill(self) -> None:
        """As kill -9 would: nothing is handed back, and the lease of the dead has to run out."""
        assert self._guard is not None
        self._guard.close()
        self._guard = None
        self.counts["crashes"] += 1

    def _meanwhile(self) -> None:
        """While a guard stands still, another takes over, works for a while, and ends: two of them, one lease each."""
        self.counts["freezes"] += 1
        self._move(LEASE_TTL + self._chance.random() * HOUR)
        self._guards += 1
        other = Guard(self._side_tasks, self._guards, self._never)
        try:
            for _ in range(2):
                assert other.hold()
                other.run_pass()
                self._drain(other)
                other.look_up()
                self._move(5 * MINUTE)
        finally:
            other.close()

    # The world.

    def _gap(self) -> timedelta:
        """Long idle, and longer while most are asleep; now and then some minutes, as a real guard's passes are."""
        now = self.world.now
        if self._chance.random() < 0.2:
            return self._chance.uniform(1, 15) * MINUTE
        if now.weekday() >= 5 or not 6 <= now.hour < 20:
            return self._chance.uniform(3, 9) * self.pace * HOUR
        return self._chance.uniform(1, 5) * self.pace * HOUR

    def _move(self, by: timedelta) -> None:
        """By whole milliseconds: Google keeps no finer time."""
        self.world.advance(timedelta(milliseconds=-(-by // timedelta(milliseconds=1))))

    def _loses(self) -> bool:
        lost = self._chance.random() < 0.1
        self.counts["answers to stops lost"] += lost
        return lost

    def _is_to_be_measured(self) -> bool:
        """Figures are many: they are read while there is something to be seen in them, and not too often."""
        if self.world.now - self._measured_at < 2 * HOUR:
            return False
        has_work = any(
            vm.status is Status.RUNNING and vm.load_at(self.world.now) is not Load.BUSY
            for vm in self.world.instances(PROJECT)
        )
        if has_work:
            self._measured_at = self.world.now
        return has_work

    def _wind_up(self) -> None:
        """Good weather, nobody presses, and no guard ends: what is open gets settled."""
        self.weather.clear()
        self.people.meant.clear()
        self.fuse.off()
        for gap in (HOUR, 5 * MINUTE, 5 * MINUTE, 10 * MINUTE, HOUR):
            self._move(gap)
            self._step()
        if self._guard is not None:
            self._guard.close()
