"""The simulated price list against whole-VM prices and SKUs that Google published, copied into ../data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from costguard_sandbox.gce.catalogue.machine_types import ACCELERATOR_TYPES, MACHINE_TYPES
from costguard_sandbox.gce.catalogue.prices import BASE, PriceList, Source
from costguard_sandbox.gce.catalogue.skus import skus_page
from costguard_sandbox.gce.meter.usage import parts_of
from costguard_sandbox.gce.vm import Shape

DATA = Path(__file__).parent / "data"
PUBLISHED: dict[str, Any] = json.loads((DATA / "vm_prices.json").read_text("utf-8"))
A3_SPOT: dict[str, Any] = json.loads((DATA / "a3_spot_skus.json").read_text("utf-8"))
NOW = datetime(2026, 11, 21, tzinfo=UTC)
PRICES = PriceList()
# Published figures have nine decimals; of 88 dollars an hour the parts give back all but three millionths.
NEAR = Decimal("0.000005")


def hourly(machine_type: str, *, spot: bool) -> Decimal:
    """Dollars an hour in us-central1, with a month of 730 hours for what is sold by the month, as Google's page has."""
    machine = MACHINE_TYPES[machine_type]
    gpu_type, gpu_count = machine.accelerators[0] if machine.accelerators else ("", 0)
    family = "n1" if machine.name in ("f1-micro", "g1-small") else machine.name.partition("-")[0]
    shape = Shape(machine.name, family, machine.vcpus, machine.memory_mb, gpu_type, gpu_count, machine.local_ssd_gib)
    total = Fraction(0)
    for part in parts_of(shape):
        nanos, unit = PRICES.rate(part.resource, "us-central1", spot, NOW)
        total += nanos * part.quantity / (730 if unit == "GiBy.mo" else 1)
    return Decimal(round(total)).scaleb(-9)


def published() -> Iterator[tuple[str, bool, str]]:
    for figures in (PUBLISHED, PUBLISHED["catalogue"]):
        for model in ("standard", "spot"):
            yield from ((name, model == "spot", price) for name, price in figures[model].items())


@pytest.mark.parametrize(("machine_type", "spot", "price"), list(published()))
def test_whole_vm_costs_what_google_published(machine_type: str, spot: bool, price: str) -> None:
    """Cores, memory, GPUs and local SSD add up to the price of the machine type."""
    assert abs(hourly(machine_type, spot=spot) - Decimal(price)) < NEAR


@pytest.mark.parametrize(("gpu", "price"), list(PUBLISHED["gpus"].items()))
def test_attached_gpu_costs_what_google_published(gpu: str, price: str) -> None:
    """T4, P4, V100 and P100 an hour, in addition to the N1 VM."""
    assert PRICES.rate(f"gpu:{gpu}", "us-central1", False, NOW) == (int(Decimal(price).scaleb(9)), "h")


@pytest.mark.parametrize(("resource", "price"), list(PUBLISHED["custom"].items()))
def test_custom_vcpus_and_memory_cost_what_google_published(resource: str, price: str) -> None:
    """An hour of one vCPU, and of one GiB, of the series that have custom types: 5 % above predefined ones."""
    assert PRICES.rate(resource, "us-central1", False, NOW)[0] == int(Decimal(price).scaleb(9))


@pytest.fixture(scope="module")
def skus() -> dict[tuple[str, str], dict[str, Any]]:
    """(description, region) -> SKU, for every region that a SKU serves."""
    skus: dict[tuple[str, str], dict[str, Any]] = {}
    token: str | None = None
    while token != "":
        page = skus_page(PRICES, NOW, 5000, token)
        skus |= {(one["description"], region): one for one in page["skus"] for region in one["serviceRegions"]}
        token = str(page["nextPageToken"])
    return skus


@pytest.mark.parametrize("entry", A3_SPOT["skus"], ids=lambda one: f"{one['region']}-{one['description'][:24]}")
def test_spot_a3_is_worded_and_priced_as_recorded(
    skus: dict[tuple[str, str], dict[str, Any]], entry: dict[str, str]
) -> None:
    """Eight regions of the real catalogue: description, unit and price of cores, memory and GPU."""
    sku = skus[entry["description"], entry["region"]]
    expression = sku["pricingInfo"][0]["pricingExpression"]
    price = expression["tieredRates"][0]["unitPrice"]
    assert Decimal(price["units"]) + Decimal(price["nanos"]).scaleb(-9) == Decimal(entry["unit_price"])
    assert expression["usageUnit"] == entry["usage_unit"]
    assert sku["category"]["usageType"] == "Preemptible"


@pytest.mark.parametrize(("description", "region", "usage"), PUBLISHED["wording"]["skus"])
def test_new_families_are_worded_as_recorded(
    skus: dict[tuple[str, str], dict[str, Any]], description: str, region: str, usage: str
) -> None:
    """The H100 of A3 Mega says Plus on demand and Mega as Spot; a Spot B200 is filed under OnDemand."""
    assert skus[description, region]["category"]["usageType"] == usage


def test_a4x_has_no_sku(skus: dict[tuple[str, str], dict[str, Any]]) -> None:
    """The real catalogue of 2026 has none either: GB200 is sold by reservation, at no public price."""
    assert [name for name, _ in skus if "GB200" in name or "A4X" in name] == []


MADE_UP_BY_FLEX_START = {
    *(f"flex_start:{series}:{part}" for series in ("a3plus", "a3ultra") for part in ("core", "ram")),
    "flex_start:gpu:nvidia-h200-141gb",
}


def test_every_figure_names_its_source() -> None:
    """The source is given on demand and on Spot alike; made-up figures say so, and none is an on-demand price of its
    own. By flex-start no figure was found for the hosts of A3 Mega and Ultra, nor for the H200.
    """
    for resource, price in BASE.items():
        assert isinstance(price.source, Source), resource
        assert (price.spot is None) == (price.spot_source is None), resource
        invented = price.source is Source.INVENTED
        assert invented == (resource in MADE_UP_BY_FLEX_START), resource


def test_every_gpu_that_a_type_has_is_offered_somewhere() -> None:
    """Each accelerator-optimized type can be created in at least one zone."""
    offered = {name for names in ACCELERATOR_TYPES.values() for name in names}
    assert {gpu for machine in MACHINE_TYPES.values() for gpu, _ in machine.accelerators} <= offered
