"""Estimates prices of Vertex AI and Colab Enterprise from Compute Engine's. Pure.

Every recorded price of a service is the same share of Compute Engine's price on demand, to its last digit: 115 % for
custom training and prediction (H100, T4, A3 and N1 hosts, boot disks), 15 % for their management fee (H100, A3 host),
and 120 % for Colab Enterprise (an N2 vCPU, E2 memory). `price_snapshot.toml` names the bills and pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from costguard.model.instance import TPUS, ProvisioningModel
from costguard.model.managed.machines import Seller
from costguard.model.price import EVERYWHERE, Price, PriceKey, costs_the_same_everywhere, sold_by

_PERCENT: Final = {Seller.TRAINING: 115, Seller.PREDICTION: 115, Seller.COLAB: 120}
_FEE_PERCENT: Final = 15
_WITH_FEE: Final = (Seller.TRAINING, Seller.PREDICTION)
_WITH_DISKS: Final = (Seller.TRAINING, Seller.COLAB)
_DISK_REGION: Final = "us-central1"


def vertex_estimates(prices: Iterable[Price]) -> Iterator[tuple[PriceKey, int, Price]]:
    """Yields keys of the services with their nano-dollars a unit, and the price of Compute Engine they come from."""
    for price in prices:
        key = price.key
        if key.provisioning_model is not ProvisioningModel.STANDARD:
            continue
        kind, _, part = key.resource.partition(":")
        if kind == "disk":
            yield from _disks(price, part)
        elif (kind == "gpu" and part.partition(":")[0] not in TPUS) or part in ("core", "ram"):
            yield from _parts(price)


def _disks(price: Price, disk_type: str) -> Iterator[tuple[PriceKey, int, Price]]:
    """Boot disks of custom training have one price for all regions; of Colab's none is recorded."""
    for seller in _WITH_DISKS:
        resource = f"disk:{seller.mark}-{disk_type}"
        if not costs_the_same_everywhere(resource):
            yield replace(price.key, resource=resource), _share(price, _PERCENT[seller]), price
        elif price.key.region == _DISK_REGION:
            yield PriceKey(resource, EVERYWHERE, price.key.provisioning_model), _share(price, _PERCENT[seller]), price


def _parts(price: Price) -> Iterator[tuple[PriceKey, int, Price]]:
    for seller, percent in _PERCENT.items():
        key = replace(price.key, resource=sold_by(price.key.resource, seller.mark))
        yield key, _share(price, percent), price
        if seller in _WITH_FEE:
            key = replace(price.key, resource=sold_by(price.key.resource, seller.mark, is_fee=True))
            yield key, _share(price, _FEE_PERCENT), price


def _share(price: Price, percent: int) -> int:
    return (price.rate_nanos * percent + 50) // 100
