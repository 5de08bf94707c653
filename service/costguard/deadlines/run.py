"""Replays one run: a job from its launch to its end, as a policy decides, over a market of zones.

A policy decides at the points of the record. A VM bills from its start; the first `start_h` of it bring no work, and
neither does a start that is cut short. Work done is kept, and what a preemption loses is part of `start_h`; where the
task says how far apart it saves, a VM that ends takes with it what it did since it saved.

A request for a flex-start VM is granted at the first point after its wait; its VM then takes over from the one held, as
any other that is started, or is the first. Its end by its age is known before, so that its work is saved by then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from costguard.deadlines.hazards import TogetherCounts
from costguard.deadlines.situation import Act, FlexAsked, FlexOffer, HeldVM, Kind, Policy, Situation, Zone

TINY = 1e-9
WaitAt = Callable[[int], float | None]  # hours that a request made at this point waits; None: it is never granted


class Market(Protocol):
    @property
    def gap_h(self) -> float: ...

    @property
    def points(self) -> int: ...

    def is_up(self, name: str, point: int) -> bool: ...

    def price(self, name: str, point: int) -> float: ...

    def next_change(self, point: int) -> int: ...

    def zones(self, point: int) -> tuple[Zone, ...]: ...

    def together(self, point: int) -> TogetherCounts | None: ...


class Task(NamedTuple):
    """The work of a job and what it may take. `on_demand_price`: of an hour; None where there is none to be had.

    `apart_h`: hours of work between two saves; 0 where nothing is lost. `save_h`: hours that a save on the notice of a
    preemption takes; None: it does not come to its end, and what was done since the last one is lost. `flex`: None
    where the job may not have a flex-start VM.
    """

    work_h: float
    deadline_h: float
    start_h: float
    on_demand_price: float | None
    apart_h: float = 0.0
    save_h: float | None = None
    flex: FlexOffer | None = None


class RunResult(NamedTuple):
    """`late_h`: hours after the deadline at which it ended; 0 on time.

    `spot_h`, `on_demand_h`, `flex_h`: of VMs that billed.
    """

    cost: float
    late_h: float
    preemptions: int
    starts: int
    spot_h: float
    on_demand_h: float
    ended_h: float
    flex_h: float = 0.0

    @property
    def is_on_time(self) -> bool:
        return self.late_h <= 1e-6


class _Run:
    def __init__(self, task: Task, market: Market, start: int, wait_at: WaitAt) -> None:
        self.wait_at = wait_at
        self.task = task
        self.market = market
        self.first = self.point = start
        self.left_h = task.work_h
        self.kind: Kind | None = None
        self.zone = ""
        self.began = start
        self.start_left_h = 0.0
        self.done_h = 0.0  # by this VM
        self.asked: int | None = None  # the point at which a request was made that is open
        self.granted: float = math.inf  # the point at which it will be
        self.cost = self.spot_h = self.on_demand_h = self.flex_h = self.ended_h = 0.0
        self.overspent = 0.0  # by the VMs that have ended
        self.preemptions = self.starts = 0

    def situation(self) -> Situation:
        passed_h = (self.point - self.first) * self.market.gap_h
        held = None
        if self.kind is not None:
            age_h = (self.point - self.began) * self.market.gap_h
            held = HeldVM(self.kind, self.zone, age_h, self.start_left_h)
        request = None if self.asked is None else FlexAsked((self.point - self.asked) * self.market.gap_h)
        task = self.task
        overhead_h = task.start_h + task.apart_h
        return Situation(
            self.left_h, task.deadline_h - passed_h, overhead_h, self.market.gap_h, task.on_demand_price,
            self.market.zones(self.point), held, passed_h, task.work_h, self.market.together(self.point),
            task.apart_h, self.overspent, task.flex, request,
        )  # fmt: skip

    def obey(self, act: Act, zone: str | None) -> None:
        if act is Act.START_FLEX:
            self._ask()
        if act in (Act.DROP_FLEX, Act.START_SPOT, Act.START_ON_DEMAND):
            self.asked = None
        if act is Act.WAIT:
            self._end()
        if act in (Act.START_SPOT, Act.START_ON_DEMAND):
            self._begin("spot" if act is Act.START_SPOT else "on_demand", zone or "")

    def _ask(self) -> None:
        wait_h = self.wait_at(self.point)
        self.asked = self.point
        self.granted = math.inf if wait_h is None else self.point + math.ceil(wait_h / self.market.gap_h - TINY)

    def answer_request(self) -> None:
        """A request that is granted becomes a VM, and one that has waited for as long as it may ends."""
        if self.asked is None:
            return
        if self.point >= min(self.granted, self._expires()):
            is_granted = self.granted <= self._expires()
            self.asked = None
            if is_granted:
                self._begin("flex", "")

    def _expires(self) -> int:
        assert self.asked is not None
        assert self.task.flex is not None
        return self.asked + max(1, math.ceil(self.task.flex.longest_wait_h / self.market.gap_h - TINY))

    def end_flex(self) -> None:
        """A flex-start VM ends at its age, after all of its work was saved."""
        if self.kind == "flex" and self.point >= self._flex_ends():
            self.done_h = 0.0
            self._end()

    def _flex_ends(self) -> float:
        assert self.task.flex is not None
        return self.began + self.task.flex.longest_run_h / self.market.gap_h - TINY

    def next_event(self) -> int:
        """The first point after this one at which something happens that no policy decides."""
        until = self.market.next_change(self.point)
        if self.asked is not None:
            until = min(until, self._expires(), int(min(self.granted, self.market.points)))
        if self.kind == "flex":
            until = min(until, math.ceil(self._flex_ends()))
        return until

    def _begin(self, kind: Kind, zone: str) -> None:
        self._end()
        self.kind = kind
        self.zone = zone
        self.began = self.point
        self.start_left_h = self.task.start_h
        self.done_h = 0.0
        self.starts += 1

    def advance(self, points: int) -> None:
        """Lets so many points pass, without any change but the work that is done."""
        gap_h = self.market.gap_h
        if self.kind is None:
            self.point += points
            return
        hours = min(points * gap_h, self.start_left_h + self.left_h)
        if self.kind == "spot":
            self.cost += self._spot_cost(hours)
            self.spot_h += hours
        elif self.kind == "flex":
            assert self.task.flex is not None
            self.cost += hours * self.task.flex.price
            self.flex_h += hours
        else:
            assert self.task.on_demand_price is not None
            self.cost += hours * self.task.on_demand_price
            self.on_demand_h += hours
        started_h = min(hours, self.start_left_h)
        self.start_left_h = max(0.0, self.start_left_h - hours)
        self.left_h -= hours - started_h
        self.done_h += hours - started_h
        if self.left_h <= TINY:
            self.ended_h = (self.point - self.first) * gap_h + hours
        self.point += points

    def lose_preempted(self) -> None:
        if self.kind == "spot" and not self.market.is_up(self.zone, self.point):
            self._end(is_preempted=True)
            self.preemptions += 1

    def _end(self, *, is_preempted: bool = False) -> None:
        if self.kind is not None and self.task.apart_h > 0:
            unsaved_h, save_h = self.done_h % self.task.apart_h, self.task.save_h
            self.left_h += unsaved_h if save_h is None or not is_preempted else min(unsaved_h, save_h)
        if self.kind is not None and self.task.on_demand_price is not None:
            self.overspent = self.cost - (self.task.work_h - self.left_h) * self.task.on_demand_price
        self.kind = None

    def _spot_cost(self, hours: float) -> float:
        gap_h = self.market.gap_h
        cost = 0.0
        point = self.point
        while hours > 0:
            cost += min(hours, gap_h) * self.market.price(self.zone, point)
            hours -= gap_h
            point += 1
        return cost


def granted_at_once(_point: int) -> float | None:
    return 0.0


def replay_run(task: Task, market: Market, start: int, policy: Policy, wait_at: WaitAt = granted_at_once) -> RunResult:
    """Runs a job that is launched at this point. A record that ends first counts as on demand from there on.

    Where there is no on-demand, a job that outlives the record ends never.
    """
    run = _Run(task, market, start, wait_at)
    while run.left_h > TINY:
        if run.point >= market.points - 1:
            if task.on_demand_price is None:
                run.ended_h = math.inf
            else:
                _finish_on_demand(run)
            break
        run.lose_preempted()
        run.end_flex()
        run.answer_request()
        choice = policy.choose(run.situation())
        run.obey(choice.act, choice.zone)
        run.answer_request()  # what was asked for now may be there at once
        until = min(run.next_event(), market.points - 1)
        holds = int((choice.holds_h + TINY) / market.gap_h)
        run.advance(max(1, min(until - run.point, holds)))
    late_h = max(0.0, run.ended_h - task.deadline_h)
    return RunResult(
        run.cost, late_h, run.preemptions, run.starts, run.spot_h, run.on_demand_h, run.ended_h, run.flex_h
    )  # fmt: skip


def _finish_on_demand(run: _Run) -> None:
    if run.kind not in ("on_demand", "flex"):
        run.kind = "on_demand"
        run.start_left_h = run.task.start_h
    run.advance(int((run.start_left_h + run.left_h) / run.market.gap_h) + 2)
