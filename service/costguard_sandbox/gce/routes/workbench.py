"""Workbench's instances (the Notebooks API's v2), workstations (v1), and the operations of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.routing import Route

from costguard_sandbox.clock import zulu
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.routes.call import ApiCall, Handler, compute
from costguard_sandbox.gce.services import KeepingService, ServiceInstance, ServiceOperation

_NOTEBOOKS, _WORKSTATIONS = "notebooks.v2", "workstations.v1"
_Of = Callable[[Cloud], KeepingService]


def routes(cloud: Cloud) -> list[Route]:
    """`-` as the location lists those of all zones."""
    location = "/projects/{project}/locations/{location}"
    desks = f"{location}/workstationClusters/{{cluster}}/workstationConfigs/{{config}}/workstations"
    return [
        compute(f"{location}/instances", _list, cloud, root="/v2"),
        *_of_instances(f"{location}/instances", _NOTEBOOKS, lambda cloud: cloud.workbench, _notebook, cloud),
        *_of_instances(desks, _WORKSTATIONS, lambda cloud: cloud.workstations, _desk, cloud),
    ]


def _of_instances(
    path: str, api: str, service_of: _Of, shown: Callable[[Cloud, ServiceInstance], dict[str, Any]], cloud: Cloud
) -> list[Route]:
    root, location = f"/{api.rpartition('.')[2]}", "/projects/{project}/locations/{location}"

    def show(call: ApiCall) -> Any:
        return shown(call.cloud, service_of(call.cloud).at(_path(call)))

    def ask(verb: str) -> Handler:
        def handle(call: ApiCall) -> Any:
            service = service_of(call.cloud)
            instance = service.at(_path(call))
            if (etag := call.body.get("etag")) not in (None, _etag(instance)):
                raise Refused(409, "", f"The etag {etag} is not that of {instance.path}.", status="ABORTED")
            return _operation(service.ask(verb, instance), api)

        return handle

    def operation(call: ApiCall) -> Any:
        return _operation(service_of(call.cloud).operation(_path(call)), api)

    return [
        compute(f"{path}/{{name}}", show, cloud, root=root),
        compute(f"{path}/{{name}}:stop", ask("stop"), cloud, "POST", takes_body=True, root=root),
        compute(f"{path}/{{name}}:start", ask("start"), cloud, "POST", takes_body=True, root=root),
        compute(f"{location}/operations/{{name}}", operation, cloud, root=root),
    ]


def _path(call: ApiCall) -> str:
    """The resource that the request is about, without the version and the verb."""
    return call.path.partition("/projects/")[1][1:] + call.path.partition("/projects/")[2].partition(":")[0]


def _list(call: ApiCall) -> Any:
    location = call.params["location"]
    notebooks = [one for one in call.cloud.workbench.of(call.project) if location in ("-", one.vm.zone)]
    return {"instances": [_notebook(call.cloud, notebook) for notebook in notebooks]}


def _operation(operation: ServiceOperation, api: str) -> dict[str, Any]:
    service, _, version = api.partition(".")
    metadata = {
        "@type": f"type.googleapis.com/google.cloud.{service}.{version}.OperationMetadata",
        "createTime": zulu(operation.begun_at),
        "target": operation.target,
        "verb": operation.verb,
        "apiVersion": version,
    }
    error = {"error": {"code": 13, "message": operation.error}} if operation.error else {}
    return {"name": operation.name, "metadata": metadata, "done": operation.is_done, **error}


def _notebook(cloud: Cloud, instance: ServiceInstance) -> dict[str, Any]:
    vm = instance.vm
    machine = f"{cloud.links}/projects/{vm.project}/zones/{vm.zone}/machineTypes/{vm.shape.machine_type}"
    return {
        "name": instance.path,
        "gceSetup": {"machineType": machine, "instanceId": str(vm.id)},
        "state": instance.state,
        "healthState": "UNHEALTHY" if cloud.workbench.is_orphan(instance) else "HEALTHY",
        "createTime": zulu(vm.created_at),
        "updateTime": zulu(instance.updated_at),
        "labels": dict(vm.given.get("labels") or {}),
        "id": instance.name,
    }


def _desk(cloud: Cloud, instance: ServiceInstance) -> dict[str, Any]:
    vm = instance.vm
    is_up = instance.state == cloud.workstations.states.up
    host = {"runtimeHost": {"gceInstanceHost": {"name": vm.name, "id": str(vm.id), "zone": vm.zone}}} if is_up else {}
    return {
        "name": instance.path,
        "state": instance.state,
        "etag": _etag(instance),
        "createTime": zulu(vm.created_at),
        "updateTime": zulu(instance.updated_at),
        **host,
    }


def _etag(instance: ServiceInstance) -> str:
    return f"{instance.state}-{int(instance.updated_at.timestamp())}"
