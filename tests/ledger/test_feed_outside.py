"""Entries of the audit log from public repositories, and the shapes in which people and programs keep them.

Each names its source, whose licence is Apache-2.0 unless it says another. They are cut to what a reader uses.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from costguard.ledger.feed.entry import FeedEntry, read_entry
from costguard.ledger.feed.kinds import FeedKind
from costguard.ledger.feed.reading import Torn, read_entries


def entry(method: str, operation: dict[str, Any], at: str, **more: Any) -> dict[str, Any]:
    """An entry of the VM 2162224123123123213; `more` are fields of the payload, or `labels`, `severity` and `log`."""
    log, severity = more.pop("log", "activity"), more.pop("severity", "NOTICE")
    labels = more.pop("labels", {"instance_id": "2162224123123123213", "project_id": "project-1", "zone": "z-a"})
    return {
        "protoPayload": {
            "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
            "authenticationInfo": None,
            "requestMetadata": None,
            "serviceName": "compute.googleapis.com",
            "methodName": method,
            "resourceName": "projects/project-1/zones/z-a/instances/instance-1",
            **more,
        },
        "insertId": "u5trcdfmye",
        "resource": {"type": "gce_instance", "labels": labels},
        "timestamp": at,
        "severity": severity,
        "logName": f"projects/project-1/logs/cloudaudit.googleapis.com%2F{log}",
        "operation": operation,
    }


def of_google(method: str, operation: str, at: str, **more: Any) -> dict[str, Any]:
    """A system event: its only entry is the first and the last one."""
    both = {"id": operation, "producer": method, "first": True, "last": True}
    given = {"log": "system_event", "severity": "INFO", "status": {}, **more}
    return entry(method, both, at, **given)


RECREATED = of_google(
    "compute.instances.repair.recreateInstance",
    "repair-1588534579592-5a4c387547b81-65d715dc-460e6782",
    "2020-05-03T19:36:19.812Z",
    authenticationInfo={"principalEmail": "system@google.com"},
)
HOST_ERROR = of_google(
    "compute.instances.hostError",
    "systemevent-1656598023967-5e2aac8c11261-3553f149-42656705",
    "2022-06-30T14:07:23.102868Z",
    status={"message": "Instance terminated by Compute Engine."},
)
STANDARD = {"onHostMaintenance": "MIGRATE", "preemptible": False, "provisioningModel": "STANDARD"}

# Source, entry; then kind, machine type, provisioning model, moment.
OUTSIDE: list[tuple[str, dict[str, Any], tuple[str, str | None, str | None, str]]] = [
    ("gce-license-tracker, TestRecreateInstanceEvent", RECREATED, ("repaired", None, None, "2020-05-03T19:36:19.592Z")),
    (
        "scylladb/scylla-cluster-tests, a fake log client (AGPL-3.0: figures alone)",
        HOST_ERROR,
        ("host_error", None, None, "2022-06-30T14:07:03.967Z"),
    ),
    (
        "gce-license-tracker, TestTerminateOnHostMaintenanceEvent",
        of_google(
            "compute.instances.terminateOnHostMaintenance",
            "systemevent-1588781345487-5a4fcfbb93bc2-b8c0e7d9-37cacfb7",
            "2020-05-06T16:10:46.781Z",
        ),
        ("stopped", None, None, "2020-05-06T16:09:05.487Z"),
    ),
    (
        "iap-desktop, History/instance-3.json",
        of_google(
            "compute.instances.guestTerminate",
            "systemevent-1588786729260-5a4fe3c9f15b7-52b60abd-2478beea",
            "2020-05-06T17:39:34.635Z",
        ),
        ("stopped", None, None, "2020-05-06T17:38:49.260Z"),
    ),
    (
        "iap-desktop, History/instance-3.json: where the VM runs, which changes nothing",
        of_google("NotifyInstanceLocation", "", "2020-05-06T16:36:01.441Z"),
        ("noise", None, None, "2020-05-06T16:36:01.441Z"),
    ),
    (
        "gce-license-tracker, TestSetMachineTypeEvent",
        entry(
            "v1.compute.instances.setMachineType",
            {"id": "operation-1682293887661-5fa099194f5bc-15b3d8b2-b5f3fefa", "first": True},
            "2023-04-23T23:51:27.716314Z",
            request={"machineType": "projects/project-1/zones/asia-southeast1-b/machineTypes/e2-medium"},
            response={"targetLink": "https://www.googleapis.com/compute/...", "targetId": "34596100000000"},
        ),
        ("changed", "e2-medium", None, "2023-04-23T23:51:27.661Z"),
    ),
    (
        "gce-license-tracker, TestSetSchedulingEvent",
        entry(
            "beta.compute.instances.setScheduling",
            {"id": "operation-1682315339313-5fa0e903330c9-f387bbc8-0c2a9e22", "first": True},
            "2023-04-24T05:48:59.367796Z",
            request={**STANDARD, "minNodeCpus": "4"},
        ),
        ("changed", None, "standard", "2023-04-24T05:48:59.313Z"),
    ),
    (
        "gce-license-tracker, TestUpdateInstanceEvent",
        entry(
            "beta.compute.instances.update",
            {"id": "operation-1682310997625-5fa0d8d6a4ae6-0c729f56-b2c12260", "first": True},
            "2023-04-24T04:36:37.687084Z",
            request={"machineType": "projects/project-1/zones/z-a/machineTypes/e2-micro", "scheduling": STANDARD},
        ),
        ("changed", "e2-micro", "standard", "2023-04-24T04:36:37.625Z"),
    ),
    (
        "gce-license-tracker, TestSuspendInstanceEvent",
        entry(
            "alpha.compute.instances.suspend",
            {"id": "operation-1592466431847-5a856fbfcabd0-88d2a921-33d54dee", "last": True},
            "2020-06-18T07:50:51.862Z",
            request={"@type": "type.googleapis.com/compute.instances.suspend"},
        ),
        ("stopped", None, None, "2020-06-18T07:47:11.847Z"),
    ),
    (
        "elastic/integrations, test-compute-googleapis-com.log (Elastic-2.0: figures alone), by Deployment Manager",
        entry(
            "v1.compute.instances.insert",
            {"id": "operation-1732021993132-62743cba4d27a-d29b55ba-2cd69d6a", "first": True},
            "2024-11-19T13:13:13.176899Z",
            authenticationInfo={"principalEmail": "project-id@cloudservices.gserviceaccount.com"},
            request={"machineType": "https://www.googleapis.com/compute/v1/projects/p/zones/z-a/machineTypes/n2-std"},
        ),
        ("created", "n2-std", "standard", "2024-11-19T13:13:13.132Z"),
    ),
    (
        "elastic/integrations, test-audit-event.json: a refused reading is of no VM",
        entry(
            "beta.compute.instances.aggregatedList",
            {},
            "2019-12-19T00:44:25.051Z",
            log="data_access",
            status={"code": 7, "message": "PERMISSION_DENIED"},
        ),
        ("noise", None, None, "2019-12-19T00:44:25.051Z"),
    ),
]


@pytest.mark.parametrize(("raw", "said"), [case[1:] for case in OUTSIDE], ids=[case[0] for case in OUTSIDE])
def test_an_entry_from_outside_says_this(raw: dict[str, Any], said: tuple[str, str | None, str | None, str]) -> None:
    """Kind, machine type, provisioning model and moment, as its operation's name has it; the caller is Google."""
    read = read_entry(raw)
    assert read is not None
    as_json = read.as_json()
    assert (as_json["kind"], as_json["machine_type"], as_json["provisioning"], as_json["at"]) == said
    assert (as_json["instance_id"], as_json["who"]) == ("2162224123123123213", None)


def test_what_google_did_is_not_refused_by_a_severity() -> None:
    """A sink or an alert may raise it; without a code of an error the VM was lost."""
    read = read_entry({**HOST_ERROR, "severity": "ERROR"})
    assert read is not None
    assert read.kind is FeedKind.HOST_ERROR


@pytest.mark.parametrize(("metadata", "kind"), [({}, FeedKind.REFUSED), ({"dryRun": True}, FeedKind.NOISE)])
def test_the_log_of_policies_deletes_no_vm(metadata: dict[str, Any], kind: FeedKind) -> None:
    """It holds calls that a policy denied; those that a dry run would have denied have an entry of their own.

    After an entry without a status in a public test (of an importer of audit logs), and
    cloud.google.com/logging/docs/audit#policy_denied.
    """
    at = "2026-06-12T09:00:05Z"
    read = read_entry(entry("v1.compute.instances.delete", {}, at, log="policy", metadata=metadata))
    assert read is not None
    assert read.kind is kind


def in_log_analytics(raw: dict[str, Any]) -> dict[str, Any]:
    """The columns of Log Analytics, as GoogleCloudPlatform/security-analytics reads `proto_payload.audit_log`."""
    payload = raw["protoPayload"]
    names = {"methodName": "method_name", "serviceName": "service_name", "resourceName": "resource_name"}
    audit_log = {names.get(key, key): value for key, value in payload.items()}
    audit_log["authentication_info"] = {"principal_email": "system@google.com"}
    rest = {key: value for key, value in raw.items() if key not in ("protoPayload", "logName")}
    return {**rest, "log_name": raw["logName"], "proto_payload": {"type": payload["@type"], "audit_log": audit_log}}


FILES = {
    "Log Analytics": lambda raw: json.dumps([in_log_analytics(raw)]).encode(),
    "PowerShell writes UTF-16": lambda raw: json.dumps([raw], indent=2).encode("utf-16"),
    "elastic/integrations, test-audit-event.json": lambda raw: json.dumps({"events": [{"json": raw}]}).encode(),
    "a log shipper's message": lambda raw: json.dumps({"message": json.dumps(raw), "tags": []}).encode(),
}


@pytest.mark.parametrize("file", FILES)
def test_an_entry_is_read_in_the_shapes_that_programs_keep(file: str) -> None:
    """Each holds one entry, which says what it says alone."""
    [read] = read_entries(FILES[file](RECREATED))
    alone = read_entry(RECREATED)
    assert isinstance(read, FeedEntry)
    assert alone is not None
    assert read.as_json() == {**alone.as_json(), "principal": read.principal}


def test_entries_one_after_the_other_are_read_and_a_torn_one_is_named() -> None:
    """The items of a list are printed so by jq. An empty object in a line of its own is no entry."""
    text = "".join(json.dumps({**one, "labels": [{}]}, indent=2) + "\n" for one in (RECREATED, HOST_ERROR))
    first, second = read_entries(text)
    assert isinstance(first, FeedEntry)
    assert isinstance(second, FeedEntry)
    assert (first.kind, second.kind) == (FeedKind.REPAIRED, FeedKind.HOST_ERROR)
    first, torn = read_entries(text[:-100])
    assert isinstance(first, FeedEntry)
    assert isinstance(torn, Torn)
    assert torn.why.startswith("what begins in line ")


def test_the_old_activity_log_is_named_and_moves_nothing() -> None:
    """A recorded form of 2020 (jsonPayload, GCE_OPERATION_DONE): the audit log has an entry of the same stop."""
    payload = {"event_subtype": "compute.instances.stop", "event_type": "GCE_OPERATION_DONE", "version": "1.2"}
    [torn] = read_entries(json.dumps({"jsonPayload": payload, "timestamp": "2020-08-07T17:50:01.607594Z"}))
    assert isinstance(torn, Torn)
    assert "old activity log" in torn.why
