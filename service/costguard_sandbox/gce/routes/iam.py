"""Routes for the owner of a new project: APIs to enable, service accounts, roles and policies.

Shapes by Google's discovery documents (iam v1, cloudresourcemanager v1, serviceusage v1), as the real `gcloud` asks.
A policy is replaced whole, with the etag of the one that was read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.routing import Route

from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, bad_argument
from costguard_sandbox.gce.rights import NewProject
from costguard_sandbox.gce.routes.call import ApiCall, compute

_DONE = "operations/noop.DONE_OPERATION"  # what Service Usage answers once nothing is left to do


def routes(cloud: Cloud) -> list[Route]:
    def post(path: str, handler: Any) -> Route:
        return compute(path, handler, cloud, "POST", takes_body=True, root="/v1")

    project = "/projects/{project}"
    role, accounts = f"{project}/roles/{{role}}", f"{project}/serviceAccounts"
    return [
        post(f"{project}/services:batchEnable", _enable),
        post(f"{project}/services/{{api}}:enable", _enable),
        post(accounts, _make_account),
        post(f"{project}/roles", _make_role),
        post("/permissions:queryTestablePermissions", lambda _call: {}),  # gcloud only looks for ones to warn about
        compute(role, _role, cloud, root="/v1"),
        compute(role, _update_role, cloud, "PATCH", takes_body=True, root="/v1"),
        post(f"{accounts}/{{account}}:getIamPolicy", _policy),
        post(f"{accounts}/{{account}}:setIamPolicy", _set_policy),
        post(f"{project}:getIamPolicy", _policy),
        post(f"{project}:setIamPolicy", _set_policy),
    ]


def _owned(call: ApiCall) -> NewProject:
    if (new := call.cloud.rights.new.get(call.project)) is None:
        raise Refused(501, "", "Only a project that began as new has policies here.", status="UNIMPLEMENTED")
    return new


def _enable(call: ApiCall) -> Any:
    names = [call.params["api"]] if "api" in call.params else call.body.get("serviceIds")
    if not isinstance(names, list) or not names:
        raise bad_argument("serviceIds must be a list of names.")
    _owned(call).enabled.update(str(name) for name in names)
    return {"name": _DONE, "done": True, "response": {}}


def _make_account(call: ApiCall) -> Any:
    project, email = call.project, f"{call.body.get('accountId')}@{call.project}.iam.gserviceaccount.com"
    accounts = _owned(call).accounts
    if email in accounts:
        words = f"Service account {call.body.get('accountId')} already exists within project projects/{project}."
        raise Refused(409, "", words, status="ALREADY_EXISTS")
    accounts.add(email)
    return {"name": f"projects/{project}/serviceAccounts/{email}", "projectId": project, "email": email}


def _make_role(call: ApiCall) -> Any:
    name = str(call.body.get("roleId"))
    roles = _owned(call).roles
    if name in roles:
        words = f"A role named {name} in projects/{call.project} already exists."
        raise Refused(409, "", words, status="ALREADY_EXISTS")
    roles[name] = {**(call.body.get("role") or {}), "name": f"projects/{call.project}/roles/{name}"}
    return _with_etag(roles[name])


def _kept_role(call: ApiCall) -> dict[str, Any]:
    if (role := _owned(call).roles.get(call.params["role"])) is None:
        words = f"The role named projects/{call.project}/roles/{call.params['role']} was not found."
        raise Refused(404, "", words, status="NOT_FOUND")
    return role


def _role(call: ApiCall) -> Any:
    return _with_etag(_kept_role(call))


def _update_role(call: ApiCall) -> Any:
    role = _kept_role(call)
    fields = [name for name in call.query.get("updateMask", "").split(",") if name] or list(call.body)
    role.update({name: call.body[name] for name in fields if name in call.body})
    return _with_etag(role)


def _resource(call: ApiCall) -> str:
    account = call.params.get("account", "")
    if account and account not in _owned(call).accounts:
        raise Refused(404, "", f"Unknown service account {account}", status="NOT_FOUND")
    return account or call.project


def _policy(call: ApiCall) -> Any:
    return _with_etag(_owned(call).policies.get(_resource(call), {"version": 1}))


def _set_policy(call: ApiCall) -> Any:
    new, policy = _owned(call), call.body.get("policy")
    if not isinstance(policy, dict):
        raise bad_argument("policy must be an object.")
    if policy.get("etag") not in (None, _policy(call)["etag"]):
        words = (
            "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff."
        )
        raise Refused(409, "", words, status="ABORTED")
    for binding in policy.get("bindings", ()):
        _check(call, new, binding)
    new.policies[_resource(call)] = {name: value for name, value in policy.items() if name != "etag"}
    return _policy(call)


def _check(call: ApiCall, new: NewProject, binding: Mapping[str, Any]) -> None:
    """Refuses a role or a service account of this project that is not there, as Google does."""
    custom = f"projects/{call.project}/roles/"
    role = str(binding.get("role"))
    if role.startswith(custom) and role.removeprefix(custom) not in new.roles:
        words = f"Role ({role}) does not exist in the resource's hierarchy."
        raise bad_argument(words)
    for member in binding.get("members", ()):
        account = str(member).removeprefix("serviceAccount:")
        if account.endswith(f"@{call.project}.iam.gserviceaccount.com") and account not in new.accounts:
            raise bad_argument(f"Service account {account} does not exist.")


def _with_etag(kept: Mapping[str, Any]) -> dict[str, Any]:
    return {**kept, "etag": hashlib.sha256(orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]}
