"""System events: what the cloud does to VMs by itself, at once or after a notice in their metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.errors import bad_request
from costguard_sandbox.gce.groups import group_of, service_agent
from costguard_sandbox.gce.guests import Ending, Guests, MetadataWatches
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.operations import Operation, OperationLog
from costguard_sandbox.gce.timeline import Timeline
from costguard_sandbox.gce.vm import NO_MAINTENANCE, VM, Status

_EVENTS: Mapping[str, tuple[str, str]] = {
    "preempt": ("preempted", "Instance was preempted."),
    "host-error": ("hostError", "Instance terminated by Compute Engine due to a host error."),
    "guest-shutdown": ("guestTerminate", "Instance terminated by guest OS shutdown."),
    "host-maintenance": ("terminateOnHostMaintenance", "Instance terminated during Compute Engine maintenance."),
    "recreate": (
        "repair.recreateInstance",
        "Instance Group Manager '{place}/instanceGroupManagers/{name}' initiated recreateInstance on instance "
        "'{place}/instances/{name}'. Reason: instance's current action is VERIFYING, but health status is TIMEOUT.",
    ),
    "migrate": ("migrateOnHostMaintenance", "Instance migrated during Compute Engine maintenance."),
}
PREEMPT_IN_START = "preempt-in-start"
"""The next start of a Spot VM is preempted before its operation ends, as two of three recorded starts were."""
EVENTS = (*_EVENTS, PREEMPT_IN_START)


@dataclass(frozen=True, slots=True)
class Reclaim:
    """The Spot VMs that Google preempts at once to win capacity back; an empty value does not narrow them down.

    `filter` is one of the API's, such as `labels.job:*`. With `up_for`, only VMs that have run at least that long.
    """

    project: str = ""
    region: str = ""
    zone: str = ""
    filter: str = ""
    up_for: timedelta = timedelta(0)
    notice: timedelta | None = None

    def includes(self, vm: VM, now: datetime) -> bool:
        """Says whether a VM is included, by everything but the filter.

        A VM that is still coming up is, unless it must have been up.
        """
        if not vm.is_spot or vm.is_preempted or self.region not in ("", vm.region) or self.zone not in ("", vm.zone):
            return False
        if not self.up_for:
            return vm.status in (Status.RUNNING, Status.PROVISIONING, Status.STAGING)
        return vm.status is Status.RUNNING and vm.last_start is not None and now - vm.last_start >= self.up_for


@dataclass(eq=False)
class SystemEvents:
    """Makes system events happen and records them as operations. Callers hold the cloud's lock."""

    _timeline: Timeline
    _lifecycle: Lifecycle
    _guests: Guests
    _watches: MetadataWatches
    _operations: OperationLog
    _renew_boot_disk: Callable[[VM], None]
    _preempted_in_start: set[int] = field(default_factory=set, init=False)

    def check(self, event: str, vm: VM) -> None:
        """Raises Refused when the event cannot happen to this VM, or not now."""
        if event != PREEMPT_IN_START and not self._lifecycle.is_up(vm):
            raise bad_request(f"{vm.name} is {vm.status.value}; {event} needs a VM that is running or starting")
        if event in ("preempt", PREEMPT_IN_START) and not vm.is_spot:
            raise bad_request(f"{vm.name} is not a Spot VM, so it is never preempted")
        if event == "migrate" and vm.scheduling["onHostMaintenance"] != "MIGRATE":
            raise bad_request(f"{vm.name} does not migrate: its onHostMaintenance is TERMINATE")

    def happen(self, event: str, vm: VM) -> Operation:
        kind, text = _EVENTS[event]
        number = project_number(vm.project)
        text = text.format(place=f"projects/{number}/zones/{vm.zone}", name=vm.name)
        operation = self._operations.record_event(kind, vm.target, text)
        self._show_in_metadata(vm, event, is_now=True)
        ending = Ending.POWER_CUT if event == "host-error" else Ending.SHUTDOWN
        if event == "preempt":
            self._lifecycle.preempt(vm)
        elif event == "recreate":
            self._recreate(vm)
        elif event in ("host-error", "host-maintenance") and vm.scheduling["automaticRestart"]:
            self._lifecycle.repair(vm, ending, lambda: self._record_restart(vm))
        elif event != "migrate":
            self._lifecycle.shut_down(vm, ending)
        return operation

    def repair(self, vm: VM, status: Status) -> None:
        """Recreates the VM, as its managed instance group does on finding it in this state."""
        kind, text = _EVENTS["recreate"]
        place = f"projects/{project_number(vm.project)}/zones/{vm.zone}"
        why = f"expected instance status RUNNING but {status.value} found"
        text = f"{text.partition('Reason: ')[0]}Reason: {why}.".format(place=place, name=vm.name)
        self._operations.record_event(kind, vm.target, text)
        self._recreate(vm)

    def _recreate(self, vm: VM) -> None:
        def insert() -> Operation:
            if group_of(vm):
                self._renew_boot_disk(vm)
            return self._operations.begin("insert", vm.target, service_agent(vm.project), request=vm.given)

        self._lifecycle.recreate(vm, insert)

    def happen_after_notice(self, event: str, vm: VM, notice: timedelta | None) -> Operation | None:
        """The event's operation, or None when the VM's metadata announce it first.

        Without a `notice`, a preemption uses the VM's preemptionNoticeDuration; other events happen at once, as does
        every event of a VM that is not running yet. Where the VM runs processes, the notice is in real seconds. A VM
        that changes its state in the meantime is left alone.
        """
        if event == PREEMPT_IN_START:
            self._preempted_in_start.add(vm.id)
            return None
        if notice is None:
            notice = vm.preemption_notice if event == "preempt" else timedelta(0)
        if not notice or vm.status is not Status.RUNNING:
            return self.happen(event, vm)
        self._show_in_metadata(vm, event, is_now=False)
        speed = self._timeline.clock.speed if self._guests.has(vm) else 0
        self._happen_unless_changed(event, vm, self._timeline.now + notice * (speed or 1))
        return None

    def starting(self, vm: VM, moment: datetime) -> None:
        """A start has begun; `moment` lies shortly before its end."""
        if vm.id in self._preempted_in_start:
            self._preempted_in_start.remove(vm.id)
            self._happen_unless_changed("preempt", vm, moment)

    def maintain(self, vm: VM) -> None:
        """The VM's host goes into maintenance: the VM migrates or is terminated, by its policy."""
        if vm.status is Status.RUNNING:
            self.happen("migrate" if vm.scheduling["onHostMaintenance"] == "MIGRATE" else "host-maintenance", vm)

    def _happen_unless_changed(self, event: str, vm: VM, moment: datetime) -> None:
        seen = vm.transition

        def happen() -> None:
            if vm.transition == seen and self._lifecycle.is_up(vm):
                self.happen(event, vm)

        self._timeline.at(moment, happen)

    def reached_run_limit(self, vm: VM, deleted: bool) -> None:
        verb = "deferredDelete" if deleted else "deferredStop"
        text = "Instance reached its maximum run duration or termination time."
        self._operations.record_event(verb, vm.target, text)

    def _record_restart(self, vm: VM) -> None:
        text = "Instance automatically restarted by Compute Engine."
        self._operations.record_event("automaticRestart", vm.target, text)

    def _show_in_metadata(self, vm: VM, event: str, *, is_now: bool) -> None:
        if event == "preempt":
            vm.is_preempted = True
        elif event == "host-maintenance":
            vm.maintenance_event = "TERMINATE_ON_HOST_MAINTENANCE"
        elif event == "migrate":
            vm.maintenance_event = NO_MAINTENANCE if is_now else "MIGRATE_ON_HOST_MAINTENANCE"
        self._watches.wake(vm.id)
