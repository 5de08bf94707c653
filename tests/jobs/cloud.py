"""A Compute Engine in memory for VMs of jobs: names, request ids, slow operations, stockouts, preemptions.

It is a `Launcher` and a `Cloud`. Everything in it happens by the clock that it is given.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any

from tests.fakes import HandClock
from tests.jobs.cloud_groups import GroupsInMemory
from tests.jobs.cloud_policies import CloudPolicies, PolicyCalls
from tests.jobs.cloud_vms import GUARD, Operation, Vm, shown

from costguard.errors import (
    AlreadyExists,
    CloudError,
    CloudUnavailable,
    NotFound,
    NoticeRefused,
    PermissionDenied,
    RateLimited,
    RequestRefused,
)
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape, Status
from costguard.model.launch import OperationAnswer, Quota, VmRequest, WayOut
from costguard.model.observation import Observation, OperationStatus, Presence, SeenOperation, Sighting

_MADE, _GONE, _STOPPED = "insert", "delete", "stop"
_RESTS, _VANISHES = "rests", "vanishes"  # what becomes of a VM that was preempted; no operation of Google's
_GRANTED, _UP, _EXPIRED = "granted", "up", "expired"  # what becomes of a request of flex-start
_UNSEEN = frozenset({_RESTS, _VANISHES, _GRANTED, _UP, _EXPIRED})


class CloudOfVms(PolicyCalls):
    """Faults: `stockouts`, `spot_stockouts` and `used_up` are zones; `refusals` zones that answer 400, with
    what they say.

    `deaf`: so many calls that change something are lost before they have an effect; `mute`: so many after it.
    `per_minute` is Google's limit on calls of a project that change something, and on those that look.
    """

    def __init__(self, clock: HandClock, insert_takes: float = 8, delete_takes: float = 20) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._insert_takes, self.delete_takes = timedelta(seconds=insert_takes), timedelta(seconds=delete_takes)
        self.all: list[Vm] = []
        self.stockouts: set[str] = set()
        self.spot_stockouts: set[str] = set()
        self.used_up: set[str] = set()
        self.room: dict[str, int] = {}  # zones that have room for so many more VMs
        self.refusals: dict[str, str] = {}
        # Zones in which flex-start is granted after a wait, or never (None); elsewhere at once.
        self.flex_waits: dict[str, timedelta | None] = {}
        self.flex_operations_wait = False  # whether the insert's operation is done with the grant alone
        self.without_notices: set[str] = set()  # zones that refuse the notice of a preemption
        self.nats: dict[str, str] = {}  # the Cloud NAT of each region
        self.hidden: set[str] = set()  # regions whose networks may not be read
        self.deaf = self.mute = 0
        self.asked_for: list[tuple[str, str]] = []  # name and request id of each insert, lost ones too
        self.policies = CloudPolicies(clock.now)
        self.per_minute: int | None = None
        self.calls: dict[str, int] = defaultdict(int)
        self.refused_calls = 0
        self._operations: dict[str, Operation] = {}
        self._by_request: dict[tuple[str, str], str] = {}
        self._there: dict[tuple[str, str, str], Vm] = {}
        self._by_id: dict[str, Vm] = {}
        self._pending: list[tuple[datetime, int, Operation]] = []
        self._begun = 0  # the order of those that are done at one moment
        self._spent: dict[tuple[str, str, int], int] = defaultdict(int)
        self.groups = GroupsInMemory(self)

    def __getstate__(self) -> dict[str, Any]:
        """A copy is another cloud, as this one stands now."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    def mark(self) -> str:
        """Equal for clouds that are alike."""
        marks = (self.all, sorted(self._operations.items()), self._by_request, self.policies.mark())
        return repr(marks) + self.groups.mark()

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        with self.called("look", project, changes=False):
            vm = self._there.get((project, zone, name))
            return (
                Sighting(vm.gce_id, vm.status, vm.started_at, dict(vm.labels), dict(vm.origin), vm.request.notice)
                if vm is not None
                else None
            )

    def insert(self, project: str, zone: str, vm: VmRequest, request_id: str) -> str:
        with self.called("insert", project):
            self.asked_for.append((vm.name, request_id))
            self.deafness()
            stored = self._by_request.get((project, request_id))
            if stored is None:
                stored = self._insert(project, zone, vm, request_id)
            self.muteness()
            return stored

    def start(self, project: str, zone: str, instance: str, request_id: str) -> str:
        with self.called("start", project):
            self.deafness()
            stored = self._by_request.get((project, request_id))
            if stored is None:
                vm = self._at(project, zone, instance)
                if vm.status is not Status.STOPPED:
                    raise RequestRefused(f"The resource {vm.name} is not ready.")
                error = _stockout(zone) if zone in self.stockouts else ("", "")
                if not error[0]:
                    vm.status = Status.STAGING
                stored = self._begin("start", vm, self._insert_takes, request_id, error)
            self.muteness()
            return stored

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        with self.called("stop", project):
            self.deafness()
            stored = self._by_request.get((project, request_id))
            if stored is None:
                vm = self._at(project, zone, instance)
                vm.status = Status.STOPPING
                stored = self._begin(_STOPPED, vm, self.delete_takes, request_id)
            self.muteness()
            return stored

    def delete(self, project: str, zone: str, instance: str, request_id: str) -> str:
        with self.called("delete", project):
            self.deafness()
            stored = self._by_request.get((project, request_id))
            if stored is None:
                vm = self._at(project, zone, instance)
                vm.status = Status.STOPPING
                stored = self._begin(_GONE, vm, self.delete_takes, request_id)
            self.muteness()
            return stored

    def operation(self, project: str, zone: str, operation: str) -> OperationAnswer | None:
        with self.called("operation", project, changes=False):
            result = self._operations.get(operation)
            if result is None or (result.project, result.zone) != (project, zone):
                return None
            is_done = result.done_at <= self._clock.now()
            error = result.error if is_done else ("", "")
            return OperationAnswer(is_done, result.target_id, *error)

    def quotas(self, project: str, region: str) -> Mapping[str, Quota]:
        with self.called("quotas", project, changes=False):
            return {}

    def way_out(self, project: str, region: str, network: str, subnetwork: str) -> WayOut:
        with self.called("way_out", project, changes=False):
            assert network
            if region in self.hidden:
                raise PermissionDenied(f"The service account may not read the routers of {region}.", "Grant it.")
            return WayOut(f"{subnetwork or 'default'} of {region}", self.nats.get(region, ""))

    # Google's list, as a pass reads it.

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        with self._lock:
            self._move_on()
            now = self._clock.now()
            mine = [vm for (owner, _, _), vm in self._there.items() if owner == project]
            operations = [self._seen_operation(one) for one in self._operations.values() if one.project == project]
            return Observation(
                project,
                now,
                tuple(shown(vm) for vm in mine),
                operations=tuple(operations),
                operations_through_at=now,
            )

    def forget(self, project: str, gce_ids: Collection[str]) -> None:
        """Does nothing: VMs come whole each time."""

    def presence(self, key: InstanceKey, zone: str, name: str) -> Presence:
        with self._lock:
            self._move_on()
            vm = self._there.get((key.project, zone, name))
            return Presence.THERE if vm is not None and vm.gce_id == key.gce_id else Presence.GONE

    def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
        return Shape(machine_type, 8, 30720) if machine_type == "n1-standard-8" else None

    # What happens to VMs.

    def preempt(self, *vms: Vm) -> None:
        """Google's notice is over: they stop, and are gone or stopped 30 s later."""
        with self._lock:
            self._move_on()
            for vm in vms:
                vm.status = Status.STOPPING
                serial = f"systemevent-{vm.gce_id}-{len(self._operations)}"
                kind = "compute.instances.preempted"
                self._note(serial, kind, vm, timedelta(), user="system")
                self._note(serial, _RESTS if vm.request.keeps_disk else _VANISHES, vm, timedelta(seconds=30))

    def remove(self, vm: Vm, user: str) -> None:
        """Someone deletes it in the console."""
        with self._lock:
            self._move_on()
            vm.status = Status.STOPPING
            self._note(f"by-hand-{len(self._operations)}", _GONE, vm, timedelta(), user=user)
            self._move_on()

    def stop_by_hand(self, vm: Vm, user: str) -> None:
        """Someone stops it in the console."""
        with self._lock:
            self._move_on()
            vm.status = Status.STOPPING
            self._note(f"by-hand-{len(self._operations)}", _STOPPED, vm, timedelta(), user=user)
            self._move_on()

    def there(self) -> list[Vm]:
        with self._lock:
            self._move_on()
            return list(self._there.values())

    def running(self) -> list[Vm]:
        return [vm for vm in self.there() if vm.status is Status.RUNNING]

    def ever(self, name: str) -> list[Vm]:
        return [vm for vm in self.all if vm.name == name]

    # For groups.

    def now(self) -> datetime:
        return self._clock.now()

    def present(self) -> list[Vm]:
        return list(self._there.values())

    def make(self, project: str, zone: str, vm: VmRequest, origin: Mapping[str, str]) -> None:
        """A group makes a VM, which is up as soon as any other."""
        made = Vm(str(70_000 + len(self.all)), project, zone, vm, self.now(), labels=dict(vm.labels))
        made.origin.update(origin)
        self.all.append(made)
        self._there[project, zone, vm.name] = self._by_id[made.gce_id] = made
        self._note(f"group-{made.gce_id}", _MADE, made, self._insert_takes, user="1@cloudservices.gserviceaccount.com")

    def begin_delete(self, vm: Vm) -> None:
        vm.status = Status.STOPPING
        user = "1@cloudservices.gserviceaccount.com"
        self._note(f"group-delete-{vm.gce_id}", _GONE, vm, self.delete_takes, user=user)

    # Within.

    def called(self, what: str, project: str, changes: bool = True) -> threading.RLock:
        with self._lock:
            self._move_on()
            self.calls[what] += 1
            minute = int(self._clock.now().timestamp()) // 60
            spent = (project, "write" if changes else "read", minute)
            if self.per_minute is not None and self._spent[spent] >= self.per_minute:
                self.refused_calls += 1
                raise RateLimited(f"Quota exceeded for project {project}.")
            self._spent[spent] += 1
        return self._lock

    def _insert(self, project: str, zone: str, vm: VmRequest, request_id: str) -> str:
        if zone in self.without_notices and vm.notice:
            raise NoticeRefused("Unknown name \"preemptionNoticeDuration\" at 'resource.scheduling'.")
        if zone in self.refusals:
            raise RequestRefused(self.refusals[zone])
        self.policies.check(project, zone, vm)
        if (project, zone, vm.name) in self._there:
            raise AlreadyExists(f"The resource {vm.name} already exists.")
        made = Vm(str(70_000 + len(self.all)), project, zone, vm, self._clock.now(), labels=dict(vm.labels))
        is_spot = vm.provisioning_model is ProvisioningModel.SPOT
        self.room = {name: left - (name == zone) for name, left in self.room.items()}
        is_full = zone in self.stockouts or self.room.get(zone, 0) < 0
        if is_full or (is_spot and zone in self.spot_stockouts):
            return self._begin(_MADE, made, self._insert_takes, request_id, _stockout(zone))
        if zone in self.used_up:
            error = ("QUOTA_EXCEEDED", f"Quota 'PREEMPTIBLE_NVIDIA_T4_GPUS' exceeded. Limit: 1.0 in {zone[:-2]}.")
            return self._begin(_MADE, made, self._insert_takes, request_id, error)
        is_flex, wait = vm.provisioning_model is ProvisioningModel.FLEX_START, self.flex_waits.get(zone, timedelta())
        if is_flex and wait != timedelta() and not vm.wait:
            return self._begin(_MADE, made, self._insert_takes, request_id, _stockout(zone))
        self.all.append(made)
        self._there[project, zone, vm.name] = self._by_id[made.gce_id] = made
        if is_flex and wait != timedelta():
            return self._queue(made, wait, request_id)
        return self._begin(_MADE, made, self._insert_takes, request_id)

    def _queue(self, vm: Vm, wait: timedelta | None, request_id: str) -> str:
        """It is PENDING until it is granted, or until its wait is over; then it is gone."""
        vm.status = Status.PENDING
        is_granted = wait is not None and wait <= vm.request.wait
        ends = wait if is_granted and wait is not None else vm.request.wait
        self._note(f"queue-{vm.gce_id}", _GRANTED if is_granted else _EXPIRED, vm, ends)
        if not self.flex_operations_wait:
            return self._begin(_MADE, vm, self._insert_takes, request_id)
        return self._begin(_MADE, vm, ends, request_id, ("", "") if is_granted else _stockout(vm.zone))

    def _begin(self, kind: str, vm: Vm, takes: timedelta, request_id: str, error: tuple[str, str] = ("", "")) -> str:
        serial = f"operation-{len(self._operations)}"
        self._note(serial, kind, vm, takes, error)
        self._by_request[vm.project, request_id] = serial
        return serial

    def _note(
        self,
        serial: str,
        kind: str,
        vm: Vm,
        takes: timedelta,
        error: tuple[str, str] = ("", ""),
        user: str = GUARD,
    ) -> None:
        now = self._clock.now()
        one = Operation(serial, kind, vm.project, vm.zone, vm.gce_id, vm.name, now, now + takes, error, user)
        self._begun += 1
        heappush(self._pending, (one.done_at, self._begun, one))
        if kind not in _UNSEEN:
            self._operations[serial] = one

    def _move_on(self) -> None:
        now = self._clock.now()
        self.groups.move_on()
        while self._pending and self._pending[0][0] <= now:
            one = heappop(self._pending)[2]
            vm = self._there.get((one.project, one.zone, one.target_name))
            if one.error[0] or vm is None or vm.gce_id != one.target_id:
                continue
            if one.kind in ("insert", "start") and vm.status in (Status.PROVISIONING, Status.STAGING):
                vm.status, vm.started_at = Status.RUNNING, one.done_at
            elif one.kind == _GRANTED and vm.status is Status.PENDING:
                vm.status = Status.PROVISIONING
                self._note(f"up-{vm.gce_id}", _UP, vm, self._insert_takes)
            elif one.kind == _UP and vm.status is Status.PROVISIONING:
                vm.status, vm.started_at = Status.RUNNING, one.done_at
            elif one.kind in (_GONE, _VANISHES) or (one.kind == _EXPIRED and vm.status is Status.PENDING):
                vm.gone_at = one.done_at
                del self._there[one.project, one.zone, one.target_name], self._by_id[vm.gce_id]
            elif one.kind in (_RESTS, _STOPPED) and vm.status is Status.STOPPING:
                vm.status, vm.stopped_at = Status.STOPPED, one.done_at

    def _at(self, project: str, zone: str, instance: str) -> Vm:
        vm = self._there.get((project, zone, instance)) or self._by_id.get(instance)
        if vm is not None and (vm.project, vm.zone) == (project, zone):
            return vm
        raise NotFound(f"There is no instance {instance} in {zone} of project {project}.")

    def deafness(self) -> None:
        if self.deaf > 0:
            self.deaf -= 1
            raise _no_answer()

    def muteness(self) -> None:
        if self.mute > 0:
            self.mute -= 1
            raise _no_answer()

    def _seen_operation(self, one: Operation) -> SeenOperation:
        is_done = one.done_at <= self._clock.now()
        return SeenOperation(
            project=one.project,
            operation_id=one.id,
            kind=one.kind,
            target_id=one.target_id,
            target_name=one.target_name,
            zone=one.zone,
            user=one.user,
            status=OperationStatus.DONE if is_done else OperationStatus.RUNNING,
            inserted_at=one.begun_at,
            started_at=one.begun_at,
            ended_at=one.done_at if is_done else None,
            error_code=one.error[0] or None if is_done else None,
            error_message=one.error[1] or None if is_done else None,
        )


def never_twice(cloud: CloudOfVms) -> None:
    """No name was ever given to two VMs, whatever became of the first."""
    names = [vm.name for vm in cloud.all]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def names(vms: Collection[Vm]) -> list[str]:
    return sorted(vm.name for vm in vms)


def _no_answer() -> CloudError:
    return CloudUnavailable("No answer came.")


def _stockout(zone: str) -> tuple[str, str]:
    return "ZONE_RESOURCE_POOL_EXHAUSTED", f"The zone '{zone}' does not have enough resources."
