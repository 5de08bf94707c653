"""Jobs that people submit, and what agents on their VMs report, as PROTOCOL.md has it, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson
from tests.simulation.agents import Agent, Training
from tests.simulation.plan import Plan, Planned
from tests.simulation.settings import BUCKET, PROJECT
from tests.simulation.shelf import Shelf

from costguard.errors import CostguardError, Forbidden, Invalid
from costguard.jobs.reports.agent_events import AgentEvent, AgentEvents, EventsAnswer
from costguard.jobs.submit.submission import Overrides, Submission
from costguard.jobs.submit.submit import JobService
from costguard.model.attempt import STANDING_BY
from costguard.model.job import CheckpointPlan, JobKind, JobSpec, OnHang
from costguard_sandbox.gce.vm import VM, Run
from costguard_sandbox.world import World

_SECOND = timedelta(seconds=1)
_BOOT = (60, 420)  # seconds from the VM to the first step of its command
_OWNER = "ben@example.com"
_FETCH = 20 * _SECOND  # until a command that waited runs, with its checkpoint
_FLUSH = 10 * _SECOND  # what a command takes to save and end when it is asked to


@dataclass
class Jobs:
    """`hear` gives the present guard's ears, which may be another one's by the next call."""

    world: World
    plan: Plan
    shelf: Shelf = field(default_factory=Shelf)
    agents: dict[int, Agent] = field(default_factory=dict)  # by the VM's number
    trainings: dict[str, Training] = field(default_factory=dict)  # by job
    to_submit: list[Planned] = field(default_factory=list)
    to_ask: list[tuple[datetime, str, str]] = field(default_factory=list)  # when, of which job, for what
    finished: set[str] = field(default_factory=set)  # jobs whose command ended by itself, with all its steps
    on_disk: set[int] = field(default_factory=set)  # VMs on whose disks something was saved
    counts: Counter[str] = field(default_factory=Counter)
    _seen_changes: int = -1

    def __post_init__(self) -> None:
        self.to_submit = list(self.plan.jobs)

    def next_at(self) -> datetime | None:
        moments = [agent.next_at for agent in self.agents.values()]
        moments += [one.at for one in self.to_submit[:1]] + [at for at, _, _ in self.to_ask]
        return min((moment for moment in moments if moment is not None), default=None)

    # People.

    def submit_due(self, service: JobService, now: datetime) -> None:
        """Submits due jobs. A failed request is repeated later, under the same key, as a client would."""
        while self.to_submit and self.to_submit[0].at <= now:
            planned = self.to_submit[0]
            lot = self.plan.lot("job", planned.number)
            training = Training.of(lot, self.plan.aim)
            location = "/var/checkpoints" if training.on_disk else f"{BUCKET}/{planned.number}"
            plan = CheckpointPlan(location, "--from_checkpoint {checkpoint}")
            spec = JobSpec(
                JobKind.DEV if training.is_dev else JobKind.TRAINING,
                "job",
                PROJECT,
                _OWNER,
                name=f"train-{planned.number}",
                command=() if training.is_dev else ("python", "train.py", "--save_to", location),
                checkpoint=None if training.is_dev else plan,
                total_steps=None if training.is_dev else training.steps,
                on_hang=OnHang.TELL if training.is_dev else training.on_hang,
                ceiling=training.ceiling,
                deadline_in=training.deadline_in,
                work=training.work,
                max_crashes=3,
            )
            # A third of those with a deadline may use Spot alone.
            is_alone = training.deadline_in is not None and planned.number % 3 == 0
            given = Submission(spec, Overrides(on_demand_fallback=False if is_alone else None))
            submission = given, f"key-{planned.number}", "api"
            with _refusing(self.counts, "jobs refused", Invalid):
                job, is_new = service.submit(*submission)
                self.counts["submitted"] += is_new
                self.trainings[job.id] = training
                self.to_ask += [(now + after, job.id, what) for after, what in training.asks]
            if self.to_submit[:1] == [planned]:  # else a guard that took over meanwhile has submitted it too
                self.to_submit.pop(0)

    def ask_due(self, service: JobService, now: datetime) -> None:
        """Asks what people want of their jobs; the guard refuses some of it."""
        asks: Mapping[str, Callable[[str], object]] = {
            "cancel": lambda job: service.cancel(job, _OWNER, "no longer wanted"),
            "cancel after a checkpoint": lambda job: service.cancel_after_checkpoint(job, _OWNER),
            "drill": lambda job: service.drill(job, _OWNER),
            "delete its disk": lambda job: service.delete_disk(job, _OWNER),
        }
        for one in [one for one in self.to_ask if one[0] <= now]:
            _, job_id, what = one
            with _refusing(self.counts, f"refused: {what}"):
                asks[what](job_id)
                self.counts[f"asked: {what}"] += 1
            if one in self.to_ask:  # else a guard that took over meanwhile has heard it too
                self.to_ask.remove(one)

    # Agents.

    def live(self, now: datetime) -> None:
        """Everything that happened on VMs up to now; nothing of it was reported yet."""
        self._find()
        for agent in self.agents.values():
            self._advance(agent, now)

    def report(self, ears: Callable[[], AgentEvents], now: datetime) -> bool:
        """Each agent says what it has to; whether any of it was news."""
        news = False
        for agent in sorted(self.agents.values(), key=lambda one: one.name):
            if (
                agent.is_mute(now)
                or agent.vm_run is None
                or agent.run == 0
                or (agent.vm_run.ended is not None and not agent.unsent)
            ):
                continue
            events = [*agent.unsent]
            if agent.reported_start and not agent.is_over:
                fields: dict[str, object] = {"run": agent.run, "is_running": True, "step": agent.step_at(now)}
                if hang := agent.hang_at(now):
                    fields["hang"] = hang
                events.append(AgentEvent(agent.seq + 1, "heartbeat", now, fields))
            if agent.is_ready(now):
                waits = {"run": agent.run, "is_running": False, "phase": STANDING_BY}
                events.append(AgentEvent(agent.seq + 1, "heartbeat", now, waits))
                agent.asked_at = now
            if not events:
                continue
            news = news or bool(agent.unsent)
            try:
                answer = ears().hear(agent.name, agent.token, events, now)
            except Forbidden:
                self.counts["agents not known"] += 1
                continue
            except CostguardError:
                continue  # it is said again
            agent.seq = max(agent.seq, events[-1].seq)
            agent.unsent.clear()
            if agent.is_ready(now) and (answer.cancel or answer.go is not None):
                self._heed_word(agent, answer, now)
                news = True
            elif answer.cancel and agent.reported_start and not agent.is_over and agent.stops_at is None:
                agent.stops_at, agent.why = now + _FLUSH, answer.why or "cancel"
                news = True
            if answer.drill is not None and answer.drill > agent.drilled and agent.reported_start and not agent.is_over:
                agent.drilled = answer.drill
                self._drill(agent, answer.drill, now)
                news = True
        return news

    def _find(self) -> None:
        if self.world.changes == self._seen_changes:
            return
        self._seen_changes = self.world.changes
        for vm in self.world.instances(PROJECT):
            if not vm.name.startswith("cg-"):
                continue
            agent = self.agents.get(vm.id)
            if agent is None:
                agent = self._new_agent(vm)
                if agent is None:
                    continue
                self.agents[vm.id] = agent
            if vm.runs and vm.runs[-1] is not agent.vm_run and vm.runs[-1].ended is None:
                self._boot(agent, vm.runs[-1])

    def _new_agent(self, vm: VM) -> Agent | None:
        items = {item["key"]: item["value"] for item in (vm.given.get("metadata") or {}).get("items", [])}
        if "costguard-attempt" not in items:
            return None
        settings: Mapping[str, object] = orjson.loads(items["costguard-attempt"])
        job = str(vm.given["labels"]["costguard-job"])
        if job not in self.trainings:  # submitted by a guard whose database was put back since
            return None
        command = settings["command"]
        assert isinstance(command, list)
        resumed = next((str(word) for word in command if "/checkpoint-" in str(word)), "")
        number = int(resumed.rpartition("-")[2]) if resumed else 0
        stored = settings.get("stored_checkpoint") or settings["checkpoint"]
        assert isinstance(stored, dict)
        return Agent(
            vm, str(settings["attempt"]), items["costguard-token"], str(stored["location"]), job, self.trainings[job],
            number, self.plan.lot("agent", vm.name), stands_by=bool(settings.get("stands_by")),
        )  # fmt: skip

    def _boot(self, agent: Agent, run: Run) -> None:
        agent.vm_run, agent.run = run, agent.run + 1
        agent.starts_at = run.began + agent.lot.uniform(*_BOOT) * _SECOND
        agent.reported_start = agent.is_over = False
        agent.stops_at = None
        if agent.training.on_disk:
            agent.begins_from = agent.disk_step
        agent.unsent = [self._event(agent, "boot", run.began + 30 * _SECOND)]
        self.counts["runs"] += 1

    def _event(self, agent: Agent, kind: str, at: datetime, **fields: object) -> AgentEvent:
        agent.seq += 1
        return AgentEvent(agent.seq, kind, at, {"run": agent.run, **fields})

    def _advance(self, agent: Agent, now: datetime) -> None:
        run = agent.vm_run
        if run is None or agent.starts_at is None or agent.is_over:
            return
        until = min(now, run.ended) if run.ended is not None else now
        if until < agent.starts_at or agent.stands_by:
            agent.is_over = run.ended is not None
            return
        if not agent.reported_start:
            agent.reported_start = True
            agent.unsent.append(self._event(agent, "start", agent.starts_at, started_at=agent.starts_at.isoformat()))
        ends = agent.moment_of(agent.last_step)
        stop_at, is_hung = agent.stops_at, agent.hangs_from is not None
        if stop_at is not None and (is_hung or stop_at < ends):
            ends = stop_at
        stopped = min(until, ends)
        self._save(agent, stopped)
        if until < ends or (is_hung and stop_at is None):
            if run.ended is not None:
                agent.is_over = True
                agent.worked.append((agent.starts_at, run.ended))
                if run.preempted and agent.lot.random() < agent.training.heeds:
                    self._heed(agent, run.ended)
            return
        agent.is_over = True
        agent.worked.append((agent.starts_at, ends))
        code = 1 if ends == agent.moment_of(agent.last_step) and agent.last_step < agent.training.steps else 0
        fields: dict[str, object] = {"reason": "exited", "code": code}
        if stop_at is not None and ends == stop_at:
            fields["asked"] = agent.why
            self._keep(agent, agent.step_at(ends), ends)
        elif code == 0:
            self.finished.add(agent.job)
        agent.unsent.append(self._event(agent, "exit", ends, **fields))
        self.counts["exits" if code == 0 else "crashes"] += 1

    def _heed_word(self, agent: Agent, answer: EventsAnswer, now: datetime) -> None:
        """A VM that stood by begins where the guard says, or ends."""
        agent.stands_by = False
        if answer.cancel or answer.go is None:
            agent.is_over = True
            over = {"reason": "not_started", "error": "cancel came before the command", "asked": "cancel"}
            agent.unsent.append(self._event(agent, "exit", now, **over))
            self.counts["moves given up"] += 1
            return
        agent.begins_from = answer.go.step or 0
        agent.starts_at = now + _FETCH
        self.counts["moves"] += 1

    def _save(self, agent: Agent, until: datetime) -> None:
        every = agent.training.saves_every
        first = agent.begins_from // every * every + every
        for step in range(first, agent.step_at(until) + 1, every):
            self._keep(agent, step, agent.moment_of(step))

    def _keep(self, agent: Agent, step: int, at: datetime) -> None:
        if agent.training.on_disk:
            agent.disk_step = max(agent.disk_step, step)
            self.on_disk.add(agent.vm.id)
        else:
            self.shelf.save(agent.location, step, at)

    def _heed(self, agent: Agent, at: datetime) -> None:
        """Google gives 30 s: the command saves and leaves with 0, as many trainers do, and its agent says so."""
        self._keep(agent, agent.step_at(at), at)
        agent.unsent.append(self._event(agent, "notice", at, what="preemption", value="TRUE"))
        agent.unsent.append(self._event(agent, "exit", at + _FLUSH, reason="exited", code=0, asked="preemption"))
        self.counts["notices heeded"] += 1

    def _drill(self, agent: Agent, number: int, now: datetime) -> None:
        """A notice on purpose: the command saves and goes on."""
        step = agent.step_at(now)
        self._keep(agent, step, now)
        agent.unsent.append(self._event(agent, "drill", now, number=number, phase="stopping", grace_s=22, step=step))
        over: dict[str, object] = {"number": number, "phase": "over", "result": "saved", "resumed": "yes"}
        agent.unsent.append(self._event(agent, "drill", now + _FLUSH, **over, saved_s=3.5, saved_step=step))
        self.counts["drills held"] += 1


class _refusing:
    """Counts what the guard refuses."""

    def __init__(self, counts: Counter[str], what: str, refusals: type[CostguardError] = CostguardError) -> None:
        self._counts, self._what, self._refusals = counts, what, refusals

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if kind is not None and issubclass(kind, self._refusals):
            self._counts[self._what] += 1
            return True
        return False
