"""The VMs of a quarter: who makes which, for how long, and what becomes of them unless someone stops them first."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tests.scenario.fleet import HOUR, body, price_list
from tests.simulation.plan import Plan
from tests.simulation.settings import PROJECT, WILD, ZONES

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce import changes
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.groups import Group, service_agent
from costguard_sandbox.gce.pools import make_pool
from costguard_sandbox.gce.render import fingerprint
from costguard_sandbox.gce.vm import VM, Load, Status
from costguard_sandbox.world import World

DAY = 24 * HOUR
OWNERS = ("ana", "ben", "chiara", "cleo", "dana", "emi", "ghost")  # nobody in Slack is the ghost
_PROGRAM = "ci@acme-training.iam.gserviceaccount.com"
_MACHINES: Mapping[str, dict[str, Any]] = {
    "notebook": {"machine": "n1-standard-4", "gpu": ("nvidia-tesla-t4", 1)},
    "multi-gpu": {"machine": "a2-highgpu-8g"},
    "a100": {"machine": "a2-highgpu-1g"},
    "t4": {"machine": "n1-standard-4", "gpu": ("nvidia-tesla-t4", 1)},
    "other": {"machine": "n2-standard-4"},
}


_SERVICES: Mapping[str, dict[str, str]] = {
    "gke": {"goog-gke-node": "", "goog-k8s-cluster-name": "train", "goog-k8s-node-pool-name": "t4"},
    "old gke": {"goog-gke-node": ""},
    "dataproc": {"goog-dataproc-cluster-name": "etl"},
    "batch": {"batch-job-id": "eval", "batch-job-uid": "eval-1", "batch-node": "true"},
    "dataflow": {"goog-dataflow-job-id": "2026-10-01_00_00_00-1"},
}


def world_of(plan: Plan, clock: ManualClock) -> World:
    """The cloud and the Slack workspace of one life."""
    world = World(
        clock, projects=[PROJECT, WILD], seed=plan.seed,
        operation_retention=plan.aim.keeps_operations * HOUR, start_stamps_apart=plan.aim.are_stamps_apart,
    )  # fmt: skip
    world.prices = price_list()
    return world


@dataclass(frozen=True, slots=True)
class Made:
    """A VM as it was meant. `owner` is "" where a program made it; `lasts` until it is deleted, whatever its state."""

    preset: str
    owner: str
    is_protected: bool
    is_spot: bool
    lasts: timedelta

    @property
    def is_dear(self) -> bool:
        return self.preset == "multi-gpu" and not self.is_spot


@dataclass
class Fleet:
    """Everything that happens to people's VMs without the guard, each VM's life drawn from its own number."""

    world: World
    made: dict[int, Made] = field(default_factory=dict)  # by the VM's number
    happened: Counter[str] = field(default_factory=Counter)
    protected: dict[int, datetime] = field(default_factory=dict)  # since when, by the VM's number
    presets: tuple[float, ...] = ()
    moods: int = 0
    agentless: float = 0.0
    grouped: float = 0.0
    keepers: tuple[str, ...] = ()
    pools: list[Group] = field(default_factory=list)
    of_people: dict[int, str] = field(default_factory=dict)  # what keeps a VM, by its number

    def plan(self, plan: Plan) -> None:
        self.presets, self.moods, self.agentless = plan.aim.presets, plan.aim.moods, plan.aim.agentless
        self.grouped, self.keepers = plan.aim.grouped, plan.aim.keepers
        for planned in plan.vms:
            one = _Life(self, plan.lot("vm", planned.number))
            self.world.at(planned.at, one.create)
        for number in range(plan.aim.pools):
            self.world.at(plan.start + HOUR, partial(self._make_pool, plan.lot("pool", number), number))

    @property
    def kept(self) -> Mapping[int, str]:
        """Names what keeps VMs, by their numbers: `group`, `gke`, ... A pool's autoscaler removes nodes by itself."""
        return self.of_people | {vm.id: "gke" for pool in self.pools for vm in pool.ever}

    def _make_pool(self, chance: random.Random, number: int) -> None:
        zone = chance.choice(ZONES)
        template = body("node", zone, **_MACHINES["t4"], spot=False, labels={})
        pool = make_pool(self.world, WILD, zone, "train", f"t4-{number}", template, chance.randint(2, 4), smallest=1)
        self.pools.append(pool)
        for vm in pool.ever:
            idle_at = self.world.timeline.now + chance.uniform(1, 60) * HOUR
            self.world.at(idle_at, partial(vm.loads.append, (idle_at, Load.IDLE)))
            self.happened["made by a node pool"] += 1

    def protect(self, name: str, zone: str) -> None:
        """Labels it, as its owner would, at this very moment."""
        vm = self._made(name, zone)
        if vm is not None and vm.id not in self.protected:
            labels: dict[str, str] = vm.given.get("labels") or {}
            change = changes.labels({**labels, "costguard-protect": "true"}, fingerprint(labels))
            self.world.change("setLabels", PROJECT, zone, name, change)
            self.protected[vm.id] = self.world.timeline.now
            self.happened["protected by hand"] += 1

    def restart(self, name: str, zone: str, move: Callable[[timedelta], None]) -> None:
        """Stops it and starts it, as its owner would, which takes as long as the guard's slow look at it."""
        vm = self._made(name, zone)
        if vm is None or vm.status is not Status.RUNNING:
            return
        before = len(vm.runs)
        for verb in ("stop", "start"):
            operation = self.world.request(verb, PROJECT, zone, name, f"{self.made[vm.id].owner or 'ci'}@example.com")
            while not operation.is_done:
                move(timedelta(seconds=1))
        self.happened["started again by hand"] += len(vm.runs) > before

    def _made(self, name: str, zone: str) -> VM | None:
        """A VM of people's that is there."""
        there = (vm for vm in self.world.instances(PROJECT) if (vm.name, vm.zone) == (name, zone))
        return next((vm for vm in there if vm.id in self.made), None)


@dataclass
class _Life:
    fleet: Fleet
    chance: random.Random

    @property
    def world(self) -> World:
        return self.fleet.world

    def create(self) -> None:
        chance = self.chance
        kind = chance.choices(list(_MACHINES), self.fleet.presets)[0]
        is_spot = kind != "notebook" and chance.random() < 0.25
        owner = chance.choice(OWNERS) if chance.random() < 0.88 else ""
        # Few names, so that they are used again for other VMs.
        name = f"{kind}-{chance.randrange(12)}{'-prod' if chance.random() < 0.08 else ''}"
        labels = {"owner": owner} if owner else {}
        if kind == "notebook":
            labels["kind"] = "notebook"
        is_protected = name.endswith("-prod")
        if chance.random() < 0.05:
            labels["costguard-protect"], is_protected = "true", True
        zone = chance.choice(ZONES)
        made = Made(kind, owner, is_protected, is_spot, self._lasts(kind))
        wanted = body(name, zone, **_MACHINES[kind], spot=is_spot, labels=labels)
        is_kept = self.fleet.grouped > 0 and chance.random() < self.fleet.grouped
        keeper = self._belong(wanted, zone) if is_kept else ""
        user = f"{owner}@example.com" if owner else _PROGRAM
        if not self._try("made", lambda: self.world.insert(PROJECT, zone, wanted, user)):
            return
        try:
            vm = self.world.instance(PROJECT, name, zone)
        except Refused:
            return  # there was no room for it, as its operation says
        self.fleet.made[vm.id] = made
        if is_kept:
            self.fleet.of_people[vm.id] = keeper
        if is_protected:
            self.fleet.protected[vm.id] = vm.created_at
        self._later(made.lasts, "deleted", vm, lambda: self._ask("delete", vm))
        if not is_kept:
            self._live(vm, made)
        elif made.preset == "notebook":
            self._idle(vm)

    def _belong(self, wanted: dict[str, Any], zone: str) -> str:
        """Gives VMs to a managed group, of GKE or not, or to a service that labels its VMs. The kind of the keeper."""
        kind = self.chance.choice(self.fleet.keepers)
        wanted["labels"] |= _SERVICES.get(kind, {})
        if kind in ("group", "gke", "old gke"):
            group = f"projects/7/zones/{zone}/instanceGroupManagers/{'gke-train-' if kind != 'group' else ''}t4-grp"
            wanted["metadata"] = {"items": [{"key": "created-by", "value": group}]}
        if kind == "workbench":
            wanted["labels"] |= {
                "notebooks-product": "workbench-instances",
                "resource-name": f"book-of-{wanted['name']}",
            }
            wanted["metadata"] = {"items": [{"key": "notebooks-api", "value": "PROD"}]}
        self.fleet.happened[f"made by {kind}"] += 1
        return kind

    def _lasts(self, kind: str) -> timedelta:
        """Some are short, most are forgotten; what nobody stops and costs much is deleted after some days."""
        if self.chance.random() < 0.2:
            return self.chance.uniform(1, 7) * HOUR
        longest = 4 if kind == "multi-gpu" else 12
        return self.chance.uniform(1, longest) * DAY

    def _live(self, vm: VM, made: Made) -> None:
        chance = self.chance
        if made.preset == "notebook":
            self._idle(vm)
        if made.is_spot:
            for _ in range(2):
                struck = chance.uniform(1, 72) * HOUR
                self._later(struck, "preempted", vm, lambda: self.world.trigger("preempt", PROJECT, vm.name))
                if chance.random() < 0.7:
                    self._later(struck + chance.uniform(0.1, 5) * HOUR, "restarted", vm, lambda: self._ask("start", vm))
        if chance.random() < 0.15:
            at = chance.uniform(0, 2) * DAY
            self._later(at, "stopped by its owner", vm, lambda: self._ask("stop", vm))
        if chance.random() < 0.5:
            self._later(chance.uniform(2, 8) * DAY, "restarted", vm, lambda: self._ask("start", vm))

    def _idle(self, vm: VM) -> None:
        chance, fleet = self.chance, self.fleet
        if fleet.agentless and chance.random() < fleet.agentless:
            self._rest(vm, Load.NO_AGENT)
            fleet.happened["idle, its GPU never measured"] += 1
            return
        if chance.random() < 0.4:
            self._later(chance.uniform(1, 8) * HOUR, "came to be idle", vm, lambda: self._rest(vm, Load.IDLE))
            if chance.random() < 0.3:
                self._later(chance.uniform(9, 40) * HOUR, "worked again", vm, lambda: self._rest(vm, Load.BUSY))
        if fleet.moods:
            self._swing(vm, fleet.moods)

    def _swing(self, vm: VM, moods: int) -> None:
        """Idle and at work in turn, for hours; a third of them without the Ops Agent, which reads its GPUs."""
        idle, after = Load.NO_AGENT if self.chance.random() < 0.3 else Load.IDLE, timedelta()
        for _ in range(moods):
            after += self.chance.uniform(0.5, 4) * HOUR
            self._later(after, "came to be idle", vm, lambda: self._rest(vm, idle))
            after += self.chance.uniform(1, 5) * HOUR
            self._later(after, "worked again", vm, lambda: self._rest(vm, Load.BUSY))

    def _later(self, after: timedelta, what: str, vm: VM, act: Callable[[], object]) -> None:
        """Unless it is gone by then, and another one has its name."""

        def happen() -> None:
            if vm.status is not Status.DELETED:
                self._try(what, act)

        self.world.at(self.world.timeline.now + after, happen)

    def _ask(self, verb: str, vm: VM) -> None:
        if verb == "start" and vm.status is Status.SUSPENDED:
            verb = "resume"
        if verb == "start" and vm.status is not Status.TERMINATED:
            return
        owner = self.fleet.made[vm.id].owner
        if vm.id in self.fleet.of_people:  # its own group resizes
            self.world.request(verb, PROJECT, vm.zone, vm.name, service_agent(PROJECT))
            return
        self.world.request(verb, PROJECT, vm.zone, vm.name, f"{owner}@example.com" if owner else _PROGRAM)

    def _rest(self, vm: VM, load: Load) -> None:
        vm.loads.append((self.world.timeline.now, load))

    def _try(self, what: str, act: Callable[[], object]) -> bool:
        """Google refuses some of it, as it would."""
        try:
            act()
        except Refused:
            return False
        self.fleet.happened[what] += 1
        return True
