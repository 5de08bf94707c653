"""networks.* and subnetworks.*: read-only. Every project has its default network, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue.networks import DEFAULT_NETWORK, network_resource, subnetwork_resource
from costguard_sandbox.gce.catalogue.regions import OPERATION_SCOPES, REGIONS
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import invalid, not_found
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, plain_list

_REGION_SCOPES = tuple(scope for scope in OPERATION_SCOPES if scope.startswith("regions/"))


def routes(cloud: Cloud) -> list[Route]:
    project, region = "/projects/{project}", "/projects/{project}/regions/{region}"
    return [
        compute(f"{project}/global/networks", _networks, cloud),
        compute(f"{project}/global/networks/{{name}}", _network, cloud),
        compute(f"{project}/aggregated/subnetworks", _all_subnetworks, cloud),
        compute(f"{region}/subnetworks", _subnetworks, cloud),
        compute(f"{region}/subnetworks/{{name}}", _subnetwork, cloud),
    ]


def _networks(call: ApiCall) -> Any:
    rows = [network_resource(call.cloud.base_url, call.project, DEFAULT_NETWORK)]
    return plain_list(call, "compute#networkList", rows)


def _network(call: ApiCall) -> Any:
    if call.params["name"] != DEFAULT_NETWORK:
        raise not_found(f"projects/{call.project}/global/networks/{call.params['name']}")
    return network_resource(call.cloud.base_url, call.project, DEFAULT_NETWORK)


def _all_subnetworks(call: ApiCall) -> Any:
    rows = [_row(call, region) for region in REGIONS]
    return aggregated_list(call, "compute#subnetworkAggregatedList", "subnetworks", rows, _REGION_SCOPES, _scope)


def _subnetworks(call: ApiCall) -> Any:
    return plain_list(call, "compute#subnetworkList", [_row(call, known_region(call))])


def _subnetwork(call: ApiCall) -> Any:
    region = known_region(call)
    if call.params["name"] != DEFAULT_NETWORK:
        raise not_found(f"projects/{call.project}/regions/{region}/subnetworks/{call.params['name']}")
    return _row(call, region)


def _row(call: ApiCall, region: str) -> dict[str, Any]:
    return subnetwork_resource(call.cloud.base_url, call.project, region, DEFAULT_NETWORK)


def _scope(row: Mapping[str, Any]) -> str:
    return f"regions/{row['region'].rsplit('/', 1)[-1]}"


def known_region(call: ApiCall) -> str:
    region = call.params["region"]
    if region not in REGIONS:
        raise invalid("region", region, "Unknown region.")
    return region
