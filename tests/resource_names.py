"""Maps the names of SKUs of the guard and the simulated cloud, where they differ: each chose its own."""

from collections.abc import Mapping

_OF_THE_GUARD: Mapping[str, str] = {
    "shared:f1-micro": "f1-micro:whole",
    "shared:g1-small": "g1-small:whole",
    "gpu:nvidia-b200": "gpu:nvidia-b200:whole",
    "slice:nvidia-rtx-pro-6000": "gpu:nvidia-rtx-pro-6000-1/8:whole",
}


def guards_name(resource: str) -> str:
    """The guard's word for a resource of the simulated price list."""
    return _OF_THE_GUARD.get(resource, resource)
