"""images.* and imageFamilyViews.*: the public projects' images, read-only. A project of one's own has none."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from costguard_sandbox.gce.catalogue import images
from costguard_sandbox.gce.errors import not_found
from costguard_sandbox.gce.routes.call import Call, compute
from costguard_sandbox.gce.routes.lists import plain_list
from costguard_sandbox.world import World


def routes(world: World) -> list[Route]:
    project = "/projects/{publisher}"
    return [
        compute(f"{project}/global/images", _list, world),
        compute(f"{project}/global/images/family/{{family}}", _of_family, world),
        compute(f"{project}/global/images/{{name}}", _get, world),
        compute(f"{project}/zones/{{zone}}/imageFamilyViews/{{family}}", _family_view, world),
    ]


def _list(call: Call) -> Any:
    """Where a public project's images are not known here, its list is empty, as it is for a project of one's own."""
    publisher = call.params["publisher"]
    if publisher not in images.PUBLISHERS and publisher not in call.world.projects:
        raise not_found(f"projects/{publisher}")
    return plain_list(call, "compute#imageList", images.images_of(call.world.base_url, publisher))


def _get(call: Call) -> Any:
    publisher, name = call.params["publisher"], call.params["name"]
    found = images.image_of(call.world.base_url, f"projects/{publisher}/global/images/{name}")
    if found is None:
        raise not_found(f"projects/{publisher}/global/images/{name}")
    return found


def _of_family(call: Call) -> Any:
    publisher, family = call.params["publisher"], call.params["family"]
    try:
        return images.image_resource(call.world.base_url, publisher, family)
    except KeyError:
        raise not_found(f"projects/{publisher}/global/images/family/{family}") from None


def _family_view(call: Call) -> Any:
    publisher, family = call.params["publisher"], call.params["family"]
    try:
        return images.image_family_view(call.world.base_url, publisher, family)
    except KeyError:
        zone = call.params["zone"]
        raise not_found(f"projects/{publisher}/zones/{zone}/imageFamilyViews/{family}") from None
