"""A job of several VMs in a simulated cloud, as a test sees it: its VMs, their processes, and what these wrote."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gangs import train_plain, watched
from tests.gangs.judge import Process, processes
from tests.scenario.training_ground import OWNER, TrainingWorld
from tests.trainers.bench_client import ALONE, PYTHON, ROOT

from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.guest.metadata import attributes
from costguard_vm.agent.watch.ranks import descendants

_SCRIPTS = ROOT / "tests" / "trainers" / "gangs"
_MARKED = {"framework": "marker", "pattern": "step-{step}/", "marker": "DONE"}
_BY_KIND: Mapping[str, tuple[Path, str, Mapping[str, str]]] = {
    "plain": (Path(train_plain.__file__), sys.executable, _MARKED),
    "torch": (_SCRIPTS / "train_torch.py", str(PYTHON.with_name("torchrun")), {"framework": "torch-dcp"}),
    "jax": (_SCRIPTS / "train_jax.py", str(PYTHON), {"framework": "orbax"}),
}
KINDS = tuple(_BY_KIND)
_WORK_H = 40  # so much that a round is worth ending for one VM more
_CRASHES = 50  # a rank that a test kills is a crash to the guard


@dataclass(frozen=True, slots=True)
class VmProcesses:
    """The processes of a job's VM by their ids; 0 and nothing where none runs."""

    agent: int
    runner: int
    command: tuple[int, ...]  # and what it started


class GangJob:
    """`home` is the folder of what it writes, which all of its VMs share, as they would a bucket; `least` is the least
    number of VMs of a gang that runs with what can be had.
    """

    def __init__(self, place: TrainingWorld, kind: str, nodes: int, home: str, least: int | None = None) -> None:
        self.place, self.kind, self.nodes = place, kind, nodes
        self.least = least or nodes
        self.home = place.folder / home
        self.saved = self.home / "saved"
        self.lives = self.home / "lives"
        self.id = ""
        self.asked_at = 0.0

    def launch(self, steps: int, *more: str, **body: Any) -> None:
        """Requests the job; `more` are options of its script."""
        self.saved.mkdir(parents=True)
        script, launcher, layout = _BY_KIND[self.kind]
        command = [launcher, watched.__file__, str(self.lives), str(script)]
        request = {
            "preset": "t4",
            "owner": OWNER,
            **({"nodes": self.nodes} if self.nodes > 1 else {}),
            **({"nodes": f"{self.least}..{self.nodes}", "work_hours": _WORK_H} if self.is_elastic else {}),
            "command": [*command, "--out", str(self.saved), "--steps", str(steps), *more],
            "checkpoint": {"location": f"file://{self.saved}", "resume": "--from {checkpoint}", **layout},
            **({} if self.kind == "plain" else {"environment": ALONE}),
            "max_crashes": _CRASHES,
            **body,
        }
        self.asked_at = time.monotonic()
        self.id = str(self.place.ask("jobs", request, Idempotency_Key=self.home.name)["job"]["id"])

    @property
    def is_elastic(self) -> bool:
        return self.least < self.nodes

    @property
    def widths(self) -> dict[int, int]:
        """Returns of how many nodes a process has begun, by round."""
        nodes = defaultdict[int, set[int]](set)
        for one in self.written:
            nodes[one.round].add(one.node)
        return {number: len(nodes[number]) for number in sorted(nodes)}

    @property
    def detail(self) -> dict[str, Any]:
        """Returns the job as the API has it."""
        detail: dict[str, Any] = self.place.ask(f"jobs/{self.id}")
        return detail

    @property
    def state(self) -> str:
        return str(self.detail["job"]["state"])

    @property
    def ended_early(self) -> dict[str, list[int]]:
        """Returns the nodes of attempts that another one of the same node followed, by how they ended."""
        by_outcome = defaultdict[str, list[int]](list)
        newest = set[int]()
        for one in sorted(self.detail["attempts"], key=lambda one: -int(one["number"])):
            if one["node"] in newest:
                by_outcome[str(one["outcome"])].append(one["node"])
            newest.add(one["node"])
        return by_outcome

    @property
    def finals(self) -> list[str]:
        """Returns what each node wrote of its last weights."""
        where = self.home if self.kind == "jax" else self.saved
        return [path.read_text() for path in sorted(where.glob("final-*"))]

    @property
    def step(self) -> int:
        """Returns the step of the newest checkpoint that was begun."""
        names = (path.name.rpartition("-")[2] for path in self.saved.iterdir())
        return max((int(name) for name in names if name.isdecimal()), default=0)

    @property
    def written(self) -> list[Process]:
        """Lists what its processes wrote down about how long they lived."""
        return processes(self.lives)

    def runs_in(self, number: int) -> bool:
        """Says whether a process of each node has begun in this round."""
        return len({one.node for one in self.written if one.round == number}) == self.nodes

    def runs_after(self, number: int) -> bool:
        """Says whether a process of each node has begun in one round later than this."""
        return any(self.runs_in(later) for later in range(number + 1, self.round + 1))

    @property
    def round(self) -> int:
        """Returns the newest round in which a process has begun; 0 before the first."""
        return max((one.round for one in self.written), default=0)

    @property
    def vms(self) -> list[VM]:
        """Lists its VMs that ever were, the oldest first: those whose command saves where this job does."""
        return [vm for vm in self.place.vms if str(self.saved) in attributes(vm).get("costguard-attempt", "")]

    @property
    def up(self) -> list[VM]:
        return [vm for vm in self.vms if vm.status is Status.RUNNING]

    def vm_of(self, node: int) -> VM | None:
        """Returns the node's VM that runs."""
        return next((vm for vm in self.up if node_of(vm) == node), None)

    def processes(self, vm: VM) -> VmProcesses:
        """Returns what runs on a VM of it now."""
        return processes_on(self.place.folder / "vms" / str(vm.boot_disk.id if vm.boot_disk else vm.id))


def settings_of(vm: VM) -> dict[str, Any]:
    """Returns the agent's settings from the VM's metadata; empty where it is no job's VM."""
    settings: dict[str, Any] = json.loads(attributes(vm).get("costguard-attempt", "{}"))
    return settings


def node_of(vm: VM) -> int:
    """Returns its place in the gang, from 0; 0 in a job of one VM."""
    return int(settings_of(vm).get("gang", {}).get("node", 0))


def processes_on(disk: Path) -> VmProcesses:
    """Returns the processes of the VM with this disk."""
    agent, runner = 0, 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if not any(word.startswith(bytes(disk)) for word in words) or b"-I" not in words[:2]:
                continue
            if b"run" in words[:4]:
                runner = int(entry.name)
            else:
                agent = int(entry.name)
    return VmProcesses(agent, runner, tuple(descendants(runner)) if runner else ())
