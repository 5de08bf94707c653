"""Estimated prices: custom E2 VMs."""

from __future__ import annotations

from datetime import UTC, datetime

from costguard.gce.prices import estimates
from costguard.model.instance import ProvisioningModel
from costguard.model.price import Price, PriceKey, Unit

STANDARD = ProvisioningModel.STANDARD


def price(resource: str, nanos: int) -> Price:
    unit = Unit.HOUR if resource.endswith("core") else Unit.GIB_HOUR
    return Price(PriceKey(resource, "us-central1", STANDARD), unit, nanos, datetime(2026, 1, 1, tzinfo=UTC), "catalog")


def test_custom_e2_costs_what_google_s_page_says() -> None:
    """Google's page (Iowa, late 2025) makes 0.02290217 and 0.003069707 from 0.02181159 and 0.00292353."""
    by_resource = {
        estimate.key.resource: estimate
        for estimate in estimates([price("e2:core", 21_811_590), price("e2:ram", 2_923_530)])
    }
    assert by_resource["e2-custom:core"].rate_nanos == 22_902_170
    assert by_resource["e2-custom:ram"].rate_nanos == 3_069_707


def test_an_estimate_says_that_it_is_one() -> None:
    """The source tells it from a price that Google lists, and no SKU is claimed."""
    (price_of_part,) = estimates([price("e2:core", 21_811_590)])
    assert price_of_part.source == "catalog, estimated"
    assert price_of_part.sku_id == ""


def test_a_listed_price_is_not_estimated() -> None:
    """Where the catalogue has a SKU for custom E2, that one counts; other families are never guessed."""
    assert not list(estimates([price("e2:core", 21_811_590), price("e2-custom:core", 22_000_000)]))
    assert not list(estimates([price("n2:core", 31_611_000), price("a3plus:core", 1)]))
