"""The timeline of planned events, each at its exact moment, and how long Compute Engine takes for things."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import count, pairwise

from costguard_sandbox.clock import ManualClock, WorldClock, to_ms

# Measured distributions as (share of cases, seconds), with straight lines between the points.
_DURATIONS: Mapping[str, tuple[tuple[float, float], ...]] = {
    "begin": ((0, 0.002), (0.5, 0.02), (0.95, 0.1), (1, 0.8)),
    "insert": ((0, 5), (0.3, 8), (0.8, 20), (1, 30)),
    "failed insert": ((0, 4), (1, 9)),
    "start": ((0, 5), (0.5, 12), (1, 25)),
    "resume": ((0, 8), (1, 20)),
    "stop": ((0, 22), (0.5, 48.8), (0.9, 57), (1, 120)),
    "suspend": ((0, 15), (0.5, 30), (1, 70)),
    "delete running": ((0, 100), (0.5, 134), (1, 170)),
    "delete stopped": ((0, 5), (1, 15)),
    "nothing to do": ((0, 0.1), (1, 0.75)),
    "change": ((0, 0.6), (1, 3)),
    # Attaching and detaching took 4.1 and 5.9 s in libcloud's recordings of 2013; deleting a disk is as quick.
    "attach": ((0, 2), (0.5, 4), (1, 6)),
    "detach": ((0, 2), (0.5, 5), (1, 8)),
    "disk": ((0, 1), (0.5, 4), (1, 8)),
    "reset": ((0, 3), (1, 8)),
    "power off": ((0, 2), (0.5, 20), (1, 32)),
    "before the end": ((0, 0.05), (1, 0.6)),
    # compute.instances.repair.recreateInstance, recorded once: lastStop after 54 s, lastStart after 66 s. The group's
    # insert follows it: recorded on 24 August 2026 in mlorentedev/kubelab, 10 and 30 s after it.
    "recreate down": ((0, 54), (1, 54)),
    "recreate up": ((0, 12), (1, 12)),
    # How long before the end of a start a preemption came: two recordings, of about 0.7 and 7.6 s.
    "lost start": ((0, 0.3), (0.5, 0.74), (1, 7.6)),
    # How soon a group looks after a VM that others stopped or deleted. Ours: no recording says it.
    "group looks": ((0, 60), (1, 120)),
    "repair": ((0, 60), (1, 180)),
    # How long a flex-start request waits where no fault says it. Ours: no recording says it.
    "flex grant": ((0, 20), (0.5, 240), (1, 1500)),
    "late": ((0, 0), (1, 29)),
    "guest shutdown": ((0, 5), (0.5, 25), (1, 85)),
    # Of Vertex AI. Ours: no recording says them.
    "vertex start": ((0, 60), (0.5, 180), (1, 400)),
    "vertex stop": ((0, 5), (0.5, 40), (1, 120)),
    # Of TPU nodes. Ours: no recording says them.
    "tpu create": ((0, 60), (0.5, 120), (1, 400)),
    "tpu start": ((0, 40), (1, 200)),
    "tpu stop": ((0, 20), (1, 120)),
    "tpu delete": ((0, 40), (1, 180)),
    "tpu queue": ((0, 60), (1, 1800)),
}


class Timeline:
    """Planned events. While they catch up with the clock, `now` lies behind it."""

    def __init__(self, clock: WorldClock, begins: datetime | None = None) -> None:
        self.clock = clock
        self.now = to_ms(begins or clock.now())
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._order = count()
        self._settling = False

    def at(self, moment: datetime, act: Callable[[], None]) -> None:
        """Events planned for the same moment happen in the order of planning."""
        heapq.heappush(self._events, (max(moment, self.now), next(self._order), act))

    def settle(self) -> None:
        """Run every event that is due; does nothing while an event runs."""
        if self._settling:
            return
        self._settling = True
        try:
            self._catch_up()
        finally:
            self._settling = False

    def _catch_up(self) -> None:
        target = to_ms(self.clock.now())
        while self._events and self._events[0][0] <= target:
            moment, _, act = heapq.heappop(self._events)
            self.now = moment
            act()
        self.now = max(self.now, target)

    def move_to(self, moment: datetime) -> None:
        if not isinstance(self.clock, ManualClock):
            raise TypeError("only a manual clock can be advanced; this one runs by itself")
        self.clock.move_to(moment)
        self.settle()


def draw_duration(seed: int, what: str, subject: object) -> timedelta:
    """A duration that depends on its arguments alone, not on the order of the draws."""
    share = random.Random(f"{seed}/{what}/{subject}").random()
    for (low, shortest), (high, longest) in pairwise(_DURATIONS[what]):
        if share <= high:
            seconds = shortest + (longest - shortest) * (share - low) / (high - low)
            return timedelta(milliseconds=max(1, round(seconds * 1000)))
    raise AssertionError("the last point of every duration has share 1")
