"""Requests to managed instance groups: stopInstances, startInstances, resize; and their autoscalers.

What compute v1's discovery document says of each method (revision 20261106): its operation is done when the request is
taken, and the VMs follow, by requests of the group in the name of Google's service agent.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import orjson

from costguard_sandbox.gce.catalogue.regions import project_number, zones_of
from costguard_sandbox.gce.errors import invalid
from costguard_sandbox.gce.groups import Group, Groups, service_agent
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.operations import Operation, OperationLog
from costguard_sandbox.gce.timeline import Timeline
from costguard_sandbox.gce.vm import VM, Load, Status

_LETTERS = "bcdfghjklmnpqrstvwxz0123456789"
_ZONE = re.compile(rb"zones/[a-z0-9-]+/")
_MOST_AT_ONCE = 1000  # VMs of one request
_UNNEEDED = timedelta(minutes=10)  # cluster-autoscaler's --scale-down-unneeded-time
_LOOKS_EVERY = timedelta(minutes=1)


class _Requests(Protocol):
    def __call__(self, verb: str, project: str, zone: str, name: str, user: str) -> Operation: ...


@dataclass(eq=False)
class GroupRequests:
    """Callers hold the cloud's lock. `insert` makes a VM of this body in a zone."""

    _timeline: Timeline
    _seed: int
    _operations: OperationLog
    _lifecycle: Lifecycle
    _groups: Groups
    _request: _Requests
    _insert: Callable[[str, str, Mapping[str, Any]], object]

    def stop(self, group: Group, instances: Sequence[str], user: str, request_id: str) -> Operation:
        """The VMs stay in the group, stopped, on their disks. Refused for one that is not running."""
        vms = self._named(group, instances, Status.RUNNING)
        return self._begin("stopInstances", group, user, request_id, lambda: self._ask("stop", vms))

    def start(self, group: Group, instances: Sequence[str], user: str, request_id: str) -> Operation:
        vms = self._named(group, instances, Status.TERMINATED)
        return self._begin("startInstances", group, user, request_id, lambda: self._ask("start", vms))

    def delete(self, group: Group, instances: Sequence[str], user: str, request_id: str) -> Operation:
        """The group is smaller by them, as when a cluster's autoscaler removes nodes."""
        vms = self._named(group, instances, None)
        return self._begin("deleteInstances", group, user, request_id, lambda: self._ask("delete", vms))

    def resize(self, group: Group, size: int, user: str, request_id: str) -> Operation:
        """VMs are made from the template, or the latest ones deleted."""
        return self._begin("resize", group, user, request_id, lambda: self.to_size(group, size))

    def to_size(self, group: Group, size: int) -> None:
        more = size - group.target_size
        if more < 0:
            going = [vm for vm in group.vms if not self._groups.wants_stopped(vm) and self._is_kept(vm)]
            self._ask("delete", going[more:])
            return
        for _ in range(more):
            group.target_size += 1
            zone = self._zone(group)
            self._insert(group.project, zone, self._body(group, zone))

    def watch(self, group: Group) -> None:
        """Removes idle VMs of an autoscaled group, through the group, as a cluster's autoscaler does."""
        self._timeline.at(self._timeline.now + _LOOKS_EVERY, lambda: self._look(group))

    def _look(self, group: Group) -> None:
        now, smallest = self._timeline.now, group.smallest or 0
        idle = [vm for vm in group.vms if vm.status is Status.RUNNING and _is_unneeded(vm, now)]
        idle = [vm for vm in idle if self._groups.action_of(vm) == "NONE"]
        going = idle[: max(0, group.target_size - smallest)]
        if going:
            number = project_number(group.project)
            user = f"service-{number}@container-engine-robot.iam.gserviceaccount.com"
            self.delete(group, [vm.target.resource for vm in going], user, "")
        self.watch(group)

    def _begin(self, verb: str, group: Group, user: str, request_id: str, act: Callable[[], None]) -> Operation:
        operation = self._operations.begin(f"compute.instanceGroupManagers.{verb}", group.target, user, request_id)
        self._lifecycle.carry_out(operation, "change", act)
        return operation

    def _ask(self, verb: str, vms: Sequence[VM]) -> None:
        for vm in vms:
            if vm.status is not Status.DELETED:
                self._request(verb, vm.project, vm.zone, vm.name, service_agent(vm.project))

    def _named(self, group: Group, instances: Sequence[str], status: Status | None) -> list[VM]:
        if not 0 < len(instances) <= _MOST_AT_ONCE:
            raise invalid("instances", len(instances), f"Must name from 1 to {_MOST_AT_ONCE} instances.")
        by_end = {f"zones/{vm.zone}/instances/{vm.name}": vm for vm in group.vms}
        vms = []
        for index, url in enumerate(instances):
            vm = by_end.get("/".join(url.split("/")[-4:]))
            if vm is None:
                raise invalid(f"instances[{index}]", url, f"It is no instance of the group {group.name}.")
            if status is not None and vm.status is not status:
                raise invalid(f"instances[{index}]", url, f"Its status is {vm.status.value}, not {status.value}.")
            vms.append(vm)
        return vms

    def _is_kept(self, vm: VM) -> bool:
        return self._groups.action_of(vm) != "DELETING"

    def _zone(self, group: Group) -> str:
        """The group's zone; of a region, the one with the fewest of its VMs."""
        kind, _, place = group.scope.partition("/")
        if kind == "zones":
            return place
        return min(zones_of(place), key=lambda zone: sum(vm.zone == zone for vm in group.vms))

    def _body(self, group: Group, zone: str) -> dict[str, Any]:
        """A template names no zone; one that was taken from a VM names that VM's."""
        draw = random.Random(f"{self._seed}/{group.target_name}/{len(group.vms)}/{self._timeline.now.isoformat()}")
        end = "".join(draw.choices(_LETTERS, k=4))
        template = orjson.loads(_ZONE.sub(f"zones/{zone}/".encode(), orjson.dumps(group.template)))
        items = [item for item in (template.get("metadata") or {}).get("items") or () if item["key"] != "created-by"]
        items.append({"key": "created-by", "value": group.path})
        return {**template, "name": f"{group.base_name}-{end}", "metadata": {"items": items}}


def _is_unneeded(vm: VM, now: datetime) -> bool:
    since = vm.loads[-1][0] if vm.loads else None
    return since is not None and vm.load_at(now) is Load.IDLE and now - since >= _UNNEEDED
