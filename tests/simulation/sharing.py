"""Two replicas that share the projects: one acts, the other looks at its own, and now and then one of them is killed
or stands still.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import select
from tests.scenario.fleet import MINUTE
from tests.simulation.crashing import COMMITTED, WRITE, CrashPoint, Killed
from tests.simulation.guard import Place, Process

from costguard.daemon.lease_keeper import LEASE_TTL
from costguard.db import tables

if TYPE_CHECKING:
    from tests.simulation.life import Life

_KILLED, _FROZEN = 0.15, 0.15  # the chances of a visit
_IN_A_LOOK = [
    f"{step} by ledger.{what}" for step in (WRITE, COMMITTED) for what in ("record", "looks.record_unchanged")
]
_RECORDED = (tables.projects, tables.instances, tables.lifetimes, tables.storage_spans, tables.operations)


class Sharing:
    """The second replica of a life. `wrong` is what it wrote of projects that the first had taken over."""

    def __init__(self, life: Life) -> None:
        self.wrong: list[str] = []
        self._life = life
        self._chance = life.plan.lot("replicas")
        self._fuse = CrashPoint(self._stands_still)
        self._other: Process | None = None
        self._acting: Process | None = None
        self._is_looking = False
        self._before: dict[str, frozenset[str]] = {}  # what was recorded when it went on, having stood still

    def look(self, acting: Process, place: Place, numbers: Iterator[int]) -> None:
        """Looks at the second replica's projects, before the one that acts looks at its own and decides.

        Not while it is looking: the one that acts stands still, and another works in its place.
        """
        if not place.is_shared or self._is_looking:
            return
        self._is_looking = True
        try:
            self._look(acting, place, numbers)
        finally:
            self._is_looking = False

    def _look(self, acting: Process, place: Place, numbers: Iterator[int]) -> None:
        life, step = self._life, self._life.wire.step
        self._acting = acting
        if self._other is None:
            self._other = Process(place, next(numbers), self._fuse)
        other = self._other
        other.begin()
        draw, is_killed = self._chance.random(), False
        self._before.clear()
        if draw < _KILLED:
            self._fuse.light(self._chance.randint(1, 25), freezes=False)
        elif draw < _KILLED + _FROZEN:
            self._fuse.light(1, freezes=True, where=self._chance.choice(_IN_A_LOOK))
        try:
            other.shards.attend()
            acting.shards.attend()
            life.counts["projects looked at by the second replica"] += len(other.look().recorded)
        except Killed:
            self._gone()
            is_killed = True
        finally:
            self._fuse.light(0, freezes=False)
            life.wire.step = step
        if self._before:
            after = self._recorded()
            differing = [name for name, rows in self._before.items() if rows != after[name]]
            self.wrong += [f"a replica wrote {name} of a project that was taken over" for name in differing]
        if is_killed:
            life.counts["second replicas killed"] += 1
            life.move(LEASE_TTL + timedelta(seconds=1))
            acting.hold()

    def promoted(self) -> Process | None:
        """Returns the second replica, which is to act now that the first was killed; there is no second one then."""
        other, self._other = self._other, None
        if other is not None:
            other.fuse = other.database.fuse = self._life.fuse
            other.begin()
            self._life.counts["second replicas that came to act"] += 1
        return other

    def close(self) -> None:
        self._gone()

    def _gone(self) -> None:
        if self._other is not None:
            self._other.close()
            self._other = None

    def _stands_still(self) -> None:
        """The one that acts takes its projects over, looks at them, and decides; then it goes on as if nothing was."""
        life, acting, step = self._life, self._acting, self._life.wire.step
        assert acting is not None
        life.counts["second replicas frozen"] += 1
        life.move(LEASE_TTL + timedelta(seconds=1) + self._chance.random() * MINUTE)
        acting.begin()
        acting.hold()
        acting.run_pass()
        life.wire.step = step
        self._before = self._recorded()

    def _recorded(self) -> dict[str, frozenset[str]]:
        with self._life.trouble.quiet(), self._life.ledger.read() as connection:
            return {table.name: frozenset(str(row) for row in connection.execute(select(table))) for table in _RECORDED}
