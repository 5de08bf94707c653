"""Instances and disks as the API shows them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from costguard_sandbox.clock import pacific, zulu
from costguard_sandbox.gce.vm import VM, Attachment, Disk

EMPTY_FINGERPRINT = "42WmSpB8rSM="  # of empty labels and tags, in every project
_GUEST_FEATURES = ("VIRTIO_SCSI_MULTIQUEUE", "SEV_CAPABLE", "UEFI_COMPATIBLE", "GVNIC")


_KEPT_AS_GIVEN = frozenset(
    {
        "advancedMachineFeatures",
        "confidentialInstanceConfig",
        "displayDevice",
        "hostname",
        "keyRevocationActionType",
        "minCpuPlatform",
        "networkPerformanceConfig",
        "privateIpv6GoogleAccess",
        "reservationAffinity",
        "resourcePolicies",
        "shieldedInstanceConfig",
    }
)


def fingerprint(value: object) -> str:
    """Eight bytes in base64 that change with the value."""
    if not value:
        return EMPTY_FINGERPRINT
    digest = hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()[:8]
    return base64.urlsafe_b64encode(digest).decode()


def last_part(link: str) -> str:
    """`n1-standard-8` of a full, partial or bare reference."""
    return link.rsplit("/", 1)[-1]


def instance_resource(base: str, vm: VM) -> dict[str, Any]:
    """The instance as the API shows it, cached until the VM changes. Callers share it and must not change it."""
    if vm.rendered is None:
        vm.rendered = _instance(base, vm)
    return vm.rendered


def _instance(base: str, vm: VM) -> dict[str, Any]:
    project_link = f"{base}/projects/{vm.project}"
    zone_link = f"{project_link}/zones/{vm.zone}"
    given = vm.given
    labels: Mapping[str, str] = given.get("labels") or {}
    shown: dict[str, Any] = {
        "kind": "compute#instance",
        "id": str(vm.id),
        "creationTimestamp": pacific(vm.created_at),
        "name": vm.name,
        "tags": _tags(given),
        "machineType": f"{zone_link}/machineTypes/{vm.shape.machine_type}",
        "status": vm.status.value,
        "zone": zone_link,
        "canIpForward": bool(given.get("canIpForward", False)),
        "networkInterfaces": _interfaces(project_link, vm),
        "disks": [_attached(zone_link, held) for held in vm.attachments],
        "metadata": _metadata(given),
    }
    if given.get("description"):
        shown["description"] = given["description"]
    if given.get("serviceAccounts"):
        shown["serviceAccounts"] = given["serviceAccounts"]
    shown["selfLink"] = f"{zone_link}/instances/{vm.name}"
    shown["scheduling"] = given["scheduling"]
    shown["cpuPlatform"] = vm.cpu_platform if vm.last_start else "Unknown CPU Platform"
    if labels:
        shown["labels"] = labels
    shown["labelFingerprint"] = fingerprint(labels)
    shown["startRestricted"] = False
    shown["deletionProtection"] = bool(given.get("deletionProtection", False))
    if given.get("resourcePolicies"):
        shown["resourcePolicies"] = [f"{base}/{one.removeprefix(f'{base}/')}" for one in given["resourcePolicies"]]
    if vm.shape.gpu_count:
        link = f"{zone_link}/acceleratorTypes/{vm.shape.gpu_type}"
        shown["guestAccelerators"] = [{"acceleratorType": link, "acceleratorCount": vm.shape.gpu_count}]
    for key in _KEPT_AS_GIVEN & given.keys():
        shown[key] = given[key]
    shown.setdefault("reservationAffinity", {"consumeReservationType": "ANY_RESERVATION"})
    shown.setdefault("displayDevice", {"enableDisplay": False})
    shown.setdefault(
        "shieldedInstanceConfig", {"enableSecureBoot": False, "enableVtpm": True, "enableIntegrityMonitoring": True}
    )
    shown["shieldedInstanceIntegrityPolicy"] = {"updateAutoLearnPolicy": True}
    if vm.last_start:
        shown["lastStartTimestamp"] = pacific(vm.last_start)
    if vm.last_stop:
        shown["lastStopTimestamp"] = pacific(vm.last_stop)
    if vm.last_suspend:
        shown["lastSuspendedTimestamp"] = pacific(vm.last_suspend)
    shown["satisfiesPzi"] = True
    status: dict[str, Any] = {"effectiveInstanceMetadata": {"vmDnsSettingMetadataValue": "ZonalOnly"}}
    if vm.termination_at:
        status["scheduling"] = {"terminationTimestamp": zulu(vm.termination_at)}
    if vm.reservation is not None and vm.uses_capacity:
        status["reservationConsumptionInfo"] = {"consumedReservation": vm.reservation.path}
    shown["resourceStatus"] = status
    shown["fingerprint"] = fingerprint([shown["id"], shown["metadata"], shown["tags"], shown["scheduling"], labels])
    return shown


def _tags(given: Mapping[str, Any]) -> dict[str, Any]:
    items = (given.get("tags") or {}).get("items") or []
    return {"items": items, "fingerprint": fingerprint(items)} if items else {"fingerprint": EMPTY_FINGERPRINT}


def _metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    items = (given.get("metadata") or {}).get("items") or []
    shown: dict[str, Any] = {"kind": "compute#metadata", "fingerprint": fingerprint(items)}
    if items:
        shown["items"] = items
    return shown


def _interfaces(project_link: str, vm: VM) -> list[dict[str, Any]]:
    shown = []
    for index, given in enumerate(vm.given.get("networkInterfaces") or [{}]):
        network = last_part(given.get("network") or "default")
        interface: dict[str, Any] = {
            "kind": "compute#networkInterface",
            "network": f"{project_link}/global/networks/{network}",
            "subnetwork": f"{project_link}/regions/{vm.region}/subnetworks/"
            + last_part(given.get("subnetwork") or network),
            "networkIP": given.get("networkIP") or vm.network_ip,
            "name": f"nic{index}",
            "fingerprint": fingerprint([vm.id, index]),
            "stackType": given.get("stackType", "IPV4_ONLY"),
        }
        if given.get("nicType"):
            interface["nicType"] = given["nicType"]
        if given.get("accessConfigs"):
            interface["accessConfigs"] = [
                {
                    "kind": "compute#accessConfig",
                    "type": "ONE_TO_ONE_NAT",
                    "name": access.get("name", "external-nat"),
                    # An ephemeral address is released while the VM is stopped; a static one is given by its number.
                    **_nat_ip(vm, access),
                    "networkTier": access.get("networkTier", "PREMIUM"),
                }
                for access in given["accessConfigs"]
            ]
        shown.append(interface)
    return shown


def _nat_ip(vm: VM, access: Mapping[str, Any]) -> dict[str, str]:
    is_running = bool(vm.runs) and vm.runs[-1].ended is None
    natted = access.get("natIP") or (vm.nat_ip if is_running else None)
    return {"natIP": natted} if natted else {}


def _attached(zone_link: str, held: Attachment) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT" if held.disk else "SCRATCH",
        "mode": held.given.get("mode", "READ_WRITE"),
        "deviceName": held.device_name,
        "index": held.index,
        "boot": held.boot,
        "autoDelete": held.auto_delete,
        "interface": held.given.get("interface", "SCSI" if held.disk else "NVME"),
        "diskSizeGb": str(held.size_gib),
    }
    if held.disk:
        shown["source"] = f"{zone_link}/disks/{held.disk.name}"
    if held.boot and held.disk:
        shown["licenses"] = list(held.disk.licenses)
        shown["guestOsFeatures"] = [{"type": feature} for feature in _GUEST_FEATURES]
        shown["architecture"] = "X86_64"
    return shown


def disk_resource(base: str, disk: Disk) -> dict[str, Any]:
    zone_link = f"{base}/projects/{disk.project}/zones/{disk.zone}"
    shown: dict[str, Any] = {
        "kind": "compute#disk",
        "id": str(disk.id),
        "creationTimestamp": pacific(disk.created_at),
        "name": disk.name,
        "sizeGb": str(disk.size_gib),
        "zone": zone_link,
        "status": disk.status.value,
        "selfLink": f"{zone_link}/disks/{disk.name}",
        "type": f"{zone_link}/diskTypes/{disk.disk_type}",
        "labelFingerprint": fingerprint(disk.labels),
        "physicalBlockSizeBytes": "4096",
    }
    if disk.source_image:
        shown["sourceImage"] = disk.source_image
        shown["licenses"] = list(disk.licenses)
    if disk.labels:
        shown["labels"] = disk.labels
    if disk.description:
        shown["description"] = disk.description
    if disk.users:
        shown["users"] = [f"{zone_link}/instances/{vm.name}" for vm in disk.users]
    if disk.last_attach:
        shown["lastAttachTimestamp"] = pacific(disk.last_attach)
    if disk.last_detach:
        shown["lastDetachTimestamp"] = pacific(disk.last_detach)
    return shown
