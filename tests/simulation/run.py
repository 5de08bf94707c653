"""Lives a plan and says what came of it."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation import invariants
from tests.simulation.crashing import FragileDatabase
from tests.simulation.guarding import kept_errors
from tests.simulation.life import Broken, Life
from tests.simulation.plan import Plan, draw
from tests.simulation.wire import one_thread


@dataclass
class Outcome:
    """The outcome of a life. `wrong` are the invariants that did not hold, as sentences."""

    plan: Plan
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)
    trace: str = ""  # the same for the same plan, in every process
    writes: int = 0  # of its guards, until nothing went wrong any more
    seconds: float = 0.0


def live(
    seed: int, days: float, database: FragileDatabase, faults: Iterable[str] | None = None, size: int = 20
) -> Outcome:
    """Draws a plan from the seed and lives it on a fresh database. `faults` are the kinds that may come."""
    return lived(draw(seed, days, size, faults), database)


def lived(plan: Plan, database: FragileDatabase) -> Outcome:
    began = time.process_time()
    random.seed(plan.seed)  # the pauses between tries of a request
    life = Life(plan, database)
    outcome = Outcome(plan)
    with one_thread(life.wire), life.trouble.attached(database), kept_errors() as life.unforeseen:
        try:
            life.live()
            life.judge()
        except Broken as broken:
            outcome.wrong += [f"{life.now}: {sentence}" for sentence in str(broken).splitlines()]
    outcome.counts = life.counts + life.fleet.happened + life.wild.happened + life.people.counts + life.jobs.counts
    outcome.injected = Counter(life.weather.injected)
    for where, number in life.fuse.burnt.items():
        outcome.injected[f"guard {where.split()[0]}"] += number
    outcome.trace, outcome.writes = trace(life), life.writes
    outcome.seconds = time.process_time() - began
    return outcome


def trace(life: Life) -> str:
    """A hash of all that happened: in the cloud, in Slack, and in the ledger."""
    lines = [
        f"{one.insert_time} {one.kind} {one.target_id} {one.user}"
        for project in life.world.projects
        for one in life.world.operations.of(project)
    ]
    lines += [f"{version.at} {message.channel} {version.text}" for message, version in life.world.slack.record]
    lines += invariants.ledger_lines(life)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
