"""The guard's machine sleeps, or its clock is set, and the guard's turn comes before any agent reports again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select
from tests.scenario.fleet import MINUTE
from tests.simulation.faults import ASLEEP, JUMPED

from costguard.db.tables import attempts, interruptions
from costguard.model.attempt import Notice

if TYPE_CHECKING:
    from tests.simulation.life import Life

_SIGNS_APART = timedelta(seconds=8)


class Gaps:
    def __init__(self, life: Life) -> None:
        self._life = life
        self._is_asleep = False
        self._over_at: datetime | None = None  # the last gap, until agents were heard after it
        self._judged = set[tuple[int, int]]()  # runs that were given up

    def advance(self, by: timedelta) -> None:
        """Moves the world's clock; a guard that is awake gives signs of life meanwhile."""
        world, process = self._life.world, self._life.process
        while self._life.plan.aim.has_gaps and not self._is_asleep and process is not None and by > _SIGNS_APART:
            world.advance(_SIGNS_APART)
            process.is_awake()
            by -= _SIGNS_APART
        world.advance(by)

    def sleep(self, by: timedelta) -> None:
        self._is_asleep = True
        self._life.move(by)
        self._is_asleep, self._over_at = False, self._life.now

    def set_clock(self, by: timedelta) -> None:
        self._life.guard_clock.set_wrong(by)
        self._over_at = self._life.now

    @property
    def is_over_just_now(self) -> bool:
        """A gap is, and agents have yet to try again: within a minute they do."""
        return self._over_at is not None and self._life.now - self._over_at < MINUTE

    def heard(self) -> None:
        self._over_at = None

    def given_up_though_heard(self, connection: Connection) -> Iterator[str]:
        """Runs that ended in silence in the last visit, while their VMs worked and had network."""
        visit, agents = self._life.visits[-1], self._life.jobs.agents
        ended = select(interruptions.c.attempt_id, interruptions.c.run, attempts.c.gce_id).where(
            interruptions.c.attempt_id == attempts.c.id, interruptions.c.noticed_by == Notice.SILENCE.value
        )
        new = [row for row in connection.execute(ended).all() if (row.attempt_id, row.run) not in self._judged]
        self._judged |= {(row.attempt_id, row.run) for row in new}
        for row in [] if visit.bad - {ASLEEP, JUMPED} else new:
            agent = agents.get(int(row.gce_id or 0))
            if agent is None or agent.is_mute(visit.began) or not 0 < row.run <= len(agent.vm.runs):
                continue
            gone_at = agent.vm.runs[row.run - 1].ended
            if gone_at is None or gone_at >= visit.began:
                yield f"{agent.name} was given up for its silence by {visit.ended}, and its VM worked"


def no_vm_that_works_is_given_up(life: Life) -> list[str]:
    """No run ends for its agent's silence where it was the guard that heard nothing."""
    with life.ledger.read() as connection:
        return list(life.gaps.given_up_though_heard(connection))
