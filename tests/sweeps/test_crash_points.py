"""A sweep of 24 with 10 preemptions, under a guard that ends at any step: each member runs once, within the ceiling."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from tests.builders import PROJECT
from tests.jobs.cloud import never_twice
from tests.jobs.cloud_vms import Vm
from tests.jobs.world import ANA, RECIPE, CrashPoint, Killed, World, world

from costguard.events import audit_log
from costguard.jobs.rows import job_rows
from costguard.ledger.accrual import accrual_at
from costguard.model.job import CheckpointPlan, JobKind, JobSpec, JobState
from costguard.model.money import Money
from costguard.model.sweep import Sweep, SweepState
from costguard.sweeps import gather, sweep_events, sweep_rows
from costguard.sweeps.decide import SweepView
from costguard.sweeps.sweep_rows import NewMember
from costguard.sweeps.turn import SweepsTurn

TICK = timedelta(seconds=15)
MOST_TICKS = 2000


@dataclass
class Trainer:
    """A VM from the inside: `needs` ticks of work, and a notice that ends it."""

    vm: Vm
    job_id: str
    worked: int = 0
    is_done: bool = False


@dataclass
class SweepLife:
    """A sweep in a small world. `kills`: whether the guard ends at random steps, as with kill -9."""

    world: World
    chosen: random.Random
    preemptions: int = 0
    kills: bool = False
    needs: int = 4
    trainers: dict[str, Trainer] = field(default_factory=dict)
    preempted: int = 0
    killed: int = 0
    most_open: int = 0
    made: int = 0

    def begin(self, count: int, at_once: int, ceiling: Money | None) -> None:
        sweep = Sweep(
            "s1", "", ANA, PROJECT, "t4", at_once, ceiling, SweepState.RUNNING, "", self.world.clock.now(), ""
        )
        members = [NewMember(number, {"n": str(number)}, _spec(number), RECIPE) for number in range(1, count + 1)]
        with self.world.database.write() as connection:
            sweep_rows.add(connection, sweep, members, None, "")
            audit_log.append(connection, [sweep_events.submitted(sweep, count, ())], self.world.clock.now())

    def view(self) -> SweepView:
        with self.world.database.read() as connection:
            return gather.views(connection, accrual_at(connection, self.world.clock.now()), ["s1"])["s1"]

    def play(self) -> SweepView:
        """Plays until the sweep is over and nothing bills."""
        for tick in range(MOST_TICKS):
            self.tick(tick)
            view = self.view()
            self.most_open = max(self.most_open, len(view.open))
            if view.sweep.state.is_over and not self.world.cloud.there():
                return view
        raise AssertionError(f"not over by now: {self.view().sweep}")

    def tick(self, number: int) -> None:
        self.world.clock.advance(TICK)
        fuse = CrashPoint(self.chosen.randrange(1, 40) if self.kills and self.chosen.random() < 0.4 else 0)
        self.world.guard(fuse)
        try:
            for vm in self.world.cloud.running():
                self._live(self.trainers.setdefault(vm.gce_id, Trainer(vm, vm.name.split("-")[1])))
            if number % 3 == 0:
                self.world.look()
            SweepsTurn(self.world.database.of_process(fuse), self.world.clock, self._new_id).run()
            self.world.turn.run()
        except Killed:
            self.killed += 1
            self.world.guard()

    def _new_id(self) -> str:
        self.made += 1
        return f"m{self.made}"

    def _live(self, trainer: Trainer) -> None:
        name, world = trainer.vm.name, self.world
        if trainer.is_done:
            return
        if trainer.worked == 0:
            world.start(name)
        with world.database.read() as connection:
            job = job_rows.read(connection, trainer.job_id)
        assert job is not None
        assert job.spec.checkpoint is not None
        place = job.spec.checkpoint.location
        step = max((step for step, _ in world.shelf.saved.get(place, [])), default=0)
        if world.beat(name, step=step):
            world.exit(name, stop_request="cancel")
            trainer.is_done = True
            return
        trainer.worked += 1
        world.shelf.save(step + 1, place)
        if step + 1 >= self.needs:
            world.exit(name)
            trainer.is_done = True
        elif self.preempted < self.preemptions and self.chosen.random() < 0.3:
            world.notice(name)
            world.exit(name, stop_request="preemption")
            world.cloud.preempt(trainer.vm)
            trainer.is_done = True
            self.preempted += 1


def _spec(number: int) -> JobSpec:
    plan = CheckpointPlan(f"gs://runs/sweep/{number}", "--from_checkpoint {checkpoint}")
    return JobSpec(JobKind.TRAINING, "t4", PROJECT, ANA, command=("python", "train.py"), checkpoint=plan)


def check(life: SweepLife, view: SweepView) -> None:
    """No member was launched twice, no VM was made twice, and nothing is left."""
    never_twice(life.world.cloud)
    assert all(len(one.member.jobs) == 1 for one in view.members)
    with life.world.database.read() as connection:
        jobs = job_rows.page(connection, job_rows.JobFilters(), None, 1000)
    assert {job.id for job in jobs} == {one.member.job_id for one in view.members}
    assert life.most_open <= view.sweep.at_once


@pytest.mark.parametrize("seed", range(int(os.environ.get("COSTGUARD_SWEEP_SEEDS", "1"))))
def test_many_members_survive_preemptions_and_kills(sqlite_url: str, seed: int) -> None:
    """All of 24 succeed, four at a time, though ten VMs are preempted and the guard ends at random steps."""
    with world(sqlite_url) as small_world:
        life = SweepLife(small_world, random.Random(seed), preemptions=10, kills=True)
        life.begin(24, 4, Money.of("100"))
        view = life.play()
        check(life, view)
        assert view.sweep.state is SweepState.SUCCEEDED, view.sweep.reason
        assert len(view.in_state(JobState.SUCCEEDED)) == 24
        assert len(small_world.cloud.all) == 34
        assert life.killed > 3
        assert len(small_world.events("SweepSucceeded")) == 1


@pytest.mark.parametrize("ceiling", ["0.15", "0.20"])
def test_ceiling_holds_for_all_members_together(sqlite_url: str, ceiling: str) -> None:
    """It ends before it costs more, with what was reached, and says how to go on; a higher one goes on."""
    with world(sqlite_url) as small_world:
        life = SweepLife(small_world, random.Random(1), needs=20)
        life.begin(12, 3, Money.of(ceiling))
        view = life.play()
        check_costs(view)
        assert view.sweep.state is SweepState.FAILED, view.sweep.reason
        assert "its ceiling" in view.sweep.reason
        assert view.waiting
        assert view.in_state(JobState.SUCCEEDED) or view.in_state(JobState.FAILED)


def check_costs(view: SweepView) -> None:
    assert view.sweep.ceiling is not None
    assert Money() < view.cost.amount <= view.sweep.ceiling
