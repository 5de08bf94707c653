"""advice.capacity and advice.capacityHistory: https://docs.cloud.google.com/compute/docs/reference/rest/v1/advice."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import machine_types, regions
from costguard_sandbox.gce.catalogue.prices import NoRate, is_storage
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import Refused, invalid
from costguard_sandbox.gce.insertion import read_shape
from costguard_sandbox.gce.meter.usage import parts_of
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.vm import Shape

_DAY = timedelta(days=1)
_DAYS = 30
_NANOS = 1_000_000_000
_ADVISED = ("SPOT", "FLEX_START")
_SHAPES = ("ANY", "ANY_SINGLE_ZONE", "BALANCED")
_UNKNOWN_SERIES = ("n1-", "custom-", "ct", "tpu")  # the page's limitations: N1 with GPUs, custom types, TPUs


def routes(cloud: Cloud) -> list[Route]:
    advice = "/projects/{project}/regions/{region}/advice"
    return [
        compute(f"{advice}/capacity", _capacity, cloud, "POST", takes_body=True),
        compute(f"{advice}/capacityHistory", _capacity_history, cloud, "POST", takes_body=True),
    ]


def _capacity(call: ApiCall) -> Any:
    """Recommends the zone that scores best. The scores are made up, but low where a fault makes a stockout."""
    region = _known_region(call)
    model = ((call.body.get("instanceProperties") or {}).get("scheduling") or {}).get("provisioningModel")
    if model not in _ADVISED:
        raise invalid(
            "instanceProperties.scheduling.provisioningModel", model, f"Must be one of {', '.join(_ADVISED)}."
        )
    policy = call.body.get("distributionPolicy") or {}
    if policy.get("targetShape") not in _SHAPES:
        why = f"Must be one of {', '.join(_SHAPES)}."
        raise invalid("distributionPolicy.targetShape", policy.get("targetShape"), why)
    selections = (call.body.get("instanceFlexibilityPolicy") or {}).get("instanceSelections") or {}
    types = [name for one in selections.values() for name in one.get("machineTypes") or ()]
    size = int(call.body.get("size") or 0)
    if not types or size < 1:
        raise invalid("instanceFlexibilityPolicy.instanceSelections", selections, "Must name machine types and a size.")
    if any(not _is_known(name) for name in types):
        raise invalid("instanceFlexibilityPolicy.instanceSelections", types, "A machine type is not supported.")
    wanted = [last_part(str(one.get("zone"))) for one in policy.get("zones") or ()] or regions.zones_of(region)
    scored = [
        (_score(call, zone, name, str(model)), zone, name)
        for zone in wanted
        for name in types
        if machine_types.find(zone, name) is not None
    ]
    if not scored:
        return {}
    obtainability, zone, name = max(scored)
    scores: dict[str, Any] = {"obtainability": obtainability}
    if model == "SPOT":
        scores["estimatedUptime"] = f"{3600 * (1 + zlib.crc32(f'{zone} {name}'.encode()) % 24)}s"
    shard = {"zone": f"{call.cloud.links}/projects/{call.project}/zones/{zone}", "machineType": name}
    shards = [{**shard, "instanceCount": size, "provisioningModel": model}]
    return {"recommendations": [{"scores": scores, "shards": shards}]}


def _score(call: ApiCall, zone: str, machine_type: str, model: str) -> float:
    shape = _shape(call, zone, machine_type)
    if shape is None or call.cloud.faults.is_short(call.project, zone, shape, spot=model == "SPOT"):
        return 0.1 if shape is not None else 0.0
    return (50 + zlib.crc32(f"{zone} {machine_type} {model}".encode()) % 50) / 100


def _shape(call: ApiCall, zone: str, machine_type: str) -> Shape | None:
    scheduling = {"provisioningModel": "SPOT", "onHostMaintenance": "TERMINATE"}
    try:
        return read_shape(call.project, zone, {"machineType": machine_type, "scheduling": scheduling})[0]
    except Refused:
        return None


def _is_known(machine_type: str) -> bool:
    return not machine_type.startswith(_UNKNOWN_SERIES) and "custom" not in machine_type


def _capacity_history(call: ApiCall) -> Any:
    """Daily shares of preempted Spot VMs, and their list prices, of the last 30 days."""
    region = _known_region(call)
    properties = call.body.get("instanceProperties") or {}
    machine_type = str(properties.get("machineType") or "")
    model = (properties.get("scheduling") or {}).get("provisioningModel")
    if model != "SPOT":
        raise invalid("instanceProperties.scheduling.provisioningModel", model, "Must be SPOT.")
    location = last_part(str((call.body.get("locationPolicy") or {}).get("location") or region))
    if location != region and (location not in regions.ZONES or not location.startswith(f"{region}-")):
        raise invalid("locationPolicy.location", location, "Must be in the region of the request.")
    zones = [location] if location != region else [zone for zone in regions.ZONES if zone.startswith(f"{region}-")]
    answer: dict[str, Any] = {"location": location, "machineType": machine_type}
    offered = [zone for zone in zones if machine_types.find(zone, machine_type) is not None]
    if not offered or not _is_known(machine_type):
        return answer
    today = call.cloud.timeline.now.replace(hour=7, minute=0, second=0, microsecond=0)
    days = [today - day * _DAY for day in range(_DAYS)]
    types = call.body.get("types") or ()
    if "PREEMPTION" in types:
        answer["preemptionHistory"] = [
            {
                "interval": {"startTime": _time(end - _DAY), "endTime": _time(end)},
                "preemptionRate": zlib.crc32(f"{location} {machine_type} {day}".encode()) % 30 / 100,
            }
            for day, end in enumerate(days)
        ]
    if "PRICE" in types and (shape := _shape(call, offered[0], machine_type)) is not None:
        answer["priceHistory"] = _prices(call, region, shape, days)
    return answer


def _prices(call: ApiCall, region: str, shape: Shape, days: Sequence[datetime]) -> list[dict[str, Any]]:
    """The price of each day as it began, in the currency of the catalogue; the newest goes on."""
    records = []
    for end in days:
        nanos = _spot_nanos(call, region, shape, end - _DAY)
        if nanos is not None:
            listed = {"currencyCode": "USD", "units": str(nanos // _NANOS), "nanos": nanos % _NANOS}
            interval = {"startTime": _time(end - _DAY), "endTime": _time(end)}
            records.append({"interval": interval, "listPrice": listed})
    return records


def _spot_nanos(call: ApiCall, region: str, shape: Shape, at: datetime) -> int | None:
    """An hour of a Spot VM of this shape, without storage; None where a part has no Spot price."""
    total = Fraction(0)
    for part in parts_of(shape):
        if not is_storage(part.resource):
            try:
                total += part.quantity * call.cloud.prices.rate(part.resource, region, True, at)[0]
            except NoRate:
                return None
    return int(total)


def _known_region(call: ApiCall) -> str:
    region = call.params["region"]
    if region not in regions.REGIONS:
        raise invalid("region", region, "Unknown region.")
    return region


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
