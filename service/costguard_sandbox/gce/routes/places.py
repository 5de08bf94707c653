"""Projects, zones, regions, machine types and accelerator types: all read-only."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import machine_types, regions
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import not_found
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, plain_list, zone_scope


def routes(cloud: Cloud) -> list[Route]:
    project, zone = "/projects/{project}", "/projects/{project}/zones/{zone}"
    return [
        compute(project, _project, cloud),
        compute(f"{project}/zones", _zones, cloud),
        compute(zone, _zone, cloud),
        compute(f"{project}/regions", _regions, cloud),
        compute(f"{project}/regions/{{region}}", _region, cloud),
        compute(f"{zone}/machineTypes", _machine_types, cloud),
        compute(f"{zone}/machineTypes/{{name}}", _machine_type, cloud),
        compute(f"{project}/aggregated/machineTypes", _all_machine_types, cloud),
        compute(f"{zone}/acceleratorTypes", _accelerator_types, cloud),
        compute(f"{zone}/acceleratorTypes/{{name}}", _accelerator_type, cloud),
        compute(f"{project}/aggregated/acceleratorTypes", _all_accelerator_types, cloud),
    ]


def _project(call: ApiCall) -> Any:
    used = call.cloud.usage.of(call.project)
    limits = call.cloud.faults.quota_limits(call.project)
    spanning = {metric: limit for metric, limit in limits.items() if metric.endswith("_ALL_REGIONS")}
    return regions.project_resource(call.cloud.base_url, call.project, used, spanning)


def _zones(call: ApiCall) -> Any:
    rows = [regions.zone_resource(call.cloud.base_url, call.project, zone) for zone in regions.ZONES]
    return plain_list(call, "compute#zoneList", rows)


def _zone(call: ApiCall) -> Any:
    return regions.zone_resource(call.cloud.base_url, call.project, known_zone(call))


def _region_resource(call: ApiCall, region: str) -> dict[str, Any]:
    used = call.cloud.usage.of(call.project, region)
    limits = call.cloud.faults.quota_limits(call.project, region)
    regional = {metric: limit for metric, limit in limits.items() if not metric.endswith("_ALL_REGIONS")}
    return regions.region_resource(call.cloud.base_url, call.project, region, used, regional)


def _regions(call: ApiCall) -> Any:
    return plain_list(call, "compute#regionList", [_region_resource(call, region) for region in regions.REGIONS])


def _region(call: ApiCall) -> Any:
    region = call.params["region"]
    if region not in regions.REGIONS:
        raise not_found(f"projects/{call.project}/regions/{region}")
    return _region_resource(call, region)


def _machine_rows(call: ApiCall, zone: str) -> list[dict[str, Any]]:
    base, project = call.cloud.base_url, call.project
    return [
        machine_types.machine_type_resource(base, project, zone, machine) for machine in machine_types.offered(zone)
    ]


def _machine_types(call: ApiCall) -> Any:
    return plain_list(call, "compute#machineTypeList", _machine_rows(call, known_zone(call)))


def _all_machine_types(call: ApiCall) -> Any:
    rows = [row for zone in regions.ZONES for row in _machine_rows(call, zone)]
    return aggregated_list(
        call, "compute#machineTypeAggregatedList", "machineTypes", rows, regions.ZONE_SCOPES, zone_scope
    )


def _machine_type(call: ApiCall) -> Any:
    zone, name = known_zone(call), call.params["name"]
    machine = machine_types.find(zone, name)
    if machine is None:
        raise not_found(f"projects/{call.project}/zones/{zone}/machineTypes/{name}")
    return machine_types.machine_type_resource(call.cloud.base_url, call.project, zone, machine)


def _accelerator_rows(call: ApiCall, zone: str) -> list[dict[str, Any]]:
    base, project = call.cloud.base_url, call.project
    names = machine_types.ACCELERATOR_TYPES[zone]
    return [machine_types.accelerator_type_resource(base, project, zone, name) for name in names]


def _accelerator_types(call: ApiCall) -> Any:
    return plain_list(call, "compute#acceleratorTypeList", _accelerator_rows(call, known_zone(call)))


def _all_accelerator_types(call: ApiCall) -> Any:
    rows = [row for zone in regions.ZONES for row in _accelerator_rows(call, zone)]
    return aggregated_list(
        call, "compute#acceleratorTypeAggregatedList", "acceleratorTypes", rows, regions.ZONE_SCOPES, zone_scope
    )


def _accelerator_type(call: ApiCall) -> Any:
    zone, name = known_zone(call), call.params["name"]
    if name not in machine_types.ACCELERATOR_TYPES[zone]:
        raise not_found(f"projects/{call.project}/zones/{zone}/acceleratorTypes/{name}")
    return machine_types.accelerator_type_resource(call.cloud.base_url, call.project, zone, name)


def known_zone(call: ApiCall) -> str:
    zone = call.params["zone"]
    if zone not in regions.ZONES:
        raise not_found(f"projects/{call.project}/zones/{zone}")
    return zone
