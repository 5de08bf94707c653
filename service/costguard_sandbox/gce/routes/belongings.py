"""addresses.aggregatedList, reservations.*, futureReservations.*, snapshots.list; images.list is with the disks."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import regions
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import not_found
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, known_zone, plain_list


def routes(cloud: Cloud) -> list[Route]:
    project, zone = "/projects/{project}", "/projects/{project}/zones/{zone}"
    return [
        compute(f"{project}/aggregated/addresses", _addresses, cloud),
        compute(f"{project}/aggregated/reservations", _reservations, cloud),
        compute(f"{zone}/reservations/{{name}}", _reservation, cloud),
        compute(f"{project}/aggregated/futureReservations", _all_future, cloud),
        compute(f"{zone}/futureReservations", _future, cloud),
        compute(f"{project}/global/snapshots", _snapshots, cloud),
    ]


def belongings(call: ApiCall, kind: str) -> list[dict[str, Any]]:
    """Returns the things of a kind that the project has, by name."""
    mine = (one for one in call.cloud.belongings if (one.kind, one.project) == (kind, call.project))
    return sorted((one.resource(call.cloud.links) for one in mine), key=lambda row: str(row["name"]))


def _addresses(call: ApiCall) -> Any:
    rows, scopes = belongings(call, "address"), regions.OPERATION_SCOPES
    return aggregated_list(call, "compute#addressAggregatedList", "addresses", rows, scopes, _scope)


def _reserved(call: ApiCall, kind: str) -> list[dict[str, Any]]:
    held = call.cloud.reservations
    rows = (held.resource(one, call.cloud.links) for one in held.of(call.project, kind))
    return sorted(rows, key=lambda row: str(row["name"]))


def _reservation(call: ApiCall) -> Any:
    zone, name = known_zone(call), call.params["name"]
    for row in _reserved(call, "reservation"):
        if (row["name"], _scope(row)) == (name, f"zones/{zone}"):
            return row
    raise not_found(f"projects/{call.project}/zones/{zone}/reservations/{name}")


def _all_future(call: ApiCall) -> Any:
    kind = "compute#futureReservationsAggregatedListResponse"
    rows = _reserved(call, "futureReservation")
    return aggregated_list(call, kind, "futureReservations", rows, regions.ZONE_SCOPES, _scope)


def _future(call: ApiCall) -> Any:
    here = f"zones/{known_zone(call)}"
    rows = [row for row in _reserved(call, "futureReservation") if _scope(row) == here]
    return plain_list(call, "compute#futureReservationsListResponse", rows)


def _reservations(call: ApiCall) -> Any:
    rows, scopes = _reserved(call, "reservation"), regions.ZONE_SCOPES
    return aggregated_list(call, "compute#reservationAggregatedList", "reservations", rows, scopes, _scope)


def _snapshots(call: ApiCall) -> Any:
    return plain_list(call, "compute#snapshotList", belongings(call, "snapshot"))


def _scope(row: dict[str, Any]) -> str:
    link = str(row.get("zone") or row.get("region") or "global")
    return "/".join(link.rsplit("/", 2)[-2:]) if "/" in link else link
