"""Many short jobs on zones that are lost as soon as they are used: how many runs of each policy, and how many late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from tests.deadlines.markets import GAP_H, HostileMarket
from tests.deadlines.ross import Ross

from costguard.deadlines.planner import Planner
from costguard.deadlines.run import Task, replay_run
from costguard.deadlines.simple_policies import Greedy, UniformProgress
from costguard.deadlines.situation import Policy

STARTS = (0.2, 0.5, 1.0, 1.7, 3.0, 4.0)  # in points
SPARES_H = (0.0, 0.01, 0.1, 0.35, 1.0, 2.5)


def hostile_runs(count: int, seed: int = 0) -> tuple[Counter[str], Counter[str]]:
    """The runs and the late ones, by policy. each task meets zones of short lives."""
    random = Random(seed)
    planner = Planner()
    runs: Counter[str] = Counter()
    late: Counter[str] = Counter()
    while runs.total() < count:
        start_h = random.choice(STARTS) * GAP_H
        work_h = random.choice((0.5, 1.0, 2.0))
        task = Task(work_h, work_h + start_h + random.choice(SPARES_H), start_h, random.choice((1.5, 3.14, 6.0)))
        lives = [random.randint(1, 1 + random.choice((1, 4, 20))) for _ in range(5)]
        zones = random.randint(1, 3)
        policies: Sequence[Policy] = (Greedy(), UniformProgress(), Ross(random), planner)
        for policy in policies:
            market = HostileMarket(zones, lives)
            result = replay_run(task, market, 0, market.watching(policy))
            runs[policy.name] += 1
            late[policy.name] += not result.is_on_time
    return runs, late
