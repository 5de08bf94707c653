"""Both VMs of a job around a preemption, drawn by lot: what Google does, what its agent says, what a guard sees of it.

The guard's part is the product's own decision and its reading of reports. Google's part is its page "Spot VMs":
the announcement in the metadata, the soft-off after the notice, and the power cut 30 s after that at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random

from tests.jobs.jobbed import LONG_AGO, NOW, PLACES, TERMS, attempt, job

from costguard.jobs.decide.actions import DeleteVm, EndAttempt, JobAction, LaunchAttempt, LetBegin, TellCommandToStop
from costguard.jobs.decide.next_step import decide
from costguard.jobs.decide.view import AttemptView, JobContext, JobView, VmState
from costguard.jobs.reports.agent_report import AgentEvent, apply_events
from costguard.model.attempt import STANDING_BY, AgentState, Attempt, AttemptState, Interruption
from costguard.model.instance import Status
from costguard.model.launch import LONGEST_NOTICE, NO_NOTICE
from costguard.model.lifetime import EndReason

SHUTDOWN = 30.0  # seconds, Google's
HEARTBEAT = 25.0  # the real ones are more
MOST = 3600.0  # seconds that a schedule is followed for
JOB = job()


def moment(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@dataclass
class FirstVm:
    """The VM that is preempted, in true seconds. `wrong_by` of its clock jumps once, at `jumps_at`."""

    notice: timedelta
    announced: float
    power_off: float
    command_ends: float
    mute: tuple[float, float]  # nothing leaves it in between
    wrong_by: tuple[float, float]
    jumps_at: float

    @classmethod
    def of(cls, lot: Random) -> FirstVm:
        notice = lot.choice((NO_NOTICE, LONGEST_NOTICE, LONGEST_NOTICE))
        announced = lot.uniform(5, 30)
        soft_off = announced + notice.total_seconds()
        power_off = soft_off + lot.uniform(0, SHUTDOWN)
        heeds = lot.random() < 0.5
        begins = lot.choice((0.0, announced - 20, announced - 2, announced + 1, announced + 30, soft_off))
        is_mute = lot.random() < 0.7
        wrong_by = lot.uniform(-7200, 7200)
        return cls(
            notice,
            announced,
            power_off,
            lot.uniform(announced, power_off) if heeds else power_off,
            (begins, begins + lot.choice((10.0, 60.0, MOST))) if is_mute else (MOST, MOST),
            (wrong_by, wrong_by + lot.choice((0.0, 0.0, lot.uniform(-300, 300)))),
            lot.uniform(0, power_off),
        )

    def clock(self, at: float) -> datetime:
        return moment(at + self.wrong_by[at >= self.jumps_at])

    def reports(self, lot: Random) -> list[tuple[float, float, list[AgentEvent]]]:
        """When each is sent, when it arrives, and what it holds: all that was not sent before."""
        news: list[tuple[float, str, dict[str, object]]] = [
            (at * HEARTBEAT, "heartbeat", {"is_running": True}) for at in range(int(self.power_off / HEARTBEAT) + 1)
        ]
        news.append((self.announced + lot.uniform(0, 3), "notice", {"what": "preemption", "value": "TRUE"}))
        if self.command_ends < self.power_off:
            why = lot.choice(("preemption", "preemption", None))
            ended: dict[str, object] = {"reason": "exited", "code": lot.choice((0, 1)), "asked": why}
            news.append((self.command_ends + lot.uniform(0, 4), "exit", ended))
        sent: list[tuple[float, float, list[AgentEvent]]] = []
        waiting: list[AgentEvent] = []
        for seq, (at, kind, fields) in enumerate(sorted(news, key=lambda one: one[0]), start=1):
            if at >= self.power_off:
                break
            waiting.append(AgentEvent(seq, kind, self.clock(at), {"run": 1, "step": 3, **fields}))
            if not self.mute[0] <= at < self.mute[1] and lot.random() < 0.9:
                sent.append((at, at + lot.choice((0.0, 0.1, lot.uniform(0, 20))), waiting))
                waiting = []
        return sent


@dataclass
class TwoVms:
    """A schedule of both VMs. `wrong` says when two could write at once; None: never."""

    lot: Random
    vm: FirstVm
    standby: AttemptView | None
    first: Attempt
    seen: VmState
    interruptions: list[Interruption] = field(default_factory=list)
    dies_at: float = 0
    gone_at: float | None = None  # when its delete has taken effect
    next_began: float | None = None
    wrong: str | None = None

    @classmethod
    def of(cls, seed: int) -> TwoVms:
        lot = Random(seed)
        vm = FirstVm.of(lot)
        notice = None if lot.random() < 0.1 else vm.notice
        first = attempt(notice=notice, agent=AgentState(at=moment(0), run=1, started_at=moment(-3600)))
        ready = {"follows": 1, "ready_at": moment(-60), "agent": AgentState(at=moment(0), run=1, phase=STANDING_BY)}
        standby = AttemptView(attempt(AttemptState.BOOTING, 2, **ready)) if lot.random() < 0.3 else None
        seen = VmState(Status.RUNNING, started_at=first.made_at)
        return cls(lot, vm, standby, first, seen, dies_at=vm.power_off)

    @property
    def writes_until(self) -> float:
        return min(self.vm.command_ends, self.dies_at)

    def play(self) -> TwoVms:
        """Takes a turn at each report, at each look at VMs, and whenever the decision says that it is due."""
        reports = self.vm.reports(self.lot)
        arrivals = sorted(((arrives, sent, events) for sent, arrives, events in reports), key=lambda one: one[0])
        looks = self._looks()
        now = 0.0
        while self.next_began is None and now < MOST:
            due = self._turn(now)
            if self._has_begun():
                break
            coming = [arrivals[0][0] if arrivals else MOST, looks[0] if looks else MOST, due, self.gone_at or MOST]
            now = max(now + 0.001, min(coming))
            while arrivals and arrivals[0][0] <= now:
                _, sent, events = arrivals.pop(0)
                self._hear(events, sent, now)
            while looks and looks[0] <= now:
                self._look(looks.pop(0))
            if self.gone_at is not None and self.gone_at <= now:
                self.first, self.gone_at = replace(self.first, state=AttemptState.OVER, gone_at=moment(now)), None
        return self

    def _has_begun(self) -> bool:
        return self.next_began is not None

    def _looks(self) -> list[float]:
        every = self.lot.choice((20.0, 60.0, 300.0, MOST))
        begins = self.lot.uniform(0, every)
        return [begins + number * every for number in range(int((MOST - begins) / every) + 1)]

    def _hear(self, events: list[AgentEvent], sent: float, now: float) -> None:
        if self.first.is_open:
            update = apply_events(self.first.agent, self.first.state, events, moment(now), self.vm.clock(sent))
            self.first = replace(self.first, agent=update.agent)

    def _look(self, now: float) -> None:
        """The list may be some seconds old, and its zone may not answer; the event may come at the notice."""
        at, soft_off = now - self.lot.uniform(0, 10), self.vm.announced + self.vm.notice.total_seconds()
        started = self.first.made_at
        if self.lot.random() < 0.2:
            self.seen = replace(self.seen, is_known=False)
        elif at >= self.dies_at:
            self.seen = VmState(
                Status.DEPROVISIONING, True, moment(now), moment(soft_off), EndReason.PREEMPTED, "system", started
            )
        elif at >= soft_off or (at >= self.vm.announced and self.lot.random() < 0.3):
            status = Status.STOPPING if at >= soft_off else Status.RUNNING
            event_at = self.lot.choice((self.vm.announced, soft_off))
            self.seen = VmState(status, True, None, moment(event_at), EndReason.PREEMPTED, "system", started)
        else:
            self.seen = VmState(Status.RUNNING, started_at=started)

    def _turn(self, now: float) -> float:
        """Returns when the next is due."""
        standby = self.standby if self.next_began is None else None
        view = JobView(JOB, (AttemptView(self.first, self.seen),), tuple(self.interruptions), standby=standby)
        decision = decide(view, PLACES, JobContext(TERMS, moment(now), LONG_AGO))
        for action in decision.actions:
            self._carry_out(action, now)
        if decision.actions or decision.next_at is None:
            return now + 5 if decision.actions else MOST
        return (decision.next_at - NOW) / timedelta(seconds=1)

    def _carry_out(self, action: JobAction, now: float) -> None:
        match action:
            case EndAttempt(1, outcome, reason, interruption):
                self.first = replace(
                    self.first, state=AttemptState.ENDING, outcome=outcome, reason=reason, ended_at=moment(now)
                )
                self.interruptions += [interruption] if interruption is not None else []
            case TellCommandToStop(1, why):
                self.first = replace(self.first, stop_asked_at=moment(now), stop_why=why)
            case DeleteVm(1) if self.gone_at is None:
                self.first = replace(self.first, try_after=moment(now + 60))
                if self.lot.random() < 0.5:
                    self.dies_at = min(self.dies_at, now + self.lot.uniform(1, 120))
                    self.gone_at = max(self.dies_at, now + 1)
            case LaunchAttempt() | LetBegin():
                self.next_began = now
                if now < self.writes_until:
                    self.wrong = (
                        f"the next VM may write at {now:.1f} s, and this one writes until {self.writes_until:.1f} s"
                    )
            case EndAttempt(2):
                self.standby = None
