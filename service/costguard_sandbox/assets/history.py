"""`batchGetAssetsHistory` of cloudasset v1: what VMs and disks were, for 35 days, also when they are gone.

Rules by the method's description in the discovery document: at most 100 names; a window that begins within the last 35
days; an asset that does not exist makes it INVALID_ARGUMENT for all. Shapes by `TemporalAsset`. A state is shown once
the index's `lag` has passed since it began. In Google's history a VM has a state for each change; here it has one while
it is there, which shows it as it was last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from costguard_sandbox.assets.inventory import DISK, INSTANCE, AssetIndex
from costguard_sandbox.clock import zulu
from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, bad_argument
from costguard_sandbox.gce.render import disk_resource, instance_resource
from costguard_sandbox.gce.routes.call import ApiCall

KEPT = timedelta(days=35)
MOST_NAMES = 100
_PERMISSION = "cloudasset.assets.exportResource"
_COMPUTE = "https://www.googleapis.com/compute/v1"
_SHOWN = {INSTANCE: "Instance", DISK: "Disk"}


@dataclass(frozen=True, slots=True)
class _Past:
    """A VM or disk that ever was."""

    kind: str
    project: str
    zone: str
    created_at: datetime
    deleted_at: datetime | None
    resource: Callable[[], dict[str, Any]]


def history(index: AssetIndex, place: str, call: ApiCall) -> dict[str, Any]:
    """Answers for `place`, `organizations/N` or `projects/P`. Raises Refused."""
    cloud, now = call.cloud, call.cloud.timeline.now
    kind, _, number = place.partition("/")
    is_known = index.is_known(place) if kind == "organizations" else number in cloud.projects
    if not cloud.rights.may(place, _PERMISSION) or not is_known:
        denied = f"Permission '{_PERMISSION}' denied on resource '{place}' (or it may not exist)."
        raise Refused(403, "", f"Request denied by Cloud IAM. {denied}", status="PERMISSION_DENIED")
    names = call.query.getlist("assetNames")
    if len(names) > MOST_NAMES:
        raise bad_argument(f"Too many asset names: {len(names)}. At most {MOST_NAMES} are allowed.")
    if call.query.get("contentType") != "RESOURCE":
        raise bad_argument("The simulated cloud has the history of content type RESOURCE alone.")
    start = _moment(call.query.get("readTimeWindow.startTime"))
    if start is None or start <= now - KEPT:
        raise bad_argument("read_time_window.start_time must be after the current time minus 35 days.")
    pasts = _all(cloud, set(names))
    states: list[dict[str, Any]] = []
    for name in names:
        seen = [
            one
            for one in pasts.get(name, ())
            if one.created_at <= now - index.lag and index.holds_in(place, one.project)
        ]
        if not seen:
            raise bad_argument(f"Asset {name} does not exist.")
        for one in seen:
            states += _states(index, name, one, start, now - index.lag)
    return {"assets": states} if states else {}


def _states(
    index: AssetIndex, name: str, one: _Past, start: datetime, seen_until: datetime
) -> Iterator[dict[str, Any]]:
    is_gone = one.deleted_at is not None and one.deleted_at <= seen_until
    number = project_number(one.project)
    asset: dict[str, Any] = {"name": name, "assetType": one.kind}
    above = [f"projects/{number}", f"organizations/{index.organization}"]
    if one.deleted_at is None or one.deleted_at > start:
        window = {"startTime": zulu(one.created_at)}
        if is_gone and one.deleted_at is not None:
            window["endTime"] = zulu(one.deleted_at)
        resource = {
            "version": "v1",
            "discoveryDocumentUri": "https://www.googleapis.com/discovery/v1/apis/compute/v1/rest",
            "discoveryName": _SHOWN[one.kind],
            "parent": f"//cloudresourcemanager.googleapis.com/projects/{number}",
            "data": one.resource(),
            "location": one.zone,
        }
        yield {
            "window": window,
            "asset": {**asset, "resource": resource, "ancestors": above, "updateTime": zulu(one.created_at)},
        }
    if is_gone and one.deleted_at is not None:
        yield {"window": {"startTime": zulu(one.deleted_at)}, "deleted": True, "asset": asset}


def _all(cloud: Cloud, names: set[str]) -> dict[str, list[_Past]]:
    """All that ever had these names, oldest first."""
    pasts: dict[str, list[_Past]] = {}
    disks = set()
    for vm in cloud.every_vm():
        place = f"//compute.googleapis.com/projects/{vm.project}/zones/{vm.zone}"
        if (name := f"{place}/instances/{vm.name}") in names:
            running = {"status": "RUNNING"} if vm.deleted_at is not None else {}
            past = _Past(
                INSTANCE, vm.project, vm.zone, vm.created_at, vm.deleted_at,
                lambda vm=vm, more=running: {**instance_resource(_COMPUTE, vm), **more},  # type: ignore[misc]
            )  # fmt: skip
            pasts.setdefault(name, []).append(past)
        for use in vm.disk_uses:
            disk = use.disk
            if (name := f"{place}/disks/{disk.name}") in names and disk.id not in disks:
                disks.add(disk.id)
                past = _Past(
                    DISK, disk.project, disk.zone, disk.created_at, disk.deleted_at,
                    lambda disk=disk: disk_resource(_COMPUTE, disk),  # type: ignore[misc]
                )  # fmt: skip
                pasts.setdefault(name, []).append(past)
    return pasts


def _moment(text: str | None) -> datetime | None:
    try:
        read = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return read if read is not None and read.tzinfo is not None else None
