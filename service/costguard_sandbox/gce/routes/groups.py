"""instanceGroupManagers.* and regionInstanceGroupManagers.*"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.routing import Route

from costguard_sandbox.clock import pacific
from costguard_sandbox.gce.catalogue.regions import OPERATION_SCOPES
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import bad_request, invalid
from costguard_sandbox.gce.groups import Group, ResizeRequest
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.render import fingerprint
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, plain_list, refuse_unreachable
from costguard_sandbox.gce.vm import VM, Status

_SCOPES = OPERATION_SCOPES[1:]  # groups are regional or zonal


def routes(cloud: Cloud) -> list[Route]:
    routes = [compute("/projects/{project}/aggregated/instanceGroupManagers", _aggregated, cloud)]
    zonal = "/projects/{project}/zones/{zone}/instanceGroupManagers"
    requests = f"{zonal}/{{name}}/resizeRequests"
    routes += [
        compute(zonal, _insert, cloud, "POST", takes_body=True),
        compute(f"{zonal}/{{name}}", _delete, cloud, "DELETE"),
        compute(f"{zonal}/{{name}}/deleteInstances", _delete_instances, cloud, "POST", takes_body=True),
        compute(requests, _list_requests, cloud),
        compute(requests, _insert_request, cloud, "POST", takes_body=True),
        compute(f"{requests}/{{request}}", lambda call: _request(call.cloud, *_one_request(call)), cloud),
        compute(f"{requests}/{{request}}/cancel", _cancel_request, cloud, "POST"),
    ]
    for scope in ("zones/{zone}", "regions/{region}"):
        group = f"/projects/{{project}}/{scope}/instanceGroupManagers/{{name}}"
        routes += [
            compute(group, lambda call: _resource(call.cloud, _group(call)), cloud),
            compute(f"{group}/listManagedInstances", _list_managed, cloud, "POST"),
            compute(f"{group}/stopInstances", _stop, cloud, "POST", takes_body=True),
            compute(f"{group}/startInstances", _start, cloud, "POST", takes_body=True),
            compute(f"{group}/resize", _resize, cloud, "POST"),
        ]
    return routes


def _scope(call: ApiCall) -> str:
    return f"zones/{call.params['zone']}" if "zone" in call.params else f"regions/{call.params['region']}"


def _group(call: ApiCall) -> Group:
    if "zone" in call.params:
        refuse_unreachable(call, call.params["zone"])
    return call.cloud.groups.find(call.project, _scope(call), call.params["name"])


def _aggregated(call: ApiCall) -> Any:
    rows = [_resource(call.cloud, group) for group in call.cloud.groups.of(call.project)]
    return aggregated_list(
        call, "compute#instanceGroupManagerAggregatedList", "instanceGroupManagers", rows, _SCOPES, _scope_of
    )


def _scope_of(row: dict[str, Any]) -> str:
    kind = "zone" if "zone" in row else "region"
    return f"{kind}s/{row[kind].rsplit('/', 1)[-1]}"


def _insert(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    refuse_unreachable(call, call.params["zone"])
    made = call.cloud.managed_groups.insert_group(call.project, _scope(call), call.body, call.user, call.request_id)
    return made.resource()


def _delete(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    return call.cloud.managed_groups.delete_group(_group(call), call.user, call.request_id).resource()


def _delete_instances(call: ApiCall) -> Any:
    return _named(call, call.cloud.group_requests.delete)


def _insert_request(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    made = call.cloud.managed_groups.insert_request(_group(call), call.body, call.user, call.request_id)
    return made.resource()


def _cancel_request(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    name, groups = call.params["request"], call.cloud.managed_groups
    return groups.cancel_request(_group(call), name, call.user, call.request_id).resource()


def _one_request(call: ApiCall) -> tuple[Group, ResizeRequest]:
    group = _group(call)
    return group, call.cloud.managed_groups.request(group, call.params["request"])


def _list_requests(call: ApiCall) -> Any:
    group = _group(call)
    rows = [_request(call.cloud, group, one) for one in group.resize_requests.values()]
    return plain_list(call, "compute#instanceGroupManagerResizeRequestList", rows)


def _request(cloud: Cloud, group: Group, request: ResizeRequest) -> dict[str, Any]:
    link = f"{cloud.links}/{group.target_name}/resizeRequests/{request.name}"
    shown: dict[str, Any] = {
        "kind": "compute#instanceGroupManagerResizeRequest",
        "id": str(request.id),
        "creationTimestamp": pacific(request.created_at),
        "name": request.name,
        "zone": f"{cloud.links}/projects/{group.project}/{group.scope}",
        "instances": [{"name": name} for name in request.names],
        "requestedRunDuration": {"seconds": str(request.run_s), "nanos": 0},
        "state": request.state.value,
        "selfLink": link,
    }
    if request.failure is not None:
        shown["status"] = {"error": {"errors": request.failure.errors()}}
    return shown


def _stop(call: ApiCall) -> Any:
    return _named(call, call.cloud.group_requests.stop)


def _start(call: ApiCall) -> Any:
    return _named(call, call.cloud.group_requests.start)


def _named(call: ApiCall, act: Callable[[Group, list[str], str, str], Operation]) -> Any:
    """A request that names VMs by their URLs. A repeat under its id gives the operation that the first gave."""
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    instances = call.body.get("instances")
    if not isinstance(instances, list) or not all(isinstance(url, str) for url in instances):
        raise bad_request("Required field 'instances' not specified")
    return act(_group(call), instances, call.user, call.request_id).resource()


def _resize(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    size = call.required("size")
    if not size.isdecimal():
        raise invalid("size", size, "Must be a whole number from 0 up.")
    return call.cloud.group_requests.resize(_group(call), int(size), call.user, call.request_id).resource()


def _list_managed(call: ApiCall) -> Any:
    return {"managedInstances": [_managed(call.cloud, vm) for vm in _group(call).vms]}


def _managed(cloud: Cloud, vm: VM) -> dict[str, Any]:
    """A stopped VM's status is STOPPED here, where the instance itself says TERMINATED."""
    is_stopped = vm.status is Status.TERMINATED
    return {
        "instance": f"{cloud.links}/{vm.target.resource}",
        "id": str(vm.id),
        "name": vm.name,
        "instanceStatus": "STOPPED" if is_stopped else vm.status.value,
        "currentAction": cloud.groups.action_of(vm),
        "targetStatus": "STOPPED" if cloud.groups.wants_stopped(vm) else "RUNNING",
    }


def _resource(cloud: Cloud, group: Group) -> dict[str, Any]:
    kind = group.scope.partition("/")[0]
    links = f"{cloud.links}/projects/{group.project}"
    actions = [cloud.groups.action_of(vm) for vm in group.vms]
    counts = {
        shown: actions.count(action)
        for shown, action in (
            ("none", "NONE"),
            ("creating", "CREATING"),
            ("deleting", "DELETING"),
            ("recreating", "RECREATING"),
            ("starting", "STARTING"),
            ("stopping", "STOPPING"),
        )
    }
    shown: dict[str, Any] = {
        "kind": "compute#instanceGroupManager",
        "id": str(group.id),
        "creationTimestamp": pacific(group.created_at),
        "name": group.name,
        kind.removesuffix("s"): f"{links}/{group.scope}",
        "instanceTemplate": f"{links}/global/instanceTemplates/{group.template_name or group.base_name}",
        "instanceGroup": f"{links}/{group.scope}/instanceGroups/{group.name}",
        "baseInstanceName": group.base_name,
        "fingerprint": fingerprint([group.name, group.target_size, group.target_stopped]),
        "currentActions": counts,
        "status": {"isStable": set(actions) <= {"NONE"}, "stateful": {"hasStatefulConfig": False}},
        "targetSize": group.target_size,
        "targetStoppedSize": group.target_stopped,
        "targetSuspendedSize": 0,
        "listManagedInstancesResults": "PAGELESS",
        "instanceLifecyclePolicy": {
            "defaultActionOnFailure": "REPAIR" if group.repairs else "DO_NOTHING",
            "forceUpdateOnRepair": "NO",
        },
        "selfLink": f"{links}/{group.scope}/instanceGroupManagers/{group.name}",
    }
    if group.smallest is not None and not group.name.startswith("gke-"):  # a cluster's autoscaler is no Autoscaler
        shown["status"]["autoscaler"] = f"{links}/{group.scope}/autoscalers/{group.name}"
    return shown
