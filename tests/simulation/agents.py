"""Runs a job's command, and the agent on each VM, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tests.simulation.aims import Aim

from costguard.jobs.reports.agent_events import AgentEvent
from costguard.model.job import OnHang
from costguard.model.money import Money
from costguard_sandbox.gce.vm import VM, Run

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_STAND_BY = 4 * _MINUTE  # between two questions of a VM that stands by; real agents ask every 3 s


@dataclass(frozen=True, slots=True)
class Training:
    """The course of a job's command, drawn from its number: so many steps of one minute each, saved now and then.

    `asks` is what people ask for, and how long after its submission.
    """

    steps: int
    saves_every: int
    crashes_at: int  # the step at which its first run fails; 0: it does not
    asks: tuple[tuple[timedelta, str], ...] = ()
    on_disk: bool = False  # it saves on its VM's own disk
    is_dev: bool = False  # a VM without a command
    hangs_at: int = 0  # the step after which its first run makes no more; 0: it does
    on_hang: OnHang = OnHang.TELL
    heeds: float = 0.5  # the chance that it saves and says so when Google preempts its VM
    ceiling: Money | None = None
    deadline_in: timedelta | None = None  # from its submission
    work: timedelta | None = None  # how long its owner thinks that it takes; given with a deadline
    mute: tuple[timedelta, timedelta] | None = None  # since its VM's first start, from when to when nobody hears it

    @classmethod
    def of(cls, lot: random.Random, aim: Aim) -> Training:
        steps = round(lot.uniform(*aim.minutes))
        crashes_at = lot.randrange(1, max(steps, 2)) if lot.random() < 0.15 else 0
        if aim.fails and lot.random() < aim.fails:
            crashes_at, steps = 1, max(steps, 2)
        wishes = (("cancel", 0.12), ("cancel after a checkpoint", 0.15), ("drill", 0.15), ("delete its disk", 0.4))
        asks = tuple(
            (lot.uniform(*aim.wishes) * _HOUR, what)
            for what, chance in wishes
            if lot.random() < aim.asks.get(what, chance)
        )
        drawn = cls(
            steps,
            lot.choice((5, 10, 30, 60)),
            crashes_at,
            asks,
            on_disk=lot.random() < aim.on_disk,
            is_dev=lot.random() < 0.08,
            hangs_at=lot.randrange(1, max(steps, 2)) if not crashes_at and lot.random() < 0.2 else 0,
            on_hang=lot.choice((OnHang.TELL, OnHang.RESTART)),
            heeds=lot.choice((0.0, 0.5, 1.0)),
            ceiling=Money.of(lot.choice((2, 6, 60))) if lot.random() < 0.25 else None,
            mute=_mute(lot) if aim.mutes and lot.random() < aim.mutes else None,
        )
        if drawn.is_dev or lot.random() >= aim.deadlines:
            return drawn
        time_to_spare = lot.uniform(0.5, 2) * _HOUR + lot.random() * steps * _MINUTE
        return replace(drawn, deadline_in=steps * _MINUTE + time_to_spare, work=steps * lot.uniform(0.8, 1.1) * _MINUTE)


def _mute(lot: random.Random) -> tuple[timedelta, timedelta]:
    begins = lot.uniform(0.2, 4) * _HOUR
    return begins, begins + lot.uniform(1, 8) * _HOUR


@dataclass
class Agent:
    """The agent on one VM. Its run begins with each run of the VM."""

    vm: VM
    name: str
    token: str
    location: str
    job: str
    training: Training
    begins_from: int
    lot: random.Random
    stands_by: bool = False  # it waits for the guard's word before its command runs
    disk_step: int = 0  # what its VM's own disk holds
    run: int = 0
    seq: int = 0
    vm_run: Run | None = None
    starts_at: datetime | None = None  # when the command's first step begins
    asked_at: datetime | None = None  # when it last asked for the guard's word
    reported_start: bool = False
    is_over: bool = False
    stops_at: datetime | None = None
    why: str = "cancel"  # the guard wants it to stop
    drilled: int = 0  # the last drill that it held
    unsent: list[AgentEvent] = field(default_factory=list)
    worked: list[tuple[datetime, datetime]] = field(default_factory=list)  # when its command ran

    def step_at(self, moment: datetime) -> int:
        assert self.starts_at is not None
        step = self.begins_from + max(0, int((moment - self.starts_at) / _MINUTE))
        return step if self.hangs_from is None else min(step, self.hangs_from)

    def moment_of(self, step: int) -> datetime:
        assert self.starts_at is not None
        return self.starts_at + (step - self.begins_from) * _MINUTE

    def is_mute(self, now: datetime) -> bool:
        """Says whether its VM has no network for a while. That ends: what it did meanwhile is reported then."""
        if self.training.mute is None or not self.vm.runs:
            return False
        begins, ends = self.training.mute
        return begins <= now - self.vm.runs[0].began < ends

    @property
    def last_step(self) -> int:
        """Returns the step at which this run ends by itself."""
        crash = self.training.crashes_at
        return crash if crash > self.begins_from and self._is_first else self.training.steps

    @property
    def _is_first(self) -> bool:
        return self.run == 1 and self.name.endswith("-1")

    @property
    def hangs_from(self) -> int | None:
        """The step after which this run makes no more."""
        hangs_at = self.training.hangs_at
        return hangs_at if hangs_at > self.begins_from and self._is_first else None

    @property
    def next_at(self) -> datetime | None:
        """Returns when the next news comes that the guard should hear of."""
        if self.is_over or self.vm_run is None or self.vm_run.ended is not None or self.starts_at is None:
            return None
        if self.stands_by:
            return max(self.starts_at, self.asked_at + _STAND_BY) if self.asked_at is not None else self.starts_at
        if not self.reported_start:
            return self.starts_at
        if self.stops_at is not None:
            return self.stops_at
        return self.moment_of(self.last_step) if self.hangs_from is None else None

    def is_ready(self, now: datetime) -> bool:
        """It stands by, and its command could begin."""
        is_there = self.vm_run is not None and self.vm_run.ended is None and not self.is_over
        return self.stands_by and is_there and self.starts_at is not None and self.starts_at <= now

    def hang_at(self, moment: datetime) -> Mapping[str, object] | None:
        """Returns its heartbeat's report of a command that has made no step for longer than it should."""
        if self.hangs_from is None or moment - (since := self.moment_of(self.hangs_from)) < 6 * _MINUTE:
            return None
        return {
            "kind": "still", "phase": "training", "since": since.isoformat(), "bound_s": 300.0, "silent_s": 310.0,
            "step": self.hangs_from,
        }  # fmt: skip
