"""disks.* and diskTypes.*."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import disk_types, places
from costguard_sandbox.gce.errors import not_found
from costguard_sandbox.gce.render import disk_resource
from costguard_sandbox.gce.routes.call import Call, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, plain_list, refuse_unreachable, zone_scope
from costguard_sandbox.gce.routes.places import known_zone
from costguard_sandbox.world import World

# Regional disks and their types do not exist here, but their scopes do.
_SCOPES = places.OPERATION_SCOPES[1:]


def routes(world: World) -> list[Route]:
    project, zone = "/projects/{project}", "/projects/{project}/zones/{zone}"
    return [
        compute(f"{project}/aggregated/disks", _aggregated, world, cached=True),
        compute(f"{zone}/disks", _list, world, cached=True),
        compute(f"{zone}/disks", _insert, world, "POST", takes_body=True),
        compute(f"{zone}/disks/{{name}}", _get, world),
        compute(f"{zone}/disks/{{name}}", _delete, world, "DELETE"),
        compute(f"{project}/aggregated/diskTypes", _all_types, world),
        compute(f"{zone}/diskTypes", _types, world),
        compute(f"{zone}/diskTypes/{{name}}", _type, world),
    ]


def _zone(call: Call) -> str:
    zone = known_zone(call)
    refuse_unreachable(call, zone)
    return zone


def _aggregated(call: Call) -> Any:
    rows = [disk_resource(call.world.links, disk) for disk in call.world.disks(call.project)]
    return aggregated_list(call, "compute#diskAggregatedList", "disks", rows, _SCOPES, zone_scope)


def _list(call: Call) -> Any:
    zone = _zone(call)
    rows = [disk_resource(call.world.links, disk) for disk in call.world.disks(call.project) if disk.zone == zone]
    return plain_list(call, "compute#diskList", rows)


def _get(call: Call) -> Any:
    return disk_resource(call.world.links, call.world.storage.find(call.project, _zone(call), call.params["name"]))


def _insert(call: Call) -> Any:
    # `sourceImage` may stand in the query: so it did before the body had it, and libcloud still writes it there.
    body = {"sourceImage": call.query.get("sourceImage"), **call.body}
    return call.world.storage.insert(call.project, _zone(call), body, call.user, call.request_id).resource()


def _delete(call: Call) -> Any:
    where = call.project, _zone(call), call.params["name"]
    return call.world.storage.delete(*where, call.user, call.request_id).resource()


def _type_rows(call: Call, zone: str) -> list[dict[str, Any]]:
    base, project = call.world.base_url, call.project
    return [disk_types.disk_type_resource(base, project, zone, name) for name in disk_types.DISK_TYPES]


def _all_types(call: Call) -> Any:
    rows = [row for zone in places.ZONES for row in _type_rows(call, zone)]
    return aggregated_list(call, "compute#diskTypeAggregatedList", "diskTypes", rows, _SCOPES, zone_scope)


def _types(call: Call) -> Any:
    return plain_list(call, "compute#diskTypeList", _type_rows(call, _zone(call)))


def _type(call: Call) -> Any:
    zone, name = _zone(call), call.params["name"]
    try:
        return disk_types.disk_type_resource(call.world.base_url, call.project, zone, name)
    except KeyError:
        raise not_found(f"projects/{call.project}/zones/{zone}/diskTypes/{name}") from None
