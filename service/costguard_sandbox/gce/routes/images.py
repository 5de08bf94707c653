"""images.* and imageFamilyViews.*: the public projects' images, read-only. A project of one's own has none."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import disks
from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.errors import not_found
from costguard_sandbox.gce.routes.call import ApiCall, compute
from costguard_sandbox.gce.routes.lists import plain_list


def routes(cloud: Cloud) -> list[Route]:
    project = "/projects/{publisher}"
    return [
        compute(f"{project}/global/images", _list, cloud),
        compute(f"{project}/global/images/family/{{family}}", _of_family, cloud),
        compute(f"{project}/global/images/{{name}}", _get, cloud),
        compute(f"{project}/zones/{{zone}}/imageFamilyViews/{{family}}", _family_view, cloud),
    ]


def _list(call: ApiCall) -> Any:
    """Where a public project's images are not known here, its list is empty, as it is for a project of one's own."""
    publisher = call.params["publisher"]
    if publisher not in disks.PUBLISHERS and publisher not in call.cloud.projects:
        raise not_found(f"projects/{publisher}")
    return plain_list(call, "compute#imageList", disks.images_of(call.cloud.base_url, publisher))


def _get(call: ApiCall) -> Any:
    publisher, name = call.params["publisher"], call.params["name"]
    found = disks.image_of(call.cloud.base_url, f"projects/{publisher}/global/images/{name}")
    if found is None:
        raise not_found(f"projects/{publisher}/global/images/{name}")
    return found


def _of_family(call: ApiCall) -> Any:
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
