"""The simulated Compute Engine: projects, VMs, disks and operations, under one lock and one timeline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any, Self

from costguard_sandbox.clock import WorldClock
from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.gce.bulk import BulkInserts, Child
from costguard_sandbox.gce.capacity import FlexStart, Room, waits
from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.catalogue.regions import ZONES
from costguard_sandbox.gce.changes import Change
from costguard_sandbox.gce.disks import Storage
from costguard_sandbox.gce.errors import Refused, already_exists, bad_request, invalid, invalid_usage, not_found
from costguard_sandbox.gce.faults import CloudFaults
from costguard_sandbox.gce.filters import compile_filter
from costguard_sandbox.gce.group_requests import GroupRequests
from costguard_sandbox.gce.groups import Groups, service_agent
from costguard_sandbox.gce.guests import Guests, MetadataWatches
from costguard_sandbox.gce.insertion import Factory, read_insert
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.managed_groups import ManagedGroups
from costguard_sandbox.gce.operations import Ids, Operation, OperationLog
from costguard_sandbox.gce.quotas import Usage
from costguard_sandbox.gce.render import instance_resource
from costguard_sandbox.gce.reservations import Reservations
from costguard_sandbox.gce.rights import Rights
from costguard_sandbox.gce.system_events import EVENTS, PREEMPT_IN_START, Reclaim, SystemEvents
from costguard_sandbox.gce.timeline import Timeline
from costguard_sandbox.gce.tpus import Tpus
from costguard_sandbox.gce.vertex import Vertex
from costguard_sandbox.gce.vm import VM, Disk, Load, Status
from costguard_sandbox.gce.workbench import Workbench, Workstations

DEFAULT_USER = "ana@example.com"
Settled = Callable[[], AbstractContextManager[object]]
OnRefusal = Callable[[str, str, str, Mapping[str, Any], Refused], object]  # method, path, user, body


class Cloud:
    """A simulated cloud. Its history depends on the seed, the clock and the requests, on nothing else.

    `begins` lies before the clock's time where a fleet already has a history. With `wait_moves_clock`, an operation's
    `wait` moves a manual clock to the operation's end. With `start_stamps_apart`, the stamp of a start is written some
    tenths of a second after its operation ended. `guests` makes what runs inside VMs; by default nothing does.
    """

    def __init__(
        self,
        clock: WorldClock,
        *,
        projects: Iterable[str] = ("demo",),
        seed: int = 1,
        begins: datetime | None = None,
        operation_retention: timedelta = timedelta(days=14),
        start_stamps_apart: bool = False,
        base_url: str = "https://www.googleapis.com",
        guests: Callable[[Settled], Guests] | None = None,
    ) -> None:
        self.clock = clock
        self.base_url = base_url
        self.links = f"{base_url}/compute/v1"
        self.projects = list(projects)
        self.wait_moves_clock = False
        self.faults = CloudFaults(seed)
        self.rights = Rights()
        self.prices = PriceList()
        self.timeline = Timeline(clock, begins)
        ids = Ids(seed)
        self.operations = OperationLog(self.timeline, ids, self.links, operation_retention)
        self.usage = Usage()
        self.belongings: list[Belonging] = []
        self.changes = 0  # grows with every change of a VM or disk
        self.on_refusal: OnRefusal = lambda *_call: None
        self._lock = threading.RLock()
        self._factory = Factory(ids, base_url)
        self._vms: dict[tuple[str, str, str], VM] = {}
        self._ever: list[VM] = []
        self._by_id: dict[int, VM] = {}
        self._by_name: dict[tuple[str, str], list[VM]] = {}
        self.metadata_watches = MetadataWatches()
        self.guests = guests(self.settled) if guests else Guests()
        self.reservations = Reservations(self.timeline, self.belongings, self._vms.values, lambda: self._lifecycle)
        self._capacity = Room(self.faults, self.usage, self.reservations)
        self._lifecycle = Lifecycle(
            self.timeline,
            seed,
            self._capacity,
            self._remove,
            lambda vm, deleted: self._system_events.reached_run_limit(vm, deleted),
            self._changed,
            lambda vm, moment: self._system_events.starting(vm, moment),
            self.guests,
            lambda operation, vm: self.flex_start.wait(operation, vm),
            lambda vm: self.flex_start.withdraw(vm),
            start_stamps_apart,
        )
        held_back = (self.timeline, seed, self.faults, self._lifecycle, self._capacity, self._remove)
        self.flex_start = FlexStart(*held_back)
        self._bulk_inserts = BulkInserts(self.operations, self._lifecycle, self._insert_one, self.instances)
        parts = (self.timeline, self._lifecycle, self.guests, self.metadata_watches, self.operations)
        self._system_events = SystemEvents(*parts, lambda vm: self.storage.renew_boot_disk(vm))
        self._add_parts(seed)

    def _add_parts(self, seed: int) -> None:
        """Makes what keeps VMs and disks: groups, services, TPU nodes, storage."""
        self.groups = Groups(self.timeline, seed, self._system_events.repair, self._insert_again)
        parts = (self.timeline, seed, self.operations, self._lifecycle, self.groups)
        self.group_requests = GroupRequests(*parts, self.request, self._insert_for_group)
        made = (self.faults, self._capacity, self._probe, self._insert_for_group, self.request)
        self.managed_groups = ManagedGroups(*parts, *made)
        self.workbench = Workbench(self.timeline, seed, self.request, self.faults)
        self.workstations = Workstations(self.timeline, seed, self.request, self.faults)
        self.tpus = Tpus(self.timeline, seed)
        self.vertex = Vertex(self.timeline, seed)
        held = (self.timeline, self._lifecycle, self.operations, self._factory, self.usage, self.guests)
        self.storage = Storage(*held, self.settled, self._disk_changed)

    def serve_at(self, url: str) -> None:
        """Tell VMs the address of their metadata servers."""
        self.metadata_watches.open()
        self.guests.serve_at(url)

    def unserve(self) -> None:
        """Answer every request that waits for metadata, and end the processes of all VMs."""
        self.metadata_watches.close()
        self.guests.close()

    @contextmanager
    def settled(self) -> Iterator[Self]:
        """Lock the cloud, with every due event done."""
        with self._lock:
            self.timeline.settle()
            self.operations.drop_expired()
            yield self

    @property
    def now(self) -> datetime:
        with self.settled():
            return self.timeline.now

    def advance(self, by: timedelta) -> None:
        """Move a manual clock; every due event happens at its own moment, in order."""
        self.advance_to(self.clock.now() + by)

    def advance_to(self, moment: datetime) -> None:
        with self._lock:
            self.timeline.move_to(moment)

    def at(self, moment: datetime, act: Callable[[], None]) -> None:
        """Plan something for a moment."""
        with self._lock:
            self.timeline.at(moment, act)

    # Reading.

    def instances(self, project: str) -> list[VM]:
        """The project's VMs that exist, by zone and name."""
        with self.settled():
            vms = [vm for (owner, _, _), vm in self._vms.items() if owner == project]
            return sorted(vms, key=lambda vm: (vm.zone, vm.name))

    def every_vm(self) -> list[VM]:
        """All VMs there ever were, deleted ones too."""
        with self.settled():
            return list(self._ever)

    def instance(self, project: str, name: str, zone: str | None = None) -> VM:
        """Finds a VM by name, or in a zone by name or id. Raises Refused (404) when there is none."""
        with self.settled():
            if zone is not None and (vm := self._vms.get((project, zone, name))):
                return vm
            if zone is None and (named := self._by_name.get((project, name))):
                return named[0]
            numbered = self._by_id.get(int(name)) if name.isdecimal() else None
            if numbered is not None and (numbered.project, numbered.zone) == (project, zone):
                return numbered
        place = f"zones/{zone}/" if zone else ""
        raise not_found(f"projects/{project}/{place}instances/{name}")

    def instance_by_id(self, number: int) -> VM | None:
        """Finds a VM by its number, while it exists."""
        return self._by_id.get(number)

    def disks(self, project: str) -> list[Disk]:
        """The project's disks that exist, by zone and name."""
        return self.storage.of(project)

    # Requests of users.

    def insert(
        self, project: str, zone: str, body: Mapping[str, Any], user: str = DEFAULT_USER, request_id: str = ""
    ) -> Operation:
        with self.settled():
            if repeated := self.operations.repeated(project, request_id):
                return repeated
            if zone not in ZONES:
                raise invalid("zone", zone, "Unknown zone.")
            wanted = read_insert(zone, body, project)
            self.faults.check_notice(project, zone, wanted.given["scheduling"])
            if (project, zone, wanted.name) in self._vms:
                raise already_exists(f"projects/{project}/zones/{zone}/instances/{wanted.name}")
            vm = self._factory.vm(project, zone, wanted, self.timeline.now, self.storage.live)
            return self._begin_insert(vm, user, request_id, request=body).operation

    def bulk_insert(
        self, project: str, scope: str, body: Mapping[str, Any], user: str = DEFAULT_USER, request_id: str = ""
    ) -> Operation:
        """Many VMs in `zones/Z`, or in the zones of `regions/R` that have capacity."""
        with self.settled():
            if repeated := self.operations.repeated(project, request_id):
                return repeated
            return self._bulk_inserts.begin(project, scope, body, user, request_id)

    def _insert_one(self, project: str, zone: str, body: Mapping[str, Any], user: str, group: str) -> Child:
        return self._begin_insert(self._probe(project, zone, body), user, group=group, request=body)

    def _probe(self, project: str, zone: str, body: Mapping[str, Any]) -> VM:
        """Makes a VM that belongs to nothing, to see whether it can be had."""
        return self._factory.vm(project, zone, read_insert(zone, body, project), self.timeline.now, self.storage.live)

    def _insert_for_group(self, project: str, zone: str, body: Mapping[str, Any]) -> None:
        self._insert_one(project, zone, body, service_agent(project), "")

    def _insert_again(self, vm: VM) -> None:
        """Makes a VM that was deleted again, in its group's name, if nobody took its name meanwhile."""
        if (vm.project, vm.zone, vm.name) not in self._vms:
            self._insert_for_group(vm.project, vm.zone, vm.given)

    def _begin_insert(
        self, vm: VM, user: str, request_id: str = "", group: str = "", request: Mapping[str, Any] | None = None
    ) -> Child:
        operation = self.operations.begin("insert", vm.target, user, request_id, group, request)
        if waits(vm):
            vm.set_status(Status.PENDING)
        elif not self.groups.granted(vm) and (failure := self.flex_start.now_or_never(vm) or self._capacity(vm)):
            self._lifecycle.fail(operation, failure)
            return Child(operation, None, failure)
        vm.network_ip = self.guests.address(vm) or vm.network_ip
        self._vms[vm.project, vm.zone, vm.name] = vm
        self._ever.append(vm)
        self._by_id[vm.id] = vm
        self._by_name.setdefault((vm.project, vm.name), []).append(vm)
        self.groups.joined(vm, user == service_agent(vm.project))
        for service in (self.workbench, self.workstations):
            service.joined(vm)
        self.storage.adopt(vm)
        self._changed(vm)
        self._lifecycle.accept(operation, vm)
        return Child(operation, vm, None)

    def request(
        self, verb: str, project: str, zone: str, name: str, user: str = DEFAULT_USER, request_id: str = ""
    ) -> Operation:
        """start, stop, suspend, resume, delete or reset."""
        with self.settled():
            if repeated := self.operations.repeated(project, request_id):
                return repeated
            vm = self.instance(project, name, zone)
            if verb == "delete" and vm.given.get("deletionProtection"):
                # Google's words begin like this, as gcloud prints them; the rest is ours.
                what = f"deletionProtection on {vm.name} is true."
                raise invalid_usage(f"Resource cannot be deleted if it's protected against deletion. {what}")
            operation = self.operations.begin(verb, vm.target, user, request_id)
            self.groups.asked(verb, vm, user == service_agent(project))
            for service in (self.workbench, self.workstations):
                service.asked(verb, vm, user)
            self._lifecycle.accept(operation, vm)
            return operation

    def simulate_maintenance(self, vm: VM, user: str = DEFAULT_USER, request_id: str = "") -> Operation:
        """Host maintenance of a running VM: it migrates or is terminated, by its policy.

        The operation is the caller's; what then happens to the VM is a system event of its own.
        """
        with self.settled():
            if repeated := self.operations.repeated(vm.project, request_id):
                return repeated
            self._system_events.check("host-maintenance", vm)
            operation = self.operations.begin("simulateMaintenanceEvent", vm.target, user, request_id)
            self._lifecycle.carry_out(operation, "change", lambda: self._system_events.maintain(vm))
            return operation

    def start(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.request("start", project, self.instance(project, name).zone, name, user)

    def stop(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.request("stop", project, self.instance(project, name).zone, name, user)

    def suspend(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.request("suspend", project, self.instance(project, name).zone, name, user)

    def resume(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.request("resume", project, self.instance(project, name).zone, name, user)

    def delete(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.request("delete", project, self.instance(project, name).zone, name, user)

    def change(
        self,
        kind: str,
        project: str,
        zone: str,
        name: str,
        change: Change,
        user: str = DEFAULT_USER,
        request_id: str = "",
    ) -> Operation:
        """Makes one of `changes`, under Google's operation type for it."""
        with self.settled():
            if repeated := self.operations.repeated(project, request_id):
                return repeated
            vm = self.instance(project, name, zone)
            failure = change(vm)
            if failure is None:
                vm.set_status(vm.status)
                self._changed(vm)
                self.metadata_watches.wake(vm.id)
            operation = self.operations.begin(kind, vm.target, user, request_id)
            self._lifecycle.carry_out(operation, "change", lambda: failure)
            return operation

    def set_load(self, project: str, name: str, load: Load) -> None:
        """The load of the VM's guest from now on. Raises Refused (404) when there is no such VM."""
        with self.settled():
            self.instance(project, name).loads.append((self.timeline.now, load))

    # System events.

    def trigger(self, event: str, project: str, name: str, zone: str | None = None) -> Operation:
        """Triggers one of EVENTS, at once. Raises Refused for an unknown VM, or one to which it cannot happen now."""
        if event == PREEMPT_IN_START:
            raise bad_request(f"{event} comes with the VM's next start and cannot happen at once")
        with self.settled():
            return self._system_events.happen(event, self._target_of(event, project, name, zone))

    def trigger_after_notice(
        self, event: str, project: str, name: str, zone: str | None = None, notice: timedelta | None = None
    ) -> Operation | None:
        """The event's operation, or None when the VM's metadata announce it first: see SystemEvents."""
        with self.settled():
            vm = self._target_of(event, project, name, zone)
            return self._system_events.happen_after_notice(event, vm, notice)

    def _target_of(self, event: str, project: str, name: str, zone: str | None) -> VM:
        if event not in EVENTS:
            raise bad_request(f"unknown event {event!r}; expected one of {', '.join(EVENTS)}")
        vm = self.instance(project, name, zone)
        self._system_events.check(event, vm)
        return vm

    def preempt(self, project: str, name: str) -> Operation:
        return self.trigger("preempt", project, name)

    def reclaim(self, wanted: Reclaim) -> list[tuple[VM, Operation | None]]:
        """Preempt Spot VMs; None stands for a preemption that the VM's metadata announce first. Raises BadFilter."""
        fits = compile_filter(wanted.filter)
        with self.settled():
            vms = [
                vm
                for project in ([wanted.project] if wanted.project else self.projects)
                for vm in self.instances(project)
                if wanted.includes(vm, self.timeline.now) and fits(instance_resource(self.links, vm))
            ]
            return [
                (vm, self.trigger_after_notice("preempt", vm.project, vm.name, vm.zone, wanted.notice)) for vm in vms
            ]

    # Bookkeeping.

    def _changed(self, vm: VM) -> None:
        self.changes += 1
        self.usage.follow(vm)
        self.groups.changed(vm)
        for service in (self.workbench, self.workstations):
            service.changed(vm)

    def _disk_changed(self, vm: VM | None) -> None:
        self.changes += 1
        if vm is not None:
            vm.set_status(vm.status)
            self.metadata_watches.wake(vm.id)

    def _remove(self, vm: VM) -> None:
        del self._vms[vm.project, vm.zone, vm.name]
        del self._by_id[vm.id]
        self._by_name[vm.project, vm.name].remove(vm)
        if not self._by_name[vm.project, vm.name]:
            del self._by_name[vm.project, vm.name]
        self.metadata_watches.wake(vm.id)
        vm.deleted_at = self.timeline.now
        vm.set_status(Status.DELETED)
        self.storage.release(vm)
        self._changed(vm)
