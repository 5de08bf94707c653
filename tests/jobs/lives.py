"""Acts for VMs' agents, Google and people while a guard comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta

from tests.jobs.cloud import never_twice
from tests.jobs.cloud_vms import Vm
from tests.jobs.world import BUCKET, Killed, World

from costguard.model.attempt import AttemptState
from costguard.model.instance import Status
from costguard.model.job import JobState

TICK = 15.0
MOST_TICKS = 120


@dataclass
class Machine:
    """A VM from the inside: its agent starts the command, saves, and goes as it is asked to."""

    vm: Vm
    run: int = 0
    worked: int = 0  # ticks of the present run
    has_notice: bool = False
    is_done: bool = False


@dataclass
class Life:
    """`happens` is called each tick with every machine that works: Google's and people's part of the story."""

    world: World
    happens: Callable[[Life, Machine], None]
    needs: int = 3  # ticks of work until the command is done
    machines: dict[str, Machine] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    ticks: int = 0
    people: Callable[[Life], None] = lambda _: None  # what they do each tick, whatever machines there are

    def once(self, what: str, do: Callable[[], object]) -> bool:
        """Does it unless it was done before; what a process that was ended did not take in is done again."""
        if what in self.seen:
            return False
        do()
        self.seen.add(what)
        return True

    def tick(self) -> None:
        """Time goes on, VMs live, and the guard takes a turn; every third time after a look at all VMs."""
        self.ticks += 1
        self.world.clock.advance(timedelta(seconds=TICK))
        for vm in self.world.cloud.running():
            self._alive(self._live, self.machines.setdefault(vm.gce_id, Machine(vm)))
        self._alive(self.people, self)
        if self.ticks % 3 == 0:
            self.world.look()
        self._alive(self.world.turn.run)

    def play(self) -> None:
        """Plays until the job is over and nothing bills."""
        while not self.is_over():
            assert self.ticks < MOST_TICKS, f"not over by now: {self.world.job()}, {self.world.attempts()}"
            self.tick()

    def mark(self) -> str:
        """Equal for worlds that are alike at the same moment, whatever the guard has stored."""
        shelf = self.world.shelf
        return repr(
            (
                self.machines,
                sorted(self.seen),
                shelf.saved,
                self.world.outside.seq,
                sorted(self.world.outside.go),
                self.world.cloud.mark(),
            )
        )

    def copied(self) -> Life:
        """The same VMs, checkpoints and people at the same moment, under a guard that starts again."""
        outside, machines, seen = deepcopy((self.world.outside, self.machines, self.seen))
        return Life(
            World(self.world.database, outside), self.happens, self.needs, machines, seen, self.ticks, self.people
        )

    def _alive(self, do: Callable[..., object], *given: object) -> None:
        """Ends a process in the middle; the next one is asked again."""
        try:
            do(*given)
        except Killed:
            self.world.guard()

    def _live(self, machine: Machine) -> None:
        vm, name = machine.vm, machine.vm.name
        if machine.run == 0 and self._stands_by(machine):
            return
        if machine.run == 0 or (vm.started_at is not None and f"{vm.gce_id}/{vm.started_at}" not in self.seen):
            working = [one for one in self.machines.values() if one.run and not one.is_done and one is not machine]
            assert not [one for one in working if one.vm in self.world.cloud.running()], "two commands at once"
            self.world.start(name, machine.run + 1)
            machine.run, machine.worked, machine.is_done = machine.run + 1, 0, False
            self.seen.add(f"{vm.gce_id}/{vm.started_at}")
        if machine.is_done:
            return
        if machine.has_notice:
            self.world.exit(name, code=0, run=machine.run, stop_request="preemption")
            machine.is_done, machine.has_notice = True, False
            self.once(f"{name} preempted", lambda: self.world.cloud.preempt(vm))
            return
        if self.world.beat(name, machine.run, step=self._step()):
            self.world.exit(name, code=0, run=machine.run, stop_request="cancel")
            machine.is_done = True
            return
        machine.worked += 1
        self.world.shelf.save(self._step() + 1)
        if self._step() >= self.needs:
            self.world.exit(name, code=0, run=machine.run)
            machine.is_done = True
            return
        self.happens(self, machine)

    def _stands_by(self, machine: Machine) -> bool:
        """Says whether its command waits for the guard's go-ahead, or is not to begin at all."""
        name = machine.vm.name
        attempt = next((one for one in self.world.attempts() if one.name == name), None)
        if machine.is_done or attempt is None or attempt.follows is None or name in self.world.outside.go:
            return machine.is_done
        if self.world.stand_by(name):
            ended = {"reason": "not_started", "error": "cancel came before the command was started", "asked": "cancel"}
            self.world.say(name, ("exit", ended))
            machine.is_done = True
        else:
            self.happens(self, machine)
        return name not in self.world.outside.go

    def crash(self, machine: Machine) -> None:
        """The command fails; its VM stays up until someone stops it."""
        self.world.exit(machine.vm.name, code=3, run=machine.run)
        self.seen.add(f"{machine.vm.name}/{machine.run} crashed")
        machine.is_done = True

    def notice(self, machine: Machine) -> None:
        """Google announces a preemption, and 30 s later the VM is gone."""
        self.world.notice(machine.vm.name, machine.run)
        machine.has_notice = True

    def _step(self) -> int:
        return max((step for step, _ in self.world.shelf.saved.get(BUCKET, [])), default=0)

    def is_over(self) -> bool:
        if not self.world.job().state.is_over:
            return False
        return not self.world.cloud.there() and all(one.state is AttemptState.OVER for one in self.world.attempts())


def check(world: World, state: JobState) -> None:
    """Exactly one VM for each attempt, each of them gone, and none of anything else."""
    assert world.job().state is state, world.job()
    never_twice(world.cloud)
    names = {one.name for one in world.attempts()}
    assert {vm.name for vm in world.cloud.all} <= names
    for attempt in world.attempts():
        assert attempt.gone_at is not None
        mine = world.cloud.ever(attempt.name)
        assert [vm.gce_id for vm in mine] == ([attempt.gce_id] if attempt.gce_id else []), attempt
    assert all(vm.gone_at is not None and vm.status is not Status.RUNNING for vm in world.cloud.all)
