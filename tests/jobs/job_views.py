"""A tiny cloud and a tiny guard that carry decisions about one job out, with every outcome drawn by lot.

It keeps what the decisions may not be wrong about: which VMs there are, and which of them can write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

from tests.jobs.jobbed import ANA, LONG_AGO, NOW, PLACES, TERMS, attempt, exited, standing

from costguard.jobs.decide.actions import (
    AskAgain,
    DeleteVm,
    EndAttempt,
    JobAction,
    JobDecision,
    LaunchAttempt,
    RestartVm,
    RestAttempt,
    StopVm,
    TellCommandToStop,
)
from costguard.jobs.decide.next_step import decide
from costguard.jobs.decide.view import AttemptView, JobContext, JobView, VmState
from costguard.model.attempt import AgentState, Attempt, AttemptState, Interruption, Outcome
from costguard.model.instance import Status
from costguard.model.job import Job, JobKind, JobState
from costguard.model.lifetime import EndReason
from costguard.model.money import Money, Priced

Look = Callable[["World", JobDecision], None]
TICK = timedelta(seconds=20)
ENDS = 8 * [(EndReason.PREEMPTED, "system")] + [
    (EndReason.HOST_ERROR, "system"),
    (EndReason.RUN_TIME_LIMIT, "system"),
    (EndReason.STOPPED, ANA),
    (EndReason.DELETED, "robot@acme.iam.gserviceaccount.com"),
    (EndReason.UNKNOWN, ""),
]


@dataclass
class Vm:
    """`seen` is what the ledger shows, which may be behind what is so."""

    is_there: bool = False
    runs: bool = False
    began_at: datetime | None = None
    runs_begun: int = 0
    dies_at: datetime | None = None
    dies_of: tuple[EndReason, str] = (EndReason.PREEMPTED, "system")
    seen: VmState | None = None
    has_saved: bool = False  # a command ran on its disk


@dataclass
class World:
    lot: Random
    job: Job
    is_kind: bool = False  # from now on everything goes well
    now: datetime = NOW
    attempts: list[Attempt] = field(default_factory=list)
    vms: dict[int, Vm] = field(default_factory=dict)
    interruptions: dict[tuple[int, int], Interruption] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    hold: str = ""
    pause: str = ""
    spent: Money = field(default_factory=Money)

    def view(self) -> JobView:
        seen = tuple(AttemptView(item, self.vms[item.id].seen) for item in self.attempts)
        reported = tuple(self.interruptions.values())
        return JobView(self.job, seen, reported, Priced(self.spent), hold=self.hold, pause=self.pause)

    def turn(self, look: Look) -> None:
        """Decides once, checks the decision, and carries it out, or not: a guard may be killed before it does."""
        decision = decide(self.view(), PLACES, JobContext(TERMS, self.now, LONG_AGO))
        look(self, decision)
        if not self.job.state.is_over:
            self.job = replace(self.job, state=decision.state, reason=decision.reason, next_at=decision.next_at)
        for action in decision.actions:
            if self.goes_well(0.9):
                self.carry_out(action)

    def goes_well(self, chance: float) -> bool:
        return self.is_kind or self.lot.random() < chance

    def carry_out(self, action: JobAction) -> None:
        match action:
            case LaunchAttempt():
                new = attempt(AttemptState.INTENDED, action.number, intended_at=self.now, max_run=action.max_run)
                self.attempts.append(replace(new, zone=action.zone, rate=action.rate, agent=AgentState()))
                self.vms[new.id] = Vm()
            case AskAgain(attempt_id):
                self.ask(attempt_id)
            case EndAttempt(attempt_id, outcome, reason, reported):
                self.end(attempt_id, outcome, reason, reported)
            case RestAttempt(attempt_id, reason, reported):
                self.outcomes.append(reported.outcome)
                self.interrupt(reported)
                self.change(attempt_id, state=AttemptState.RESTING, reason=reason)
            case RestartVm(attempt_id):
                starts = self.attempt(attempt_id).restarts + 1
                self.change(attempt_id, state=AttemptState.RESTARTING, restarts=starts)
            case StopVm(attempt_id):
                self.stop(attempt_id)
            case DeleteVm(attempt_id):
                vm = self.vms[attempt_id]
                assert self.may_lose(attempt_id)
                if vm.is_there and self.goes_well(0.5):
                    vm.is_there = vm.runs = False
                elif not vm.is_there:
                    self.change(attempt_id, state=AttemptState.OVER, gone_at=self.now)
            case TellCommandToStop(attempt_id, why):
                self.change(attempt_id, stop_asked_at=self.now, stop_why=why)

    def may_lose(self, attempt_id: int) -> bool:
        """Says whether its disk is no only copy: it succeeded, nothing ran there, or its owner agreed."""
        vm, job = self.vms[attempt_id], self.job
        is_done = Outcome.SUCCEEDED in [item.outcome for item in self.attempts] or job.disk_given_up_at is not None
        return not (self.keeps_disk and vm.is_there and vm.has_saved) or is_done

    def stop(self, attempt_id: int) -> None:
        vm, item = self.vms[attempt_id], self.attempt(attempt_id)
        if vm.runs:
            vm.runs = not self.goes_well(0.5)
        elif not vm.is_there and item.state is AttemptState.RESTING:
            self.end(attempt_id, Outcome.LOST, "its VM is gone", None)
        elif not vm.is_there:
            self.change(attempt_id, state=AttemptState.OVER, gone_at=self.now)
        elif item.state is AttemptState.ENDING:
            self.change(attempt_id, state=AttemptState.KEPT)

    def ask(self, attempt_id: int) -> None:
        state, vm = self.attempt(attempt_id).state, self.vms[attempt_id]
        if not self.goes_well(0.7):
            self.change(attempt_id, tries=1, try_after=self.now + TICK)
        elif state is AttemptState.INTENDED:
            self.change(attempt_id, state=AttemptState.ASKED, asked_at=self.now)
        elif state is AttemptState.ASKED and not self.goes_well(0.6):
            outcome = self.lot.choice([Outcome.STOCKOUT, Outcome.STOCKOUT, Outcome.QUOTA, Outcome.REFUSED])
            self.end(attempt_id, outcome, "no room", None)
        elif state is AttemptState.ASKED:
            self.change(attempt_id, state=AttemptState.BOOTING, made_at=self.now, gce_id="7")
            vm.is_there = vm.runs = True
            vm.began_at = self.now
            vm.runs_begun = 1
        elif not self.goes_well(0.6):
            self.change(attempt_id, state=AttemptState.RESTING, try_after=self.now + TICK)
        else:
            self.change(attempt_id, state=AttemptState.BOOTING)
            vm.runs_begun += 1
            vm.runs, vm.dies_at, vm.began_at = True, None, self.now

    def end(self, attempt_id: int, outcome: Outcome, reason: str, interruption: Interruption | None) -> None:
        self.outcomes.append(outcome)
        if interruption is not None:
            self.interrupt(interruption)
        self.change(attempt_id, state=AttemptState.ENDING, outcome=outcome, reason=reason, ended_at=self.now)

    def interrupt(self, interruption: Interruption) -> None:
        self.interruptions.setdefault((interruption.attempt_id, interruption.run), interruption)

    def change(self, attempt_id: int, **values: object) -> None:
        at = next(place for place, item in enumerate(self.attempts) if item.id == attempt_id)
        self.attempts[at] = replace(self.attempts[at], **{"try_after": None, **values})  # type: ignore[arg-type]

    def attempt(self, attempt_id: int) -> Attempt:
        return next(item for item in self.attempts if item.id == attempt_id)

    def pass_time(self) -> None:
        """Lets events happen to the VMs, some of them unheard."""
        self.now += TICK if self.lot.random() < 0.8 else 10 * TICK
        for item in list(self.attempts):
            vm = self.vms[item.id]
            if vm.dies_at is not None and vm.dies_at <= self.now:
                vm.runs, vm.dies_at = False, None
                vm.is_there = self.keeps_disk
            if vm.runs and item.state in (AttemptState.BOOTING, AttemptState.RUNNING):
                self.work(item, vm)
            self.observe(item, vm)

    @property
    def keeps_disk(self) -> bool:
        plan = self.job.spec.checkpoint
        return plan is not None and plan.is_on_disk

    def work(self, item: Attempt, vm: Vm) -> None:
        """The agent's part; a VM for development has none."""
        self.spent += Money.of("0.01")
        if vm.dies_at is None and not self.goes_well(0.9):
            vm.dies_at = self.now + timedelta(seconds=30)
            vm.dies_of = self.lot.choice(ENDS)
            if self.lot.random() < 0.5 and item.agent.exit is None and vm.dies_of[0] is EndReason.PREEMPTED:
                self.change(item.id, agent=replace(item.agent, at=self.now, noticed_at=self.now))
            return
        if self.job.spec.kind is JobKind.DEV or (item.agent.exit is not None and item.agent.run == vm.runs_begun):
            return
        if not self.goes_well(0.8):
            return
        run = vm.runs_begun
        vm.has_saved = True
        if item.agent.run != run:
            news = AgentState(at=self.now, run=run, started_at=self.now)
            self.change(item.id, state=AttemptState.RUNNING, agent=news)
            return
        said = replace(item.agent, at=self.now)
        stop_request = "preemption" if vm.dies_at else "cancel" if item.stop_asked_at else ""
        if stop_request or self.lot.random() < 0.2:
            code = 0 if self.goes_well(0.6) else 1
            said = replace(said, exit=exited(code, moment=self.now, asked=stop_request))
        self.change(item.id, agent=said)

    def observe(self, item: Attempt, vm: Vm) -> None:
        """A pass of the ledger, which may not come."""
        if not self.goes_well(0.4) or item.made_at is None:
            return
        if vm.runs:
            vm.seen = standing(started_at=vm.began_at)
            return
        why, by = vm.dies_of if item.outcome is None else (EndReason.DELETED, "guard")
        stored = vm.seen if vm.seen is not None and vm.seen.started_at == vm.began_at else None
        ended = (stored.ended_at if stored is not None else None) or self.now
        gone = None if vm.is_there else self.now
        vm.seen = standing(Status.STOPPED, why, by, started_at=vm.began_at, ended_at=ended, gone_at=gone)

    @property
    def writers(self) -> list[int]:
        """Attempts whose command may write now: its VM runs, and it has not ended."""
        return [item.id for item in self.attempts if self.vms[item.id].runs and item.agent.exit is None]

    @property
    def is_settled(self) -> bool:
        """Says whether it is over, or waits for its budget: without a VM, or with a stopped one whose disk holds its
        work.
        """
        left = {item.state for item in self.attempts} - {AttemptState.OVER}
        waits = bool(self.hold) and self.job.state in (JobState.QUEUED, JobState.RECOVERING)
        return left <= {AttemptState.RESTING} if waits else left <= {AttemptState.KEPT} and self.job.state.is_over
