"""Answers what may be done, and what is enabled: testIamPermissions of six services, services.batchGet, tokeninfo.

Shapes by Google's discovery documents: cloudresourcemanager v3, iam v1, storage v1, bigquery v2, serviceusage v1. An
answer that grants nothing is `{}`; Cloud Storage's has a kind.
"""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, bad_argument, service_disabled
from costguard_sandbox.gce.routes.call import ApiCall, compute, control

_MOST_PERMISSIONS, _MOST_SERVICES = 100, 30
_PROJECTS_API = "cloudresourcemanager.googleapis.com"


def routes(cloud: Cloud) -> list[Route]:
    tables = "/projects/{owner}/datasets/{dataset}/tables/{table}"
    accounts = "/projects/-/serviceAccounts/{account}"
    return [
        compute("/projects/{project}:testIamPermissions", _of_project, cloud, "POST", takes_body=True, root="/v3"),
        compute(f"{accounts}:testIamPermissions", _of_account, cloud, "POST", takes_body=True, root="/v1"),
        compute(accounts, _account, cloud, root="/v1"),
        compute("/b/{bucket}/iam/testPermissions", _of_bucket, cloud, root="/storage/v1"),
        compute(f"{tables}:testIamPermissions", _of_table, cloud, "POST", takes_body=True, root="/bigquery/v2"),
        compute(
            "/projects/{owner}/subscriptions/{subscription}:testIamPermissions",
            _of_subscription,
            cloud,
            "POST",
            takes_body=True,
            root="/v1",
        ),
        compute(
            "/projects/{owner}/topics/{topic}:testIamPermissions", _of_topic, cloud, "POST", takes_body=True, root="/v1"
        ),
        compute("/projects/{consumer}/services:batchGet", _services, cloud, root="/v1"),
        compute("/tokeninfo", _token, cloud, root=""),
        control("/sandbox/rights", _rights, cloud, ("GET", "POST", "DELETE")),
    ]


def _asked(call: ApiCall) -> list[str]:
    names = call.body.get("permissions")
    if not isinstance(names, list) or not names or len(names) > _MOST_PERMISSIONS:
        raise bad_argument(f"permissions must be a list of 1 to {_MOST_PERMISSIONS} names.")
    return [str(name) for name in names]


def _answer(call: ApiCall, place: str) -> Any:
    if not call.cloud.rights.is_there(place):
        raise Refused(404, "", f"Unknown {place}", status="NOT_FOUND")
    granted = call.cloud.rights.granted(place, _asked(call))
    return {"permissions": granted} if granted else {}


def _of_project(call: ApiCall) -> Any:
    if call.project in call.cloud.rights.new and not call.cloud.rights.is_enabled(call.project, _PROJECTS_API):
        raise service_disabled(project_number(call.project), "Cloud Resource Manager API", _PROJECTS_API)
    return _answer(call, call.project)


def _of_account(call: ApiCall) -> Any:
    return _answer(call, call.params["account"])


def _account(call: ApiCall) -> Any:
    """No role that the product asks for has the right to read accounts."""
    raise _denied("iam.serviceAccounts.get", call.params["account"])


def _of_table(call: ApiCall) -> Any:
    return _answer(call, f"{call.params['owner']}.{call.params['dataset']}.{call.params['table']}")


def _of_subscription(call: ApiCall) -> Any:
    """Pub/Sub answers for one that is not there, too: that it grants nothing (its discovery document says so)."""
    place = f"projects/{call.params['owner']}/subscriptions/{call.params['subscription']}"
    granted = call.cloud.rights.granted(place, _asked(call)) if call.cloud.rights.is_there(place) else []
    return {"permissions": granted} if granted else {}


def _of_topic(call: ApiCall) -> Any:
    """Answers as for a subscription."""
    place = f"projects/{call.params['owner']}/topics/{call.params['topic']}"
    granted = call.cloud.rights.granted(place, _asked(call)) if call.cloud.rights.is_there(place) else []
    return {"permissions": granted} if granted else {}


def _of_bucket(call: ApiCall) -> Any:
    bucket = call.params["bucket"]
    if not call.cloud.rights.is_there(bucket):
        raise Refused(404, "notFound", "The specified bucket does not exist.")
    granted = call.cloud.rights.granted(bucket, call.query.getlist("permissions"))
    return {"kind": "storage#testIamPermissionsResponse", **({"permissions": granted} if granted else {})}


def _services(call: ApiCall) -> Any:
    project, rights = call.params["consumer"], call.cloud.rights
    names = call.query.getlist("names")
    if not names or len(names) > _MOST_SERVICES:
        raise bad_argument(f"names must be 1 to {_MOST_SERVICES}.")
    if not rights.may(project, "serviceusage.services.get"):
        raise _denied("serviceusage.services.get", f"project {project}")
    return {"services": [_service(project, name.rpartition("/")[2], rights.is_enabled) for name in names]}


def _service(project: str, api: str, is_enabled: Any) -> dict[str, Any]:
    parent = f"projects/{project_number(project)}"
    state = "ENABLED" if is_enabled(project, api) else "DISABLED"
    return {"name": f"{parent}/services/{api}", "config": {"name": api}, "state": state, "parent": parent}


def _token(call: ApiCall) -> Any:
    return {"email": call.cloud.rights.account, "email_verified": "true", "scope": " ".join(call.cloud.rights.scopes)}


def _denied(permission: str, where: str) -> Refused:
    return Refused(
        403, "", f"Permission '{permission}' denied on {where} (or it may not exist).", status="PERMISSION_DENIED"
    )


def _rights(call: ApiCall) -> Any:
    """POST {"place", "permission"} takes it away, {"project", "api"} turns an API off; DELETE restores all.

    POST {"new": PROJECT} makes it a new project, and {"account": ADDRESS} says whose requests without a user are.
    """
    rights, body = call.cloud.rights, call.body
    if call.method == "DELETE":
        rights.restore()
    elif call.method == "POST":
        words = {key: value for key, value in body.items() if isinstance(value, str) and value}
        if words.keys() == {"place", "permission"}:
            rights.withhold(words["place"], words["permission"])
        elif words.keys() == {"project", "api"}:
            rights.disable(words["project"], words["api"])
        elif words.keys() == {"new"}:
            rights.begin(words["new"])
        elif words.keys() == {"account"}:
            rights.account = words["account"]
        else:
            raise bad_argument('expected {"place", "permission"}, {"project", "api"}, {"new"} or {"account"}')
    return rights.shown()
