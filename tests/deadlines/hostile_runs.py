"""Many short jobs on zones that are lost as soon as they are used: how many runs of each policy, and how many late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random

from tests.deadlines.markets import GAP_H, HostileMarket
from tests.deadlines.ross import Ross

from costguard.deadlines.guard import guarded
from costguard.deadlines.planner import Planner
from costguard.deadlines.run import Task, replay_run
from costguard.deadlines.simple_policies import FlexAlone, Greedy, UniformProgress, wished
from costguard.deadlines.situation import Act, Choice, FlexOffer, Policy, Situation, Why
from costguard.deadlines.waits import Waits

STARTS = (0.2, 0.5, 1.0, 1.7, 3.0, 4.0)  # in points
SPARES_H = (0.0, 0.01, 0.1, 0.35, 1.0, 2.5)


class Reckless:
    """Wishes whatever comes to its mind, for as long as it likes: the guard alone keeps it on time."""

    name = "reckless"

    def __init__(self, random: Random) -> None:
        self._random = random

    def choose(self, situation: Situation) -> Choice:
        act = self._random.choice(list(Act))
        if situation.held is None and act is Act.STAY:
            act = Act.WAIT
        open_zones = [zone.name for zone in situation.zones if zone.is_up]
        if act is Act.START_SPOT and not open_zones:
            act = Act.WAIT
        zone = self._random.choice(open_zones) if act is Act.START_SPOT else None
        return guarded(situation, wished(situation, act, Why.PLAN, zone, self._random.uniform(0, 50)))


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


FLEX_PRICES = (0.8, 1.1, 1.8)  # of an hour, where one on Spot costs 1
LONGEST_RUNS_H = (0.8, 1.5, 168.0, 168.0)
WAITS = Waits(0.0, 2.0, 0.2)
COURSES = 20  # of each task, so that one plan does for all of them


def hostile_flex_runs(count: int, seed: int = 0) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """The same with flex-start: requests wait for up to two hours, and a fifth is never granted. Some VMs end early.

    Returns the runs, the late ones, and those that had a flex-start VM, by policy.
    """
    random = Random(f"flex {seed}")
    planner = Planner()
    runs: Counter[str] = Counter()
    late: Counter[str] = Counter()
    on_flex: Counter[str] = Counter()
    while runs.total() < count:
        start_h = random.choice(STARTS) * GAP_H
        work_h = random.choice((0.5, 1.0, 2.0))
        spare_h = random.choice((*SPARES_H, 4.0))
        flex = FlexOffer(random.choice(FLEX_PRICES), longest_run_h=random.choice(LONGEST_RUNS_H))
        task = Task(work_h, work_h + start_h + spare_h, start_h, random.choice((1.5, 3.14)), flex=flex)
        for _ in range(COURSES):
            lives = [random.randint(1, 1 + random.choice((1, 4, 20))) for _ in range(5)]
            zones, lot = random.randint(1, 3), random.randrange(1 << 32)
            policies: Sequence[Policy] = (FlexAlone(), Reckless(random), planner)
            for policy in policies:
                market = HostileMarket(zones, lives)
                result = replay_run(task, market, 0, market.watching(policy), partial(WAITS.drawn, lot))
                runs[policy.name] += 1
                late[policy.name] += not result.is_on_time
                on_flex[policy.name] += result.flex_h > 0
    return runs, late, on_flex
