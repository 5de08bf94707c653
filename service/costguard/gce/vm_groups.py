"""Groups of VMs that are requested all at once, through Google's client: templates, resize requests, deletions.

Google's rules for flex-start: the template is FLEX_START with NO_RESERVATION, and the group repairs nothing and has no
autoscaler ("About resize requests in a MIG"). The bodies are as GoogleCloudPlatform/slurm-gcp sends them
(mig_flex.py): a group of target size 0 with `defaultActionOnFailure` DO_NOTHING, then a request with names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costguard.errors import AlreadyExists
from costguard.gce.actions import vm_body
from costguard.gce.errors import LAUNCHING
from costguard.gce.official import Official, must_be
from costguard.model.launch import GroupAddress, GroupParts, ResizeAnswer, ResizeRequest, ResizeState, VmRequest

_GROUPS, _TEMPLATES = "InstanceGroupManagersClient", "InstanceTemplatesClient"
_REQUESTS = "InstanceGroupManagerResizeRequestsClient"
_STATES = {state.value: state for state in ResizeState}


class ComputeGroups:
    """Thread-safe. Nothing is repeated here. Each thing is known by its name, so that a repeat makes no second one.

    CloudUnavailable means that a change may have begun; after any other CloudError it has not.
    """

    def __init__(self, official: Official) -> None:
        self._official = official

    def parts(self, group: GroupAddress) -> GroupParts:
        """Returns what is there of a group."""
        has_group = self._group(group) is not None
        return GroupParts(has_group or self._template(group) is not None, has_group)

    def insert_template(self, group: GroupAddress, vm: VmRequest, request_id: str) -> None:
        """Begins to make its template, of the VMs that `vm` describes but for the name."""
        body = {"name": group.name, "properties": _properties(group.zone, vm)}
        request = {"project": group.project, "instance_template_resource": body, "request_id": request_id}
        self._begin(_TEMPLATES, "insert", f"The insert of instance template {group.name}", group, request)

    def insert_group(self, group: GroupAddress, request_id: str) -> None:
        """Begins to make the group, without VMs."""
        body = {
            "name": group.name,
            "instance_template": f"projects/{group.project}/global/instanceTemplates/{group.name}",
            "target_size": 0,
            "instance_lifecycle_policy": {"default_action_on_failure": "DO_NOTHING"},
            "update_policy": {"type_": "OPPORTUNISTIC"},
        }
        request = {**_place(group), "instance_group_manager_resource": body, "request_id": request_id}
        self._begin(_GROUPS, "insert", f"The insert of {_words(group)}", group, request)

    def resize(self, group: GroupAddress, wanted: ResizeRequest, request_id: str) -> None:
        """Asks for VMs of these names, all at once."""
        body = {
            "name": wanted.name,
            "instances": [{"name": name} for name in wanted.vms],
            "requested_run_duration": {"seconds": int(wanted.max_run.total_seconds())},
        }
        resource = "instance_group_manager_resize_request_resource"
        request = {**_names(group), resource: body, "request_id": request_id}
        self._begin(_REQUESTS, "insert", f"Resize request {wanted.name} of {_words(group)}", group, request)

    def resize_answer(self, group: GroupAddress, name: str) -> ResizeAnswer | None:
        """Returns how a resize request stands; None where there is none."""
        what = f"Reading resize request {name} of {_words(group)}"
        read = self._read(_REQUESTS, what, group, f"/resizeRequests/{name}", {**_names(group), "resize_request": name})
        if read is None:
            return None
        must_be("instanceGroupManagerResizeRequest", read, name, f"{what} of project {group.project}", group.zone)
        error = next(iter(read.status.error.errors), None)
        return ResizeAnswer(
            _STATES.get(read.state, ResizeState.UNKNOWN),
            error.code if error is not None else "",
            str(error.message) if error is not None else "",
        )

    def cancel(self, group: GroupAddress, name: str, request_id: str) -> None:
        """Takes a request that waits out of the queue."""
        request = {**_names(group), "resize_request": name, "request_id": request_id}
        self._begin(_REQUESTS, "cancel", f"The cancel of resize request {name} of {_words(group)}", group, request)

    def delete_vms(self, group: GroupAddress, vms: Sequence[str], request_id: str) -> None:
        """Begins to delete VMs of the group, by their names; those that are none of it are passed over."""
        body = {
            "instances": [f"zones/{group.zone}/instances/{name}" for name in vms],
            "skip_instances_on_validation_error": True,
        }
        resource = "instance_group_managers_delete_instances_request_resource"
        request = {**_names(group), resource: body, "request_id": request_id}
        self._begin(_GROUPS, "delete_instances", f"The delete of VMs by {_words(group)}", group, request)

    def delete_group(self, group: GroupAddress, request_id: str) -> None:
        """Begins to delete the group, with its VMs and the requests that wait. NotFound where it is gone."""
        request = {**_names(group), "request_id": request_id}
        self._begin(_GROUPS, "delete", f"The delete of {_words(group)}", group, request)

    def delete_template(self, group: GroupAddress, request_id: str) -> None:
        """Begins to delete the template, which no group may use any more. NotFound where it is gone."""
        request = {"project": group.project, "instance_template": group.name, "request_id": request_id}
        self._begin(_TEMPLATES, "delete", f"The delete of instance template {group.name}", group, request)

    def _group(self, group: GroupAddress) -> Any | None:
        what = f"Reading {_words(group)}"
        read = self._read(_GROUPS, what, group, f"/instanceGroupManagers/{group.name}", _names(group))
        if read is not None:
            must_be("instanceGroupManager", read, group.name, f"{what} of project {group.project}", group.zone)
        return read

    def _template(self, group: GroupAddress) -> Any | None:
        what = f"Reading instance template {group.name}"
        names = {"project": group.project, "instance_template": group.name}
        read = self._read(_TEMPLATES, what, group, f"/instanceTemplates/{group.name}", names)
        if read is not None:
            must_be("instanceTemplate", read, group.name, f"{what} of project {group.project}")
        return read

    def _read(self, client: str, what: str, group: GroupAddress, path: str, names: dict[str, Any]) -> Any | None:
        """Returns what Google has; None where this very thing, or the group that it is of, is not there."""
        missing = (path, f"/instanceGroupManagers/{group.name}")  # which Google names where it is not there itself
        return self._official.call(client, "get", what, group.project, LAUNCHING, missing, request=names)

    def _begin(self, client: str, verb: str, what: str, group: GroupAddress, request: dict[str, Any]) -> None:
        """Asks once. What is there already counts as done: its name is of this very group alone."""
        try:
            self._official.operation_of(client, verb, what, group.project, LAUNCHING, request)
        except AlreadyExists:
            return


def _words(group: GroupAddress) -> str:
    return f"instance group {group.name} in {group.zone}"


def _place(group: GroupAddress) -> dict[str, Any]:
    return {"project": group.project, "zone": group.zone}


def _names(group: GroupAddress) -> dict[str, Any]:
    return {**_place(group), "instance_group_manager": group.name}


def _properties(zone: str, vm: VmRequest) -> dict[str, Any]:
    """Returns the VM's body as a template has it: with bare names of what each zone has, and no name of its own."""
    properties = vm_body(zone, vm)
    for only_of_an_insert in ("name", "params"):
        properties.pop(only_of_an_insert, None)
    properties["machine_type"] = vm.recipe.machine_type
    properties["disks"][0]["initialize_params"]["disk_type"] = vm.recipe.disk_type
    for one in properties.get("guest_accelerators", ()):
        one["accelerator_type"] = vm.recipe.gpu_type
    return properties
