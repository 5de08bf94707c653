"""instanceTemplates.*, of templates that belong to no region."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.clock import pacific
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.managed_groups import Template
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import plain_list


def routes(cloud: Cloud) -> list[Route]:
    every = "/projects/{project}/global/instanceTemplates"
    return [
        compute(every, _list, cloud),
        compute(every, _insert, cloud, "POST", takes_body=True),
        compute(f"{every}/{{name}}", _get, cloud),
        compute(f"{every}/{{name}}", _delete, cloud, "DELETE"),
    ]


def _list(call: ApiCall) -> Any:
    mine = [one for (project, _), one in call.cloud.managed_groups.templates.items() if project == call.project]
    return plain_list(call, "compute#instanceTemplateList", [_resource(call.cloud, one) for one in mine])


def _get(call: ApiCall) -> Any:
    return _resource(call.cloud, call.cloud.managed_groups.template(call.project, call.params["name"]))


def _insert(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    groups = call.cloud.managed_groups
    return groups.insert_template(call.project, call.body, call.user, call.request_id).resource()


def _delete(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    groups = call.cloud.managed_groups
    return groups.delete_template(call.project, call.params["name"], call.user, call.request_id).resource()


def _resource(cloud: Cloud, template: Template) -> dict[str, Any]:
    return {
        "kind": "compute#instanceTemplate",
        "id": str(template.target.id),
        "creationTimestamp": pacific(template.created_at),
        "name": template.name,
        "properties": dict(template.properties),
        "selfLink": f"{cloud.links}/{template.target.resource}",
    }
