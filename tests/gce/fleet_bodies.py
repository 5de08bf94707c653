"""Fleets of any size in the full shape in which Compute Engine answers, about 6 KB a VM, for measuring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

import orjson

_ROOT = "https://www.googleapis.com/compute/v1/projects"
ZONES = [
    f"{region}-{letter}"
    for region in (
        "us-central1",
        "us-east1",
        "us-west1",
        "europe-west4",
        "asia-east1",
    )  # whose prices the snapshot holds
    for letter in "abcdef"
]
# The real API names every zone on every page, with or without VMs in it.
_OTHER_SCOPES = [f"zones/far-region{n}-{letter}" for n in range(21) for letter in "abcd"]
_SCRIPT = "#!/bin/bash\n" + "echo preparing the machine for training, step by step\n" * 53


def _network_interface(number: int, project: str, zone: str) -> dict[str, Any]:
    return {
        "kind": "compute#networkInterface",
        "network": f"{_ROOT}/{project}/global/networks/default",
        "subnetwork": f"{_ROOT}/{project}/regions/{zone[:-2]}/subnetworks/default",
        "networkIP": f"10.128.{number // 250 % 250}.{number % 250}",
        "name": "nic0",
        "accessConfigs": [
            {
                "kind": "compute#accessConfig",
                "type": "ONE_TO_ONE_NAT",
                "name": "External NAT",
                "natIP": f"203.0.113.{number % 250}",
                "networkTier": "PREMIUM",
            }
        ],
        "fingerprint": "Yq2hJ3nL0pE=",
        "stackType": "IPV4_ONLY",
    }


def _attached_disk(project: str, zone_url: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": "READ_WRITE",
        "source": f"{zone_url}/disks/{name}",
        "deviceName": "persistent-disk-0",
        "index": 0,
        "boot": True,
        "autoDelete": True,
        "licenses": [f"{_ROOT}/debian-cloud/global/licenses/debian-12-bookworm"],
        "interface": "SCSI",
        "guestOsFeatures": [{"type": "UEFI_COMPATIBLE"}, {"type": "VIRTIO_SCSI_MULTIQUEUE"}, {"type": "GVNIC"}],
        "diskSizeGb": "100",
        "architecture": "X86_64",
    }


def full_instance(number: int, project: str = "fleet") -> dict[str, Any]:
    """Makes a VM as instances.get gives it: a T4 on N1, every third one Spot, every fourth one stopped."""
    zone = ZONES[number % len(ZONES)]
    zone_url = f"{_ROOT}/{project}/zones/{zone}"
    spot = number % 3 == 0
    name = f"trainer-{number:05d}"
    started = started_at(number)
    return {
        "kind": "compute#instance",
        "id": str(4_000_000_000_000_000_000 + number),
        "creationTimestamp": started.replace("2026-11", "2026-10"),
        "name": name,
        "tags": {"items": ["http-server", "training"], "fingerprint": "6smc4R4d39I="},
        "machineType": f"{zone_url}/machineTypes/n1-standard-{(4, 8, 16)[number % 3]}",
        "status": "TERMINATED" if number % 4 == 0 else "RUNNING",
        "zone": zone_url,
        "canIpForward": False,
        "networkInterfaces": [_network_interface(number, project, zone)],
        "disks": [_attached_disk(project, zone_url, name)],
        "metadata": {
            "kind": "compute#metadata",
            "fingerprint": "b0Vh3n1dW0s=",
            "items": [{"key": "startup-script", "value": _SCRIPT}],
        },
        "serviceAccounts": [
            {
                "email": "123456789012-compute@developer.gserviceaccount.com",
                "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
            }
        ],
        "selfLink": f"{zone_url}/instances/{name}",
        "scheduling": {
            "onHostMaintenance": "TERMINATE",
            "automaticRestart": not spot,
            "preemptible": spot,
            "provisioningModel": "SPOT" if spot else "STANDARD",
        },
        "cpuPlatform": "Intel Haswell",
        "labels": {"owner": f"person-{number % 60}", "team": f"team-{number % 7}", "purpose": "training"},
        "labelFingerprint": "p1q2r3s4t5u=",
        "startRestricted": False,
        "deletionProtection": False,
        "guestAccelerators": [
            {"acceleratorType": f"{zone_url}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1 + number % 2}
        ],
        "shieldedInstanceConfig": {"enableSecureBoot": False, "enableVtpm": True, "enableIntegrityMonitoring": True},
        "shieldedInstanceIntegrityPolicy": {"updateAutoLearnPolicy": True},
        "fingerprint": "aB3dE5fG7hI=",
        "lastStartTimestamp": started,
        "resourceStatus": {"effectiveInstanceMetadata": {"vmDnsSettingMetadataValue": "ZonalOnly"}},
        "satisfiesPzi": True,
    }


def started_at(number: int) -> str:
    return f"2026-11-{1 + number % 19:02d}T{number % 24:02d}:{number % 60:02d}:07.{number % 1000:03d}-08:00"


def made_at(number: int) -> str:
    """When a VM that was never stopped was made, and its disk with it: six seconds before it had started."""
    return started_at(number).replace(":07.", ":01.")


def full_disk(number: int, project: str = "fleet") -> dict[str, Any]:
    """The boot disk of the VM of the same number, as disks.get gives it."""
    zone = ZONES[number % len(ZONES)]
    zone_url = f"{_ROOT}/{project}/zones/{zone}"
    name = f"trainer-{number:05d}"
    return {
        "kind": "compute#disk",
        "id": str(5_000_000_000_000_000_000 + number),
        "creationTimestamp": f"2026-10-{1 + number % 19:02d}T{number % 24:02d}:{number % 60:02d}:06.500-07:00",
        "name": name,
        "sizeGb": "100",
        "zone": zone_url,
        "status": "READY",
        "selfLink": f"{zone_url}/disks/{name}",
        "type": f"{zone_url}/diskTypes/pd-balanced",
        "users": [f"{zone_url}/instances/{name}"],
        "labelFingerprint": "42WmSpB8rSM=",
        "physicalBlockSizeBytes": "4096",
    }


def full_operation(number: int, project: str = "fleet") -> dict[str, Any]:
    """The operation that made the VM of the same number, as the list of operations gives it."""
    zone = ZONES[number % len(ZONES)]
    zone_url = f"{_ROOT}/{project}/zones/{zone}"
    stamp = made_at(number)
    return {
        "kind": "compute#operation",
        "id": str(6_000_000_000_000_000_000 + number),
        "name": f"operation-{1_760_000_000_000 + number}-6419a3b{number:06x}-1f2e3d4c-{number:08x}",
        "zone": zone_url,
        "operationType": "insert",
        "targetLink": f"{zone_url}/instances/trainer-{number:05d}",
        "targetId": str(4_000_000_000_000_000_000 + number),
        "status": "DONE",
        "user": f"person-{number % 60}@example.com",
        "progress": 100,
        "insertTime": stamp,
        "startTime": stamp,
        "endTime": started_at(number),
        "selfLink": f"{zone_url}/operations/operation-{number}",
    }


class Mask(Enum):
    """The part of each VM that a page holds."""

    FULL = "all of it, indented"
    FIRST = "what a first look asks for"
    LATER = "what later looks ask for: of the metadata the fingerprint alone"
    BARE = "as before keepers and addresses: no metadata, no network interfaces"


def mask_of(fields: str | None) -> Mask:
    if fields is None:
        return Mask.FULL
    return Mask.FIRST if "items(key" in fields else Mask.LATER


def shown(collection: str, number: int, mask: Mask, *, project: str, is_new: bool) -> dict[str, Any]:
    """Returns the VM, disk or operation of this number as a page holds it."""
    make, keep = _MADE[collection]
    if collection == "instances":
        keep = _INSTANCE_MASKS[mask]
    body = make(number, project)
    if is_new and collection != "operations":
        body["creationTimestamp"] = made_at(number)
    kept: dict[str, Any] = body if mask is Mask.FULL else _kept(body, keep)
    return kept


def pages(collection: str, count: int, mask: Mask, *, project: str = "fleet", are_new: bool = False) -> Iterator[bytes]:
    """The pages of an aggregated list, 500 a page.

    VMs that `are_new` were never stopped since their operations made them.
    """
    masked = mask is not Mask.FULL
    kind = f"compute#{collection[:-1]}AggregatedList"
    numbers: Sequence[int] = range(count)
    if collection == "operations":  # newest first, as they are asked for
        numbers = sorted(numbers, key=lambda number: datetime.fromisoformat(made_at(number)), reverse=True)
    for first in range(0, max(count, 1), 500):
        scopes: dict[str, Any] = {scope: _empty(collection, scope, masked) for scope in _OTHER_SCOPES}
        scopes |= {f"zones/{zone}": _empty(collection, f"zones/{zone}", masked) for zone in ZONES}
        for number in numbers[first : first + 500]:
            body = shown(collection, number, mask, project=project, is_new=are_new)
            scope = f"zones/{ZONES[number % len(ZONES)]}"
            if collection not in scopes[scope]:
                scopes[scope] = {collection: []}
            scopes[scope][collection].append(body)
        page: dict[str, Any] = {"kind": kind, "items": scopes}
        if first + 500 < count:
            page["nextPageToken"] = str(first + 500)
        if not masked:
            page |= {"id": f"projects/{project}/aggregated/{collection}", "selfLink": f"{_ROOT}/{project}/aggregated"}
        yield orjson.dumps(page, option=0 if masked else orjson.OPT_INDENT_2)


def _empty(collection: str, scope: str, masked: bool) -> dict[str, Any]:
    if masked:
        return {"warning": {"code": "NO_RESULTS_ON_PAGE"}}
    message = f"There are no results for scope '{scope}' on this page."
    return {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": message, "data": [{"key": "scope", "value": scope}]}}


_Mask = dict[str, "_Mask | None"]
_BARE_MASK: _Mask = {
    **dict.fromkeys(
        (
            "id",
            "name",
            "status",
            "creationTimestamp",
            "lastStartTimestamp",
            "lastStopTimestamp",
            "machineType",
            "labels",
        )
    ),
    "disks": dict.fromkeys(("source", "type", "diskSizeGb", "boot", "autoDelete")),
    "guestAccelerators": dict.fromkeys(("acceleratorType", "acceleratorCount")),
    "scheduling": dict.fromkeys(("preemptible", "provisioningModel", "maxRunDuration", "terminationTime")),
}
_LATER_MASK: _Mask = {
    **_BARE_MASK,
    "networkInterfaces": {"accessConfigs": {"natIP": None}},
    "metadata": {"fingerprint": None},
}
_INSTANCE_MASKS: dict[Mask, _Mask] = {
    Mask.FULL: {},
    Mask.FIRST: {**_LATER_MASK, "metadata": {"fingerprint": None, "items": dict.fromkeys(("key", "value"))}},
    Mask.LATER: _LATER_MASK,
    Mask.BARE: _BARE_MASK,
}
_DISK_MASK: _Mask = dict.fromkeys(("name", "type", "sizeGb", "creationTimestamp"))
_OPERATION_MASK: _Mask = dict.fromkeys(
    ("id", "name", "operationType", "targetId", "targetLink", "user", "status", "insertTime", "startTime", "endTime")
)
_MADE = {
    "instances": (full_instance, _LATER_MASK),
    "disks": (full_disk, _DISK_MASK),
    "operations": (full_operation, _OPERATION_MASK),
}


def _kept(value: Any, mask: _Mask | None) -> Any:
    if mask is None:
        return value
    if isinstance(value, list):
        return [_kept(one, mask) for one in value]
    return {key: _kept(value[key], beneath) for key, beneath in mask.items() if key in value}
