"""Checks budgets that fill up, judged by the simulated cloud's own meter.

A budget is judged only where it is spent by more than a few cents, for the guard's prices may be some hours old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from sqlalchemy import Connection, select
from tests.simulation.agents import Training
from tests.simulation.guarding import Step
from tests.simulation.job_vms import asked_by_the_guard, made_by_the_guard

from costguard.db.tables import events
from costguard.model.budget import AtLimit, Budget, Period
from costguard.spend.budget import CROSSED
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.world import World

_LATE = timedelta(minutes=10)  # holds serve a minute; the rest is a visit with its retries
_SAVES_FOR = timedelta(minutes=45)  # half an hour for a checkpoint, and the command's own time to end
_SOME = 50_000_000  # nano-dollars


def began(budget: Budget, at: datetime) -> datetime:
    """Returns when the budget's period around a moment began: a UTC day, a week from Monday, a month."""
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if budget.period is Period.WEEK:
        return midnight - timedelta(days=midnight.weekday())
    return midnight if budget.period is Period.DAY else midnight.replace(day=1)


class Spent:
    """The cost of jobs' VMs in the periods of one budget, as Google's meter has it."""

    def __init__(self, world: World, budget: Budget) -> None:
        self._world = world
        self._vms = made_by_the_guard(world)
        self.budget = budget
        self._sums: dict[datetime, int] = {}

    def is_reached(self, at: datetime, since: datetime | None = None) -> bool:
        """Says whether all of it and some cents were spent by then, in the period of `since`."""
        start = began(self.budget, since or at)
        if at < start:
            return False
        if at not in self._sums:
            prices = self._world.prices
            self._sums[at] = sum(bill(vm, prices, at, start).nanos for vm in self._vms if vm.created_at < at)
        return self._sums[at] >= self.budget.limit.nanos + _SOME


def launched_though_spent(world: World, budgets: Sequence[Budget], steps: Sequence[Step]) -> Iterator[str]:
    """No VM is launched for a job while its budget is spent, as long as nothing keeps the guard from knowing it."""
    inserts = asked_by_the_guard(world, "insert")
    for spent in (Spent(world, budget) for budget in budgets if budget.at_limit is not AtLimit.TELL):
        for operation in inserts:
            at = operation.insert_time
            if _was_good(steps, at) and spent.is_reached(at - _LATE, at):
                yield f"{operation.target_id} was launched at {at}, and budget {spent.budget.name} was spent"


def spot_goes_on_though_spent(
    world: World, budgets: Sequence[Budget], steps: Sequence[Step], trainings: dict[int, Training]
) -> Iterator[str]:
    """Jobs' Spot VMs are stopped for a spent budget that says so, once they have saved or had the time to.

    The guard knows of it at one visit, and stops them at the first one after they had that time; two more see the end.
    """
    pausing = {vm.id: vm for vm in made_by_the_guard(world) if vm.is_spot and _can_pause(trainings.get(vm.id))}
    for spent in (Spent(world, budget) for budget in budgets if budget.at_limit is AtLimit.STOP_SPOT):
        for known_at, last in _with_time_to_save(steps):
            if spent.is_reached(known_at - _LATE, last.ended):
                for vm in pausing.values():
                    if _runs_through(vm, known_at, last.ended):
                        yield f"{vm.name} runs at {last.ended}, and budget {spent.budget.name} was spent by {known_at}"


def _with_time_to_save(steps: Sequence[Step]) -> Iterator[tuple[datetime, Step]]:
    """When a visit began, and the third visit after what runs had the time to save; nothing hindered any in between."""
    first_good = 0
    for number, step in enumerate(steps):
        if step.bad:
            first_good = number + 1
        elif number >= 2:
            in_time = [
                one.began for one in steps[first_good : number - 1] if one.began + _SAVES_FOR <= steps[number - 2].began
            ]
            if in_time:
                yield in_time[-1], step


def reached_without_an_event(
    world: World, connection: Connection, budgets: Sequence[Budget], steps: Sequence[Step]
) -> Iterator[str]:
    """Yields spent budgets without an event: it is recorded by the next good visit in its period, and once."""
    rows = connection.execute(select(events.c.occurred_at, events.c.data).where(events.c.kind == CROSSED)).all()
    for spent in (Spent(world, budget) for budget in budgets if budget.at_limit is not AtLimit.TELL):
        budget = spent.budget
        crossings: dict[datetime, list[datetime]] = {}
        for row in rows:
            if (row.data["budget"], row.data["on"], row.data["percent"]) == (budget.name, "spent", 100):
                crossings.setdefault(began(budget, row.occurred_at), []).append(row.occurred_at)
        for start, moments in crossings.items():
            if len(moments) > 1:
                yield f"budget {budget.name} was reached {len(moments)} times in the period from {start}"
        for before, step in pairwise(steps):
            at = step.began - _LATE
            if before.bad or step.bad or not spent.is_reached(at, step.began):
                continue
            start = began(budget, at)
            if not any(moment <= step.ended for moment in crossings.get(start, [])):
                yield f"budget {budget.name} was spent by {at}, and no event tells of it at {step.ended}"
                break


def _was_good(steps: Sequence[Step], at: datetime) -> bool:
    """Says whether nothing hindered the guard in the visit of that moment, and in the one before it."""
    number = next((number for number, step in enumerate(steps) if step.began <= at <= step.ended), 0)
    return number > 0 and not steps[number].bad and not steps[number - 1].bad


def _can_pause(training: Training | None) -> bool:
    return training is not None and not training.is_dev and not training.on_disk


def _runs_through(vm: VM, since: datetime, until: datetime) -> bool:
    return any(run.began <= since and (run.ended is None or run.ended > until) for run in vm.runs)
