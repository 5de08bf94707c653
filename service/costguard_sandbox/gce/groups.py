"""Managed instance groups: what others stop or delete of their VMs is made again from the template.

A group repairs a VM "that fails or is deleted by an action not initiated by the MIG" on a fresh boot disk
(docs.cloud.google.com/compute/docs/instance-groups/about-repair). A stop counts: in kubernetes/autoscaler issue 283 a
stopped node's log says "expected instance status RUNNING but STOPPING found", then repair.recreateInstance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from costguard_sandbox.gce.catalogue.regions import project_number, stable_id
from costguard_sandbox.gce.errors import not_found
from costguard_sandbox.gce.operations import Failure, Target
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import VM, Status

_FAILED = frozenset({Status.STOPPING, Status.TERMINATED, Status.SUSPENDING, Status.SUSPENDED})
_COMING_UP = frozenset({Status.PROVISIONING, Status.STAGING})
_PATH = re.compile(r"projects/[^/]+/((?:zones|regions)/[^/]+)/instanceGroupManagers/([^/]+)$")


def group_of(vm: VM) -> str:
    """The path of the group that made it, as its metadata have it; "" for a VM of no group."""
    items = (vm.given.get("metadata") or {}).get("items") or ()
    path = next((str(item.get("value")) for item in items if item.get("key") == "created-by"), "")
    return path if "/instanceGroupManagers/" in path else ""


def service_agent(project: str) -> str:
    """Returns the account in whose name groups act: Google's own agent in the project."""
    return f"{project_number(project)}@cloudservices.gserviceaccount.com"


class RequestState(StrEnum):
    """The states of a resize request in compute v1."""

    ACCEPTED = "ACCEPTED"
    CREATING = "CREATING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(slots=True, eq=False)
class ResizeRequest:
    """A request for VMs of these names, all at once. `failure` is that of a FAILED one."""

    name: str
    id: int
    created_at: datetime
    names: tuple[str, ...]
    run_s: int
    state: RequestState = RequestState.ACCEPTED
    failure: Failure | None = None


@dataclass(slots=True, eq=False)
class Group:
    """A group, zonal or regional. `template` is the body of an insert, without what each VM has of its own.

    `repairs` is instanceLifecyclePolicy.defaultActionOnFailure: REPAIR or DO_NOTHING. `smallest` is given where an
    autoscaler removes idle VMs, down to that many.
    """

    project: str
    scope: str  # `zones/Z` or `regions/R`
    name: str
    created_at: datetime
    template: Mapping[str, Any]
    base_name: str
    repairs: bool = True
    smallest: int | None = None
    target_size: int = 0
    target_stopped: int = 0
    vms: list[VM] = field(default_factory=list)
    ever: list[VM] = field(default_factory=list)  # deleted ones too
    template_name: str = ""  # of a group that was made from a template
    resize_requests: dict[str, ResizeRequest] = field(default_factory=dict)  # by name
    is_going: bool = False  # its deletion was requested

    @property
    def zone(self) -> str:
        """Returns the zone of a zonal group."""
        return self.scope.rpartition("/")[2]

    @property
    def id(self) -> int:
        return int(stable_id(self.target_name))

    @property
    def target_name(self) -> str:
        return f"projects/{self.project}/{self.scope}/instanceGroupManagers/{self.name}"

    @property
    def target(self) -> Target:
        return Target(self.project, self.scope, f"instanceGroupManagers/{self.name}", self.id)

    @property
    def path(self) -> str:
        """Returns its path with the project's number, as the metadata of its VMs have it."""
        return f"projects/{project_number(self.project)}/{self.scope}/instanceGroupManagers/{self.name}"


@dataclass(eq=False)
class Groups:
    """`recreate` is given the VM with its state; `insert` makes a deleted one again, under its old name."""

    _timeline: Timeline
    _seed: int
    _recreate: Callable[[VM, Status], None]
    _insert: Callable[[VM], None]
    repairs: int = field(default=0, init=False)
    _groups: dict[tuple[str, str, str], Group] = field(default_factory=dict, init=False)
    _at_work: set[int] = field(default_factory=set, init=False)  # VMs that are noticed, or being recreated
    _deleting: set[int] = field(default_factory=set, init=False)
    _let_go: set[int] = field(default_factory=set, init=False)  # by the group itself, as when it is resized

    def of(self, project: str) -> Iterator[Group]:
        return (group for (owner, _, _), group in sorted(self._groups.items()) if owner == project)

    def find(self, project: str, scope: str, name: str) -> Group:
        """Raises Refused (404) where there is none."""
        group = self._groups.get((project, scope, name))
        if group is None:
            raise not_found(f"projects/{project}/{scope}/instanceGroupManagers/{name}")
        return group

    def has(self, project: str, scope: str, name: str) -> bool:
        return (project, scope, name) in self._groups

    def drop(self, group: Group) -> None:
        """Removes a group whose VMs are gone."""
        self._groups.pop((group.project, group.scope, group.name), None)

    def granted(self, vm: VM) -> bool:
        """Says whether a resize request that was granted makes this VM: its capacity is its own."""
        parsed = _PATH.search(group_of(vm))
        group = self._groups.get((vm.project, parsed[1], parsed[2])) if parsed is not None else None
        requests = group.resize_requests.values() if group is not None else ()
        return any(one.state is RequestState.CREATING and vm.name in one.names for one in requests)

    def declare(self, group: Group) -> Group:
        """Adds a group without VMs."""
        self._groups[group.project, group.scope, group.name] = group
        return group

    def joined(self, vm: VM, is_group: bool) -> None:
        """A VM was made. One whose `created-by` names a group that nobody declared makes it, as its template."""
        parsed = _PATH.search(group_of(vm))
        if parsed is None:
            return
        key = vm.project, parsed[1], parsed[2]
        if key not in self._groups:
            self.declare(Group(*key, self._timeline.now, vm.given, vm.name.rpartition("-")[0] or vm.name))
        group = self._groups[key]
        group.vms.append(vm)
        group.ever.append(vm)
        if not is_group and not self.granted(vm):
            group.target_size += 1

    def asked(self, verb: str, vm: VM, is_group: bool) -> None:
        """Notes a request for a VM, by its group or by others. The group's own change its size."""
        group = self.holding(vm)
        was_let_go = vm.id in self._let_go
        if is_group and verb in ("stop", "suspend", "delete"):
            self._let_go.add(vm.id)
        elif verb in ("start", "resume"):
            self._let_go.discard(vm.id)
        if verb == "delete":
            self._deleting.add(vm.id)
        if group is None or not is_group:
            return
        if verb == "delete":
            group.target_stopped -= was_let_go
            group.target_size -= not was_let_go
        elif verb in ("stop", "suspend") and not was_let_go:
            group.target_size, group.target_stopped = group.target_size - 1, group.target_stopped + 1
        elif verb in ("start", "resume") and was_let_go:
            group.target_size, group.target_stopped = group.target_size + 1, group.target_stopped - 1

    def changed(self, vm: VM) -> None:
        """A VM of a group that is not as its group wants it is repaired a minute or two later."""
        group = self.holding(vm)
        if group is None:
            return
        if vm.status is Status.DELETED:
            group.vms.remove(vm)
        if vm.id in self._let_go or not group.repairs:
            return
        looks_at = self._timeline.now + draw_duration(self._seed, "group looks", (vm.id, vm.transition))
        if vm.status is Status.RUNNING:
            self._at_work.discard(vm.id)
        elif vm.status is Status.DELETED:
            self._timeline.at(looks_at, lambda: self._made_again(vm))
        elif vm.status in _FAILED and vm.id not in self._at_work:
            self._at_work.add(vm.id)
            self._timeline.at(looks_at, lambda: self._repaired(vm))

    def holding(self, vm: VM) -> Group | None:
        """The group that has this VM."""
        parsed = _PATH.search(group_of(vm))
        group = self._groups.get((vm.project, parsed[1], parsed[2])) if parsed is not None else None
        return group if group is not None and vm in group.vms else None

    def action_of(self, vm: VM) -> str:
        """The group's current action for its VM, as listManagedInstances shows it."""
        if vm.id in self._deleting:
            return "DELETING"
        if vm.id in self._at_work:
            return "RECREATING"
        if vm.status is Status.STOPPING and vm.id in self._let_go:
            return "STOPPING"
        if vm.status in _COMING_UP:
            return "STARTING" if vm.runs else "CREATING"
        return "NONE"

    def wants_stopped(self, vm: VM) -> bool:
        return vm.id in self._let_go and vm.id not in self._deleting

    def _repaired(self, vm: VM) -> None:
        if vm.id in self._deleting or vm.id in self._let_go or vm.status not in _FAILED:
            self._at_work.discard(vm.id)
            return
        self.repairs += 1
        self._recreate(vm, vm.status)

    def _made_again(self, vm: VM) -> None:
        self.repairs += 1
        self._insert(vm)
