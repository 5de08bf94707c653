"""Changes VMs while the guard looks at them, and uses words of Google's that it does not know yet."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.simulation.plan import Plan
from tests.simulation.settings import WILD

from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

if TYPE_CHECKING:
    from tests.simulation.life import Life

_SECOND = timedelta(seconds=1)
_OPERATIONS = f"projects/{WILD}/aggregated/operations"
_RUNS = re.compile(rb'("status":\s*)"RUNNING"')
_MOST = 6  # VMs that are stopped or started in one look


class Glances:
    """VMs of the second project stop and start just before they are listed, up to a minute before operations are."""

    def __init__(self, world: World, move: Callable[[timedelta], None], plan: Plan) -> None:
        self._world = world
        self._move = move
        self._plan = plan
        self._looks = 0
        self.is_over = False  # nothing happens any more

    def stir(self) -> None:
        """Changes VMs; called before each pass."""
        self._looks += 1
        lot = self._plan.lot("glance", self._looks)
        if not self.is_over and lot.random() < self._plan.aim.glances:
            vms = self._world.instances(WILD)
            for vm in lot.sample(vms, min(_MOST, len(vms))):
                self._change(vm)
                self._move(lot.choice((0.05, 1, 4, 12)) * _SECOND)

    def before(self, path: str) -> None:
        """Changes VMs; called before each GET."""
        if path.endswith(_OPERATIONS):
            lot = self._plan.lot("glance at operations", self._looks)
            if not self.is_over and lot.random() < self._plan.aim.glances:
                self._move(lot.uniform(1, 60) * _SECOND)

    def _change(self, vm: VM) -> None:
        verb = {Status.RUNNING: "stop", Status.TERMINATED: "start", Status.SUSPENDED: "resume"}.get(vm.status)
        if verb is not None:
            with suppress(Refused):
                self._world.request(verb, WILD, vm.zone, vm.name, "ana@example.com")


def meddle(life: Life, path: str) -> None:
    """A person protects a VM, or starts it again, just as the guard looks at it once more before it acts."""
    parts = path.split("/")
    if len(parts) < 4 or parts[-2] != "instances" or parts[-4] != "zones":
        return
    life.counts["looks at one VM"] += 1
    lot, aim, (name, zone) = life.plan.lot("meddle", life.counts["looks at one VM"]), life.plan.aim, parts[:-4:-2]
    if lot.random() < aim.meddles:
        life.fleet.protect(name, zone)
    elif lot.random() < aim.restarts:
        life.fleet.restart(name, zone, life.move)


def newer_words(path: str, body: bytearray) -> bytearray:
    """Returns Google's answer about the second project, with a status that is newer than every client, and as long."""
    if f"projects/{WILD}/" not in path or "instances" not in path:
        return body
    return bytearray(_RUNS.sub(rb'\1"HEALING"', bytes(body)))
