"""List prices of the VMs of tests, in two regions."""

from __future__ import annotations

from collections.abc import Iterator

from tests.builders import at

from costguard.model.instance import ProvisioningModel
from costguard.model.price import EVERYWHERE, Price, PriceKey, Unit


def price_list() -> Iterator[Price]:
    since, usual = at("2026-01-01T00:00"), ProvisioningModel.STANDARD
    for address, nanos in (("external-ip", 5_000_000), ("external-ip:spot", 2_500_000)):
        yield Price(PriceKey(address, EVERYWHERE, usual), Unit.HOUR, nanos, since, "test")
    for number, region in enumerate(("us-central1", "us-east1")):
        for model, share in ((ProvisioningModel.SPOT, 1), (usual, 3)):
            resources = (("n1:core", 10_000_000), ("n1:ram", 1_000_000), ("gpu:nvidia-tesla-t4", 100_000_000))
            for resource, nanos in resources:
                yield Price(PriceKey(resource, region, model), Unit.HOUR, nanos * share + number, since, "test")
        yield Price(PriceKey("disk:pd-balanced", region, usual), Unit.GIB_MONTH, 100_000_000, since, "test")
