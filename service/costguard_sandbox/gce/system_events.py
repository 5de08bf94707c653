"""What the cloud does to VMs by itself, at once or after a notice in their metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from costguard_sandbox.gce.catalogue.places import project_number
from costguard_sandbox.gce.errors import bad_request
from costguard_sandbox.gce.guests import Ending, Guests
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.metadata_watch import Bells
from costguard_sandbox.gce.operations import Operation, Target
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
"""The next start of a Spot VM is overtaken by a preemption before its operation ends, as two of three recorded were."""
EVENTS = (*_EVENTS, PREEMPT_IN_START)


class Strikes:
    def __init__(
        self,
        timeline: Timeline,
        lifecycle: Lifecycle,
        guests: Guests,
        bells: Bells,
        record: Callable[[str, Target, str], Operation],
        begin: Callable[[str, Target, str], Operation],
    ) -> None:
        self._timeline = timeline
        self._lifecycle = lifecycle
        self._guests = guests
        self._bells = bells
        self._record = record
        self._begin = begin
        self._to_preempt: set[int] = set()

    def refuse(self, event: str, vm: VM) -> None:
        """Raises Refused when this cannot happen to this VM, or not now."""
        if event != PREEMPT_IN_START and not self._lifecycle.can_be_struck(vm):
            raise bad_request(f"{vm.name} is {vm.status.value}; {event} can only strike a VM that is up or coming up")
        if event in ("preempt", PREEMPT_IN_START) and not vm.is_spot:
            raise bad_request(f"{vm.name} is not a Spot VM, so it is never preempted")
        if event == "migrate" and vm.scheduling["onHostMaintenance"] != "MIGRATE":
            raise bad_request(f"{vm.name} does not migrate: its onHostMaintenance is TERMINATE")

    def strike(self, event: str, vm: VM) -> Operation:
        kind, text = _EVENTS[event]
        place = f"projects/{project_number(vm.project)}/zones/{vm.zone}"
        operation = self._record(kind, vm.target, text.format(place=place, name=vm.name))
        self._tell(vm, event, is_now=True)
        ending = Ending.POWER_CUT if event == "host-error" else Ending.SHUTDOWN
        if event == "preempt":
            self._lifecycle.preempt(vm)
        elif event == "recreate":
            agent = f"{project_number(vm.project)}@cloudservices.gserviceaccount.com"
            self._lifecycle.recreate(vm, lambda: self._begin("insert", vm.target, agent))
        elif event in ("host-error", "host-maintenance") and vm.scheduling["automaticRestart"]:
            self._lifecycle.repair(vm, ending, lambda: self._restarted(vm))
        elif event != "migrate":
            self._lifecycle.shut_down(vm, ending)
        return operation

    def strike_in_start(self, vm: VM) -> None:
        """Once, at the next start that is asked for."""
        self._to_preempt.add(vm.id)

    def starting(self, vm: VM, moment: datetime) -> None:
        """A start has begun; `moment` lies shortly before its end."""
        if vm.id in self._to_preempt:
            self._to_preempt.remove(vm.id)
            self._strike_unless_changed("preempt", vm, moment)

    def maintain(self, vm: VM) -> None:
        """The VM's host goes into maintenance: the VM migrates or is terminated, as its policy says."""
        if vm.status is Status.RUNNING:
            self.strike("migrate" if vm.scheduling["onHostMaintenance"] == "MIGRATE" else "host-maintenance", vm)

    def strike_after(self, notice: timedelta, event: str, vm: VM) -> None:
        """A VM that is stopped or struck meanwhile is left alone. Where it really runs, the seconds are real ones."""
        self._tell(vm, event, is_now=False)
        speed = self._timeline.clock.speed if self._guests.has(vm) else 0
        self._strike_unless_changed(event, vm, self._timeline.now + notice * (speed or 1))

    def _strike_unless_changed(self, event: str, vm: VM, moment: datetime) -> None:
        seen = vm.transition

        def strike() -> None:
            if vm.transition == seen and self._lifecycle.can_be_struck(vm):
                self.strike(event, vm)

        self._timeline.at(moment, strike)

    def reached_run_limit(self, vm: VM, deleted: bool) -> None:
        verb = "deferredDelete" if deleted else "deferredStop"
        self._record(verb, vm.target, "Instance reached its maximum run duration or termination time.")

    def _restarted(self, vm: VM) -> None:
        self._record("automaticRestart", vm.target, "Instance automatically restarted by Compute Engine.")

    def _tell(self, vm: VM, event: str, *, is_now: bool) -> None:
        """In the VM's metadata."""
        if event == "preempt":
            vm.is_preempted = True
        elif event == "host-maintenance":
            vm.maintenance_event = "TERMINATE_ON_HOST_MAINTENANCE"
        elif event == "migrate":
            vm.maintenance_event = NO_MAINTENANCE if is_now else "MIGRATE_ON_HOST_MAINTENANCE"
        self._bells.ring(vm.id)
