"""TPU chips in the Cloud Billing Catalog: the rows that readers of it recorded in June and August 2026.

us-east5 on 7 August (on demand 2.70, flex-start 1.35, Spot 1.4033, and four look-alikes, three of them OnDemand),
europe-west4 on 11 August (2.97, 1.35, 1.78), and TPU7x, v5e and v5p with their SKU ids on 14 June.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from tests.gce.test_prices import pages, served, sku

from costguard.gce.machine_types import by_rule
from costguard.gce.prices import CatalogPrices, snapshot_prices
from costguard.gce.sku import subject
from costguard.ledger.billed.machine_parts import resource_words
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_gate import judge
from costguard.ledger.pricing import gpu_rate_per_hour, rate_per_hour
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.price import PriceKey

STANDARD, SPOT, FLEX = ProvisioningModel.STANDARD, ProvisioningModel.SPOT, ProvisioningModel.FLEX_START
NOW = datetime(2026, 11, 20, tzinfo=UTC)
COLUMBUS = (
    ("TpuV6e running in Columbus", "OnDemand", 2, 700_000_000),
    ("DWS Defined Duration V6e running in Columbus", "OnDemand", 1, 350_000_000),
    ("TpuV6e attached to Spot Preemptible VMs running in Columbus", "Preemptible", 1, 403_300_000),
    ("Capacity Optimized TpuV6e running in Columbus", "OnDemand", 2, 710_000_000),
    ("Reserved V6e TPU in Columbus in Calendar Mode", "OnDemand", 1, 890_000_000),
    ("Commitment v1: TpuV6e running in Columbus for 1 Year", "Commit1Yr", 1, 890_000_000),
)


def shape(machine_type: str) -> Shape:
    machine = by_rule(machine_type)
    assert machine is not None
    return Shape(machine_type, *machine)


def test_the_recorded_catalogue_gives_each_price_and_no_look_alike() -> None:
    """The rows may come in any order: one price for each way of buying a v6e chip in Columbus, to the last digit."""
    rows = [
        sku(words, nanos, units=str(units), usage=usage, regions=("us-east5",))
        for words, usage, units, nanos in COLUMBUS
    ]
    for order in (rows, rows[::-1]):
        with served(pages(order)) as (url, _):
            prices = {price.key: price.rate_nanos for price in CatalogPrices(url).fetch()}
        assert prices == {
            PriceKey("gpu:v6e:whole", "us-east5", STANDARD): 2_700_000_000,
            PriceKey("gpu:v6e:whole", "us-east5", FLEX): 1_350_000_000,
            PriceKey("gpu:v6e:whole", "us-east5", SPOT): 1_403_300_000,
            PriceKey("commitment-1y:gpu:v6e:whole", "us-east5", STANDARD): 1_890_000_000,
        }


@pytest.mark.parametrize(
    ("words", "usage", "priced"),
    [
        ("TpuV5e running in Delhi", "OnDemand", ("gpu:v5e:whole", STANDARD)),
        ("TpuV5p running in Sao Paulo", "OnDemand", ("gpu:v5p:whole", STANDARD)),
        ("TpuV6e running in Dallas", "OnDemand", ("gpu:v6e:whole", STANDARD)),
        ("TPU7x running in Americas", "OnDemand", ("gpu:tpu7x:whole", STANDARD)),
        ("TpuV5e attached to Spot Preemptible VMs running in Singapore", "Preemptible", ("gpu:v5e:whole", SPOT)),
        ("DWS Defined Duration V5p running in Iowa", "OnDemand", ("gpu:v5p:whole", FLEX)),
        ("Reserved TpuV5p in Delhi in Calendar Mode", "OnDemand", None),
        ("Reserved V6e TPU in Columbus in Calendar Mode", "OnDemand", None),
        ("Capacity Optimized TpuV6e running in Columbus", "OnDemand", None),
        ("Commitment v1: TpuV5p running in Netherlands for 3 Years", "Commit3Yr", None),
        ("DWS Calendar Mode V6e running in Columbus", "OnDemand", None),
        ("DWS Defined Duration V6e running in Columbus", "Commit1Yr", None),
        ("DWS Defined Duration Capacity Optimized V6e running in Columbus", "OnDemand", None),
    ],
)
def test_the_words_of_the_catalogue(words: str, usage: str, priced: tuple[str, ProvisioningModel] | None) -> None:
    """Prices on demand, of Spot and of flex-start differ from reservations, commitments and calendar mode."""
    assert subject(words, usage) == priced


@pytest.mark.parametrize(("model", "dollars"), [(STANDARD, "2.97"), (FLEX, "1.35"), (SPOT, "1.78")])
def test_a_chip_costs_what_was_recorded(model: ProvisioningModel, dollars: str) -> None:
    """v6e in europe-west4 as recorded on 11 August 2026, to its last digit, from the prices that ship."""
    book = PriceBook(snapshot_prices())
    rate = rate_per_hour(shape("ct6e-standard-1t"), "europe-west4", model, book, NOW)
    four = rate_per_hour(shape("ct6e-standard-4t"), "europe-west4", model, book, NOW)
    assert rate is not None
    assert four is not None
    assert round(rate.dollars, 2) == Decimal(dollars)
    assert four.nanos == 4 * rate.nanos
    assert gpu_rate_per_hour(shape("ct6e-standard-4t"), "europe-west4", model, book, NOW) == four


def test_what_the_catalogue_does_not_name_has_no_price() -> None:
    """TPU7x by flex-start, and v6e in a region without a SKU, are unknown and never nothing."""
    book = PriceBook(snapshot_prices())
    assert rate_per_hour(shape("tpu7x-standard-4t"), "us-central1", FLEX, book, NOW) is None
    assert rate_per_hour(shape("ct6e-standard-4t"), "us-central1", STANDARD, book, NOW) is None
    assert rate_per_hour(shape("ct5p-hightpu-4t"), "us-east5", STANDARD, book, NOW) is None


def test_the_gate_believes_a_flex_start_price_and_no_wild_one() -> None:
    """A price that becomes more than three times as high is refused, as on demand."""
    price, *_ = (one for one in snapshot_prices() if one.key == PriceKey("gpu:v6e:whole", "us-east5", FLEX))
    assert judge(price, price, None, NOW) is None
    wild = type(price)(price.key, price.unit, 4 * price.rate_nanos, price.in_force_from, "catalog")
    assert "more than 3 times off" in (judge(wild, price, None, NOW) or "")


def test_a_chip_is_called_a_chip() -> None:
    """No person reads of a v6e GPU."""
    assert resource_words("gpu:v6e:whole") == "v6e TPU chip with its share of the VM"
