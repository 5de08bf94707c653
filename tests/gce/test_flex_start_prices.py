"""Flex-start and calendar mode in the Cloud Billing Catalog, and what VMs cost by them.

None of the wordings was made up here: readers of the catalogue quoted them between November 2025 and September 2026,
and a bill of August 2025 for a flex-start a3-highgpu-8g in us-central1 has four of them with SKU ids and unit prices.
The A100's figures were read on 2 August 2026, the B200's on 30 July 2026, the TPU's on 11 August 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from tests.gce.test_prices import pages, served, sku

from costguard.gce.machine_types import by_rule
from costguard.gce.prices import CatalogPrices, snapshot_prices
from costguard.gce.sku import prices_of_sku, subject
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_gate import judge
from costguard.ledger.pricing import rate_per_hour
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
FLEX, RESERVED = ProvisioningModel.FLEX_START, ProvisioningModel.RESERVATION_BOUND
NOW = datetime(2026, 11, 20, tzinfo=UTC)
A_MONTH = Decimal(730)  # hours, by which the bill's reader divided the price of local SSD

# Words, usage type, unit, and dollars a unit as they were printed: rounded to five decimals for the A100.
A100 = (
    ("Nvidia Tesla A100 GPU running in Americas", "OnDemand", "h", "2.93391"),
    ("A2 Instance Core running in Americas", "OnDemand", "h", "0.03161"),
    ("A2 Instance Ram running in Americas", "OnDemand", "GiBy.h", "0.00424"),
    ("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", "Preemptible", "h", "1.53990"),
    ("Spot Preemptible A2 Instance Core running in Americas", "Preemptible", "h", "0.01659"),
    ("Spot Preemptible A2 Instance Ram running in Americas", "Preemptible", "GiBy.h", "0.00222"),
    ("Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Americas", "OnDemand", "h", "1.61365"),
    ("DWS Defined Duration A2 Core running in Americas", "OnDemand", "h", "0.01739"),
    ("DWS Defined Duration A2 Ram running in Americas", "OnDemand", "GiBy.h", "0.00233"),
    ("Reserved Nvidia Tesla A100 GPU in Americas", "OnDemand", "h", "0"),
)
B200 = (
    ("A4 Nvidia B200 (1 gpu slice) running in Americas", "OnDemand", "h", "16.11"),
    ("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", "OnDemand", "h", "4.9542"),
    ("DWS Defined Duration A4 Nvidia B200 (1 gpu slice) running in Americas", "OnDemand", "h", "8.055"),
    ("DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) in Americas", "OnDemand", "h", "11.277"),
    ("Commitment v1: A4 Nvidia B200 (1 gpu slice) in Americas for 1 Year", "Commit1Yr", "h", "11.1159"),
    ("Commitment v1: A4 Nvidia B200 (1 gpu slice) in Americas for 3 Years", "Commit3Yr", "h", "7.0884"),
)
# SKU id, words, unit, dollars a unit. Local SSD is $0.08 a GiB and month, printed as 0.0001096 an hour of 730.
BILL = (
    (
        "341A-49A5-0C07",
        "Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas",
        "h",
        "4.200761",
    ),
    ("9A32-36B2-7FBC", "DWS Defined Duration A3 Core running in Americas", "h", "0.010934"),
    ("ED19-A584-4A84", "DWS Defined Duration A3 Ram running in Americas", "GiBy.h", "0.000952"),
    ("2303-1D6A-9C08", "DWS Defined Duration SSD backed Local Storage running in Americas", "GiBy.mo", "0.08"),
)
V6E = (
    ("TpuV6e running in Netherlands", "OnDemand", "h", "2.97"),
    ("DWS Defined Duration V6e running in Netherlands", "OnDemand", "h", "1.35"),
    ("TpuV6e attached to Spot Preemptible VMs running in Netherlands", "Preemptible", "h", "1.78"),
)


def row(words: str, usage: str, unit: str, dollars: str, region: str = "us-central1", sku_id: str = "") -> Any:
    nanos = Money.of(dollars).nanos
    units, rest = divmod(nanos, 10**9)
    made = sku(words, rest, units=str(units), usage=usage, unit=unit, regions=(region,))
    return {**made, "skuId": sku_id} if sku_id else made


def book_of(rows: Sequence[Any]) -> PriceBook:
    """The prices as a server of the catalogue gives them, in either order."""
    read = []
    for order in (rows, rows[::-1]):
        with served(pages(order)) as (url, _):
            read.append({price.key: price for price in CatalogPrices(url).fetch()})
    first, second = read
    assert {key: price.rate_nanos for key, price in first.items()} == {
        key: price.rate_nanos for key, price in second.items()
    }
    return PriceBook(first.values())


def shape(machine_type: str) -> Shape:
    machine = by_rule(machine_type)
    assert machine is not None
    return Shape(machine_type, *machine)


def hourly(machine: Shape, model: ProvisioningModel, book: PriceBook, region: str = "us-central1") -> Decimal | None:
    rate = rate_per_hour(machine, region, model, book, NOW)
    return None if rate is None else rate.dollars


@pytest.mark.parametrize(("model", "dollars"), [(STANDARD, "3.67363"), (FLEX, "2.02038"), (SPOT, "1.92768")])
def test_an_a100_costs_what_was_recorded(model: ProvisioningModel, dollars: str) -> None:
    """a2-highgpu-1g: a GPU, 12 vCPUs and 85 GiB, by rows of the catalogue, to the last digit."""
    assert hourly(shape("a2-highgpu-1g"), model, book_of([row(*one) for one in A100])) == Decimal(dollars)


@pytest.mark.parametrize(
    ("model", "dollars"), [(STANDARD, "16.11"), (FLEX, "8.055"), (SPOT, "4.9542"), (RESERVED, "11.277")]
)
def test_a_b200_costs_what_was_recorded(model: ProvisioningModel, dollars: str) -> None:
    """Eight slices are a whole a4-highgpu-8g, local SSD included, and each commitment keeps its price."""
    book = book_of([row(*one) for one in B200])
    assert hourly(shape("a4-highgpu-8g"), model, book) == 8 * Decimal(dollars)
    for years, promised in ((1, "11.1159"), (3, "7.0884")):
        price = book.at(PriceKey(f"commitment-{years}y:gpu:nvidia-b200:whole", "us-central1", STANDARD), NOW)
        assert price is not None
        assert Money(price.rate_nanos).dollars == Decimal(promised)


def test_a_flex_start_h100_costs_what_a_real_bill_has() -> None:
    """a3-highgpu-8g: 8 x 4.200761 + 208 x 0.010934 + 1,872 x 0.000952, and 6,000 GiB x 0.0001096: 38.32 an hour."""
    rows = [row(words, "OnDemand", unit, dollars, sku_id=identity) for identity, words, unit, dollars in BILL]
    book = book_of(rows)
    whole = shape("a3-highgpu-8g")
    assert (whole.vcpus, whole.memory_mib, whole.gpu_count, whole.local_ssd_gib) == (208, 1872 * 1024, 8, 6000)
    bare = hourly(replace(whole, local_ssd_gib=0), FLEX, book)
    assert bare == Decimal("33.606088") + Decimal("2.274272") + Decimal("1.782144")
    ssd = book.at(PriceKey("local-ssd", "us-central1", FLEX), NOW)
    assert ssd is not None
    assert (ssd.unit, ssd.sku_id) == (Unit.GIB_MONTH, "2303-1D6A-9C08")
    of_a_month = 6000 * Money(ssd.rate_nanos).dollars / A_MONTH
    assert round(of_a_month, 8) == Decimal("0.65753425")
    assert bare is not None
    assert round(bare + of_a_month, 2) == Decimal("38.32")
    # Google's month is the calendar's, and November 2026 has 721 hours.
    assert hourly(whole, FLEX, book) == bare + round(6000 * Decimal("0.08") / 721, 9)
    for identity, *_ in BILL:
        assert any(price.sku_id == identity for one in rows for price in prices_of_sku(one))


@pytest.mark.parametrize(("model", "dollars"), [(STANDARD, "2.97"), (FLEX, "1.35"), (SPOT, "1.78")])
def test_a_tpu_costs_what_was_recorded(model: ProvisioningModel, dollars: str) -> None:
    """A v6e chip with its share of the VM, in europe-west4."""
    book = book_of([row(*one, region="europe-west4") for one in V6E])
    assert hourly(shape("ct6e-standard-4t"), model, book, "europe-west4") == 4 * Decimal(dollars)


@pytest.mark.parametrize(
    ("words", "resource", "model"),
    [
        ("DWS Defined Duration A2 Core", "a2:core", FLEX),
        ("DWS Defined Duration A3 Ram running in Americas", "a3:ram", FLEX),
        ("DWS Defined Duration A3Ultra Core", "a3ultra:core", FLEX),
        ("DWS Flex Start H4D Standard Core running in Iowa", "h4d:core", FLEX),
        ("DWS Defined Duration SSD backed Local Storage running in Americas", "local-ssd", FLEX),
        ("DWS Defined Duration V5p running in Iowa", "gpu:v5p:whole", FLEX),
        ("Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs", "gpu:nvidia-tesla-a100", FLEX),
        (
            "Nvidia Tesla A100 80GB GPU attached to DWS Defined Duration VMs running in Americas",
            "gpu:nvidia-a100-80gb",
            FLEX,
        ),
        (
            "Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs running in Seoul",
            "gpu:nvidia-h100-mega-80gb",
            FLEX,
        ),
        ("H200 141GB GPU attached to DWS Defined Duration VMs running in Iowa", "gpu:nvidia-h200-141gb", FLEX),
        ("Nvidia L4 GPU attached to DWS Defined Duration VMs running in Frankfurt", "gpu:nvidia-l4", FLEX),
        ("Nvidia Tesla T4 GPU attached to DWS Defined Duration VMs running in Seoul", "gpu:nvidia-tesla-t4", FLEX),
        (
            "1/8 vGPU no lssd attached to DWS Defined Duration VMs running in Iowa",
            "gpu:nvidia-rtx-pro-6000-1/8:whole",
            FLEX,
        ),
        ("DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) in Seoul", "gpu:nvidia-b200:whole", RESERVED),
        ("DWS Calendar Mode H4D Instance Core running in Iowa", "h4d:core", RESERVED),
        (
            "Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode",
            "gpu:nvidia-h100-mega-80gb",
            RESERVED,
        ),
        ("Reserved Nvidia H100 80GB GPU in Seoul in Calendar Mode", "gpu:nvidia-h100-80gb", RESERVED),
    ],
)
def test_the_words_of_the_catalogue(words: str, resource: str, model: ProvisioningModel) -> None:
    """Flex-start is "DWS Defined Duration", H4D's "DWS Flex Start"; calendar mode has two wordings."""
    assert subject(words, "OnDemand") == (resource, model)
    assert subject(words, "Commit1Yr") is None
    assert subject(words, "Preemptible") is None


@pytest.mark.parametrize(
    "words",
    [
        "Reserved Nvidia Tesla A100 GPU in Seoul",
        "Reserved A2 Ram in Netherlands",
        "Reserved V5e TPU in Seoul in Calendar Mode",
        "Reserved TpuV5p in Seoul in Calendar Mode",
        "Capacity Optimized TpuV6e running in Columbus",
        "DWS Defined Duration Sole Tenancy Premium for A2 Core running in Americas",
        "DWS Defined Duration Regional Balanced PD Capacity running in Americas",
        "DWS Defined Duration Balanced PD Capacity running in Americas",
    ],
)
def test_look_alikes_are_passed_over(words: str) -> None:
    """Usage that a commitment pays for costs nothing in the catalogue; reserved TPUs cost what their contract says."""
    assert subject(words, "OnDemand") is None


def test_a_vm_with_a_part_that_has_no_flex_start_price_is_unknown() -> None:
    """Local SSD without a flex-start price makes the VM unknown: neither the on-demand price nor zero stands for it."""
    rows = [row(words, "OnDemand", unit, dollars) for _, words, unit, dollars in BILL[:3]]
    usual = row("SSD backed Local Storage", "OnDemand", "GiBy.mo", "0.08")
    assert hourly(shape("a3-highgpu-8g"), FLEX, book_of([*rows, usual])) is None
    assert hourly(replace(shape("a3-highgpu-8g"), local_ssd_gib=0), FLEX, book_of([*rows, usual])) is not None


@pytest.mark.parametrize(
    ("machine_type", "model", "dollars"),
    [
        ("a2-highgpu-1g", FLEX, "2.02038"),
        ("a4-highgpu-8g", FLEX, "64.44"),
        ("a4-highgpu-8g", RESERVED, "90.216"),
        ("a4-highgpu-8g", SPOT, "39.6336"),
    ],
)
def test_shipped_prices_are_the_recorded_ones(machine_type: str, model: ProvisioningModel, dollars: str) -> None:
    """They price a VM before any catalogue was read; 90.22 is Google's own figure for an a4-highgpu-8g of calendar
    mode.
    """
    assert hourly(shape(machine_type), model, PriceBook(snapshot_prices())) == Decimal(dollars)


@pytest.mark.parametrize("machine_type", ["a2-ultragpu-1g", "a3-highgpu-8g"])
def test_shipped_flex_start_prices_with_local_ssd_are_whole(machine_type: str) -> None:
    """Every part has a price in us-central1, and the VM costs about half of the price on demand."""
    book = PriceBook(snapshot_prices())
    flex, usual = (hourly(shape(machine_type), model, book) for model in (FLEX, STANDARD))
    assert flex is not None
    assert usual is not None
    assert Fraction(2, 5) < Fraction(flex) / Fraction(usual) < Fraction(3, 5)


def test_the_gate_refuses_flex_start_above_on_demand() -> None:
    """Google gives up to 53 % off, and of the T4 and the L4 nothing: the same price is believed."""
    usual = Price(PriceKey("gpu:nvidia-l4", "us-central1", STANDARD), Unit.HOUR, 560_040_000, NOW, "catalog")
    same = replace(usual, key=replace(usual.key, provisioning_model=FLEX))
    assert judge(same, None, usual, NOW) is None
    dearer = replace(same, rate_nanos=560_040_001)
    assert "The flex-start price $0.560040001 per h is above" in (judge(dearer, None, usual, NOW) or "")
    assert judge(replace(dearer, key=replace(usual.key, provisioning_model=RESERVED)), None, usual, NOW) is None
