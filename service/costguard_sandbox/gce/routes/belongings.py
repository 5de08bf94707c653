"""addresses.aggregatedList, reservations.aggregatedList, snapshots.list; images.list is with the disks."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import regions
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, plain_list


def routes(cloud: Cloud) -> list[Route]:
    project = "/projects/{project}"
    return [
        compute(f"{project}/aggregated/addresses", _addresses, cloud),
        compute(f"{project}/aggregated/reservations", _reservations, cloud),
        compute(f"{project}/global/snapshots", _snapshots, cloud),
    ]


def belongings(call: ApiCall, kind: str) -> list[dict[str, Any]]:
    """Returns the things of a kind that the project has, by name."""
    mine = (one for one in call.cloud.belongings if (one.kind, one.project) == (kind, call.project))
    return sorted((one.resource(call.cloud.links) for one in mine), key=lambda row: str(row["name"]))


def _addresses(call: ApiCall) -> Any:
    rows, scopes = belongings(call, "address"), regions.OPERATION_SCOPES
    return aggregated_list(call, "compute#addressAggregatedList", "addresses", rows, scopes, _scope)


def _reservations(call: ApiCall) -> Any:
    rows, scopes = belongings(call, "reservation"), regions.ZONE_SCOPES
    return aggregated_list(call, "compute#reservationAggregatedList", "reservations", rows, scopes, _scope)


def _snapshots(call: ApiCall) -> Any:
    return plain_list(call, "compute#snapshotList", belongings(call, "snapshot"))


def _scope(row: dict[str, Any]) -> str:
    link = str(row.get("zone") or row.get("region") or "global")
    return "/".join(link.rsplit("/", 2)[-2:]) if "/" in link else link
