"""Kills gangs of real trainings: agents as processes on loopback addresses, torchrun over Gloo, and JAX on CPU.

`python -m tests.trainers.gangs_run --kills 20` kills ranks, launchers, runners and agents at random moments, and loses
the guard now and then. A guard of the tests' own gates the rounds, and the product's judge chooses the checkpoint. The
final weights of each life must be those of a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.agent.fake_guard import AWAY
from tests.agent.gang import Gang, gang_of, is_standing_by, word
from tests.agent.vm import Vm
from tests.ports import free_port
from tests.trainers.bench_client import ALONE, PYTHON, ROOT

from costguard.checkpoints.buckets import StoreAccess
from costguard.checkpoints.client import StoredCheckpoints
from costguard_vm.agent.watch.ranks import descendants
from costguard_vm.bundle import bundle
from costguard_vm.model.checkpoint import LookFor

_FOLDER = ROOT / ".cache" / "trainers" / "gangs"
_SCRIPTS = ROOT / "tests" / "trainers" / "gangs"
_STEPS = 60
_LAST_KILL = 45  # a step: a life ends undisturbed
_PATIENCE_S = 600.0
_LOOK_S = 0.1
VICTIMS = ("rank", "rank", "launcher", "agent", "agent", "runner", "guard")


@dataclass
class Life:
    """Holds what one job went through until its end. `finals` are the digests of its nodes' weights."""

    rounds: int = 1
    kills: Counter[str] = field(default_factory=Counter)
    resumed_at: list[int | None] = field(default_factory=list)
    torn: int = 0
    finals: set[str] = field(default_factory=set)
    left: int = 0  # processes of commands after the end


class Lived:
    """A gang and its guard, until the job has ended."""

    def __init__(self, gang: Gang, saved: Path) -> None:
        self.gang, self._saved, self.life = gang, saved, Life()

    @property
    def step(self) -> int:
        """The step that the gang has made in this round, as its heartbeats say."""
        newest = [one for guard in self.gang.guards for one in guard.events[-40:] if one["kind"] == "heartbeat"]
        return max([one["step"] or 0 for one in newest if one["round"] == self.life.rounds], default=0)

    def turn(self) -> bool:
        """Acts as the guard does at each turn. Says whether the job has ended."""
        events = [guard.events for guard in self.gang.guards]
        number = self.life.rounds
        exits = [next((one for one in seen if one["kind"] == "exit"), None) for seen in events]
        if all(exits):
            assert all(one and one["code"] == 0 and not one["asked"] for one in exits), exits
            return True
        failed = [one for one in exits if one and (one["code"] != 0 or one["asked"])]
        assert not failed, failed
        ended = [one for seen in events for one in seen if one["kind"] == "round_ended" and one["round"] == number]
        if ended:
            self.life.rounds += 1
            for guard in self.gang.guards:
                guard.go, guard.regroup = None, {"round": self.life.rounds}
        elif all(any(map(is_standing_by(number), seen)) for seen in events) and self.gang.guards[0].go is None:
            self._go(number)
        return False

    def _go(self, number: int) -> None:
        look = StoredCheckpoints(StoreAccess()).look(str(self._saved), LookFor())
        best = look.resume
        path = best.resume_from if best is not None else ""
        self.life.torn += len(look.passed_over)
        if number > 1:
            self.life.resumed_at.append(best.step if best is not None else None)
        arguments = ["--from", path] if path else []
        for guard in self.gang.guards:
            step = best.step if best is not None else None
            guard.go = word(number, self.gang.addresses, resume_from=path, step=step, arguments=arguments)

    def kill(self, lot: Random) -> None:
        """Kills something that runs, at whatever moment this is."""
        node = lot.randrange(len(self.gang.vms))
        vm, what = self.gang.vms[node], lot.choice(VICTIMS)
        processes = _processes(vm)
        if what in ("rank", "launcher", "runner") and not processes:
            what = "agent"
        if what == "agent":
            vm.crash()
            vm.boot()
        elif what == "guard":
            guard = self.gang.guards[node]
            refused = iter(range(lot.randrange(5, 40)))
            guard.failure = lambda _: AWAY if next(refused, None) is not None else 0
        else:
            victim = {"runner": processes[0], "launcher": processes[min(1, len(processes) - 1)]}.get(what)
            with suppress(ProcessLookupError):
                os.kill(victim or lot.choice(processes[1:] or processes), signal.SIGKILL)
        self.life.kills[what] += 1


def _processes(vm: Vm) -> list[int]:
    """Returns the runner of the newest run, its command and what that started; empty where no command runs."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                folder = str(vm.home).encode()
                if b"run" in words[:4] and any(word.startswith(folder) for word in words):
                    return [int(process.name), *descendants(int(process.name))]
    return []


def _moment(job: Lived, lot: Random) -> Callable[[], bool]:
    """Returns whether the next kill is due: in two of three at a step, else after some seconds, whatever goes on."""
    step, at = lot.randrange(1, _LAST_KILL), time.monotonic() + lot.uniform(0.0, 15.0)
    if lot.random() < 1 / 3:
        return lambda: time.monotonic() >= at
    return lambda: job.step >= step


def lived(kind: str, nodes: int, kills: int, folder: Path, lot: Random) -> Life:
    """Runs one job of `nodes` VMs, which `kills` kills disturb."""
    shutil.rmtree(folder, ignore_errors=True)
    saved = folder / "saved" if kind == "jax" else folder
    saved.mkdir(parents=True)
    agent = folder / "agent.pyz"
    agent.write_bytes(bundle())
    script = str(_SCRIPTS / f"train_{kind}.py")
    launcher = [str(PYTHON)] if kind == "jax" else [str(PYTHON.with_name("torchrun"))]
    with gang_of(nodes, folder / "vms", agent) as gang:
        command = [*launcher, script, "--out", str(saved), "--steps", str(_STEPS)]
        # Its own: torchrun listens at all addresses of this computer, and would meet the other nodes' agents.
        port = str(free_port())
        gang.order(command, environment=ALONE, cancel_grace_s=30.0, heartbeat_s=0.3, gang={"port": port})
        gang.boot()
        job, began = Lived(gang, saved), time.monotonic()
        moment = _moment(job, lot)
        while not job.turn():
            assert time.monotonic() - began < _PATIENCE_S * (1 + kills), "it does not end"
            if sum(job.life.kills.values()) < kills and job.step < _LAST_KILL and moment():
                job.kill(lot)
                moment = _moment(job, lot)
            time.sleep(_LOOK_S)  # noqa: TID251 - real processes
        for vm in gang.vms:
            vm.finished()
        job.life.left = sum(len(_processes(vm)) for vm in gang.vms)
        where = folder
        job.life.finals = {path.read_text() for path in where.glob("final-*")}
        assert len(list(where.glob("final-*"))) == nodes
    return job.life


def main() -> int:
    """0 where all lives ended with the weights of an undisturbed one."""
    parser = argparse.ArgumentParser(prog="python -m tests.trainers.gangs_run", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="at least, of each kind and size")
    parser.add_argument("--seed", type=int, default=1, help="of the moments; their effect also depends on the machine")
    parser.add_argument("--gangs", nargs="*", default=["torch-2", "jax-2", "torch-4"], help="KIND-NODES")
    given = parser.parse_args()
    if not PYTHON.exists():
        print("The trainers' environment is not there: run `make trainers`.")
        return 2
    is_right = True
    for name in given.gangs:
        kind, _, nodes = name.partition("-")
        lot, killed, number = Random(f"{given.seed} {name}"), 0, 0
        plain = lived(kind, int(nodes), 0, _FOLDER / f"{name}-plain", lot)
        print(f"{name}: undisturbed, {plain.finals}", flush=True)
        while killed < given.kills:
            number += 1
            life = lived(kind, int(nodes), min(5, given.kills - killed), _FOLDER / f"{name}-{number}", lot)
            killed += sum(life.kills.values())
            right = life.finals == plain.finals and len(life.finals) == 1 and not life.left
            is_right = is_right and right
            words = ", ".join(f"{count} {what}" for what, count in sorted(life.kills.items()))
            course = f"{life.rounds} rounds, resumed at {life.resumed_at}, {life.torn} torn passed over"
            equal = "are equal" if right else "DIFFER"
            print(f"{name}, life {number}: killed {words or 'nothing'}; {course}; final weights {equal}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
