"""Google wants capacity back: all Spot VMs of a place, or of a kind, are preempted at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from costguard_sandbox.gce.filters import compile_filter
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.render import instance_resource
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Which Spot VMs; `filter` is one of the API's, such as `labels.job:*`. What is empty does not narrow them down."""

    project: str = ""
    region: str = ""
    zone: str = ""
    filter: str = ""
    up_for: timedelta = timedelta(0)
    notice: timedelta | None = None


def reclaim(world: World, wanted: Reclaim) -> list[tuple[VM, Operation | None]]:
    """The VMs that were struck, and the preemption of each, unless its notice comes first. Raises BadFilter."""
    fits = compile_filter(wanted.filter)
    with world.settled():
        found = [
            vm
            for project in ([wanted.project] if wanted.project else world.projects)
            for vm in world.instances(project)
            if vm.is_spot
            and wanted.region in ("", vm.region)
            and wanted.zone in ("", vm.zone)
            and _is_up(world, vm, wanted.up_for)
            and fits(instance_resource(world.links, vm))
        ]
        return [(vm, world.strike_after_notice("preempt", vm.project, vm.name, vm.zone, wanted.notice)) for vm in found]


def _is_up(world: World, vm: VM, up_for: timedelta) -> bool:
    """One that is still coming up is struck, too, unless it must have been up for a while."""
    if vm.is_preempted:
        return False
    if not up_for:
        return vm.status in (Status.RUNNING, Status.PROVISIONING, Status.STAGING)
    return vm.status is Status.RUNNING and vm.last_start is not None and world.timeline.now - vm.last_start >= up_for
