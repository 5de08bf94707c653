"""Disturbs gangs: kills processes or lets them stand still, takes VMs, the guard and the network away."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from tests.gangs.cut import Cut
from tests.gangs.job import GangJob, node_of
from tests.scenario.training_ground import OWNER, PROJECT

from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.vm import VM

_FOR_GOOD_S = (20.0, 40.0)  # for which the others of a gang go on without it
_NOTICE = timedelta(seconds=120)  # of the fleet's clock


@dataclass
class Disturbances:
    """`lost` are the nodes whose VM went away, one for each time; `can_cut`: connections can be cut here."""

    job: GangJob
    lot: Random
    can_cut: bool
    longest_cut_s: float
    happened: list[str] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def one(self) -> None:
        """Does something, at whatever moment this is."""
        kinds = self._kinds()
        what = self.lot.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        kinds[what][1](what)

    def end(self) -> None:
        """Waits until all that was taken away for a time is back."""
        for thread in self._threads:
            thread.join()

    def _kinds(self) -> dict[str, tuple[float, Callable[[str], None]]]:
        kinds: dict[str, tuple[float, Callable[[str], None]]] = {
            "rank killed": (3, self._kill),
            "launcher killed": (1, self._kill),
            "runner killed": (1, self._kill),
            "agent killed": (2, self._kill),
            "rank frozen": (1, self._freeze),
            "guard killed": (2, self._kill_guard),
            "guard away": (1, self._guard_away),
            "VM preempted": (2, self._lose),
            "VM preempted with notice": (1, self._lose),
            "VM deleted by hand": (0.5, self._lose),
            "VM's host failed": (1, self._lose),
            "VM preempted, zone full": (1, self._lose),
        }
        if self.job.is_elastic:
            kinds["VM lost for good"] = (4, self._lose)
        return {**kinds, "network cut": (2, self._cut)} if self.can_cut else kinds

    def _vm(self) -> VM | None:
        up = self.job.up
        return self.lot.choice(up) if up else None

    def _kill(self, what: str) -> None:
        vm = self._vm()
        if vm is None:
            return
        running = self.job.processes(vm)
        ranks = running.command[1:] or running.command  # those that the launcher started
        victims = {"agent": [running.agent], "runner": [running.runner], "launcher": running.command[:1]}
        pids = [pid for pid in victims.get(what.split()[0], ranks) if pid]
        if pids:
            with suppress(ProcessLookupError):
                os.kill(self.lot.choice(list(pids)), signal.SIGKILL)
            self.happened.append(what)

    def _freeze(self, what: str) -> None:
        """All processes of a node's command stand still for a time."""
        vm = self._vm()
        pids = self.job.processes(vm).command if vm is not None else ()
        if pids:
            _signal_all(pids, signal.SIGSTOP)
            self._later(self.lot.uniform(0.5, self.longest_cut_s), lambda: _signal_all(pids, signal.SIGCONT))
            self.happened.append(what)

    def _kill_guard(self, what: str) -> None:
        self.job.place.kill()
        self.happened.append(what)

    def _guard_away(self, what: str) -> None:
        self.job.place.end_guard()
        threading.Event().wait(self.lot.uniform(0.5, 6.0))
        self.job.place.start_guard()
        self.happened.append(what)

    def _lose(self, what: str) -> None:
        vm = self._vm()
        if vm is None:
            return
        world, full = self.job.place.world, None
        if "full" in what or "good" in what:
            full = world.faults.add("stockout", zone=vm.zone)
        try:
            if "deleted" in what:
                world.delete(PROJECT, vm.name, OWNER)
            elif "host" in what:
                world.trigger("host-error", PROJECT, vm.name, vm.zone)
            elif "notice" in what:
                world.trigger_after_notice("preempt", PROJECT, vm.name, vm.zone, _NOTICE)
            else:
                world.preempt(PROJECT, vm.name)
        except Refused:  # it is going already
            if full is not None:
                world.faults.remove(full.id)
            return
        self.lost.append(node_of(vm))
        self.happened.append(what)
        if full is not None:
            number, seconds = full.id, self.lot.uniform(*(_FOR_GOOD_S if "good" in what else (8.0, 15.0)))
            self._later(seconds, lambda: world.faults.remove(number))

    def _cut(self, what: str) -> None:
        """The packets between two nodes' commands vanish for a time."""
        up = self.job.up
        if len(up) < 2:
            return
        one, other = self.lot.sample(up, 2)
        cut = Cut(self.job.processes(one).command, self.job.processes(other).command)
        if cut.connections:
            self._later(self.lot.uniform(0.5, self.longest_cut_s), cut.heal)
            self.happened.append(what)

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        def wait() -> None:
            threading.Event().wait(seconds)
            act()

        self._threads.append(threading.Thread(target=wait, daemon=True))
        self._threads[-1].start()


def _signal_all(pids: tuple[int, ...], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
