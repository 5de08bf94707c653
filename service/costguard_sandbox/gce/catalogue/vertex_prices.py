"""The prices of Vertex AI and Colab Enterprise, and their SKUs: `services/C7E2-9256-1C43/skus`.

Recorded prices stand in a fixed ratio to Compute Engine's on demand. Of an a3-highgpu-8g in Iowa in August 2025: the
GPU 11.2660332 against 9.79655057, the vCPU .0293227 against .025498, memory .0025534 against .0022203: 1.15; the fee
for Spot, flex-start and reservations 1.4694826, .0038247 and .0003331: .15; boot disks of custom training .0002678 an
hour, of 730 to the month: 1.15 of pd-ssd. Of Colab Enterprise in the same year: an N2 vCPU .0379332 against .031611,
E2 memory .003508236 against .00292353: 1.2. Other machines get the same ratios here, and disks of Colab, of which no
SKU is recorded, so that none is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from costguard_sandbox.gce.catalogue.prices import EVERYWHERE, NoRate, PriceList, Timeline, unit_of
from costguard_sandbox.gce.catalogue.regions import REGIONS
from costguard_sandbox.gce.catalogue.skus import GPUS, MACHINES, sku

SERVICE = "C7E2-9256-1C43"
_PER_MILLE = {"training": 1150, "prediction": 1150, "colab": 1200}
_FEE_PER_MILLE = 150
DISK = "disk:pd-ssd"
_DISK_REGION = "us-central1"


class VertexPrices(PriceList):
    """Prices of `training|gpu:nvidia-l4`, `training-fee|a3:core`: of a service, or its fee, for a part of a machine."""

    def __init__(self, under: PriceList) -> None:
        super().__init__(regions=())
        self.under = under

    def history(self, resource: str, region: str, spot: bool) -> Timeline:  # noqa: ARG002 - nothing here is sold as Spot
        """Raises NoRate. Boot disks of training cost the same everywhere."""
        seller, bare = resource.split("|")
        per_mille = _FEE_PER_MILLE if seller.endswith("-fee") else _PER_MILLE[seller]
        place = _DISK_REGION if bare.startswith("disk:") and seller == "training" else region
        # Half a nano-dollar up: 9,796,550,569 x 1.15 is recorded as 11.2660332, to the price's own digits.
        return tuple(
            (since, (nanos * per_mille + 500) // 1000) for since, nanos in self.under.history(bare, place, False)
        )

    def rate(self, resource: str, region: str, spot: bool, at: datetime) -> tuple[int, str]:
        history = self.history(resource, region, spot)
        current = [nanos for since, nanos in history if since <= at] or [history[0][1]]
        return current[-1], unit_of(resource.split("|")[1])


def vertex_skus(prices: VertexPrices, at: datetime) -> list[dict[str, Any]]:
    return list(_skus(prices, at))


def _skus(prices: VertexPrices, at: datetime) -> Iterator[dict[str, Any]]:
    for resource, region, spot in prices.under.sold():
        head, _, tail = resource.partition(":")
        if spot or (head != "gpu" and tail not in ("core", "ram")) or (head == "gpu" and tail not in GPUS):
            continue
        if head != "gpu" and head not in MACHINES:
            continue
        for seller in ("training", "prediction", "colab", "training-fee", "prediction-fee"):
            try:
                nanos, unit = prices.rate(f"{seller}|{resource}", region, False, at)
            except NoRate:
                continue
            words = _words(seller, head, tail, REGIONS[region].sku_place)
            since = prices.under.history(resource, region, False)[0][0]
            yield sku(words, ("Compute", "Vertex", "OnDemand"), (region,), unit, ((0, nanos),), since)
    nanos, unit = prices.rate(f"training|{DISK}", _DISK_REGION, False, at)
    since = prices.under.history(DISK, _DISK_REGION, False)[0][0]
    words = "Vertex AI: Training/Pipelines on SSD backed PD Capacity"
    yield sku(words, ("Storage", "SSD", "OnDemand"), (EVERYWHERE,), unit, ((0, nanos),), since)


def _words(seller: str, head: str, tail: str, place: str) -> str:
    """Returns the words of a SKU, as recorded: the two services write the same things in other words."""
    what = GPUS[tail] if head == "gpu" else f"{MACHINES[head]} {'RAM' if tail == 'ram' else 'Core'}"
    if seller == "colab":
        part = {"core": "CPU", "ram": "RAM"}.get(tail)
        return f"Vertex Colab {f'{head.upper()} {part}' if part else what} usage in {place}"
    service = "Training/Pipelines" if seller.startswith("training") else "Online/Batch Prediction"
    bare = what.removesuffix(" GPU").replace("Nvidia", "NVIDIA").replace("NVIDIA Tesla A100 80GB", "NVIDIA A100 80GB")
    if seller.endswith("-fee"):
        return f"Vertex AI: {service} management fee on {bare} in {place}"
    if seller == "training":
        return f"Vertex AI: {service} on {bare} in {place}"
    return f"Vertex AI: {service} {what.replace('GB', 'gb') if head == 'gpu' else what} running in {place}"
