"""Converts a VM from Compute Engine's JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from sys import intern
from typing import Any

import orjson

from costguard.gce.disks import DiskDetails, disk_key
from costguard.gce.fields import (
    UNREADABLE,
    Garbled,
    identity,
    labels,
    last_part,
    moment,
    moment_or_none,
    number,
    short,
    type_name,
    word,
)
from costguard.gce.machine_types import MachineShape, accelerators_of
from costguard.model.instance import AttachedDisk, InstanceKey, ProvisioningModel, SeenInstance, Shape, Status
from costguard.model.managed.origin import origin_of

_STATUS: dict[str, Status] = {
    **{status.name: status for status in Status},
    # Google says so of a VM that is merely stopped; STOPPED is documented too, and was never seen.
    "TERMINATED": Status.STOPPED,
}
_MODELS: dict[str, ProvisioningModel] = {model.name: model for model in ProvisioningModel}
_SCRATCH_GIB = 375

# orjson looks up the fields of a dataclass one by one, which takes three times as long as a tuple of them.
_of_disk = attrgetter(*(field.name for field in fields(AttachedDisk)))
_of_shape = attrgetter(*(field.name for field in fields(Shape)))
_NESTED = {"key", "shape", "disks"}
_of_instance = attrgetter(*(field.name for field in fields(SeenInstance) if field.name not in _NESTED))


class Shapes:
    """The shapes of VMs. Those of one kind in one zone share one value, which is made once in a look.

    `shape_of(zone, machine type)` gives None when unknown.
    """

    def __init__(self, shape_of: Callable[[str, str], MachineShape | None]) -> None:
        self._shape_of = shape_of
        self._known: dict[tuple[str, Any, Any, Any, int], Shape] = {}

    def of(self, zone: str, raw: Mapping[str, Any], scratch_gib: int) -> Shape:
        accelerators = raw.get("guestAccelerators") or ()
        if len(accelerators) > 1:
            return self._made(zone, raw, accelerators, scratch_gib)
        only = accelerators[0] if accelerators else _NO_ACCELERATOR
        key = (zone, raw["machineType"], only["acceleratorType"], only["acceleratorCount"], scratch_gib)
        seen = self._known.get(key)
        if seen is None:
            seen = self._made(zone, raw, accelerators, scratch_gib)
            if seen.is_known:
                self._known[key] = seen
        return seen

    def _made(self, zone: str, raw: Mapping[str, Any], accelerators: Sequence[Any], scratch_gib: int) -> Shape:
        machine_type = type_name(raw["machineType"])
        shape = self._shape_of(zone, machine_type)
        vcpus, memory_mib, gpu_type, gpu_count, built_in_gib = shape or (0, 0, None, 0, 0)
        if accelerators:
            gpu_type, gpu_count = accelerators_of(accelerators)
        # Built-in local SSDs are listed among the disks of newer VMs, and are not for some types.
        return _shared_shape(machine_type, vcpus, memory_mib, gpu_type, gpu_count, max(scratch_gib, built_in_gib))


_NO_ACCELERATOR = {"acceleratorType": None, "acceleratorCount": None}


def instance_from(
    project: str, zone: str, raw: Mapping[str, Any], disks: Mapping[str, DiskDetails], shapes: Shapes
) -> tuple[SeenInstance, tuple[str, ...]]:
    """Reads a VM, and the keys of its persistent disks, in their order: `disks` is keyed so."""
    try:
        return _instance(project, zone, raw, disks, shapes)
    except Garbled as error:
        raise Garbled(f"{_who(raw)}: {error}") from None
    except KeyError as error:
        raise Garbled(f"{_who(raw)}: {error} is missing") from None
    except UNREADABLE as error:
        raise Garbled(f"{_who(raw)}: {error}") from None


def status_of(google: str) -> Status:
    """Google's word for a VM's state, as ours; UNKNOWN for one that is new to us."""
    return _STATUS.get(google, Status.UNKNOWN)


def _instance(
    project: str, zone: str, raw: Mapping[str, Any], disks: Mapping[str, DiskDetails], shapes: Shapes
) -> tuple[SeenInstance, tuple[str, ...]]:
    if not zone:
        raise Garbled("it is listed under no zone")
    gce_id = identity(raw["id"])
    scratch_gib, keys, attached = 0, [], []
    for disk in raw.get("disks") or ():
        if disk.get("type") == "SCRATCH":
            scratch_gib += number(disk.get("diskSizeGb") or _SCRATCH_GIB)
            continue
        key = disk_key(disk.get("source") or "")
        keys.append(key)
        attached.append(_attached(disk, disks.get(key)))
    scheduling = raw.get("scheduling") or {}
    limit = scheduling.get("maxRunDuration")
    google = raw.get("resourceStatus") or {}
    fires = (google.get("scheduling") or {}).get("terminationTimestamp")
    consumed = (google.get("reservationConsumptionInfo") or {}).get("consumedReservation")
    status, addresses = status_of(word(raw["status"])), _external_addresses(raw.get("networkInterfaces") or ())
    seen = SeenInstance(
        key=InstanceKey(project, gce_id),
        name=word(raw["name"]),
        zone=zone,
        status=status,
        created_at=moment(raw["creationTimestamp"]),
        shape=shapes.of(zone, raw, scratch_gib),
        provisioning_model=_model(scheduling),
        fingerprint="",
        last_started_at=moment_or_none(raw.get("lastStartTimestamp")),
        last_stopped_at=moment_or_none(raw.get("lastStopTimestamp")),
        last_suspended_at=moment_or_none(raw.get("lastSuspendedTimestamp")),
        labels=labels(raw.get("labels")),
        disks=tuple(attached),
        termination_at=moment_or_none(fires or scheduling.get("terminationTime")),
        max_run_duration=_duration(limit) if limit else None,
        graceful_stop=bool((scheduling.get("gracefulShutdown") or {}).get("enabled")),
        origin=_origin(raw.get("metadata")),
        external_addresses=len(addresses),
        kept_addresses=sum(map(bool, addresses)) if status in _OFF else 0,
        reservation=_path(consumed) if consumed else "",
    )
    return fingerprinted(seen), tuple(keys)


@lru_cache(maxsize=4096)
def _path(url: str) -> str:
    """`projects/P/zones/Z/reservations/NAME`, of the whole URL too. Raises Garbled for what names none."""
    path = url[url.find("projects/") :] if isinstance(url, str) and "projects/" in url else ""
    if not path:
        raise Garbled(f"{short(url)} names no reservation")
    return intern(path)


_OFF = frozenset({Status.STOPPED, Status.SUSPENDED})


def _external_addresses(interfaces: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Lists the external IPv4 addresses of a VM; None: one that it has while it runs. IPv6 ones are elsewhere."""
    return [access.get("natIP") for interface in interfaces for access in interface.get("accessConfigs") or ()]


def _origin(metadata: Any) -> Mapping[str, str]:
    """Reads the items that show who keeps it. Most VMs have none, and share one value; a group's VMs share theirs."""
    items = (metadata or {}).get("items") if isinstance(metadata, dict | None) else metadata
    origin = origin_of(items or ())
    return {key: intern(value) for key, value in origin.items()} if origin else _NO_ORIGIN


_NO_ORIGIN: Mapping[str, str] = {}


def _model(scheduling: Mapping[str, Any]) -> ProvisioningModel:
    if scheduling.get("preemptible") is True:  # the legacy way of saying it
        return ProvisioningModel.SPOT
    return _MODELS.get(str(scheduling.get("provisioningModel")), ProvisioningModel.STANDARD)


# Fleets have few shapes and few types: ten thousand VMs share them.
_shared_shape = lru_cache(maxsize=4096)(Shape)


def _attached(raw: Mapping[str, Any], details: DiskDetails | None) -> AttachedDisk:
    source = raw.get("source")
    name = last_part(source) if source else "disk"
    boot, auto_delete = raw.get("boot") is True, raw.get("autoDelete") is True
    if details is None:
        return AttachedDisk(name, number(raw.get("diskSizeGb") or 0), None, None, boot, auto_delete)
    return AttachedDisk(
        name, details.size_gib, details.disk_type, details.created_at, boot, auto_delete, details.gce_id
    )


def with_disks(seen: SeenInstance, keys: Iterable[str], disks: Mapping[str, DiskDetails]) -> SeenInstance:
    """The same VM with what `disks` tells; a disk that it does not hold stays as it was.

    A disk's type and creation never change, so what was once read of it stands.
    """
    pairs = zip(seen.disks, (disks.get(key) for key in keys), strict=True)
    new = tuple(
        replace(
            disk,
            size_gib=details.size_gib,
            disk_type=details.disk_type,
            created_at=details.created_at,
            gce_id=details.gce_id,
        )
        if details
        else disk
        for disk, details in pairs
    )
    return seen if new == seen.disks else fingerprinted(replace(seen, disks=new, fingerprint=""))


# Raised when the ledger learns to make more of what Google said before: each VM is recorded once more.
_READ_AS = 1


def fingerprinted(seen: SeenInstance) -> SeenInstance:
    # All of the value is digested, whatever it will hold one day; orjson is by far the fastest to write it out.
    key, disks = (seen.key.project, seen.key.gce_id), list(map(_of_disk, seen.disks))
    value = (_READ_AS, _of_instance(seen), key, _of_shape(seen.shape), disks)
    text = orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS)
    # The object is ours alone until it is returned: copying it only to set this would double the cost.
    object.__setattr__(seen, "fingerprint", blake2b(text, digest_size=12).hexdigest())
    return seen


def _duration(raw: Mapping[str, Any]) -> timedelta:
    return timedelta(seconds=number(raw.get("seconds") or 0), microseconds=number(raw.get("nanos") or 0) // 1000)


def _who(raw: Any) -> str:
    if not isinstance(raw, dict):
        return short(raw)
    return f"instance {short(raw.get('name'))} (id {short(raw.get('id'))})"
