"""disks.*, diskTypes.*, and the public images with their families, which are read-only."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import disks, regions
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import not_found
from costguard_sandbox.gce.render import disk_resource
from costguard_sandbox.gce.routes.belongings import belongings
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import aggregated_list, known_zone, plain_list, refuse_unreachable, zone_scope

# Regional disks and their types are missing here; their scopes are not.
_SCOPES = regions.OPERATION_SCOPES[1:]


def routes(cloud: Cloud) -> list[Route]:
    project, zone = "/projects/{project}", "/projects/{project}/zones/{zone}"
    images = "/projects/{publisher}/global/images"
    return [
        compute(f"{project}/aggregated/disks", _aggregated, cloud, cached=True),
        compute(f"{zone}/disks", _list, cloud, cached=True),
        compute(f"{zone}/disks", _insert, cloud, "POST", takes_body=True),
        compute(f"{zone}/disks/{{name}}", _get, cloud),
        compute(f"{zone}/disks/{{name}}", _delete, cloud, "DELETE"),
        compute(f"{project}/aggregated/diskTypes", _all_types, cloud),
        compute(f"{zone}/diskTypes", _types, cloud),
        compute(f"{zone}/diskTypes/{{name}}", _type, cloud),
        compute(images, _images, cloud),
        compute(f"{images}/family/{{family}}", _image_of_family, cloud),
        compute(f"{images}/{{name}}", _image, cloud),
        compute("/projects/{publisher}/zones/{zone}/imageFamilyViews/{family}", _family_view, cloud),
    ]


def _zone(call: ApiCall) -> str:
    zone = known_zone(call)
    refuse_unreachable(call, zone)
    return zone


def _aggregated(call: ApiCall) -> Any:
    rows = [disk_resource(call.cloud.links, disk) for disk in call.cloud.disks(call.project)]
    return aggregated_list(call, "compute#diskAggregatedList", "disks", rows, _SCOPES, zone_scope)


def _list(call: ApiCall) -> Any:
    zone = _zone(call)
    rows = [disk_resource(call.cloud.links, disk) for disk in call.cloud.disks(call.project) if disk.zone == zone]
    return plain_list(call, "compute#diskList", rows)


def _get(call: ApiCall) -> Any:
    return disk_resource(call.cloud.links, call.cloud.storage.find(call.project, _zone(call), call.params["name"]))


def _insert(call: ApiCall) -> Any:
    # libcloud still sends `sourceImage` in the query, where it was at first.
    body = {"sourceImage": call.query.get("sourceImage"), **call.body}
    return call.cloud.storage.insert(call.project, _zone(call), body, call.user, call.request_id).resource()


def _delete(call: ApiCall) -> Any:
    where = call.project, _zone(call), call.params["name"]
    return call.cloud.storage.delete(*where, call.user, call.request_id).resource()


def _type_rows(call: ApiCall, zone: str) -> list[dict[str, Any]]:
    base, project = call.cloud.base_url, call.project
    return [disks.disk_type_resource(base, project, zone, name) for name in disks.DISK_TYPES]


def _all_types(call: ApiCall) -> Any:
    rows = [row for zone in regions.ZONES for row in _type_rows(call, zone)]
    return aggregated_list(call, "compute#diskTypeAggregatedList", "diskTypes", rows, _SCOPES, zone_scope)


def _types(call: ApiCall) -> Any:
    return plain_list(call, "compute#diskTypeList", _type_rows(call, _zone(call)))


def _type(call: ApiCall) -> Any:
    zone, name = _zone(call), call.params["name"]
    try:
        return disks.disk_type_resource(call.cloud.base_url, call.project, zone, name)
    except KeyError:
        raise not_found(f"projects/{call.project}/zones/{zone}/diskTypes/{name}") from None


def _images(call: ApiCall) -> Any:
    """A user's project has those that its scenario gives it, a public project those of the catalogue."""
    publisher = call.params["publisher"]
    if publisher not in disks.PUBLISHERS and publisher not in call.cloud.projects:
        raise not_found(f"projects/{publisher}")
    own = belongings(call, "image")
    return plain_list(call, "compute#imageList", [*own, *disks.images_of(call.cloud.base_url, publisher)])


def _image(call: ApiCall) -> Any:
    publisher, name = call.params["publisher"], call.params["name"]
    image = disks.image_of(call.cloud.base_url, f"projects/{publisher}/global/images/{name}")
    if image is None:
        raise not_found(f"projects/{publisher}/global/images/{name}")
    return image


def _image_of_family(call: ApiCall) -> Any:
    publisher, family = call.params["publisher"], call.params["family"]
    try:
        return disks.image_resource(call.cloud.base_url, publisher, family)
    except KeyError:
        raise not_found(f"projects/{publisher}/global/images/family/{family}") from None


def _family_view(call: ApiCall) -> Any:
    publisher, family = call.params["publisher"], call.params["family"]
    try:
        return disks.image_family_view(call.cloud.base_url, publisher, family)
    except KeyError:
        zone = call.params["zone"]
        raise not_found(f"projects/{publisher}/zones/{zone}/imageFamilyViews/{family}") from None
