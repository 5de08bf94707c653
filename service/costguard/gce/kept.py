"""The stops of keepers: of managed instance groups, Workbench, Cloud Workstations and Vertex AI, each by its own API.

They name a VM by its name or by their own, not by its id. So each is asked first which VM it has now, and no stop is
asked for where that is another. Between that look and the stop, a fraction of a second, a keeper may put a new VM in
the place of this one: then the new one is stopped, on the disk that it has, and nothing of a person's is on it yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from costguard.errors import BadAnswer, CloudError, KeptByAnother, NotFound, PermissionDenied
from costguard.gce.actions import answer_of
from costguard.gce.errors import GROUPS, WORKBENCH, WORKSTATIONS, NoAnswer, Service
from costguard.gce.official import Official
from costguard.gce.session import Deadline, Http
from costguard.gce.vertex.stops import AskedStops, stop_progress, stop_resource
from costguard.model.keeper import Keeper, KeeperKind
from costguard.model.launch import OperationAnswer

# No narrower scope covers Workbench and Cloud Workstations: notebooks.v2 and workstations.v1 of Google's API discovery.
# What a token may do is in the roles of its account.
KEPT_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

_BUDGET_S = 20.0  # of a look and a stop together
_MAY_STOP = ("", "NONE", "VERIFYING", "STOPPING")  # actions of a group on a VM that it lets us stop


class KeptStops:
    """Thread-safe. CloudUnavailable means that a stop may have begun; after any other CloudError it has not."""

    def __init__(self, official: Official, http: Http, monotonic: Callable[[], float]) -> None:
        self._official = official
        self._http = http
        self._monotonic = monotonic
        self.of_vertex = AskedStops()

    def stop(self, keeper: Keeper, address: tuple[str, str, str], gce_id: str, request_id: str) -> str:
        """Begin to stop the VM of this id. `address` is its project, zone and name. The operation's id."""
        try:
            if keeper.kind is KeeperKind.GROUP:
                return self._of_group(keeper, address, gce_id, request_id)
            if keeper.kind is KeeperKind.WORKBENCH:
                return self._of_workbench(keeper, address, gce_id)
            if keeper.kind is KeeperKind.WORKSTATION:
                return self._of_workstation(keeper, address, gce_id)
            if keeper.kind is KeeperKind.VERTEX and keeper.has_own_stop:
                deadline = Deadline(_BUDGET_S, self._monotonic)
                operation = stop_resource(self._http, keeper, address[0], gce_id, deadline)
                self.of_vertex.note(address[0], gce_id, address[2], keeper.place, operation)
                return operation
        except PermissionDenied as error:
            advice = keeper.advice(address[2], address[0])
            raise PermissionDenied(error.message, f"{error.what_next} Or {advice}.") from error
        raise KeptByAnother(keeper.refusal(address[2], address[0]))

    def operation(self, keeper: Keeper, address: tuple[str, str, str], operation: str) -> OperationAnswer | None:
        """Returns the progress of an operation that a stop began; None where Google does not know it any more."""
        project = address[0]
        try:
            if keeper.kind is KeeperKind.GROUP:
                return self._operation_of_group(keeper, project, operation)
            if keeper.kind is KeeperKind.VERTEX:
                deadline = Deadline(_BUDGET_S, self._monotonic)
                return stop_progress(self._http, keeper, project, operation, deadline)
            service, version = (WORKBENCH, "v2") if keeper.kind is KeeperKind.WORKBENCH else (WORKSTATIONS, "v1")
            path = f"/{version}/projects/{project}/locations/{keeper.place}/operations/{operation}"
            deadline = Deadline(_BUDGET_S, self._monotonic)
            shown = self._read(path, project, f"Reading operation {operation}", deadline, service)
        except NotFound:
            return None
        return OperationAnswer(
            is_done=shown.get("done") is True,
            error_code=str((shown.get("error") or {}).get("code") or ""),
            error_message=_text(shown, "error", "message"),
        )

    def _operation_of_group(self, keeper: Keeper, project: str, operation: str) -> OperationAnswer:
        *_, scope, place, _, _ = keeper.group.split("/")
        client = "ZoneOperationsClient" if scope == "zones" else "RegionOperationsClient"
        names = {"project": project, scope.removesuffix("s"): place, "operation": operation}
        body = self._official.call(client, "get", f"Reading operation {operation}", project, GROUPS, request=names)
        return answer_of(body)

    def _of_group(self, keeper: Keeper, address: tuple[str, str, str], gce_id: str, request_id: str) -> str:
        """`stopInstances` takes the VM out of the group's target size: it stays in the group, on its disk."""
        project, _, vm = address
        *_, scope, place, _, group = keeper.group.split("/")
        client = "InstanceGroupManagersClient" if scope == "zones" else "RegionInstanceGroupManagersClient"
        names = {"project": project, scope.removesuffix("s"): place, "instance_group_manager": group}
        where = f"instance group {group} in {place}"
        manager = self._official.call(client, "get", f"Reading {where}", project, GROUPS, request=names)
        if manager.kind != "compute#instanceGroupManager" or manager.name != group:
            raise NoAnswer(f"Reading {where} of project {project}: what came is not that group.")
        if manager.status.autoscaler:
            raise KeptByAnother(
                f"{vm} belongs to {keeper.whose}, whose autoscaler would start another VM in its place, so Costguard "
                "does not stop it. Make the group smaller, or remove its autoscaler."
            )
        members = self._official.listed(
            client, "list_managed_instances", f"Listing the VMs of {where}", project, GROUPS, request=names
        )
        member = next((member for member in members if str(member.id) == gce_id), None)
        if member is None:
            raise _unknown_to(keeper, vm)
        if member.current_action not in _MAY_STOP:
            raise CloudError(f"{vm} is not stopped now: its group's action {member.current_action} is under way.")
        request = {**names, "request_id": request_id, _BODIES[scope]: {"instances": [member.instance]}}
        what = f"The stop of instance {vm} by {where}"
        return self._official.begun(client, "stop_instances", what, project, GROUPS, request, group)

    def _of_workbench(self, keeper: Keeper, address: tuple[str, str, str], gce_id: str) -> str:
        """notebooks.v2 has no request ids: a stop that has begun already shows in its state."""
        project, _, vm = address
        path = f"/v2/projects/{project}/locations/{keeper.place}/instances/{keeper.name}"
        deadline = Deadline(_BUDGET_S, self._monotonic)
        shown = self._read(path, project, f"Reading Workbench instance {keeper.name}", deadline, WORKBENCH)
        if _text(shown, "gceSetup", "instanceId") != gce_id:
            raise _unknown_to(keeper, vm)
        _must_run(_text(shown, "state"), "ACTIVE", keeper, vm)
        return self._asked(path, {}, project, f"The stop of Workbench instance {keeper.name}", deadline, WORKBENCH)

    def _of_workstation(self, keeper: Keeper, address: tuple[str, str, str], gce_id: str) -> str:
        """The ETag lets the stop fail where the workstation has changed since the look."""
        project, _, vm = address
        path = (
            f"/v1/projects/{project}/locations/{keeper.place}/workstationClusters/{keeper.cluster}"
            f"/workstationConfigs/{keeper.pool}/workstations/{keeper.name}"
        )
        deadline = Deadline(_BUDGET_S, self._monotonic)
        shown = self._read(path, project, f"Reading workstation {keeper.name}", deadline, WORKSTATIONS)
        _must_run(_text(shown, "state"), "STATE_RUNNING", keeper, vm)
        if _text(shown, "runtimeHost", "gceInstanceHost", "id") != gce_id:
            raise _unknown_to(keeper, vm)
        etag = _text(shown, "etag")
        body = {"etag": etag} if etag else {}
        return self._asked(path, body, project, f"The stop of workstation {keeper.name}", deadline, WORKSTATIONS)

    def _read(self, path: str, project: str, what: str, deadline: Deadline, service: Service) -> dict[str, Any]:
        return self._http.get_json(path, {}, project=project, what=what, deadline=deadline, service=service)

    def _asked(
        self, path: str, body: dict[str, Any], project: str, what: str, deadline: Deadline, service: Service
    ) -> str:
        """The id of the long-running operation that a stop begins: the end of its name."""
        answer = self._http.post_json(
            f"{path}:stop", body, project=project, what=what, deadline=deadline, service=service
        )
        if said := _text(answer, "error", "message"):
            raise BadAnswer(f"{what} of project {project}: {service.name} did not do it: {said.rstrip('.')}.")
        operation = _text(answer, "name").rpartition("/operations/")[2]
        if not operation:
            raise NoAnswer(f"{what} of project {project}: the answer names no operation, so it may have begun.")
        return operation


_BODIES = {
    "zones": "instance_group_managers_stop_instances_request_resource",
    "regions": "region_instance_group_managers_stop_instances_request_resource",
}


def _must_run(state: str, running: str, keeper: Keeper, vm: str) -> None:
    """Raises NoAnswer where its keeper takes it for anything but running: an earlier stop may have begun."""
    if state != running:
        raise NoAnswer(f"{vm} is not stopped now: the state of {keeper.whose} is {state or 'not known'}.")


def _unknown_to(keeper: Keeper, vm: str) -> KeptByAnother:
    return KeptByAnother(
        f"{vm} says that it belongs to {keeper.whose}, which does not have this very VM now, so it is left alone.",
        "Look at both in Google's console.",
    )


def _text(answer: object, *path: str) -> str:
    """A text inside an answer; "" where there is none."""
    for key in path:
        answer = answer.get(key) if isinstance(answer, dict) else None
    return answer if isinstance(answer, str) else ""
