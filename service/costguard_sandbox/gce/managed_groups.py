"""Instance templates, managed groups made of them, and resize requests: so many flex-start VMs all at once.

Rules: Google, "About resize requests in a MIG" (docs.cloud.google.com/compute/docs/instance-groups/
about-resize-requests-mig), and compute v1's discovery document: a request waits as ACCEPTED, where it costs nothing
and may be cancelled; is CREATING once it is granted, and then cannot be; a group that is deleted meanwhile goes once
the request has SUCCEEDED. Names of VMs may be chosen, as GoogleCloudPlatform/slurm-gcp (mig_flex.py) does. No record
of Google's refusals was found: their words are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from costguard_sandbox.gce.catalogue.regions import stable_id
from costguard_sandbox.gce.checks import check_name
from costguard_sandbox.gce.errors import Refused, already_exists, bad_request, invalid, not_found
from costguard_sandbox.gce.faults import CloudFaults, stockout_failure
from costguard_sandbox.gce.groups import Group, Groups, RequestState, ResizeRequest, service_agent
from costguard_sandbox.gce.lifecycle import Capacity, Lifecycle
from costguard_sandbox.gce.operations import Failure, Operation, OperationLog, Target
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import VM, Status

_LOOKS_EVERY = timedelta(seconds=30)  # ours: how soon capacity that is granted late is seen
_LEAST_RUN_S, _MOST_RUN_S = 600, 7 * 86_400  # "between 10 minutes and seven days"
_RESIZE = "compute.instanceGroupManagerResizeRequests"
_GROUPS = "compute.instanceGroupManagers"


@dataclass(frozen=True, slots=True)
class Template:
    """A global instance template; `properties` are those of a VM, with bare names of what its zone has."""

    project: str
    name: str
    created_at: datetime
    properties: Mapping[str, Any]

    @property
    def target(self) -> Target:
        path = f"instanceTemplates/{self.name}"
        return Target(self.project, "global", path, int(stable_id(f"{self.project}/{path}")))

    def body(self, zone: str) -> dict[str, Any]:
        """Returns the body of an insert in this zone, without a name."""
        made = {**self.properties, "machineType": _in_zone(zone, "machineTypes", self.properties.get("machineType"))}
        made["disks"] = [_disk(zone, disk) for disk in self.properties.get("disks") or ()]
        made["guestAccelerators"] = [
            {**one, "acceleratorType": _in_zone(zone, "acceleratorTypes", one.get("acceleratorType"))}
            for one in self.properties.get("guestAccelerators") or ()
        ]
        return made


@dataclass(eq=False)
class ManagedGroups:
    """Callers hold the cloud's lock. `probe` makes a VM of a body that belongs to nothing; `insert` inserts one."""

    _timeline: Timeline
    _seed: int
    _operations: OperationLog
    _lifecycle: Lifecycle
    _groups: Groups
    _faults: CloudFaults
    _capacity: Capacity
    _probe: Callable[[str, str, Mapping[str, Any]], VM]
    _insert: Callable[[str, str, Mapping[str, Any]], None]
    _request: Callable[[str, str, str, str, str], Operation]  # verb, project, zone, name, user
    templates: dict[tuple[str, str], Template] = field(default_factory=dict, init=False)

    # Templates.

    def template(self, project: str, name: str) -> Template:
        """Raises Refused (404) where there is none."""
        if (template := self.templates.get((project, name))) is None:
            raise not_found(f"projects/{project}/global/instanceTemplates/{name}")
        return template

    def insert_template(self, project: str, body: Mapping[str, Any], user: str, request_id: str) -> Operation:
        name, properties = str(body.get("name", "")), body.get("properties")
        check_name("resource.name", name)
        if not isinstance(properties, dict):
            raise invalid("resource.properties", properties, "Required.")
        if "/" in str(properties.get("machineType", "")):
            why = "Must be the name of a machine type, without its zone."
            raise invalid("resource.properties.machineType", properties["machineType"], why)
        if (project, name) in self.templates:
            raise already_exists(f"projects/{project}/global/instanceTemplates/{name}")
        template = Template(project, name, self._timeline.now, properties)
        operation = self._operations.begin("insert", template.target, user, request_id, request=body)
        self._lifecycle.carry_out(operation, "change", lambda: self._keep_template(template))
        return operation

    def _keep_template(self, template: Template) -> Failure | None:
        if (template.project, template.name) in self.templates:
            return Failure("RESOURCE_ALREADY_EXISTS", f"The resource '{template.target.resource}' already exists", 409)
        self.templates[template.project, template.name] = template
        return None

    def delete_template(self, project: str, name: str, user: str, request_id: str) -> Operation:
        template = self.template(project, name)
        users = [group.name for group in self._groups.of(project) if group.template_name == name]
        if users:
            what = f"projects/{project}/zones/*/instanceGroupManagers/{users[0]}"
            text = f"The instance_template resource '{template.target.resource}' is already being used by '{what}'"
            raise Refused(400, "resourceInUseByAnotherResource", text)
        operation = self._operations.begin("delete", template.target, user, request_id)
        self._lifecycle.carry_out(operation, "change", lambda: self._drop_template(project, name))
        return operation

    def _drop_template(self, project: str, name: str) -> None:
        self.templates.pop((project, name), None)

    # Groups.

    def insert_group(self, project: str, scope: str, body: Mapping[str, Any], user: str, request_id: str) -> Operation:
        """A group of no VMs: those come by resize requests."""
        name = str(body.get("name", ""))
        check_name("resource.name", name)
        template = self.template(project, last_part(str(body.get("instanceTemplate", ""))))
        if self._groups.has(project, scope, name):
            raise already_exists(f"projects/{project}/{scope}/instanceGroupManagers/{name}")
        if int(body.get("targetSize") or 0):
            raise bad_request("The simulated cloud makes a group from a template without VMs alone: targetSize 0.")
        policy = body.get("instanceLifecyclePolicy") or {}
        zone = scope.rpartition("/")[2]
        group = Group(
            project,
            scope,
            name,
            self._timeline.now,
            template.body(zone),
            str(body.get("baseInstanceName") or name),
            repairs=policy.get("defaultActionOnFailure", "REPAIR") == "REPAIR",
            template_name=template.name,
        )
        operation = self._operations.begin(f"{_GROUPS}.insert", group.target, user, request_id, request=body)
        self._lifecycle.carry_out(operation, "change", lambda: self._keep_group(group))
        return operation

    def _keep_group(self, group: Group) -> Failure | None:
        if self._groups.has(group.project, group.scope, group.name):
            return Failure("RESOURCE_ALREADY_EXISTS", f"The resource '{group.target_name}' already exists", 409)
        self._groups.declare(group)
        return None

    def delete_group(self, group: Group, user: str, request_id: str) -> Operation:
        """Takes its VMs along, and the requests that wait; one that is being granted is finished first."""
        operation = self._operations.begin(f"{_GROUPS}.delete", group.target, user, request_id)
        group.is_going = True
        for request in group.resize_requests.values():
            if request.state is RequestState.ACCEPTED:
                request.state = RequestState.CANCELLED
        self._timeline.at(self._timeline.now + timedelta(seconds=1), lambda: self._clear(group))
        self._lifecycle.follow(operation, lambda: not self._groups.has(group.project, group.scope, group.name), None)
        return operation

    def _clear(self, group: Group) -> None:
        """Deletes the VMs once nothing is being made any more, and the group once they are gone."""
        is_making = any(one.state is RequestState.CREATING for one in group.resize_requests.values())
        if not is_making and not group.vms:
            self._groups.drop(group)
            return
        if not is_making:
            for vm in group.vms:
                if self._groups.action_of(vm) != "DELETING":
                    self._request("delete", vm.project, vm.zone, vm.name, service_agent(vm.project))
        self._timeline.at(self._timeline.now + timedelta(seconds=5), lambda: self._clear(group))

    # Resize requests.

    def insert_request(self, group: Group, body: Mapping[str, Any], user: str, request_id: str) -> Operation:
        request = self._read(group, body)
        target = replace(group.target, path=f"{group.target.path}/resizeRequests/{request.name}", id=request.id)
        operation = self._operations.begin(f"{_RESIZE}.insert", target, user, request_id, request=body)
        group.resize_requests[request.name] = request
        group.target_size += len(request.names)
        probe = self._probe(group.project, group.zone, self._body(group, request, request.names[0]))
        fault = self._faults.flex_start(group.project, group.zone, probe.shape) if probe.is_flex_start else None
        patience = timedelta(seconds=fault.seconds) if fault else draw_duration(self._seed, "flex grant", request.id)
        if fault is None or not fault.never:
            due = self._timeline.now + patience
            self._timeline.at(due, lambda: self._look(group, request, fails=fault is not None and fault.fails))
        self._lifecycle.carry_out(operation, "change", lambda: None)
        return operation

    def cancel_request(self, group: Group, name: str, user: str, request_id: str) -> Operation:
        """Raises Refused (400) for a request that does not wait."""
        request = self.request(group, name)
        if request.state is not RequestState.ACCEPTED:
            raise bad_request(
                f"The resize request '{name}' is {request.state.value}: only ACCEPTED ones are cancelled."
            )
        operation = self._operations.begin(f"{_RESIZE}.cancel", group.target, user, request_id)
        request.state = RequestState.CANCELLED
        group.target_size -= len(request.names)
        self._lifecycle.carry_out(operation, "change", lambda: None)
        return operation

    def request(self, group: Group, name: str) -> ResizeRequest:
        """Raises Refused (404) where there is none."""
        if (request := group.resize_requests.get(name)) is None:
            raise not_found(f"{group.target_name}/resizeRequests/{name}")
        return request

    def _read(self, group: Group, body: Mapping[str, Any]) -> ResizeRequest:
        name = str(body.get("name", ""))
        check_name("resource.name", name)
        if name in group.resize_requests:
            raise already_exists(f"{group.target_name}/resizeRequests/{name}")
        if group.is_going:
            raise bad_request(f"The resource '{group.target_name}' is not ready")
        if group.repairs:
            raise bad_request("Resize requests need a group whose defaultActionOnFailure is DO_NOTHING.")
        affinity = (group.template.get("reservationAffinity") or {}).get("consumeReservationType")
        if affinity != "NO_RESERVATION":
            raise bad_request("Resize requests need a template whose consumeReservationType is NO_RESERVATION.")
        seconds = int((body.get("requestedRunDuration") or {}).get("seconds") or 0)
        if not _LEAST_RUN_S <= seconds <= _MOST_RUN_S:
            raise invalid("resource.requestedRunDuration.seconds", seconds, "Must be between 10 minutes and 7 days.")
        names = [str(one.get("name", "")) for one in body.get("instances") or ()]
        if names and body.get("resizeBy"):
            raise invalid("resource.resizeBy", body["resizeBy"], "Must not be set together with instances.")
        count = int(body.get("resizeBy") or 0)
        names = names or [f"{group.base_name}-{name}-{number}" for number in range(count)]
        if not names:
            raise invalid("resource.instances", "[]", "Required, or resizeBy.")
        for one in names:
            check_name("resource.instances[].name", one)
        taken = {vm.name for vm in group.ever if vm.status is not Status.DELETED}
        if clashes := sorted(taken.intersection(names)):
            raise already_exists(f"projects/{group.project}/zones/{group.zone}/instances/{clashes[0]}")
        number = int(stable_id(f"{group.target_name}/resizeRequests/{name}/{self._timeline.now.isoformat()}"))
        return ResizeRequest(name, number, self._timeline.now, tuple(names), seconds)

    def _look(self, group: Group, request: ResizeRequest, *, fails: bool) -> None:
        """Grants all VMs or none, and looks again while stock or quota lack."""
        if request.state is not RequestState.ACCEPTED:
            return
        probe = self._probe(group.project, group.zone, self._body(group, request, request.names[0]))
        if fails:
            request.state = RequestState.FAILED
            request.failure = stockout_failure(group.project, group.zone, probe.shape, [])
            group.target_size -= len(request.names)
            return
        count = len(request.names)
        shape = probe.shape
        probe.shape = replace(shape, vcpus=shape.vcpus * count, gpu_count=shape.gpu_count * count)
        if self._capacity(probe) is not None:
            self._timeline.at(self._timeline.now + _LOOKS_EVERY, lambda: self._look(group, request, fails=False))
            return
        try:
            bodies = [self._body(group, request, name) for name in request.names]
            for body in bodies:
                self._probe(group.project, group.zone, body)
        except Refused as refused:  # a disk of one of these names is there, such as
            request.state, request.failure = RequestState.FAILED, Failure("RESOURCE_ALREADY_EXISTS", str(refused), 409)
            group.target_size -= count
            return
        request.state = RequestState.CREATING
        for body in bodies:
            self._insert(group.project, group.zone, body)
        self._follow(group, request)

    def _follow(self, group: Group, request: ResizeRequest) -> None:
        vms = [vm for vm in group.ever if vm.name in request.names and vm.created_at >= request.created_at]
        if all(vm.status not in (Status.PROVISIONING, Status.STAGING) for vm in vms):
            request.state = RequestState.SUCCEEDED
            return
        self._timeline.at(self._timeline.now + timedelta(seconds=2), lambda: self._follow(group, request))

    def _body(self, group: Group, request: ResizeRequest, name: str) -> dict[str, Any]:
        scheduling = {**(group.template.get("scheduling") or {}), "maxRunDuration": {"seconds": str(request.run_s)}}
        metadata = group.template.get("metadata") or {}
        items = [*(metadata.get("items") or ()), {"key": "created-by", "value": group.path}]
        return {**group.template, "name": name, "scheduling": scheduling, "metadata": {**metadata, "items": items}}


def _in_zone(zone: str, kind: str, given: object) -> str:
    return f"zones/{zone}/{kind}/{last_part(str(given or ''))}"


def _disk(zone: str, disk: Mapping[str, Any]) -> dict[str, Any]:
    params = dict(disk.get("initializeParams") or {})
    if params.get("diskType"):
        params["diskType"] = _in_zone(zone, "diskTypes", params["diskType"])
    return {**disk, "initializeParams": params} if params else dict(disk)
