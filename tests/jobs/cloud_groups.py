"""Managed instance groups of the Compute Engine in memory: templates, resize requests that wait, deletions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from tests.jobs.cloud_vms import Vm

from costguard.errors import AlreadyExists, NotFound, RequestRefused
from costguard.model.instance import Status
from costguard.model.launch import GroupAddress, GroupParts, ResizeAnswer, ResizeRequest, ResizeState, VmRequest
from costguard.model.ports import VmGroups

if TYPE_CHECKING:
    from tests.jobs.cloud import CloudOfVms

_PART_TAKES = timedelta(seconds=2)
_MAKING = (Status.PROVISIONING, Status.STAGING)


class _Stepping:
    """Takes a step before each call of a port and right after it."""

    def __init__(self, port: object, step: Callable[[], None]) -> None:
        self._port, self._step = port, step

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._port, name)

        def stepping_call(*given: Any) -> Any:
            self._step()
            answer = call(*given)
            self._step()
            return answer

        return stepping_call


def stepping(groups: GroupsInMemory, step: Callable[[], None]) -> VmGroups:
    """Returns groups at whose calls the process may end."""
    return cast("VmGroups", _Stepping(groups, step))


@dataclass
class Resize:
    """A resize request. `due_at` is when it is granted or fails; None: never."""

    wanted: ResizeRequest
    due_at: datetime | None
    failure: tuple[str, str] = ("", "")
    state: ResizeState = ResizeState.ACCEPTED


@dataclass
class VmGroup:
    there_at: datetime
    requests: dict[str, Resize] = field(default_factory=dict)
    is_going: bool = False


@dataclass
class GroupsInMemory:
    """`failures` are zones whose requests fail, with Google's code and words; `short` so many VMs of a grant that do
    not come, in a zone. Waits are the cloud's `flex_waits`.
    """

    cloud: CloudOfVms
    failures: dict[str, tuple[str, str]] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    templates: dict[tuple[str, str], tuple[datetime, VmRequest]] = field(default_factory=dict)
    groups: dict[tuple[str, str, str], VmGroup] = field(default_factory=dict)
    deleted_by_group: list[str] = field(default_factory=list)  # VMs
    cancelled: list[str] = field(default_factory=list)  # requests

    def mark(self) -> str:
        """Equal for groups that are alike."""
        return repr((self.templates, self.groups))

    # The port.

    def parts(self, group: GroupAddress) -> GroupParts:
        with self.cloud.called("parts", group.project, changes=False):
            template = self.templates.get((group.project, group.name))
            return GroupParts(template is not None and template[0] <= self._now, self._there(group) is not None)

    def insert_template(self, group: GroupAddress, vm: VmRequest, request_id: str) -> None:
        with self._changing(group, "insert_template"):
            assert vm.labels["costguard-group"] == group.name
            if (group.project, group.name) not in self.templates:
                self.templates[group.project, group.name] = (self._now + _PART_TAKES, vm)
            self.cloud.muteness()

    def insert_group(self, group: GroupAddress, request_id: str) -> None:
        with self._changing(group, "insert_group"):
            if (group.project, group.name) not in self.templates:
                raise NotFound(f"The resource 'instanceTemplates/{group.name}' was not found.")
            key = (group.project, group.zone, group.name)
            self.groups.setdefault(key, VmGroup(self._now + _PART_TAKES))
            self.cloud.muteness()

    def resize(self, group: GroupAddress, wanted: ResizeRequest, request_id: str) -> None:
        with self._changing(group, "resize"):
            made = self._must(group)
            if made.is_going:
                raise RequestRefused(f"The group {group.name} is being deleted.")
            if wanted.name not in made.requests:
                assert timedelta(minutes=10) <= wanted.max_run <= timedelta(days=7)
                self._free(group, wanted.vms)
                wait = self.cloud.flex_waits.get(group.zone, timedelta())
                due = None if wait is None else self._now + wait
                made.requests[wanted.name] = Resize(wanted, due, self.failures.get(group.zone, ("", "")))
            self.cloud.muteness()

    def resize_answer(self, group: GroupAddress, name: str) -> ResizeAnswer | None:
        with self.cloud.called("resize_answer", group.project, changes=False):
            made = self._there(group)
            request = made.requests.get(name) if made is not None else None
            return None if request is None else ResizeAnswer(request.state, *self._error(request))

    def cancel(self, group: GroupAddress, name: str, request_id: str) -> None:
        with self._changing(group, "cancel"):
            request = self._must(group).requests[name]
            if request.state is not ResizeState.ACCEPTED:
                raise RequestRefused(f"The resize request {name} is {request.state}.")
            request.state = ResizeState.CANCELLED
            self.cancelled.append(name)
            self.cloud.muteness()

    def delete_vms(self, group: GroupAddress, vms: Sequence[str], request_id: str) -> None:
        with self._changing(group, "delete_vms"):
            self._must(group)
            for vm in self._members(group):
                if vm.name in vms and vm.status is not Status.STOPPING:
                    self.deleted_by_group.append(vm.name)
                    self.cloud.begin_delete(vm)
            self.cloud.muteness()

    def delete_group(self, group: GroupAddress, request_id: str) -> None:
        with self._changing(group, "delete_group"):
            self._must(group).is_going = True
            self.cloud.muteness()

    def delete_template(self, group: GroupAddress, request_id: str) -> None:
        with self._changing(group, "delete_template"):
            if any(name == group.name for _, _, name in self.groups):
                raise RequestRefused(f"The template {group.name} is used by a group.")
            if self.templates.pop((group.project, group.name), None) is None:
                raise NotFound(f"The resource 'instanceTemplates/{group.name}' was not found.")
            self.cloud.muteness()

    # Within.

    def move_on(self) -> None:
        """Grants what is due, and takes groups away whose VMs are gone."""
        for key, made in list(self.groups.items()):
            group = GroupAddress(*key)
            for request in made.requests.values():
                self._move_request(group, made, request)
            if not made.is_going or any(one.state is ResizeState.CREATING for one in made.requests.values()):
                continue
            members = self._members(group)
            for vm in members:
                if vm.status is not Status.STOPPING:
                    self.cloud.begin_delete(vm)
            if not members:
                del self.groups[key]

    def _move_request(self, group: GroupAddress, made: VmGroup, request: Resize) -> None:
        if request.state is ResizeState.ACCEPTED and made.is_going:
            request.state = ResizeState.CANCELLED
        if request.state is ResizeState.ACCEPTED and request.due_at is not None and request.due_at <= self._now:
            missing = self.short.get(group.zone, 0)
            request.state = ResizeState.CREATING
            names = request.wanted.vms if not request.failure[0] else request.wanted.vms[: missing or 0]
            for name in names:
                self._make(group, request, name)
        if request.state is ResizeState.CREATING:
            making = [vm for vm in self._members(group) if vm.status in _MAKING and vm.name in request.wanted.vms]
            if not making:
                request.state = ResizeState.FAILED if request.failure[0] else ResizeState.SUCCEEDED

    def _make(self, group: GroupAddress, request: Resize, name: str) -> None:
        template = self.templates[group.project, group.name][1]
        vm = replace(template, name=name, max_run=request.wanted.max_run)
        path = f"projects/1/zones/{group.zone}/instanceGroupManagers/{group.name}"
        self.cloud.make(group.project, group.zone, vm, {"created-by": path})

    def _members(self, group: GroupAddress) -> list[Vm]:
        end = f"/{group.zone}/instanceGroupManagers/{group.name}"
        return [vm for vm in self.cloud.present() if vm.origin.get("created-by", "").endswith(end)]

    def _free(self, group: GroupAddress, names: Sequence[str]) -> None:
        taken = {vm.name for vm in self.cloud.present() if vm.project == group.project and vm.zone == group.zone}
        if clash := sorted(taken.intersection(names)):
            raise AlreadyExists(f"The resource {clash[0]} already exists.")

    def _there(self, group: GroupAddress) -> VmGroup | None:
        made = self.groups.get((group.project, group.zone, group.name))
        return made if made is not None and made.there_at <= self._now else None

    def _must(self, group: GroupAddress) -> VmGroup:
        if (made := self._there(group)) is None:
            raise NotFound(f"The resource 'instanceGroupManagers/{group.name}' was not found.")
        return made

    def _error(self, request: Resize) -> tuple[str, str]:
        return request.failure if request.state is ResizeState.FAILED else ("", "")

    def _changing(self, group: GroupAddress, what: str) -> RLock:
        lock = self.cloud.called(what, group.project)
        self.cloud.deafness()
        return lock

    @property
    def _now(self) -> datetime:
        return self.cloud.now()
