"""resourcePolicies.insert, get, list and delete, of compact placement policies; and what a VM may say of one.

Rules: the discovery document of compute v1 (ResourcePolicyGroupPlacementPolicy); Google, "Placement policies overview":
a policy is of one region, compact ones take some machine series alone, and no VM that Google migrates with a bound on
the distance, which v1 does not have. One VM names one policy (the Terraform provider's `resource_policies`). Words of
refusals: "Placement policy is not applicable to machine type" (dstackai/dstack issue 2591), "is already being used by"
(Google's for any resource that another one uses), and "already exists" (scientific-computing-examples issue 53).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.gce.catalogue.regions import REGIONS, stable_id
from costguard_sandbox.gce.checks import check_name
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, already_exists, bad_request, invalid, not_found
from costguard_sandbox.gce.operations import Operation, Target
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import plain_list

_KIND = "resourcePolicie"  # whose plural is the path's word
_TAKES = timedelta(seconds=1)
_COMPACT = frozenset({"a2", "a3", "a4", "c2", "c2d", "c3", "c3d", "c4", "c4d", "g2", "g4", "h3", "h4d", "n2", "n2d"})
_FIELD = "resource.resourcePolicies"


def routes(cloud: Cloud) -> list[Route]:
    policies = "/projects/{project}/regions/{region}/resourcePolicies"
    return [
        compute(policies, _list, cloud),
        compute(policies, _insert, cloud, "POST", takes_body=True),
        compute(f"{policies}/{{name}}", _get, cloud),
        compute(f"{policies}/{{name}}", _delete, cloud, "DELETE"),
    ]


def check_vm(call: ApiCall, zone: str) -> None:
    """Raises Refused where the VM of an insert names a policy that it cannot have."""
    named = [str(one) for one in call.body.get("resourcePolicies") or ()]
    if not named:
        return
    if len(named) > 1:
        raise invalid(_FIELD, named, "An instance may have one resource policy at most.")
    path = named[0].partition("projects/")[1] + named[0].partition("projects/")[2]
    region = path.split("/")[3] if path.count("/") == 5 else zone.rpartition("-")[0]
    if region != zone.rpartition("-")[0]:
        raise invalid(_FIELD, named[0], f"The policy must be in the region of zone {zone}.")
    policy = _of(call, region, last_part(named[0]))
    if policy.fields["status"] != "READY":
        raise Refused(400, "resourceNotReady", f"The resource '{policy.path}' is not ready")
    machine_type = last_part(str(call.body.get("machineType", "")))
    if machine_type.partition("-")[0] not in _COMPACT:
        raise bad_request(f"Placement policy is not applicable to machine type {machine_type}.")


def _list(call: ApiCall) -> Any:
    mine = [one for one in _all(call) if one.place == _region(call)]
    return plain_list(call, "compute#resourcePolicyList", [_shown(call, one) for one in mine])


def _get(call: ApiCall) -> Any:
    return _shown(call, _of(call, _region(call), call.params["name"]))


def _insert(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    region, name = _region(call), str(call.body.get("name", ""))
    check_name("resource.name", name)
    given = call.body.get("groupPlacementPolicy")
    if not isinstance(given, Mapping) or given.get("collocation") != "COLLOCATED":
        raise bad_request("The simulated cloud has no resource policies but compact placement policies.")
    fields = {
        "description": str(call.body.get("description") or ""),
        "groupPlacementPolicy": dict(given),
        "status": "CREATING",
    }
    policy = Belonging(_KIND, call.project, region, name, call.cloud.timeline.now, fields)
    if any(one.path == policy.path for one in _all(call)):
        raise already_exists(policy.path)
    call.cloud.belongings.append(policy)
    ready = replace(policy, fields={**fields, "status": "READY"})
    return _begun(call, "insert", policy, ready).resource()


def _delete(call: ApiCall) -> Any:
    if repeated := call.cloud.operations.repeated(call.project, call.request_id):
        return repeated.resource()
    policy = _of(call, _region(call), call.params["name"])
    for vm in call.cloud.instances(call.project):
        names = (last_part(str(one)) for one in vm.given.get("resourcePolicies") or ())
        if policy.name in names and vm.zone.rpartition("-")[0] == policy.place:
            user = f"projects/{vm.project}/zones/{vm.zone}/instances/{vm.name}"
            message = f"The resource_policy resource '{policy.path}' is already being used by '{user}'"
            raise Refused(400, "resourceInUseByAnotherResource", message)
    return _begun(call, "delete", policy, None).resource()


def _begun(call: ApiCall, verb: str, policy: Belonging, after: Belonging | None) -> Operation:
    """Begins an operation, at whose end the policy is replaced, or gone."""
    cloud, held = call.cloud, call.cloud.belongings
    target = Target(policy.project, policy.scope, f"resourcePolicies/{policy.name}", int(_id(policy)))
    operation = cloud.operations.begin(verb, target, call.user, call.request_id, request=call.body)

    def end() -> None:
        held[:] = [one for one in held if one.path != policy.path] + ([after] if after is not None else [])
        operation.finish(cloud.timeline.now)

    operation.begin(cloud.timeline.now)
    operation.ends_at = cloud.timeline.now + _TAKES
    cloud.at(operation.ends_at, end)
    return operation


def _all(call: ApiCall) -> list[Belonging]:
    mine = (one for one in call.cloud.belongings if (one.kind, one.project) == (_KIND, call.project))
    return sorted(mine, key=lambda one: one.name)


def _of(call: ApiCall, region: str, name: str) -> Belonging:
    path = Belonging(_KIND, call.project, region, name, call.cloud.timeline.now).path
    for one in _all(call):
        if one.path == path:
            return one
    raise not_found(path)


def _shown(call: ApiCall, policy: Belonging) -> dict[str, Any]:
    shown = {**policy.resource(call.cloud.links), "kind": "compute#resourcePolicy", "id": _id(policy)}
    return {name: value for name, value in shown.items() if value != ""}


def _id(policy: Belonging) -> str:
    return stable_id(f"{policy.path}/{policy.created_at}")


def _region(call: ApiCall) -> str:
    region = call.params["region"]
    if region not in REGIONS:
        raise not_found(f"projects/{call.project}/regions/{region}")
    return region
