"""A training with a deadline on the real turns: VMs that start slowly, Spot that comes and goes, and adversaries.

The cloud, the clock and the training are simulated; the decisions, the ledger and the agents' events are the product's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

from tests.jobs.cloud_vms import Vm
from tests.jobs.world import RECIPE, ZONES, World

from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.job import CheckpointPlan, Job, JobState

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SPOT = ProvisioningModel.SPOT
FALLS_BACK = replace(RECIPE, falls_back_to_on_demand=True)
BUCKET = "gs://runs/train"


@dataclass
class Training:
    """The work of the command on one VM. `done` is its work, in seconds, since the beginning of the job."""

    vm: Vm
    ready_at: datetime
    began_at: datetime | None = None
    resumed_at: int = 0
    saved: int = 0
    is_over: bool = False

    def done(self, now: datetime) -> int:
        return self.resumed_at + int((now - self.began_at).total_seconds()) if self.began_at is not None else 0


@dataclass
class Run:
    """A job, run to its end.

    `starts` says how long a VM takes until its command runs; `adversary` acts once a minute.
    """

    world: World
    work: timedelta
    deadline: timedelta
    starts: Callable[[Random], timedelta] = lambda lot: timedelta(minutes=lot.uniform(3, 12))
    adversary: Callable[[Run], None] = lambda run: None
    saves_every: timedelta = 10 * MINUTE
    seed: int = 1
    tells: bool = True  # of a preemption; without, only Google's list does
    prints: bool = False  # a step for each second of work
    falls_back: bool = True  # to on-demand
    trainings: dict[str, Training] = field(default_factory=dict)
    spot_hours: float = 0.0
    on_demand_hours: float = 0.0
    idle: timedelta = timedelta()  # without any VM though a zone had room for Spot

    def __post_init__(self) -> None:
        self.lot = Random(self.seed)
        w = self.world
        self.watch = CheckpointWatch(w.database, w.clock, w.shelf, w.terms, workers=1)
        self.ends_at = w.clock.now() + self.deadline
        plan = CheckpointPlan(BUCKET, "--from {checkpoint}")
        recipe = FALLS_BACK if self.falls_back else RECIPE
        self.job_id = w.submit(recipe=recipe, work=self.work, deadline=self.ends_at, checkpoint=plan).id

    @property
    def now(self) -> datetime:
        return self.world.clock.now()

    def spot_vms(self) -> list[Vm]:
        return [vm for vm in self.world.cloud.running() if vm.request.provisioning_model is SPOT]

    def preempt(self, vm: Vm) -> None:
        training = self.trainings.get(vm.name)
        if self.tells and training is not None and training.began_at is not None and not training.is_over:
            self.world.notice(vm.name)
        if training is not None:
            training.is_over = True
        self.world.cloud.preempt(vm)

    def to_the_end(self, until: timedelta | None = None) -> Job:
        """Returns the job as it is once it is over, or once so much more time than its deadline allows has passed."""
        end = self.now + (until or self.deadline + 2 * HOUR)
        while self.now < end:
            self._minute()
            job = self.world.job(self.job_id)
            if job.state.is_over:
                return job
        return self.world.job(self.job_id)

    def _minute(self) -> None:
        """The guard looks at Google's list once, and takes four turns: one is enough while a command simply runs."""
        last = self.world.attempts(self.job_id)[-1:]
        is_quiet = bool(last) and last[0].state is AttemptState.RUNNING and last[0].stop_asked_at is None
        is_quiet = is_quiet and not any(one.stands_by for one in self.world.attempts(self.job_id))
        for turn in range(turns := 1 if is_quiet else 4):
            self.world.step(60 / turns, passing=turn == turns - 1)
            self._train()
        self.watch.run()
        self.adversary(self)
        if not self.world.cloud.there() and set(ZONES) - self.world.cloud.spot_stockouts - self.world.cloud.stockouts:
            self.idle += MINUTE
        for vm in self.world.cloud.running():
            if vm.request.provisioning_model is SPOT:
                self.spot_hours += 1 / 60
            else:
                self.on_demand_hours += 1 / 60

    def _train(self) -> None:
        running = {vm.name: vm for vm in self.world.cloud.there() if vm.status is Status.RUNNING}
        for name, vm in running.items():
            if name not in self.trainings:
                self.trainings[name] = Training(vm, self.now + self.starts(self.lot))
            training = self.trainings[name]
            if training.is_over:
                continue
            if training.began_at is None:
                if self.now >= training.ready_at:
                    self._is_let_begin(training)
            else:
                self._work(training)

    def _is_let_begin(self, training: Training) -> None:
        """A VM that stands by asks the guard, and begins as it says."""
        name, go = training.vm.name, self.world.outside.go
        if self._attempt(name).follows is None:
            self._begin(training)
        elif self.world.stand_by(name):
            training.is_over = True
            self.world.say(name, ("exit", {"reason": "not_started", "error": "cancel came before", "asked": "cancel"}))
        elif name in go:
            self._begin(training, go[name].step)

    def _begin(self, training: Training, step: int | None = None) -> None:
        others = [one for one in self.trainings.values() if one.began_at is not None and not one.is_over]
        assert not others, "two commands of one job run at once"
        attempt = self._attempt(training.vm.name)
        training.began_at, training.resumed_at = self.now, (step if attempt.follows else attempt.resume_step) or 0
        training.saved = training.resumed_at
        self.world.start(training.vm.name)

    def _work(self, training: Training) -> None:
        name, done = training.vm.name, training.done(self.now)
        if done >= self.work.total_seconds():
            training.is_over = True
            self.world.exit(name)
            return
        if done - training.saved >= self.saves_every.total_seconds():
            self._save(training)
        if self._beat(name, done):
            self._save(training)
            training.is_over = True
            self.world.exit(name, code=143, stop_request="cancel")

    def _beat(self, name: str, done: int) -> bool:
        """Says whether the command is to stop."""
        if not self.prints:
            return self.world.beat(name, step=done)
        where = {"phase": "train", "unit": "step", "done": done}
        progress = {**where, "of": self.work.total_seconds(), "read_at": self.now.isoformat()}
        point = {**where, "at": self.now.isoformat()}
        beat = {"is_running": True, "step": done, "progress": progress}
        return self.world.say(name, ("heartbeat", beat), ("progress", {"points": [point]}))

    def _save(self, training: Training) -> None:
        training.saved = training.done(self.now)
        self.world.shelf.save(training.saved)

    def _attempt(self, name: str) -> Attempt:
        return next(one for one in self.world.attempts(self.job_id) if one.name == name)


def is_on_time(run: Run, job: Job) -> bool:
    return job.state is JobState.SUCCEEDED and job.settled_at is not None and job.settled_at <= run.ends_at


# Adversaries.


def calm(run: Run) -> None:
    """Spot is always to be had, and never taken away."""


def at_the_moment_of_use(run: Run) -> None:
    """Every Spot VM is taken away in the minute in which its command begins to work."""
    for vm in run.spot_vms():
        training = run.trainings.get(vm.name)
        if training is not None and training.began_at is not None and not training.is_over:
            run.preempt(vm)


def before_its_first_save(run: Run) -> None:
    """Every Spot VM is taken away right before it saves for the first time."""
    for vm in run.spot_vms():
        training = run.trainings.get(vm.name)
        if training is None or training.began_at is None or training.is_over:
            continue
        if run.now - training.began_at >= run.saves_every - 2 * MINUTE:
            run.preempt(vm)


def while_it_boots(run: Run) -> None:
    """Every Spot VM is taken away while it starts, as late as that goes."""
    for vm in run.spot_vms():
        training = run.trainings.get(vm.name)
        if training is not None and training.began_at is None and run.now + 2 * MINUTE >= training.ready_at:
            run.preempt(vm)


def coming_and_going(run: Run) -> None:
    """Zones have room or not for times drawn at random, and take their VMs away as they run out."""
    for zone in ZONES:
        if run.lot.random() < (1 / 40 if zone in run.world.cloud.spot_stockouts else 1 / 60):
            run.world.cloud.spot_stockouts ^= {zone}
    for vm in run.spot_vms():
        if vm.zone in run.world.cloud.spot_stockouts:
            run.preempt(vm)


ADVERSARIES = {
    "calm": calm,
    "at the moment of use": at_the_moment_of_use,
    "before its first save": before_its_first_save,
    "while it boots": while_it_boots,
    "coming and going": coming_and_going,
}
