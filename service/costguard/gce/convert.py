"""Compute Engine's JSON, made into our own values. Raises Garbled for what cannot be understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from sys import intern
from typing import Any, NamedTuple

import orjson

from costguard.gce.machine_types import MachineShape
from costguard.model.instance import AttachedDisk, InstanceKey, ProvisioningModel, SeenInstance, Shape, Status
from costguard.model.observation import OperationStatus, SeenOperation

_STATUS: dict[str, Status] = {
    **{status.name: status for status in Status},
    # Google says so of a VM that is merely stopped; STOPPED is documented too, and was never seen.
    "TERMINATED": Status.STOPPED,
}
_SCRATCH_GIB = 375
_INSTANCE_LINK = re.compile(r"zones/([^/]+)/instances/([^/]+)$")


class Garbled(ValueError):
    """A part of an answer that is not what the API promises; the text says which and how."""


class DiskFacts(NamedTuple):
    """What only the list of disks tells of a disk."""

    disk_type: str
    size_gib: int
    created_at: datetime


def instance_from(
    project: str,
    zone: str,
    raw: Mapping[str, Any],
    disks: Mapping[str, DiskFacts],
    shape_of: Callable[[str, str], MachineShape | None],
) -> SeenInstance:
    """One VM. `disks` is keyed as `disk_key` says; `shape_of(zone, machine type)` gives None when unknown."""
    try:
        return _instance(project, zone, raw, disks, shape_of)
    except Garbled as error:
        raise Garbled(f"{_who(raw)}: {error}") from None
    except KeyError as error:
        raise Garbled(f"{_who(raw)}: {error} is missing") from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Garbled(f"{_who(raw)}: {error}") from None


def _instance(
    project: str,
    zone: str,
    raw: Mapping[str, Any],
    disks: Mapping[str, DiskFacts],
    shape_of: Callable[[str, str], MachineShape | None],
) -> SeenInstance:
    if not zone:
        raise Garbled("it is listed under no zone")
    gce_id = str(raw["id"])
    if not gce_id.isdecimal():
        raise Garbled(f"id {_short(gce_id)} is not a number")
    attached = raw.get("disks") or ()
    scheduling = raw.get("scheduling") or {}
    spot = scheduling.get("provisioningModel") == "SPOT" or scheduling.get("preemptible") is True
    limit = scheduling.get("maxRunDuration")
    fires = ((raw.get("resourceStatus") or {}).get("scheduling") or {}).get("terminationTimestamp")
    return _fingerprinted(
        SeenInstance(
            key=InstanceKey(project, gce_id),
            name=_word(raw["name"]),
            zone=zone,
            status=_STATUS.get(_word(raw["status"]), Status.UNKNOWN),
            created_at=moment(raw["creationTimestamp"]),
            shape=_shape(zone, raw, attached, shape_of),
            provisioning_model=ProvisioningModel.SPOT if spot else ProvisioningModel.STANDARD,
            fingerprint="",
            last_started_at=_moment_or_none(raw.get("lastStartTimestamp")),
            last_stopped_at=_moment_or_none(raw.get("lastStopTimestamp")),
            last_suspended_at=_moment_or_none(raw.get("lastSuspendedTimestamp")),
            labels={k: str(v) for k, v in (raw.get("labels") or {}).items()},
            disks=tuple([_attached(disk, disks) for disk in attached if disk.get("type") != "SCRATCH"]),
            termination_at=_moment_or_none(fires or scheduling.get("terminationTime")),
            max_run_duration=_duration(limit) if limit else None,
            graceful_stop=bool((scheduling.get("gracefulShutdown") or {}).get("enabled")),
        )
    )


def _shape(
    zone: str,
    raw: Mapping[str, Any],
    attached: Iterable[Mapping[str, Any]],
    shape_of: Callable[[str, str], MachineShape | None],
) -> Shape:
    machine_type = intern(last_part(raw["machineType"]))
    known = shape_of(zone, machine_type)
    vcpus, memory_mib, gpu_type, gpu_count, built_in_gib = known or (0, 0, None, 0, 0)
    if accelerators := raw.get("guestAccelerators"):
        gpu_type = intern(last_part(accelerators[0]["acceleratorType"]))
        gpu_count = sum(int(a["acceleratorCount"]) for a in accelerators if last_part(a["acceleratorType"]) == gpu_type)
    scratch_gib = sum(int(disk.get("diskSizeGb") or _SCRATCH_GIB) for disk in attached if disk.get("type") == "SCRATCH")
    # Built-in local SSDs are listed among the disks of newer VMs, and are not for some types.
    return Shape(machine_type, vcpus, memory_mib, gpu_type, gpu_count, max(scratch_gib, built_in_gib))


def _attached(raw: Mapping[str, Any], disks: Mapping[str, DiskFacts]) -> AttachedDisk:
    source = raw.get("source")
    facts = disks.get(disk_key(source)) if source else None
    return AttachedDisk(
        name=last_part(source) if source else "disk",
        size_gib=facts.size_gib if facts else int(raw.get("diskSizeGb") or 0),
        disk_type=facts.disk_type if facts else None,
        created_at=facts.created_at if facts else None,
        boot=raw.get("boot") is True,
        auto_delete=raw.get("autoDelete") is True,
    )


def with_disks(seen: SeenInstance, keys: Iterable[str], disks: Mapping[str, DiskFacts]) -> SeenInstance:
    """The same VM with what `disks` tells; a disk that it does not hold stays as it was.

    A disk's type and creation never change, so what was once read of it stands.
    """
    pairs = zip(seen.disks, (disks.get(key) for key in keys), strict=True)
    new = tuple(
        replace(disk, size_gib=facts.size_gib, disk_type=facts.disk_type, created_at=facts.created_at)
        if facts
        else disk
        for disk, facts in pairs
    )
    return seen if new == seen.disks else _fingerprinted(replace(seen, disks=new, fingerprint=""))


def disk_keys(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a VM's persistent disks, in the order of SeenInstance.disks."""
    return tuple(disk_key(d.get("source") or "") for d in raw.get("disks") or () if d.get("type") != "SCRATCH")


def disk_key(source: str) -> str:
    """`zones/us-central1-a/disks/d` of a disk's URL: the same wherever the URL begins."""
    at = source.rfind("zones/")
    return source[at if at >= 0 else max(source.rfind("regions/"), 0) :]


def disk_facts(raw: Mapping[str, Any]) -> DiskFacts:
    """Raises Garbled."""
    try:
        return DiskFacts(intern(last_part(raw["type"])), int(raw["sizeGb"]), moment(raw["creationTimestamp"]))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Garbled(f"disk {_short(raw.get('name') if isinstance(raw, dict) else raw)}: {error!r}") from None


def operation_from(project: str, raw: Mapping[str, Any]) -> SeenOperation | None:
    """One operation; None when its target is not an instance. Raises Garbled."""
    try:
        target = _INSTANCE_LINK.search(raw.get("targetLink") or "")
        if target is None:
            return None
        errors: list[dict[str, str]] = (raw.get("error") or {}).get("errors") or [{}]
        return SeenOperation(
            project=project,
            operation_id=_word(str(raw.get("id") or raw["name"])),
            kind=_word(raw["operationType"]),
            target_id=str(raw.get("targetId", "")),
            target_name=target[2],
            zone=intern(target[1]),
            user=str(raw.get("user", "")),
            status=OperationStatus[_word(raw["status"])],
            inserted_at=moment(raw["insertTime"]),
            started_at=_moment_or_none(raw.get("startTime")),
            ended_at=_moment_or_none(raw.get("endTime")),
            error_code=errors[0].get("code") or _text_or_none(raw.get("httpErrorStatusCode")),
            error_message=errors[0].get("message") or _text_or_none(raw.get("httpErrorMessage")),
            status_message=_text_or_none(raw.get("statusMessage")),
        )
    except Garbled as error:
        raise Garbled(f"operation {_short(raw.get('name'))}: {error}") from None
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        name = raw.get("name") if isinstance(raw, dict) else raw
        raise Garbled(f"operation {_short(name)}: {error!r}") from None


def moment(text: Any) -> datetime:
    """An RFC 3339 time, in UTC. Raises Garbled, also for a time without an offset."""
    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is not None:
            return parsed.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        pass
    raise Garbled(f"{_short(text)} is not a time with an offset")


def last_part(url: str) -> str:
    """`n1-standard-4` of a URL that ends so. Raises Garbled for anything but a text with an end."""
    if not isinstance(url, str) or not (name := url[url.rfind("/") + 1 :]):
        raise Garbled(f"{_short(url)} is not a resource's name")
    return name


def _fingerprinted(seen: SeenInstance) -> SeenInstance:
    # All of the value is digested, whatever it will hold one day; orjson is by far the fastest to write it out.
    text = orjson.dumps(seen, default=str, option=orjson.OPT_SORT_KEYS)
    # The object is ours alone until it is returned: copying it only to set this would double the cost.
    object.__setattr__(seen, "fingerprint", blake2b(text, digest_size=12).hexdigest())
    return seen


def _moment_or_none(text: Any) -> datetime | None:
    return moment(text) if text else None


def _duration(raw: Mapping[str, Any]) -> timedelta:
    return timedelta(seconds=int(raw.get("seconds") or 0), microseconds=int(raw.get("nanos") or 0) // 1000)


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Garbled(f"{_short(value)} stands where a word belongs")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def _who(raw: Any) -> str:
    if not isinstance(raw, dict):
        return _short(raw)
    return f"instance {_short(raw.get('name'))} (id {_short(raw.get('id'))})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
