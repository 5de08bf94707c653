"""Two guards at once: lives in which one stands still before each of its writes, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from tests.simulation.crashing import WRITE, FragileDatabase
from tests.simulation.plan import Plan, PlannedKill
from tests.simulation.run import Outcome, lived


def frozen_at_each(
    plan: Plan, fresh: Callable[[], FragileDatabase], most: int | None = None
) -> Iterator[tuple[int, Outcome]]:
    """The number of the write, and what came of the life: another guard took over and worked there for a while.

    Of `plan` nothing else goes wrong. Of more than `most` writes as many are tried, from the first to the last.
    """
    calm = replace(plan, faults=(), kills=())
    writes = lived(calm, fresh()).writes
    tried = min(most or writes, writes)
    for number in sorted({1 + place * (writes - 1) // max(tried - 1, 1) for place in range(tried)}):
        kill = PlannedKill(0, calm.start - timedelta(days=1), number, timedelta(), freezes=True, where=WRITE)
        yield number, lived(replace(calm, kills=(kill,)), fresh())
