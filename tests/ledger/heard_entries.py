"""Makes entries of the audit log in the form of recorded ones: request and times of the API in first entries alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from costguard.ledger.feed.entry import FeedEntry, read_entry

ZONE = "us-central1-a"
SPOT = {"provisioningModel": "SPOT", "preemptible": True, "instanceTerminationAction": "DELETE"}


def request(machine_type: str = "n1-standard-8", **more: Any) -> dict[str, Any]:
    """Makes a VM with a boot disk of 100 GB and an external address, on demand unless told otherwise."""
    return {
        "machineType": f"projects/p/zones/{ZONE}/machineTypes/{machine_type}",
        "disks": [
            {"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "100", "diskType": "x/pd-balanced"}}
        ],
        "networkInterfaces": [{"accessConfigs": [{"name": "external-nat"}]}],
        "labels": [{"key": "owner", "value": "eve"}],
        "scheduling": {"automaticRestart": True},
        **more,
    }


class Call:
    """A call of the API on a VM: its two entries. The operation begins 0.5 s after the call."""

    def __init__(self, method: str, begun: datetime, gce_id: str = "71", project: str = "acme-training", **given: Any):
        self.method, self.begun, self.gce_id, self.project = method, begun, gce_id, project
        self.name: str = given.get("name", f"vm-{gce_id}")
        self.principal: str = given.get("principal", "ana@example.com")
        ms = int(begun.timestamp() * 1000)
        self.number = str(ms * 1000 + int(gce_id) % 1000)
        self.operation = f"operation-{ms}-{project}-{gce_id}-{method}"
        self.inserted = begun + timedelta(milliseconds=500)

    def first(self, body: dict[str, Any] | None = None) -> FeedEntry:
        link = f"https://www.googleapis.com/compute/v1/projects/{self.project}/zones/{ZONE}/instances/{self.name}"
        response = {
            "id": self.number,
            "name": self.operation,
            "operationType": self.method,
            "insertTime": self.inserted.isoformat(),
            "startTime": self.inserted.isoformat(),
            "status": "RUNNING",
            "targetId": self.gce_id,
            "targetLink": link,
        }
        return self._entry(self.begun, {"first": True}, {"request": body or {}, "response": response})

    def last(self, ended: datetime, **status: Any) -> FeedEntry:
        return self._entry(ended, {"last": True}, {"status": status} if status else {})

    def _entry(self, written: datetime, phase: dict[str, bool], more: dict[str, Any]) -> FeedEntry:
        return read(
            {
                "logName": f"projects/{self.project}/logs/cloudaudit.googleapis.com%2Factivity",
                "timestamp": written.isoformat(),
                "operation": {"id": self.operation, "producer": "compute.googleapis.com", **phase},
                "resource": {"type": "gce_instance", "labels": _labels(self.project, self.gce_id)},
                "protoPayload": {
                    "serviceName": "compute.googleapis.com",
                    "methodName": f"v1.compute.instances.{self.method}",
                    "authenticationInfo": {"principalEmail": self.principal},
                    "resourceName": f"projects/{self.project}/zones/{ZONE}/instances/{self.name}",
                    **more,
                },
            }
        )


def system_event(kind: str, happened: datetime, gce_id: str = "71", project: str = "acme-training") -> FeedEntry:
    """An event of Google's own, written 17 s after it happened, as one of the recorded ones was."""
    name = f"systemevent-{int(happened.timestamp() * 1000)}-{project}-{gce_id}"
    return read(
        {
            "logName": f"projects/{project}/logs/cloudaudit.googleapis.com%2Fsystem_event",
            "timestamp": (happened + timedelta(seconds=17)).isoformat(),
            "operation": {"id": name, "producer": f"compute.instances.{kind}", "first": True, "last": True},
            "resource": {"type": "gce_instance", "labels": _labels(project, gce_id)},
            "protoPayload": {
                "serviceName": "compute.googleapis.com",
                "methodName": f"compute.instances.{kind}",
                "authenticationInfo": {"principalEmail": "system@google.com"},
                "resourceName": f"projects/{project}/zones/{ZONE}/instances/vm-{gce_id}",
                "status": {"message": "Instance was preempted."},
            },
        }
    )


def _labels(project: str, gce_id: str) -> dict[str, str]:
    return {"instance_id": gce_id, "project_id": project, "zone": ZONE}


def read(raw: dict[str, Any]) -> FeedEntry:
    entry = read_entry(raw)
    assert entry is not None
    return entry
