"""Services of Google's that keep VMs and have a state of their own, which a stop behind their back contradicts.

A stop of the service's own stops its VM; of a stop by others the service learns nothing. What it begins is a
long-running operation, read by its name: https://google.aip.dev/151.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.faults import CloudFaults
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import VM, Status

_UP = frozenset({Status.RUNNING, Status.PENDING_STOP})


@dataclass(frozen=True, slots=True)
class States:
    """The service's words for the states of an instance."""

    made: str
    up: str
    stopping: str
    down: str
    starting: str


@dataclass(slots=True, eq=False)
class ServiceInstance:
    """An instance of a service, made from the labels of its VM. `path` is its name in the service's API."""

    vm: VM
    path: str
    state: str
    updated_at: datetime
    operation: ServiceOperation | None = None  # under way

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(slots=True, eq=False)
class ServiceOperation:
    """`error` is the sentence of one that failed."""

    name: str
    verb: str
    target: str
    begun_at: datetime
    is_done: bool = False
    error: str = ""


class _Requests(Protocol):
    def __call__(self, verb: str, project: str, zone: str, name: str, user: str) -> object: ...


@dataclass(eq=False)
class KeepingService(ABC):
    """Callers hold the cloud's lock. A service says which VMs are its own, and in whose name it acts."""

    _timeline: Timeline
    _seed: int
    _request: _Requests
    _faults: CloudFaults
    orphaned: set[tuple[int, int]] = field(default_factory=set, init=False)  # (VM, its run) that others stopped
    operations: dict[str, ServiceOperation] = field(default_factory=dict, init=False)  # by name
    _instances: dict[str, ServiceInstance] = field(default_factory=dict, init=False)  # by path
    _of_vms: dict[int, ServiceInstance] = field(default_factory=dict, init=False)

    states: States = field(init=False)

    @abstractmethod
    def path_of(self, vm: VM) -> str:
        """The path of the instance that has this VM; "" where the VM is not the service's."""

    @abstractmethod
    def agent(self, project: str) -> str:
        """Returns the account in whose name the service acts."""

    def joined(self, vm: VM) -> None:
        """A VM was made: by the service, where its labels say so."""
        if path := self.path_of(vm):
            instance = ServiceInstance(vm, path, self.states.made, self._timeline.now)
            self._instances[path] = self._of_vms[vm.id] = instance

    def asked(self, verb: str, vm: VM, user: str) -> None:
        """Notes a stop that others ask of an instance's VM. A deletion takes the instance with it."""
        if vm.id in self._of_vms and verb in ("stop", "suspend") and user != self.agent(vm.project):
            self.orphaned.add((vm.id, len(vm.runs)))

    def changed(self, vm: VM) -> None:
        instance = self._of_vms.get(vm.id)
        if instance is None:
            return
        if vm.status is Status.DELETED:
            del self._of_vms[vm.id]
            if self._instances.get(instance.path) is instance:
                del self._instances[instance.path]
        elif vm.status is Status.RUNNING and instance.state in (self.states.made, self.states.starting):
            self._settle(instance, self.states.up)
        elif vm.status is Status.TERMINATED and instance.state == self.states.stopping:
            self._settle(instance, self.states.down)

    def is_orphan(self, instance: ServiceInstance) -> bool:
        """Says whether the service takes it for running while its VM is down."""
        return instance.state == self.states.up and instance.vm.status not in _UP

    def of(self, project: str) -> Iterator[ServiceInstance]:
        return (one for path, one in sorted(self._instances.items()) if path.split("/")[1] == project)

    def at(self, path: str) -> ServiceInstance:
        """Raises Refused (404) where there is none."""
        if path not in self._instances:
            raise Refused(404, "", f"Resource '{path}' was not found", status="NOT_FOUND")
        return self._instances[path]

    def operation(self, name: str) -> ServiceOperation:
        """Raises Refused (404) where there is none."""
        if name not in self.operations:
            raise Refused(404, "", f"Resource '{name}' was not found", status="NOT_FOUND")
        return self.operations[name]

    def ask(self, verb: str, instance: ServiceInstance) -> ServiceOperation:
        """Stops or starts its VM. Refused in a state that does not allow it."""
        states = self.states
        wanted, shown = {"stop": (states.up, states.stopping), "start": (states.down, states.starting)}[verb]
        if instance.state != wanted:
            words = f"Instance {instance.path} is in state {instance.state}, not {wanted}."
            raise Refused(400, "", words, status="FAILED_PRECONDITION")
        now, location = self._timeline.now, "/".join(instance.path.split("/")[:4])
        name = f"{location}/operations/operation-{int(now.timestamp() * 1000)}-{instance.vm.id % 16**13:013x}"
        operation = self.operations[name] = ServiceOperation(name, verb, instance.path, now)
        instance.operation = operation
        self._show(instance, shown)
        error = self._faults.operation_error(instance.vm.project)
        self._timeline.at(
            now + draw_duration(self._seed, "begin", (instance.path, now.isoformat())),
            lambda: self._fail(instance, wanted, error) if error else self._do(verb, instance.vm),
        )
        return operation

    def _do(self, verb: str, vm: VM) -> None:
        if vm.status is not Status.DELETED:
            self._request(verb, vm.project, vm.zone, vm.name, self.agent(vm.project))

    def _fail(self, instance: ServiceInstance, state: str, error: str) -> None:
        if instance.operation is not None:
            instance.operation.error = error
        self._settle(instance, state)

    def _settle(self, instance: ServiceInstance, state: str) -> None:
        if instance.operation is not None:
            instance.operation.is_done, instance.operation = True, None
        self._show(instance, state)

    def _show(self, instance: ServiceInstance, state: str) -> None:
        instance.state, instance.updated_at = state, self._timeline.now
