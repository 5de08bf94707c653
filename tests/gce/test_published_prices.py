"""The shipped prices against figures that others published.

`data/gpu_vm_prices.csv` was made from the Cloud Billing Catalog by SkyPilot (its first line names repository and
commit): every A2, A3, G2 and N1 host and every T4, L4, V100, A100 and H100 in four regions, on demand and as Spot.
Google's own totals for Iowa (us-central1, on demand) are those of its page on accelerator-optimized VMs
(cloud.google.com/products/compute/pricing/accelerator-optimized).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from costguard.db.transaction import Database
from costguard.gce.machine_types import by_rule
from costguard.gce.prices import snapshot_prices
from costguard.ledger import prices
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_refresh import record, seed_snapshot
from costguard.ledger.pricing import rate_per_hour
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
NOW = datetime(2026, 11, 22, tzinfo=UTC)
FILE = Path(__file__).parent / "data" / "gpu_vm_prices.csv"
GPUS = {
    "T4": "nvidia-tesla-t4",
    "L4": "nvidia-l4",
    "V100": "nvidia-tesla-v100",
    "A100": "nvidia-tesla-a100",
    "A100-80GB": "nvidia-a100-80gb",
    "H100": "nvidia-h100-80gb",
}
HALF_A_DIGIT = Decimal("0.0000051")  # the file's figures have five decimals, and shipped ones are made of such

# Rows that are not what an on-demand VM pays: of one GPU, in the file and in truth, and why. SkyPilot's fetcher takes
# any SKU of usage type OnDemand that holds the GPU's name, and so also "... attached to DWS Defined Duration VMs".
NOT_ON_DEMAND = {
    ("A100", "europe-west4"): ("1.61365", "2.933908", "55 % of the list price: what flex-start VMs pay"),
    ("A100-80GB", "europe-west4"): ("2.03285", "4.325209", "47 % of the list price: what flex-start VMs pay"),
    ("A100-80GB", "us-central1"): ("1.8462", "3.92808", "47 % of the list price: what flex-start VMs pay"),
    ("H100", "us-central1"): ("4.20076", "9.796550569", "43 % of the list price, and a third of what Europe pays"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A row's price in one way of buying. A GPU's row leaves the host out, a host's row its GPUs and local SSD."""

    machine_type: str
    gpu: str
    count: int
    region: str
    zone: str
    model: ProvisioningModel
    dollars: Decimal

    def ours(self, book: PriceBook) -> Decimal | None:
        if self.gpu:
            price = book.at(PriceKey(f"gpu:{GPUS[self.gpu]}", self.region, self.model), NOW)
            return None if price is None else self.count * Money(price.rate_nanos).dollars
        machine = by_rule(self.machine_type)
        assert machine is not None
        rate = rate_per_hour(
            Shape(self.machine_type, machine.vcpus, machine.memory_mib), self.region, self.model, book, NOW
        )
        return None if rate is None else rate.dollars

    def __str__(self) -> str:
        what = self.machine_type or f"{self.gpu} x {self.count}"
        return f"{what} in {self.zone} ({self.model.value}) at {self.dollars}"


def published() -> Iterator[Figure]:
    with FILE.open() as opened:
        for row in csv.DictReader(line for line in opened if not line.startswith("#")):
            for model, column in ((STANDARD, "Price"), (SPOT, "SpotPrice")):
                yield Figure(
                    row["InstanceType"],
                    row["AcceleratorName"],
                    int(float(row["AcceleratorCount"] or 0)),
                    row["Region"],
                    row["AvailabilityZone"],
                    model,
                    Decimal(row[column]),
                )


def is_known_to_be_wrong(figure: Figure) -> bool:
    return figure.model is STANDARD and (figure.gpu, figure.region) in NOT_ON_DEMAND


@pytest.fixture(scope="module")
def book() -> PriceBook:
    return PriceBook(snapshot_prices())


def test_every_published_price_agrees_or_is_explained(book: PriceBook) -> None:
    """382 rows, on demand and Spot, to half of their last digit for each GPU; what differs is explained."""
    figures = list(published())
    assert len(figures) == 2 * 382
    unlike = []
    for figure in figures:
        ours = figure.ours(book)
        assert ours is not None, f"no price for {figure}"
        if abs(ours - figure.dollars) > HALF_A_DIGIT * (figure.count + 1):
            unlike.append(figure)
    assert [str(figure) for figure in unlike] == [str(figure) for figure in figures if is_known_to_be_wrong(figure)]
    assert len({(figure.gpu, figure.count, figure.region) for figure in unlike}) == 17


@pytest.mark.parametrize(("gpu", "region"), NOT_ON_DEMAND)
def test_the_rows_that_differ_are_all_the_same_mistake(book: PriceBook, gpu: str, region: str) -> None:
    """Each is so many times the wrong price of one GPU; the shipped price is the right one."""
    wrong, right, _ = NOT_ON_DEMAND[gpu, region]
    for figure in published():
        if (figure.gpu, figure.region, figure.model) == (gpu, region, STANDARD):
            assert abs(figure.dollars - figure.count * Decimal(wrong)) <= HALF_A_DIGIT * (figure.count + 1)
            assert figure.ours(book) == figure.count * Decimal(right)


@pytest.mark.parametrize(
    ("gpu", "region", "percent"),
    [("A100", "europe-west4", 55), ("A100-80GB", "europe-west4", 47), ("A100-80GB", "us-central1", 47)],
)
def test_flex_start_explains_them_to_the_last_digit(gpu: str, region: str, percent: int) -> None:
    """Google gives flex-start VMs up to 53 % off: these figures are a whole percentage of the list price."""
    wrong, right, _ = NOT_ON_DEMAND[gpu, region]
    assert abs(Decimal(right) * percent / 100 - Decimal(wrong)) <= HALF_A_DIGIT


def test_the_sanity_gate_catches_the_wrong_rows(sqlite_database: Database) -> None:
    """Fed as a catalogue over the shipped prices, exactly they are refused, and the shipped ones stay in force."""
    seed_snapshot(sqlite_database, snapshot_prices(), NOW)
    fetched = {
        key: Price(key, Unit.HOUR, Money.of(str(figure.dollars)).nanos, NOW, "catalog")
        for figure in published()
        if figure.count == 1
        for key in [PriceKey(f"gpu:{GPUS[figure.gpu]}", figure.region, figure.model)]
    }
    record(sqlite_database, list(fetched.values()), NOW)
    with sqlite_database.read() as connection:
        refused = {refusal.refused.price.key: refusal.refused.reason for refusal in prices.refusals(connection)}
    assert set(refused) == {PriceKey(f"gpu:{GPUS[gpu]}", region, STANDARD) for gpu, region in NOT_ON_DEMAND}
    for reason in refused.values():
        assert "is less than 3/5 of what other regions charge" in reason


@pytest.mark.parametrize(
    ("machine_type", "dollars"),
    [
        ("a2-highgpu-1g", "3.673385"),
        ("a2-highgpu-8g", "29.38708"),
        ("a2-megagpu-16g", "55.739504"),
        ("a2-ultragpu-1g", "5.06879789"),
        ("a2-ultragpu-8g", "40.550383123"),
        ("a3-highgpu-8g", "88.490000119"),
    ],
)
def test_whole_vms_cost_what_google_publishes(book: PriceBook, machine_type: str, dollars: str) -> None:
    """Hosts, GPUs and built-in local SSD, of which Google's page divides the month's price by 730 hours."""
    machine = by_rule(machine_type)
    assert machine is not None
    bare = Shape(machine_type, machine.vcpus, machine.memory_mib, machine.gpu_type, machine.gpu_count)
    rate = rate_per_hour(bare, "us-central1", STANDARD, book, NOW)
    ssd = book.at(PriceKey("local-ssd", "us-central1", STANDARD), NOW)
    assert rate is not None
    assert ssd is not None
    whole = rate.dollars + machine.local_ssd_gib * Money(ssd.rate_nanos).dollars / 730
    assert abs(whole - Decimal(dollars)) <= Decimal("2e-8")


@pytest.mark.parametrize(
    ("resource", "unit", "dollars"),
    [
        ("gpu:nvidia-tesla-t4", Unit.HOUR, "0.35"),
        ("gpu:nvidia-l4", Unit.HOUR, "0.560"),
        ("gpu:nvidia-tesla-v100", Unit.HOUR, "2.48"),
        ("gpu:nvidia-tesla-p100", Unit.HOUR, "1.46"),
        ("gpu:nvidia-tesla-p4", Unit.HOUR, "0.60"),
        ("gpu:nvidia-tesla-a100", Unit.HOUR, "2.933908"),
        ("gpu:nvidia-a100-80gb", Unit.HOUR, "3.93"),
        ("n1:core", Unit.HOUR, "0.031611"),
        ("n1:ram", Unit.GIB_HOUR, "0.004237"),
    ],
)
def test_single_prices_are_the_ones_that_google_publishes(
    book: PriceBook, resource: str, unit: Unit, dollars: str
) -> None:
    """cloud.google.com/compute/gpus-pricing and /compute/all-pricing, to the digits given there."""
    price = book.at(PriceKey(resource, "us-central1", STANDARD), NOW)
    assert price is not None
    assert price.unit is unit
    given = Decimal(dollars)
    assert round(Money(price.rate_nanos).dollars, -int(given.as_tuple().exponent)) == given


def test_built_in_local_ssd_is_billed_with_an_a3_ultra() -> None:
    """Google's page has an a3-ultragpu-8g at 84.806908493: less 12,000 GiB of local SSD at 0.08 a month, five decimals.

    No price of vCPUs, memory or GPUs leaves such a fraction; the H200 costs 9.31174 in the catalogue of July 2026.
    """
    machine = by_rule("a3-ultragpu-8g")
    assert machine is not None
    rest = Decimal("84.806908493") - machine.local_ssd_gib * Decimal("0.08") / 730 - 8 * Decimal("9.31174")
    assert abs(rest - Decimal("8.99792")) <= Decimal("1e-9")


def test_the_price_of_an_a4_covers_its_local_ssd() -> None:
    """Google's page has a Spot a4-highgpu-8g at 39.63 in all: 8 slices of 4.9542 (catalogue, 2026), and no more."""
    assert round(8 * Decimal("4.9542"), 2) == Decimal("39.63")
