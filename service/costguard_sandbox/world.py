"""The simulated cloud: its projects, VMs, disks and operations, under one lock and one time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from costguard_sandbox.clock import WorldClock
from costguard_sandbox.gce import changes
from costguard_sandbox.gce.bulk import Bulks, Child
from costguard_sandbox.gce.catalogue.places import ZONES
from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.changes import Change
from costguard_sandbox.gce.durations import Durations
from costguard_sandbox.gce.errors import already_exists, bad_request, invalid, invalid_usage, not_found
from costguard_sandbox.gce.faults import Faults
from costguard_sandbox.gce.guests import Guests
from costguard_sandbox.gce.insertion import read_insert
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.making import Maker
from costguard_sandbox.gce.metadata_watch import Bells
from costguard_sandbox.gce.operations import Failure, Operation, OperationLog
from costguard_sandbox.gce.quotas import Usage, exceeded
from costguard_sandbox.gce.requests import Requests
from costguard_sandbox.gce.storage import Storage
from costguard_sandbox.gce.system_events import EVENTS, PREEMPT_IN_START, Strikes
from costguard_sandbox.gce.timeline import Timeline
from costguard_sandbox.gce.vm import VM, Disk, Load, Status
from costguard_sandbox.guest.machines import Machines, MachineSettings
from costguard_sandbox.slack.workspace import Workspace

DEFAULT_USER = "ana@example.com"


class World:
    """Everything that happens in it depends on the seed, the clock and what is asked, on nothing else.

    `begins` lies before the clock's time where a fleet already has a history. With
    `wait_moves_clock`, an operation's `wait` moves a ManualClock on to the operation's end.
    With `machines`, VMs that have a startup script really run, while the world is served.
    """

    def __init__(
        self,
        clock: WorldClock,
        *,
        projects: Iterable[str] = ("demo",),
        seed: int = 1,
        begins: datetime | None = None,
        operation_retention: timedelta = timedelta(days=14),
        wait_moves_clock: bool = False,
        base_url: str = "https://www.googleapis.com",
        machines: MachineSettings | None = None,
    ) -> None:
        self.clock = clock
        self.base_url = base_url
        self.links = f"{base_url}/compute/v1"
        self.projects = list(projects)
        self.wait_moves_clock = wait_moves_clock
        self.faults = Faults()
        self.prices = PriceList()
        self.slack = Workspace(clock, seed)
        self.operations = OperationLog(operation_retention)
        self.timeline = Timeline(clock, begins)
        self.usage = Usage()
        self.changes = 0  # grows with every change of a VM or disk
        self._lock = threading.RLock()
        self._new = Maker(seed, base_url)
        self._vms: dict[tuple[str, str, str], VM] = {}
        self._ever: list[VM] = []
        self._numbered: dict[int, VM] = {}
        self._named: dict[tuple[str, str], list[VM]] = {}
        self.bells = Bells()
        self.guests = Guests() if machines is None else Machines(machines, self.settled)
        self._lifecycle = Lifecycle(
            self.timeline,
            Durations(seed),
            self._capacity,
            self._remove,
            lambda vm, deleted: self._strikes.reached_run_limit(vm, deleted),
            self._changed,
            lambda vm, moment: self._strikes.starting(vm, moment),
            self.guests,
        )
        self.requests = Requests(self.timeline, self.operations, self._new)
        self._bulks = Bulks(self.requests, self._lifecycle, self._insert_one, self.instances)
        self._strikes = Strikes(
            self.timeline,
            self._lifecycle,
            self.guests,
            self.bells,
            self.requests.system_event,
            self.requests.begin,
        )
        self.storage = Storage(
            self.timeline,
            self._lifecycle,
            self.requests,
            self._new,
            self.usage,
            self.guests,
            self.settled,
            self._disk_changed,
        )

    # Being served.

    def serve_at(self, url: str) -> None:
        """VMs and apps are told this address from now on."""
        self.slack.base_url = url
        self.bells.open()
        self.guests.serve_at(url)

    def unserve(self) -> None:
        """Whoever waits for metadata gets an answer, and no VM has a process any more."""
        self.bells.close()
        self.guests.close()

    # Time.

    @contextmanager
    def settled(self) -> Iterator[World]:
        """Hold the world still, with everything done that is due."""
        with self._lock:
            self.timeline.settle()
            self.operations.forget_before(self.timeline.now)
            yield self

    @property
    def now(self) -> datetime:
        with self.settled():
            return self.timeline.now

    def advance(self, by: timedelta) -> None:
        """Move a clock that is moved by hand; everything due happens at its own moment, in order."""
        self.advance_to(self.clock.now() + by)

    def advance_to(self, moment: datetime) -> None:
        with self._lock:
            self.timeline.move_to(moment)

    def at(self, moment: datetime, act: Callable[[], None]) -> None:
        """Have something happen at a moment of the world's time."""
        with self._lock:
            self.timeline.at(moment, act)

    # Looking.

    def instances(self, project: str) -> list[VM]:
        """The project's VMs that exist, by zone and name."""
        with self.settled():
            found = [vm for (owner, _, _), vm in self._vms.items() if owner == project]
            return sorted(found, key=lambda vm: (vm.zone, vm.name))

    def every_vm(self) -> list[VM]:
        """All VMs there ever were, deleted ones too."""
        with self.settled():
            return list(self._ever)

    def instance(self, project: str, name: str, zone: str | None = None) -> VM:
        """The VM that has this name now. Raises Refused (404) when there is none."""
        with self.settled():
            if zone is not None and (found := self._vms.get((project, zone, name))):
                return found
            if zone is None and (named := self._named.get((project, name))):
                return named[0]
            numbered = self._numbered.get(int(name)) if name.isdecimal() else None
            if numbered is not None and (numbered.project, numbered.zone) == (project, zone):
                return numbered
        place = f"zones/{zone}/" if zone else ""
        raise not_found(f"projects/{project}/{place}instances/{name}")

    def numbered(self, number: int) -> VM | None:
        """The VM with this id, while it exists."""
        return self._numbered.get(number)

    def vm_at(self, project: str, zone: str, name: str) -> VM:
        vm = self._vms.get((project, zone, name))
        return vm if vm is not None else self.instance(project, name, zone)

    def disks(self, project: str) -> list[Disk]:
        """The project's disks that exist, by zone and name."""
        return self.storage.of(project)

    def every_disk(self) -> list[Disk]:
        """All disks there ever were, deleted ones too."""
        with self.settled():
            return list(self.storage.ever)

    # What users ask for.

    def insert(
        self, project: str, zone: str, body: Mapping[str, Any], user: str = DEFAULT_USER, request_id: str = ""
    ) -> Operation:
        with self.settled():
            if earlier := self.requests.earlier(project, request_id):
                return earlier
            if zone not in ZONES:
                raise invalid("zone", zone, "Unknown zone.")
            wanted = read_insert(zone, body, project)
            if (project, zone, wanted.name) in self._vms:
                raise already_exists(f"projects/{project}/zones/{zone}/instances/{wanted.name}")
            vm = self._new.vm(project, zone, wanted, self.timeline.now, self.storage.live)
            return self._begin_insert(vm, user, request_id).operation

    def bulk_insert(
        self, project: str, scope: str, body: Mapping[str, Any], user: str = DEFAULT_USER, request_id: str = ""
    ) -> Operation:
        """Many VMs in `zones/Z`, or in the zones of `regions/R` that have room for them."""
        with self.settled():
            if earlier := self.requests.earlier(project, request_id):
                return earlier
            return self._bulks.begin(project, scope, body, user, request_id)

    def _insert_one(self, project: str, zone: str, body: Mapping[str, Any], user: str, group: str) -> Child:
        wanted = read_insert(zone, body, project)
        vm = self._new.vm(project, zone, wanted, self.timeline.now, self.storage.live)
        return self._begin_insert(vm, user, group=group)

    def _begin_insert(self, vm: VM, user: str, request_id: str = "", group: str = "") -> Child:
        operation = self.requests.begin("insert", vm.target, user, request_id, group)
        if failure := self._capacity(vm):
            self._lifecycle.fail(operation, failure)
            return Child(operation, None, failure)
        self._vms[vm.project, vm.zone, vm.name] = vm
        self._ever.append(vm)
        self._numbered[vm.id] = vm
        self._named.setdefault((vm.project, vm.name), []).append(vm)
        self.storage.adopt(vm)
        self._changed(vm)
        self._lifecycle.accept(operation, vm)
        return Child(operation, vm, None)

    def ask(
        self, verb: str, project: str, zone: str, name: str, user: str = DEFAULT_USER, request_id: str = ""
    ) -> Operation:
        """start, stop, suspend, resume, delete or reset."""
        with self.settled():
            if earlier := self.requests.earlier(project, request_id):
                return earlier
            vm = self.vm_at(project, zone, name)
            if verb == "delete" and vm.given.get("deletionProtection"):
                # Google's words begin so, as gcloud prints them; how they go on is ours.
                what = f"deletionProtection on {vm.name} is true."
                raise invalid_usage(f"Resource cannot be deleted if it's protected against deletion. {what}")
            operation = self.requests.begin(verb, vm.target, user, request_id)
            self._lifecycle.accept(operation, vm)
            return operation

    def simulate_maintenance(self, vm: VM, user: str = DEFAULT_USER, request_id: str = "") -> Operation:
        """The host of a running VM goes into maintenance: the VM migrates or is terminated, as its policy says.

        The operation is the caller's; what the cloud then does to the VM is an event of its own.
        """
        with self.settled():
            if earlier := self.requests.earlier(vm.project, request_id):
                return earlier
            self._strikes.refuse("host-maintenance", vm)
            operation = self.requests.begin("simulateMaintenanceEvent", vm.target, user, request_id)
            self._lifecycle.carry_out(operation, "change", lambda: self._strikes.maintain(vm))
            return operation

    def start(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.ask("start", project, self.instance(project, name).zone, name, user)

    def stop(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.ask("stop", project, self.instance(project, name).zone, name, user)

    def suspend(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.ask("suspend", project, self.instance(project, name).zone, name, user)

    def resume(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.ask("resume", project, self.instance(project, name).zone, name, user)

    def delete(self, project: str, name: str, user: str = DEFAULT_USER) -> Operation:
        return self.ask("delete", project, self.instance(project, name).zone, name, user)

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
        """One of `changes`, under the operation type that it has at Google."""
        with self.settled():
            if earlier := self.requests.earlier(project, request_id):
                return earlier
            vm = self.vm_at(project, zone, name)
            failure = change(vm)
            if failure is None:
                vm.show(vm.status)
                self._changed(vm)
                self.bells.ring(vm.id)
            operation = self.requests.begin(kind, vm.target, user, request_id)
            self._lifecycle.carry_out(operation, "change", lambda: failure)
            return operation

    def set_labels(
        self, project: str, zone: str, name: str, labels: Mapping[str, str], seen: str, user: str = DEFAULT_USER
    ) -> Operation:
        return self.change("setLabels", project, zone, name, changes.labels(labels, seen), user)

    def set_metadata(
        self, project: str, zone: str, name: str, metadata: Mapping[str, Any], user: str = DEFAULT_USER
    ) -> Operation:
        return self.change("setMetadata", project, zone, name, changes.metadata(metadata), user)

    def set_scheduling(
        self, project: str, zone: str, name: str, scheduling: Mapping[str, Any], user: str = DEFAULT_USER
    ) -> Operation:
        return self.change("setScheduling", project, zone, name, changes.scheduling(scheduling), user)

    def set_load(self, project: str, name: str, load: Load) -> None:
        """What the VM's guest does from now on. Raises Refused (404) when there is none of that name."""
        with self.settled():
            self.instance(project, name).loads.append((self.timeline.now, load))

    # What the cloud does by itself.

    def strike(self, event: str, project: str, name: str, zone: str | None = None) -> Operation:
        """preempt, host-error, guest-shutdown, host-maintenance, recreate or migrate: one of EVENTS; at once.

        Raises Refused when there is no such VM, or when it is in no state (or not of a kind) for that.
        """
        if event == PREEMPT_IN_START:
            raise bad_request(f"{event} is announced and comes with the next start; nothing strikes at once")
        with self.settled():
            return self._strikes.strike(event, self._strikable(event, project, name, zone))

    def strike_after_notice(
        self, event: str, project: str, name: str, zone: str | None = None, notice: timedelta | None = None
    ) -> Operation | None:
        """Strikes once the VM's metadata have told of it for so long; None when that is still to come.

        Where no notice is given, a preemption takes the VM's own preemptionNoticeDuration. A VM that is not up yet
        has nobody to hear of it, and is struck at once.
        """
        with self.settled():
            vm = self._strikable(event, project, name, zone)
            if event == PREEMPT_IN_START:
                self._strikes.strike_in_start(vm)
                return None
            if notice is None:
                notice = vm.preemption_notice if event == "preempt" else timedelta(0)
            if not notice or vm.status is not Status.RUNNING:
                return self._strikes.strike(event, vm)
            self._strikes.strike_after(notice, event, vm)
            return None

    def _strikable(self, event: str, project: str, name: str, zone: str | None) -> VM:
        if event not in EVENTS:
            raise bad_request(f"unknown event {event!r}; expected one of {', '.join(EVENTS)}")
        vm = self.instance(project, name, zone)
        self._strikes.refuse(event, vm)
        return vm

    def preempt(self, project: str, name: str) -> Operation:
        return self.strike("preempt", project, name)

    # Inner workings.

    def _changed(self, vm: VM) -> None:
        self.changes += 1
        self.usage.follow(vm)

    def _disk_changed(self, vm: VM | None) -> None:
        self.changes += 1
        if vm is not None:
            vm.show(vm.status)
            self.bells.ring(vm.id)

    def _capacity(self, vm: VM) -> Failure | None:
        """Stockout is found before a quota is, so one request fails differently from zone to zone."""
        stockout = self.faults.stockout(vm.project, vm.zone, vm.shape, spot=vm.is_spot)
        return stockout or exceeded(self.faults, self.usage, vm)

    def _remove(self, vm: VM) -> None:
        del self._vms[vm.project, vm.zone, vm.name]
        del self._numbered[vm.id]
        self._named[vm.project, vm.name].remove(vm)
        if not self._named[vm.project, vm.name]:
            del self._named[vm.project, vm.name]
        self.bells.ring(vm.id)
        vm.deleted_at = self.timeline.now
        vm.show(Status.DELETED)
        self.storage.release(vm)
        self._changed(vm)
