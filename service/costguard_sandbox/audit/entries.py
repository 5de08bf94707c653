"""Entries of Cloud Logging for operations, in the form of recorded ones.

Forms: recorded entries of Google's open-source projects (GoogleCloudPlatform/eventarc-samples, gcpdiag, others). A call
that begins an operation has two: the first with the request and the response, the last with neither. A refused call has
one, without an operation. A system event has one that is first and last at once. Of a bulk insert
(GoogleCloudPlatform/gce-license-tracker, `BulkInsertInstanceEvent`) the first entry is of an `audited_resource`, and
each VM has one entry, first and last at once, without the request. No public recording has its last entry, one of a
region, and entries of failed operations: theirs follow the API's schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from costguard_sandbox.clock import zulu
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.operations import Operation

Entry = dict[str, Any]
BULK = "bulkInsert"
_AUDIT = "type.googleapis.com/google.cloud.audit.AuditLog"
_AGENT = "google-cloud-sdk gcloud/407.0.0 command/gcloud.compute,gzip(gfe)"
_GROUPS_AGENT = "GCE Managed Instance Group,gzip(gfe)"
# google.rpc.Code by HTTP status: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
_RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 6, 412: 9, 429: 8, 503: 8}
_HIDDEN = frozenset({"metadata"})  # recorded requests never show its values
_CALL = re.compile(
    r"/compute/v1/projects/(?P<project>[^/]+)/zones/(?P<zone>[^/]+)/instances(?:/(?P<name>[^/]+)(?:/(?P<verb>\w+))?)?"
)
_COLLECTIONS = {
    "instances": ("gce_instance", "instance_id"),
    "disks": ("gce_disk", "disk_id"),
    "instanceTemplates": ("gce_instance_template", "instance_template_id"),
    "instanceGroupManagers": ("gce_instance_group_manager", "instance_group_manager_id"),
}
_PERMISSIONS = {"insert": "create", "bulkInsert": "create"}  # others are named as the method is


def first_entry(operation: Operation, request: Mapping[str, Any], insert_id: str, at: datetime) -> Entry:
    """The entry of an operation's beginning."""
    method, collection = method_of(operation)
    name = _resource_name(operation)
    kind = f"compute.{collection}"
    verb = method.rpartition(".")[2]
    permission = f"{kind}.{_PERMISSIONS.get(verb, verb)}"
    payload = {
        "authenticationInfo": _caller(operation.user),
        "authorizationInfo": [
            {
                "granted": True,
                "permission": permission,
                "resourceAttributes": {"name": name, "service": "compute", "type": kind},
            }
        ],
        "methodName": method,
        "request": {"@type": _type_of(method), **as_logged(request)},
        "requestMetadata": {
            **_client(operation.user),
            "destinationAttributes": {},
            "requestAttributes": {"auth": {}, "time": zulu(at)},
        },
        "resourceLocation": {"currentLocations": [operation.scope.rpartition("/")[2]]},
        "resourceName": name,
        "response": _response(operation),
    }
    return _entry(operation, payload, insert_id, at, {"first": True}, "activity", "NOTICE")


def last_entry(operation: Operation, insert_id: str, at: datetime) -> Entry:
    """The entry of an operation's end. Of one that failed it says why."""
    method, _ = method_of(operation)
    payload: dict[str, Any] = {
        "authenticationInfo": _caller(operation.user),
        "methodName": method,
        "request": {"@type": _type_of(method)},
        "requestMetadata": {**_client(operation.user), "destinationAttributes": {}, "requestAttributes": {}},
        "resourceName": _resource_name(operation),
        **_status(operation),
    }
    severity = "ERROR" if operation.failure is not None else "NOTICE"
    return _entry(operation, payload, insert_id, at, {"last": True}, "activity", severity)


def bulk_child_entry(operation: Operation, method: str, insert_id: str, at: datetime) -> Entry:
    """The one entry of a VM that a bulk insert made, or could not make, written as its operation ends."""
    payload = {
        "authenticationInfo": _caller(operation.user),
        "methodName": method,
        "request": {"@type": _type_of(method)},
        "requestMetadata": _client(operation.user),
        "resourceName": _resource_name(operation),
        **_status(operation),
    }
    severity = "ERROR" if operation.failure is not None else "NOTICE"
    return _entry(operation, payload, insert_id, at, {"first": True, "last": True}, "activity", severity)


def system_entry(operation: Operation, insert_id: str, at: datetime) -> Entry:
    """The entry of a system event. Its moment is in the operation's id; `at`, when it was written, is later."""
    method, _ = method_of(operation)
    payload = {
        "authenticationInfo": {"principalEmail": "system@google.com"},
        "methodName": method,
        "request": {"@type": _type_of(method)},
        "resourceName": _resource_name(operation),
        "status": {"message": operation.status_message},
    }
    marks = {"first": True, "last": True}
    return _entry(operation, payload, insert_id, at, marks, "system_event", "INFO", producer=method)


def refused_entry(
    method: str, path: str, user: str, body: Mapping[str, Any], refused: Refused, insert_id: str, at: datetime
) -> Entry | None:
    """The one entry of a call on a VM that was refused at once; None for calls that write none."""
    call = _CALL.fullmatch(path)
    if call is None or method == "GET" or refused.code not in _RPC_CODES:
        return None
    project, zone, vm, verb = call.groups()
    verb = verb or ("delete" if method == "DELETE" else "insert")
    vm = vm or str(body.get("name") or "")
    name = f"projects/{project}/zones/{zone}/instances/{vm}"
    attributes = {"name": name, "service": "compute", "type": "compute.instances"}
    permission = f"compute.instances.{_PERMISSIONS.get(verb, verb)}"
    payload = {
        "@type": _AUDIT,
        "authenticationInfo": _caller(user),
        "authorizationInfo": [
            {
                **({} if refused.code == 403 else {"granted": True}),
                "permission": permission,
                "resourceAttributes": attributes,
            }
        ],
        "methodName": f"v1.compute.instances.{verb}",
        "request": {"@type": f"type.googleapis.com/compute.instances.{verb}", **as_logged(body)},
        "requestMetadata": {
            **_client(user),
            "destinationAttributes": {},
            "requestAttributes": {"auth": {}, "time": zulu(at)},
        },
        "resourceLocation": {"currentLocations": [zone]},
        "resourceName": name,
        "response": {"@type": "type.googleapis.com/error", **refused.body()},
        "serviceName": "compute.googleapis.com",
        "status": {"code": _RPC_CODES[refused.code], "message": refused.message},
    }
    return {
        "insertId": insert_id,
        "logName": _log_name(project, "activity"),
        "protoPayload": payload,
        "receiveTimestamp": "",
        "resource": {"labels": {"instance_id": "", "project_id": project, "zone": zone}, "type": "gce_instance"},
        "severity": "ERROR",
        "timestamp": zulu(at),
    }


def foreign_entry(number: int, at: datetime) -> Entry:
    """An entry of another service, as a sink with a wide filter lets through."""
    return {
        "insertId": f"foreign-{number}",
        "logName": _log_name("acme-elsewhere", "activity"),
        "protoPayload": {
            "@type": _AUDIT,
            "authenticationInfo": {"principalEmail": "ana@example.com"},
            "methodName": "storage.buckets.create",
            "resourceName": "projects/_/buckets/acme-data",
            "serviceName": "storage.googleapis.com",
        },
        "receiveTimestamp": zulu(at),
        "resource": {"labels": {"bucket_name": "acme-data", "project_id": "acme-elsewhere"}, "type": "gcs_bucket"},
        "severity": "NOTICE",
        "timestamp": zulu(at),
    }


def _status(operation: Operation) -> dict[str, Any]:
    failure = operation.failure
    return {} if failure is None else {"status": {"code": _RPC_CODES.get(failure.http, 2), "message": failure.message}}


def method_of(operation: Operation) -> tuple[str, str]:
    """The entry's methodName, and the collection that it is of: `instances`, `disks`, ..."""
    if is_system(operation):
        return operation.kind, "instances"
    collection = operation.target_link.split("/")[-2]
    if collection.startswith("projects") or operation.kind == BULK:
        return (
            f"v1.compute.{'regionI' if operation.scope.startswith('regions/') else 'i'}nstances.bulkInsert",
            "instances",
        )
    if operation.kind.startswith("compute."):  # of groups
        return f"v1.{operation.kind}", collection
    return f"v1.compute.{collection}.{operation.kind}", collection


def is_system(operation: Operation) -> bool:
    return operation.name.startswith(("systemevent-", "repair-"))


def as_logged(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request as the log shows it: labels as a list, and no metadata."""
    shown: dict[str, Any] = {}
    for key, value in sorted(request.items()):
        if key in _HIDDEN:
            continue
        if key == "labels" and isinstance(value, Mapping):
            shown[key] = [{"key": name, "value": str(text)} for name, text in sorted(value.items())]
        elif isinstance(value, Mapping):
            shown[key] = as_logged(value)
        elif isinstance(value, list):
            shown[key] = [as_logged(one) if isinstance(one, Mapping) else one for one in value]
        else:
            shown[key] = value
    return shown


def received(entry: Entry, at: datetime) -> Entry:
    """The same entry, with when Cloud Logging received it."""
    return {**entry, "receiveTimestamp": zulu(at)}


def _entry(
    operation: Operation,
    payload: Mapping[str, Any],
    insert_id: str,
    at: datetime,
    marks: Mapping[str, bool],
    log: str,
    severity: str,
    *,
    producer: str = "compute.googleapis.com",
) -> Entry:
    _, collection = method_of(operation)
    kind, id_label = _COLLECTIONS.get(collection, ("gce_instance", "instance_id"))
    zone = operation.scope.rpartition("/")[2]
    labels = {id_label: str(operation.target_id or ""), "project_id": operation.project}
    labels |= {"location": zone} if kind == "gce_instance_group_manager" else {"zone": zone}
    if operation.kind == BULK:
        kind, method = "audited_resource", method_of(operation)[0].removeprefix("v1.")
        labels = {"method": method, "project_id": operation.project, "service": "compute.googleapis.com"}
    return {
        "insertId": insert_id,
        "logName": _log_name(operation.project, log),
        "operation": {**marks, "id": operation.name, "producer": producer},
        "protoPayload": {"@type": _AUDIT, **payload, "serviceName": "compute.googleapis.com"},
        "receiveTimestamp": "",
        "resource": {"labels": labels, "type": kind},
        "severity": severity,
        "timestamp": zulu(at),
    }


def _response(operation: Operation) -> dict[str, Any]:
    """The operation as it was when it began, as the log shows it: numbers as texts."""
    shown = {key: value for key, value in operation.resource().items() if key not in ("kind", "endTime", "error")}
    links = f"{operation.base}/projects/{operation.project}/{operation.scope}/operations"
    return {
        "@type": "type.googleapis.com/operation",
        **shown,
        "progress": "0",
        "startTime": shown["insertTime"],
        "status": "RUNNING",
        "selfLinkWithId": f"{links}/{operation.id}",
    }


def _resource_name(operation: Operation) -> str:
    """`projects/P/zones/Z/instances/NAME`."""
    return operation.target_link.partition("/compute/v1/")[2]


def _type_of(method: str) -> str:
    return f"type.googleapis.com/{method.removeprefix('v1.')}"


def _caller(user: str) -> dict[str, str]:
    if user.endswith(("gserviceaccount.com",)):
        return {"principalEmail": user}
    return {"principalEmail": user, "principalSubject": f"user:{user}"}


def _client(user: str) -> dict[str, str]:
    """Calls of Google's own agents show no address."""
    if user.endswith("@cloudservices.gserviceaccount.com"):
        return {"callerSuppliedUserAgent": _GROUPS_AGENT}
    return {"callerIp": "203.0.113.7", "callerSuppliedUserAgent": _AGENT}


def _log_name(project: str, log: str) -> str:
    return f"projects/{project}/logs/cloudaudit.googleapis.com%2F{log}"
