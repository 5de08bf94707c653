"""Maps the names of SKUs of the guard and the simulated cloud, where they differ: each chose its own."""

from collections.abc import Mapping

from costguard.model.instance import ProvisioningModel
from costguard.model.price import PriceKey

_OF_THE_GUARD: Mapping[str, str] = {
    "shared:f1-micro": "f1-micro:whole",
    "shared:g1-small": "g1-small:whole",
    "gpu:nvidia-b200": "gpu:nvidia-b200:whole",
    "slice:nvidia-rtx-pro-6000": "gpu:nvidia-rtx-pro-6000-1/8:whole",
    "tpu:ct5lp": "gpu:v5e:whole",
    "tpu:ct5p": "gpu:v5p:whole",
    "tpu:ct6e": "gpu:v6e:whole",
    "tpu:tpu7x": "gpu:tpu7x:whole",
}


def guards_name(resource: str) -> str:
    """The guard's word for a resource of the simulated price list."""
    return _OF_THE_GUARD.get(resource, resource)


def guards_key(resource: str, region: str, is_spot: bool) -> PriceKey:
    """The guard's key for a price of the simulated list, where flex-start and calendar mode are part of the name.

    The guard holds the address of a Spot VM as a resource of its own.
    """
    if resource == "external-ip" and is_spot:
        return PriceKey("external-ip:spot", region, ProvisioningModel.STANDARD)
    model = ProvisioningModel.SPOT if is_spot else ProvisioningModel.STANDARD
    for scheduled in (ProvisioningModel.FLEX_START, ProvisioningModel.RESERVATION_BOUND):
        if resource.startswith(f"{scheduled.value}:"):
            resource, model = resource.removeprefix(f"{scheduled.value}:"), scheduled
    return PriceKey(guards_name(resource), region, model)
