"""Stand-ins for the engine's ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard.errors import CloudError, NotFound
from costguard.model.instance import InstanceKey, Status
from costguard.model.observation import Observation, Presence, Sighting


class FakeCloud:
    """Gives each project's observation as it was put in; VMs in `gone` answer 404 when asked for."""

    def __init__(self, observations: Mapping[str, Observation] | None = None) -> None:
        self.observations = dict(observations or {})
        self.gone: set[str] = set()
        self.unreachable: set[str] = set()
        self.asked: list[str] = []
        self.since: dict[str, datetime | None] = {}

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        self.since[project] = operations_since
        return self.observations[project]

    def presence(self, key: InstanceKey, zone: str, name: str) -> Presence:
        self.asked.append(key.gce_id)
        if key.gce_id in self.unreachable:
            return Presence.NOT_KNOWN
        return Presence.GONE if key.gce_id in self.gone else Presence.THERE


class HandClock:
    """Time that moves only when told."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def advance(self, span: timedelta) -> None:
        self.moment += span


@dataclass
class FakeVm:
    """What Google would know of one VM; a start is a new `started_at`."""

    gce_id: str
    status: Status = Status.RUNNING
    started_at: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict)


class FakeActuator:
    """VMs by (project, zone, name). A request id takes effect once, however often it comes.

    `troubles` are raised one a call, before anything is done; `lost` ones after it was done. None: no trouble.
    """

    def __init__(self, vms: Mapping[tuple[str, str, str], FakeVm] | None = None) -> None:
        self.vms = dict(vms or {})
        self.calls: list[tuple[str, str, str]] = []  # verb, id or name, request id
        self.effects: list[tuple[str, str]] = []  # verb, the VM's id
        self.troubles: list[CloudError | None] = []
        self.lost: list[CloudError | None] = []
        self.looks: list[CloudError | None] = []
        self._operations: dict[str, str] = {}

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        _raise_next(self.looks)
        vm = self.vms.get((project, zone, name))
        return Sighting(vm.gce_id, vm.status, vm.started_at, dict(vm.labels)) if vm is not None else None

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self._begin("stop", Status.STOPPING, project, zone, instance, request_id)

    def suspend(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self._begin("suspend", Status.SUSPENDING, project, zone, instance, request_id)

    def _begin(self, verb: str, status: Status, project: str, zone: str, instance: str, request_id: str) -> str:
        self.calls.append((verb, instance, request_id))
        _raise_next(self.troubles)
        if request_id not in self._operations:
            vm = self._at(project, zone, instance)
            self._operations[request_id] = str(9000 + len(self._operations))
            self.effects.append((verb, vm.gce_id))
            vm.status = status
        _raise_next(self.lost)
        return self._operations[request_id]

    def _at(self, project: str, zone: str, instance: str) -> FakeVm:
        for (owner, where, name), vm in self.vms.items():
            if (owner, where) == (project, zone) and instance in (name, vm.gce_id):
                return vm
        raise NotFound(f"There is no instance {instance} in {zone} of project {project}.")


def _raise_next(troubles: list[CloudError | None]) -> None:
    trouble = troubles.pop(0) if troubles else None
    if trouble is not None:
        raise trouble
