"""What is still to happen in the simulated cloud, and when: everything happens at its exact moment."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime
from itertools import count

from costguard_sandbox.clock import ManualClock, WorldClock, to_ms


class Timeline:
    """`now` is the moment being lived through: while events catch up with the clock, it lies behind it."""

    def __init__(self, clock: WorldClock, begins: datetime | None = None) -> None:
        self.clock = clock
        self.now = to_ms(begins or clock.now())
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._order = count()
        self._settling = False

    def at(self, moment: datetime, act: Callable[[], None]) -> None:
        """Things planned for one moment happen in the order in which they were planned."""
        heapq.heappush(self._events, (max(moment, self.now), next(self._order), act))

    def settle(self) -> None:
        """Let everything happen that is due by the clock. Within an event, nothing: time goes on after it."""
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
            raise TypeError("only a clock moved by hand can be advanced; this one runs by itself")
        self.clock.move_to(moment)
        self.settle()
