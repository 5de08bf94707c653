"""The Cloud Billing Catalog of the simulated cloud: `services/6F81-5844-456A/skus`."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from costguard_sandbox.gce.catalogue.price_table import STORAGE_BASE_REGIONS, is_storage, unit_of
from costguard_sandbox.gce.catalogue.prices import NoRate, PriceList, Timeline
from costguard_sandbox.gce.catalogue.sku_text import (
    AMERICAS,
    NEWER_PLACES,
    PLACES,
    UNITS,
    describe,
    has_own_places,
    is_sold_singly,
    sku_id,
    usage_type,
)
from costguard_sandbox.gce.decoys import decoys
from costguard_sandbox.gce.paging import page_token_at, position_of

__all__ = ["SERVICE", "NoRate", "PriceList", "skus_page"]

SERVICE = "6F81-5844-456A"
MAX_PAGE = 5000


def skus_page(price_list: PriceList, at: datetime, page_size: int, page_token: str | None) -> dict[str, Any]:
    """One page of the catalogue as it stands at a moment, ordered by SKU id.

    Beside what the price list sells it names what a reader must not mistake for it: commitments,
    reservations, premiums, regional disks. More than 5,000 gives 5,000, and so does 0.
    """
    skus = sorted([*_sold(price_list, at), *decoys(price_list, at, sku)], key=lambda one: str(one["skuId"]))
    size = min(page_size, MAX_PAGE) if page_size > 0 else MAX_PAGE
    start = position_of(page_token) if page_token else 0
    end = start + size
    return {"skus": skus[start:end], "nextPageToken": page_token_at(end) if end < len(skus) else ""}


def sku(
    description: str,
    category: tuple[str, str, str],
    regions: tuple[str, ...],
    unit: str,
    tiers: tuple[tuple[float, int], ...],
    since: datetime,
) -> dict[str, Any]:
    """One SKU; category is (family, group, usage type), tiers are (from this usage on, nano-dollars)."""
    family, group, usage_type = category
    words, base, base_words, factor = UNITS[unit]
    identity = sku_id(description, usage_type)
    kind = "GLOBAL" if regions == ("global",) else "REGIONAL" if len(regions) == 1 else "MULTI_REGIONAL"
    return {
        "name": f"services/{SERVICE}/skus/{identity}",
        "skuId": identity,
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": family,
            "resourceGroup": group,
            "usageType": usage_type,
        },
        "serviceRegions": list(regions),
        "pricingInfo": [
            {
                "summary": "",
                "pricingExpression": {
                    "usageUnit": unit,
                    "displayQuantity": 1,
                    "tieredRates": [
                        {
                            "startUsageAmount": start,
                            "unitPrice": {
                                "currencyCode": "USD",
                                "units": str(nanos // 10**9),
                                "nanos": nanos % 10**9,
                            },
                        }
                        for start, nanos in tiers
                    ],
                    "usageUnitDescription": words,
                    "baseUnit": base,
                    "baseUnitDescription": base_words,
                    "baseUnitConversionFactor": factor,
                },
                "currencyConversionRate": 1,
                "effectiveTime": since.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            }
        ],
        "serviceProviderName": "Google",
        "geoTaxonomy": {"type": kind, "regions": [] if kind == "GLOBAL" else list(regions)},
    }


def _sold(price_list: PriceList, at: datetime) -> Iterator[dict[str, Any]]:
    timelines: dict[tuple[str, bool], dict[str, Timeline]] = defaultdict(dict)
    for resource, region, spot in price_list.sold():
        history = price_list.history(resource, region, spot)
        timelines[resource, spot][region] = tuple(change for change in history if change[0] <= at) or history[:1]
    for (resource, spot), by_region in timelines.items():
        for place, regions in _places(resource, by_region):
            since, nanos = by_region[regions[0]][-1]
            description, family, group = describe(resource, place, spot=spot)
            category = (family, group, usage_type(resource, spot=spot))
            yield sku(description, category, regions, unit_of(resource), ((0, nanos),), since)


def _places(resource: str, by_region: dict[str, Timeline]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(place, regions) per SKU: regions that Google groups share one for as long as they share their prices."""
    group_name, group = ("", STORAGE_BASE_REGIONS) if is_storage(resource) else ("Americas", AMERICAS)
    alike: dict[Timeline, list[str]] = defaultdict(list)
    for region in () if is_sold_singly(resource) else group:
        if region in by_region:
            alike[by_region[region]].append(region)
    largest: list[str] = max(alike.values(), key=len, default=[])
    together = tuple(largest)
    if together:
        yield group_name, together
    for region in by_region:
        if region not in together:
            newer = has_own_places(resource) and region in NEWER_PLACES
            yield NEWER_PLACES[region] if newer else PLACES[region], (region,)
