"""Sweeps whose losers are stopped, under a guard that ends at any step: each once, and never the best."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from tests.builders import PROJECT
from tests.jobs.world import ANA, RECIPE, CrashPoint, Killed, world
from tests.sweeps.test_crash_points import SweepLife, Trainer, check

from costguard.events import audit_log
from costguard.jobs.rows import job_rows
from costguard.ledger.accrual import accrual_at
from costguard.model.job import CheckpointPlan, EarlyEnd, JobKind, JobSpec, JobState
from costguard.model.money import Money
from costguard.model.sweep import Halving, Sweep, SweepState
from costguard.sweeps import gather, listing, member_curves, stopping, sweep_events, sweep_rows
from costguard.sweeps.decide import SweepView
from costguard.sweeps.sweep_rows import NewMember
from costguard.sweeps.turn import SweepsTurn

STEPS = 20


@dataclass
class HalvingLife(SweepLife):
    """Each tick a step of twenty, with an evaluation: member 2 is the best, and others are worse by their number."""

    needs: int = STEPS
    reports: bool = True

    def begin_halving(self, count: int, at_once: int, halving: Halving | None, steps: int | None = STEPS) -> None:
        now = self.world.clock.now()
        sweep = Sweep("s1", "", ANA, PROJECT, "t4", at_once, None, SweepState.RUNNING, "", now, "", halving=halving)
        members = [
            NewMember(number, {"n": str(number)}, _spec(number, steps), RECIPE) for number in range(1, count + 1)
        ]
        with self.world.database.write() as connection:
            sweep_rows.add(connection, sweep, members, None, "")
            audit_log.append(connection, [sweep_events.submitted(sweep, count, ())], now)

    def _live(self, trainer: Trainer) -> None:
        if self.reports and trainer.worked > 0 and not trainer.is_done:
            self._report(trainer)
        super()._live(trainer)

    def _report(self, trainer: Trainer) -> None:
        with self.world.database.read() as connection:
            job = job_rows.read(connection, trainer.job_id)
        assert job is not None
        assert job.spec.checkpoint is not None
        place = job.spec.checkpoint.location
        step, number = max((step for step, _ in self.world.shelf.saved.get(place, [])), default=0), int(place[-1])
        level = 0.5 if number == 2 else float(number)
        point = {"phase": "eval", "unit": "step", "done": step, "at": self.world.clock.now().isoformat()}
        points = [{**point, "metrics": {"val_loss": level + 1 / (1 + step)}}]
        self.world.say(trainer.vm.name, ("progress", {"points": points}))

    def numbers(self, view: SweepView, state: JobState) -> list[int]:
        return [one.member.number for one in view.in_state(state)]


def _spec(number: int, steps: int | None) -> JobSpec:
    plan = CheckpointPlan(f"gs://runs/sweep/{number}", "--from_checkpoint {checkpoint}")
    command = ("python", "train.py")
    return JobSpec(JobKind.TRAINING, "t4", PROJECT, ANA, command=command, checkpoint=plan, total_steps=steps)


BY_LOSS = Halving(3, "val_loss", "lower")


def test_losers_are_stopped_once_and_the_best_goes_on(sqlite_url: str) -> None:
    """Each stop has its reason, one event, what it is expected to save, and leaves no VM."""
    with world(sqlite_url) as small_world:
        life = HalvingLife(small_world, random.Random(1))
        life.begin_halving(9, 9, BY_LOSS)
        view = life.play()
        check(life, view)
        assert view.sweep.state is SweepState.SUCCEEDED, view.sweep.reason
        assert "stopped by halving" in view.sweep.reason
        assert 2 in life.numbers(view, JobState.SUCCEEDED)
        gone = life.numbers(view, JobState.CANCELLED)
        assert len(gone) >= 6
        assert len(small_world.events("SweepMemberStopped")) == len(gone)
        stops = [one.member.stop for one in view.members if one.member.number in gone]
        for stop in stops:
            assert stop is not None
            job = small_world.job(stop.job_id)
            assert job.early is EarlyEnd.LOSER
            assert job.reason.startswith(f"stopped at step {stop.step:g} by halving: its val_loss of ")
            assert stop.rest is not None
            assert stop.rest > timedelta()
            assert stop.saved is not None
            assert stop.saved > Money()
            assert life.world.shelf.saved[f"gs://runs/sweep/{stop.job_id[1:]}"]  # its checkpoints stay


@pytest.mark.parametrize("seed", range(3))
def test_guard_that_ends_at_any_step_stops_each_loser_once(sqlite_url: str, seed: int) -> None:
    """VMs are preempted, too: a member that lags behind is compared where it is, and the best is never stopped."""
    with world(sqlite_url) as small_world:
        life = HalvingLife(small_world, random.Random(seed), preemptions=4, kills=True)
        life.begin_halving(9, 9, BY_LOSS)
        view = life.play()
        check(life, view)
        assert view.sweep.state is SweepState.SUCCEEDED, view.sweep.reason
        assert 2 in life.numbers(view, JobState.SUCCEEDED)
        gone = life.numbers(view, JobState.CANCELLED)
        assert gone
        assert len(small_world.events("SweepMemberStopped")) == len(gone)
        assert life.killed > 0


@pytest.mark.parametrize("at", [1, 2], ids=["before", "after"])
def test_guard_that_ends_at_the_commit_of_a_stop_stops_it_once(sqlite_url: str, at: int) -> None:
    """A stop that was not committed is decided again, and one that was is not repeated."""
    with world(sqlite_url) as small_world:
        life = HalvingLife(small_world, random.Random(1))
        life.begin_halving(9, 9, BY_LOSS)
        ended = 0
        for tick in range(2 * STEPS):
            fuse = CrashPoint(at)
            try:
                SweepsTurn(small_world.database.of_process(fuse), small_world.clock, life._new_id).run()
            except Killed:
                ended += 1
            life.tick(tick)
        view = life.play()
        check(life, view)
        gone = life.numbers(view, JobState.CANCELLED)
        assert 2 in life.numbers(view, JobState.SUCCEEDED)
        assert len(small_world.events("SweepMemberStopped")) == len(gone) >= 6
        assert ended > 1


@pytest.mark.parametrize("missing", ["metric", "steps", "halving"])
def test_nobody_is_stopped_by_what_is_not_known(sqlite_url: str, missing: str) -> None:
    """All go on without a report of the metric, without the number of steps, and without halving."""
    with world(sqlite_url) as small_world:
        life = HalvingLife(small_world, random.Random(1), reports=missing != "metric")
        life.begin_halving(6, 6, None if missing == "halving" else BY_LOSS, steps=None if missing == "steps" else STEPS)
        for tick in range(12):
            life.tick(tick)
        shown = _shown(life)
        if missing == "steps":
            assert shown.halving is not None
            assert shown.halving.waits == "it is not known how many steps the members take: give them as `steps`"
        if missing == "metric":
            assert shown.halving is not None
            assert shown.halving.waits == "no member has reported its val_loss with a step yet"
        view = life.play()
        assert life.numbers(view, JobState.SUCCEEDED) == [1, 2, 3, 4, 5, 6]


def test_member_that_a_person_keeps_goes_on(sqlite_url: str) -> None:
    """Others are stopped; and once halving is ended, no one is."""
    with world(sqlite_url) as small_world:
        life = HalvingLife(small_world, random.Random(1))
        life.begin_halving(9, 9, BY_LOSS)
        life.tick(0)
        assert _keep(life, [9])
        assert not _keep(life, [9])
        view = life.play()
        assert 9 in life.numbers(view, JobState.SUCCEEDED)
        assert 8 in life.numbers(view, JobState.CANCELLED)
        assert len(small_world.events("SweepMembersKept")) == 1


def test_halving_that_is_ended_stops_no_one(sqlite_url: str) -> None:
    """All members end by themselves."""
    with world(sqlite_url) as small_world:
        life = HalvingLife(small_world, random.Random(1))
        life.begin_halving(6, 6, BY_LOSS)
        life.tick(0)
        assert _keep(life, [])
        assert not _keep(life, [])
        view = life.play()
        assert len(view.in_state(JobState.SUCCEEDED)) == 6


def test_member_whose_curve_is_of_the_past_is_left_alone(sqlite_url: str) -> None:
    """Two hours after its last evaluation, which came every few seconds, nothing is known of it."""
    with world(sqlite_url) as small_world:
        life = HalvingLife(small_world, random.Random(1))
        life.begin_halving(3, 3, BY_LOSS)
        for tick in range(6):
            life.tick(tick)
        view, now = life.view(), small_world.clock.now()
        members = [one.member for one in view.members]
        with small_world.database.read() as connection:
            present = member_curves.curves_of(connection, view.sweep, members, now)
            later = member_curves.curves_of(connection, view.sweep, members, now + timedelta(hours=2))
        assert present is not None
        assert later is not None
        assert any(one.may_stop for one in present.members)
        assert not any(one.may_stop for one in later.members)


def test_what_was_saved_is_added_up(sqlite_url: str) -> None:
    """The page shows hours of GPUs and dollars; those whose pace is not known are counted apart."""
    with world(sqlite_url) as small_world:
        life = HalvingLife(small_world, random.Random(1))
        life.begin_halving(9, 9, BY_LOSS)
        life.play()
        row = _shown(life).halving
        assert row is not None
        assert row.gpu_time == sum((stop.rest for stop in row.stops if stop.rest), timedelta())
        assert row.saved == sum((stop.saved for stop in row.stops if stop.saved), Money())
        lacking = replace(row, stops=[*row.stops, replace(row.stops[0], rest=None, saved=None)])
        assert (lacking.gpu_time, lacking.saved, lacking.unknown) == (row.gpu_time, row.saved, 1)


def _shown(life: HalvingLife) -> listing.SweepOverview:
    with life.world.database.read() as connection:
        shown = listing.sweep_detail(connection, accrual_at(connection, life.world.clock.now()), "s1")
    assert shown is not None
    return shown


def _keep(life: HalvingLife, numbers: list[int]) -> bool:
    now = life.world.clock.now()
    with life.world.database.write() as connection:
        view = gather.views(connection, accrual_at(connection, now), ["s1"])["s1"]
        return stopping.keep(connection, view, numbers, ANA, now)
