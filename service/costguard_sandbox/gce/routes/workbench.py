"""projects.locations.instances.* of Workbench, the Notebooks API's v2."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.clock import zulu
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.routes.call import ApiCall, Handler, compute
from costguard_sandbox.gce.workbench import Notebook


def routes(cloud: Cloud) -> list[Route]:
    """`-` as the location lists those of all zones."""
    instances = "/projects/{project}/locations/{location}/instances"
    return [
        compute(instances, _list, cloud, root="/v2"),
        compute(f"{instances}/{{name}}", lambda call: _resource(call.cloud, _notebook(call)), cloud, root="/v2"),
        compute(f"{instances}/{{name}}:stop", _asking("stop"), cloud, "POST", takes_body=True, root="/v2"),
        compute(f"{instances}/{{name}}:start", _asking("start"), cloud, "POST", takes_body=True, root="/v2"),
    ]


def _notebook(call: ApiCall) -> Notebook:
    return call.cloud.workbench.find(call.project, call.params["location"], call.params["name"])


def _list(call: ApiCall) -> Any:
    location = call.params["location"]
    notebooks = [one for one in call.cloud.workbench.of(call.project) if location in ("-", one.vm.zone)]
    return {"instances": [_resource(call.cloud, notebook) for notebook in notebooks]}


def _asking(verb: str) -> Handler:
    def handle(call: ApiCall) -> Any:
        notebook = _notebook(call)
        operation = call.cloud.workbench.ask(verb, notebook)
        metadata = {
            "@type": "type.googleapis.com/google.cloud.notebooks.v2.OperationMetadata",
            "createTime": zulu(notebook.updated_at),
            "target": notebook.path,
            "verb": verb,
            "apiVersion": "v2",
        }
        return {"name": operation, "metadata": metadata, "done": False}

    return handle


def _resource(cloud: Cloud, notebook: Notebook) -> dict[str, Any]:
    vm = notebook.vm
    machine = f"{cloud.links}/projects/{vm.project}/zones/{vm.zone}/machineTypes/{vm.shape.machine_type}"
    return {
        "name": notebook.path,
        "gceSetup": {"machineType": machine, "instanceId": str(vm.id)},
        "state": notebook.state,
        "healthState": "UNHEALTHY" if notebook.is_orphan else "HEALTHY",
        "createTime": zulu(vm.created_at),
        "updateTime": zulu(notebook.updated_at),
        "labels": dict(vm.given.get("labels") or {}),
        "id": notebook.name,
    }
