"""Reads the request in the first entry of an insert, which alone tells what an unseen VM is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from costguard.ledger.feed.values import amount, is_true, items, last_part, text, within
from costguard.ledger.feed.values import field as key
from costguard.model.instance import ProvisioningModel, joined_types

_SCRATCH_GIB = 375  # a local SSD, where the request does not say its size
_DEFAULT_DISK = "pd-standard"  # `AttachedDiskInitializeParams.diskType` in the API: "the default is pd-standard"
_MODELS = {model.name: model for model in ProvisioningModel}


@dataclass(frozen=True, slots=True)
class RequestedDisk:
    """A new persistent disk. `size_gib` is None where its image decides it; a disk that exists already is none."""

    name: str
    size_gib: int | None
    disk_type: str
    boot: bool = False
    auto_delete: bool = False


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """Holds what a caller asked for; None where the request does not say it, as where a template does."""

    machine_type: str | None
    provisioning: ProvisioningModel | None
    labels: Mapping[str, str] = field(default_factory=dict)
    disks: tuple[RequestedDisk, ...] = ()
    gpu_type: str | None = None  # attached to it, not those that its machine type has built in
    gpu_count: int = 0
    local_ssd_gib: int = 0
    external_addresses: int = 0
    graceful_stop: bool = False
    template: str = ""  # `sourceInstanceTemplate`, which stands in place of what is missing
    asked: int = 0  # how often Google's history of assets was asked about the VM and knew nothing of it
    ran_from: datetime | None = None  # as that history says; None where it was not asked
    gone_at: datetime | None = None


def read_request(raw: Any, operation: str | None) -> FeedRequest | None:
    """Reads the request of an insert, a change of the machine type or of the scheduling; None: it says nothing.

    A last entry has nothing but `@type` in its place.
    """
    if isinstance(key(raw, "instanceProperties"), dict):  # of a bulk insert: what each of its VMs gets
        raw = {**raw, **raw["instanceProperties"]} if "instanceProperties" in raw else key(raw, "instanceProperties")
    if not isinstance(raw, dict) or not any(not name.startswith(("@", "at_sign")) for name in map(str, raw)):
        return None
    template = text(key(raw, "sourceInstanceTemplate")) or ""
    gpus = list(items(key(raw, "guestAccelerators")))
    gpu_types = filter(None, (last_part(key(one, "acceleratorType")) for one in gpus))
    disks = list(items(key(raw, "disks")))
    return FeedRequest(
        machine_type=last_part(key(raw, "machineType")),
        provisioning=_model(raw, bool(template), operation),
        labels=_labels(key(raw, "labels")),
        disks=tuple(_disk(one, place, text(key(raw, "name")) or "") for place, one in enumerate(disks) if _is_new(one)),
        gpu_type=joined_types(gpu_types) or None,
        gpu_count=sum(amount(key(one, "acceleratorCount")) or 0 for one in gpus),
        local_ssd_gib=sum(_scratch_gib(one) for one in disks if key(one, "type") == "SCRATCH"),
        external_addresses=sum(
            1 for interface in items(key(raw, "networkInterfaces")) for _ in items(key(interface, "accessConfigs"))
        ),
        graceful_stop=is_true(within(raw, "scheduling", "gracefulShutdown", "enabled")),
        template=template,
    )


def _model(raw: dict[str, Any], has_template: bool, operation: str | None) -> ProvisioningModel | None:
    """A caller may say nothing, and then gets an on-demand VM; of a template nothing is known."""
    scheduling = raw if operation == "setScheduling" else key(raw, "scheduling")
    if is_true(key(scheduling, "preemptible")):  # the legacy way of saying Spot
        return ProvisioningModel.SPOT
    named = _MODELS.get(str(key(scheduling, "provisioningModel")).upper())
    if named is not None or operation != "insert":
        return named
    is_cut_out = scheduling is not None and not isinstance(scheduling, dict)
    says_nothing = last_part(key(raw, "machineType")) is None
    return None if has_template or is_cut_out or says_nothing else ProvisioningModel.STANDARD


def _labels(raw: Any) -> dict[str, str]:
    """Labels as the audit log has them, a list of key and value, or as the API has them."""
    pairs = list(raw.items()) if isinstance(raw, dict) else [(key(one, "key"), key(one, "value")) for one in items(raw)]
    return {name: value or "" for name, value in pairs if isinstance(name, str) and isinstance(value, str | None)}


def _is_new(raw: dict[str, Any]) -> bool:
    return key(raw, "type") != "SCRATCH" and not key(raw, "source")


def _disk(raw: dict[str, Any], place: int, vm: str) -> RequestedDisk:
    """Reads a new disk. Google gives a boot disk without a name that of its VM, and others that name and a number.

    The name of a boot disk is "" where the request does not say the VM's.
    """
    made = key(raw, "initializeParams")
    boot = is_true(key(raw, "boot"))
    name = text(key(made, "diskName")) or (vm if boot else text(key(raw, "deviceName")) or f"{vm}-{place}")
    return RequestedDisk(
        name,
        amount(key(made, "diskSizeGb")) or amount(key(raw, "diskSizeGb")) or None,
        last_part(key(made, "diskType")) or _DEFAULT_DISK,
        boot,
        is_true(key(raw, "autoDelete")),
    )


def _scratch_gib(raw: dict[str, Any]) -> int:
    return amount(within(raw, "initializeParams", "diskSizeGb")) or amount(key(raw, "diskSizeGb")) or _SCRATCH_GIB
