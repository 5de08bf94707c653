"""Projects, zones, regions, networks, machine types and accelerator types: all read-only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import machine_types, regions
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import invalid, not_found
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.routes.belongings import belongings
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, known_zone, plain_list, zone_scope

_DAY = timedelta(days=1)
_REGION_SCOPES = tuple(f"regions/{region}" for region in regions.REGIONS)


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
        compute(f"{project}/global/networks", _networks, cloud),
        compute(f"{project}/global/networks/{{name}}", _network, cloud),
        compute(f"{project}/aggregated/subnetworks", _all_subnetworks, cloud),
        compute(f"{project}/regions/{{region}}/subnetworks", _subnetworks, cloud),
        compute(f"{project}/regions/{{region}}/subnetworks/{{name}}", _subnetwork, cloud),
        compute(f"{project}/regions/{{region}}/routers", _routers, cloud),
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


def _networks(call: ApiCall) -> Any:
    rows = [regions.network_resource(call.cloud.base_url, call.project)]
    return plain_list(call, "compute#networkList", rows)


def _network(call: ApiCall) -> Any:
    if call.params["name"] != regions.DEFAULT_NETWORK:
        raise not_found(f"projects/{call.project}/global/networks/{call.params['name']}")
    return regions.network_resource(call.cloud.base_url, call.project)


def _all_subnetworks(call: ApiCall) -> Any:
    rows = [row for region in regions.REGIONS for row in _subnetwork_rows(call, region)]
    return aggregated_list(call, "compute#subnetworkAggregatedList", "subnetworks", rows, _REGION_SCOPES, _region_scope)


def _subnetworks(call: ApiCall) -> Any:
    return plain_list(call, "compute#subnetworkList", _subnetwork_rows(call, _known_region(call)))


def _subnetwork(call: ApiCall) -> Any:
    region = _known_region(call)
    name = call.params["name"]
    for row in _subnetwork_rows(call, region):
        if row["name"] == name:
            return row
    raise not_found(f"projects/{call.project}/regions/{region}/subnetworks/{name}")


def _subnetwork_rows(call: ApiCall, region: str) -> list[dict[str, Any]]:
    """The default network's, with what a scenario says of it, and the scenario's own."""
    rows = {regions.DEFAULT_NETWORK: regions.subnetwork_resource(call.cloud.base_url, call.project, region)}
    for row in _of_region(call, "subnetwork", region):
        rows[row["name"]] = {**rows[regions.DEFAULT_NETWORK], **row}
    return list(rows.values())


def _routers(call: ApiCall) -> Any:
    """docs.cloud.google.com/compute/docs/reference/rest/v1/routers/list. Their NATs are as a scenario has them."""
    return plain_list(call, "compute#routerList", _of_region(call, "router", _known_region(call)))


def _of_region(call: ApiCall, kind: str, region: str) -> list[dict[str, Any]]:
    return [row for row in belongings(call, kind) if last_part(row["region"]) == region]


def _region_scope(row: Mapping[str, Any]) -> str:
    return f"regions/{row['region'].rsplit('/', 1)[-1]}"


def _known_region(call: ApiCall) -> str:
    region = call.params["region"]
    if region not in regions.REGIONS:
        raise invalid("region", region, "Unknown region.")
    return region
