"""The Cloud Billing Catalog of the simulated cloud: `services/6F81-5844-456A/skus`."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from costguard_sandbox.gce.catalogue.prices import (
    EVERYWHERE,
    FLEX_START,
    RESERVATION_BOUND,
    SOLD_EVERYWHERE,
    STORAGE_BASE_REGIONS,
    NoRate,
    PriceList,
    Timeline,
    bare,
    is_storage,
    unit_of,
)
from costguard_sandbox.gce.catalogue.regions import REGIONS
from costguard_sandbox.gce.responses import page_token_at, position_of

SERVICE = "6F81-5844-456A"
MAX_PAGE = 5000


AMERICAS = ("us-central1", "us-east1", "us-west1")
# Recorded: "A3 Instance Core running in Belgium", where the oldest families say EMEA, and "G4 ... running in Iowa".
NEWER_PLACES: Mapping[str, str] = {"europe-west1": "Belgium", "asia-east1": "Taiwan"}
_NEWER = ("a3", "a3plus", "a3ultra", "c4", "g4")
_NEWER_GPUS = frozenset(
    {
        "nvidia-h100-80gb",
        "nvidia-h100-mega-80gb",
        "nvidia-h200-141gb",
        "nvidia-b200",
        "nvidia-rtx-pro-6000",
    }
)
MACHINES = {
    "n1": "N1 Predefined Instance",
    "n1-custom": "Custom Instance",
    "n1-custom-extended": "Custom Extended Instance",
    "n2-custom-extended": "N2 Custom Extended Instance",
    "n2d-custom-extended": "N2D AMD Custom Extended Instance",
    "e2": "E2 Instance",
    "e2-custom": "E2 Custom Instance",
    "n2": "N2 Instance",
    "n2-custom": "N2 Custom Instance",
    "n2d": "N2D AMD Instance",
    "n2d-custom": "N2D AMD Custom Instance",
    "c2": "Compute optimized",
    "c3": "C3 Instance",
    "t2d": "T2D AMD Instance",
    "a2": "A2 Instance",
    "a3": "A3 Instance",
    "a3plus": "A3Plus Instance",
    "a3ultra": "A3Ultra Instance",
    "c4": "C4 Instance",
    "g2": "G2 Instance",
    "g4": "G4 Instance",
}
GPUS = {
    "nvidia-tesla-p4": "Nvidia Tesla P4 GPU",
    "nvidia-tesla-p100": "Nvidia Tesla P100 GPU",
    "nvidia-tesla-t4": "Nvidia Tesla T4 GPU",
    "nvidia-l4": "Nvidia L4 GPU",
    "nvidia-tesla-v100": "Nvidia Tesla V100 GPU",
    "nvidia-tesla-a100": "Nvidia Tesla A100 GPU",
    "nvidia-a100-80gb": "Nvidia Tesla A100 80GB GPU",
    "nvidia-h100-80gb": "Nvidia H100 80GB GPU",
    "nvidia-h100-mega-80gb": "Nvidia H100 80GB Plus GPU",
    "nvidia-h200-141gb": "H200 141GB GPU",
    "nvidia-b200": "A4 Nvidia B200 (1 gpu slice)",
    "nvidia-rtx-pro-6000": "RTX 6000 96GB",
}
# Where Spot is worded otherwise than "... attached to Spot Preemptible VMs".
_SPOT_GPUS = {
    "nvidia-h100-mega-80gb": "Nvidia H100 80GB Mega GPU attached to Spot Preemptible VMs",
    "nvidia-b200": "Spot Preemptible A4 Nvidia B200 (1 gpu slice)",
}
TPUS = {"ct5lp": "TpuV5e", "ct5p": "TpuV5p", "ct6e": "TpuV6e", "tpu7x": "TPU7x"}
_STORAGE = {
    "disk:pd-standard": ("Storage PD Capacity", "PDStandard"),
    "disk:pd-balanced": ("Balanced PD Capacity", "SSD"),
    "disk:pd-ssd": ("SSD backed PD Capacity", "SSD"),
    "disk:pd-extreme": ("Extreme PD Capacity", "SSD"),
    "disk:hyperdisk-balanced": ("Hyperdisk Balanced Capacity", "SSD"),
    "local-ssd": ("SSD backed Local Storage", "LocalSSD"),
    "suspended-memory": ("VM state: preserved memory", "VmState"),
    "snapshot": ("Storage PD Snapshot", "PDSnapshot"),
    "image": ("Storage Image", "StorageImage"),
}
# machine type -> (description, resourceGroup): those that have one SKU for cores and memory together.
_SHARED = {
    "f1-micro": ("Micro Instance with burstable CPU", "F1Micro"),
    "g1-small": ("Small Instance with 1 VCPU", "G1Small"),
}
UNITS: Mapping[str, tuple[str, str, str, int]] = {
    "h": ("hour", "s", "second", 3600),
    "GiBy.h": ("gibibyte hour", "By.s", "byte second", 2**30 * 3600),
    "GiBy.mo": ("gibibyte month", "By.s", "byte second", 2**30 * 3600 * 24 * 30),
}
"""usageUnit -> (in words, baseUnit, in words, how many base units)."""
_FAMILIES = {"a2": "A2", "a3": "A3", "a3plus": "A3Plus", "a3ultra": "A3Ultra", "g2": "G2", "g4": "G4", "n1": "N1"}
MakeSku = Callable[..., dict[str, Any]]


def skus_page(price_list: PriceList, at: datetime, page_size: int, page_token: str | None) -> dict[str, Any]:
    """Returns a page of the catalogue as it stands at a moment, ordered by SKU id.

    Besides the SKUs of the price list, it has look-alikes that a reader must not mistake for it: commitments,
    reservations, premiums, regional disks. More than 5,000 gives 5,000, and so does 0.
    """
    skus = sorted([*_sold(price_list, at), *lookalikes(price_list, at, sku)], key=lambda one: str(one["skuId"]))
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
    """Makes an SKU; category is (family, group, usage type), tiers are (from this usage on, nano-dollars)."""
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


def sku_names(price_list: PriceList, at: datetime) -> dict[tuple[str, str, bool], tuple[str, str]]:
    """(resource, region, Spot) -> (SKU id, description): what a bill's row calls each price of the list."""
    names: dict[tuple[str, str, bool], tuple[str, str]] = {}
    for (resource, spot), by_region in _timelines(price_list, at).items():
        for place, regions in _places(resource, by_region):
            description = describe(resource, place, spot=spot)[0]
            identity = sku_id(description, usage_type(resource, spot=spot))
            names |= {(resource, region, spot): (identity, description) for region in regions}
    return names


def _timelines(price_list: PriceList, at: datetime) -> dict[tuple[str, bool], dict[str, Timeline]]:
    timelines: dict[tuple[str, bool], dict[str, Timeline]] = defaultdict(dict)
    for resource, region, spot in price_list.sold():
        history = price_list.history(resource, region, spot)
        timelines[resource, spot][region] = tuple(change for change in history if change[0] <= at) or history[:1]
    return timelines


def _sold(price_list: PriceList, at: datetime) -> Iterator[dict[str, Any]]:
    for (resource, spot), by_region in _timelines(price_list, at).items():
        for place, regions in _places(resource, by_region):
            since, nanos = by_region[regions[0]][-1]
            description, family, group = describe(resource, place, spot=spot)
            category = (family, group, usage_type(resource, spot=spot))
            yield sku(description, category, regions, unit_of(resource), ((0, nanos),), since)


def _places(resource: str, by_region: dict[str, Timeline]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(place, regions) of each SKU: Google's groups of regions share one while they share their prices."""
    if resource in SOLD_EVERYWHERE:
        yield "", (EVERYWHERE,)
        return
    group_name, group = ("", STORAGE_BASE_REGIONS) if is_storage(resource) else ("Americas", AMERICAS)
    group_name = "" if resource == "static-ip" else group_name
    alike: dict[Timeline, list[str]] = defaultdict(list)
    for region in () if has_sku_per_region(resource) else group:
        if region in by_region:
            alike[by_region[region]].append(region)
    largest: list[str] = max(alike.values(), key=len, default=[])
    together = tuple(largest)
    if together:
        yield group_name, together
    for region in by_region:
        if region not in together:
            newer = uses_newer_places(resource) and region in NEWER_PLACES
            yield NEWER_PLACES[region] if newer else REGIONS[region].sku_place, (region,)


def describe(resource: str, place: str, *, spot: bool) -> tuple[str, str, str]:
    """(description, resourceFamily, resourceGroup); a place of '' is left out, as for the oldest storage SKUs."""
    head, _, tail = resource.partition(":")
    if head in (FLEX_START, RESERVATION_BOUND):
        return _scheduled(head, tail, place)
    if is_storage(resource):
        name, group = _STORAGE[resource]
        name += " attached to Spot Preemptible VMs" if spot else ""
        return f"{name} in {place}" if place else name, "Storage", group
    if resource in SOLD_EVERYWHERE:
        return f"External IP Charge on a {'Spot Preemptible' if spot else 'Standard'} VM", "Network", "IpAddress"
    if resource == "static-ip":  # recorded: "Static Ip Charge" of the American regions, "Static Ip Charge in Japan"
        return f"Static Ip Charge in {place}" if place else "Static Ip Charge", "Network", "IpAddress"
    if head in ("gpu", "slice"):
        name = GPUS[tail] if head == "gpu" else "1/8 vGPU no lssd"
        if spot:
            name = _SPOT_GPUS.get(tail, f"{name} attached to Spot Preemptible VMs")
        return f"{name} running in {place}", "Compute", "GPU"
    if head == "tpu":
        return f"{TPUS[tail]}{' attached to Spot Preemptible VMs' if spot else ''} running in {place}", "Compute", "TPU"
    if head == "shared":
        name, group = _SHARED[tail]
        return f"{'Spot Preemptible ' if spot else ''}{name} running in {place}", "Compute", group
    part = tail.capitalize()
    # N1 keeps the group of the time when it was the only machine series.
    group = "N1Standard" if head == "n1" else {"core": "CPU", "ram": "RAM"}[tail]
    return f"{'Spot Preemptible ' if spot else ''}{MACHINES[head]} {part} running in {place}", "Compute", group


def _scheduled(model: str, resource: str, place: str) -> tuple[str, str, str]:
    """The description, family and group of an SKU of Dynamic Workload Scheduler.

    Recorded, of flex-start: "DWS Defined Duration A3 Core running in Americas" (and Ram), "... SSD backed Local Storage
    running in Americas", "... V6e running in Columbus", "Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs
    running in Americas", "1/8 vGPU no lssd attached to ...". Of calendar mode: "DWS Calendar Mode A4 Nvidia B200 (1 gpu
    slice) in Seoul", "Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode". The whole words of the B200 by
    flex-start are not: A0AD-E652-D4F9 is quoted as "DWS Defined Duration A4 B200 slice".
    """
    head, _, tail = resource.partition(":")
    if model == RESERVATION_BOUND:
        name = f"{GPUS[tail].replace('Plus', 'Mega')} in {place}"
        is_slice = tail == "nvidia-b200"
        return f"DWS Calendar Mode {name}" if is_slice else f"Reserved {name} in Calendar Mode", "Compute", "GPU"
    if head == "local-ssd":
        where = place or "Americas"
        return f"DWS Defined Duration {_STORAGE[resource][0]} running in {where}", "Storage", _STORAGE[resource][1]
    if head == "tpu":
        return f"DWS Defined Duration {TPUS[tail].removeprefix('Tpu')} running in {place}", "Compute", "TPU"
    if resource == "gpu:nvidia-b200":
        return f"DWS Defined Duration {GPUS[tail]} running in {place}", "Compute", "GPU"
    if head in ("gpu", "slice"):
        name = GPUS[tail].replace("80GB Plus", "Mega 80GB") if head == "gpu" else "1/8 vGPU no lssd"
        return f"{name} attached to DWS Defined Duration VMs running in {place}", "Compute", "GPU"
    group = {"core": "CPU", "ram": "RAM"}[tail]
    return f"DWS Defined Duration {_FAMILIES[head]} {tail.capitalize()} running in {place}", "Compute", group


def usage_type(resource: str, *, spot: bool) -> str:
    """The category's usageType; the catalogue of 2026 has OnDemand for the Spot B200 and a Spot VM's address, too."""
    return "Preemptible" if spot and resource not in ("gpu:nvidia-b200", *SOLD_EVERYWHERE) else "OnDemand"


def uses_newer_places(resource: str) -> bool:
    """Says whether its SKUs use the place names of newer machine families."""
    head, _, tail = bare(resource).partition(":")
    return head in (*_NEWER, "tpu") or (head in ("gpu", "slice") and tail in _NEWER_GPUS)


def has_sku_per_region(resource: str) -> bool:
    """Says whether each region has an SKU of its own, as recorded for G4."""
    return bare(resource).startswith("g4:") or resource.endswith(":nvidia-rtx-pro-6000")


def sku_id(*parts: str) -> str:
    """A stable id in Google's form, such as `2E27-4F75-95CD`."""
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest().upper()
    return f"{digest[:4]}-{digest[4:8]}-{digest[8:12]}"


def lookalikes(price_list: PriceList, at: datetime, make: MakeSku) -> Iterator[dict[str, Any]]:
    """Commitments, reservations, premiums, licences and their like.

    All are worded, grouped and metered like the real thing, and most are cheaper; several say OnDemand.
    """
    for place, regions in (("Americas", AMERICAS), ("Netherlands", ("europe-west4",)), ("APAC", ("asia-east1",))):
        for resource, name, unit in _machine_parts():
            try:
                nanos, _ = price_list.rate(resource, regions[0], False, at)
            except NoRate:
                continue
            since = price_list.history(resource, regions[0], False)[0][0]
            variants = _gpu_variants(name, place) if resource.startswith("gpu:") else _host_variants(name, place)
            for description, group, usage_type, per_mille in variants:
                category = ("Compute", group, usage_type)
                yield make(description, category, regions, unit, ((0, nanos * per_mille // 1000),), since)
    yield from _tpus(price_list, at, make)
    yield from _storage(price_list, make)


def _tpus(price_list: PriceList, at: datetime, make: MakeSku) -> Iterator[dict[str, Any]]:
    """Recorded next to "TpuV6e running in Columbus", 2.70 a chip: three of the four say OnDemand."""
    place, region = "Columbus", "us-east5"
    try:
        nanos, _ = price_list.rate("tpu:ct6e", region, False, at)
    except NoRate:
        return
    since = price_list.history("tpu:ct6e", region, False)[0][0]
    for description, usage_type, per_mille in (
        (f"Capacity Optimized TpuV6e running in {place}", "OnDemand", 1000),
        (f"Reserved V6e TPU in {place} in Calendar Mode", "OnDemand", 700),
        (f"Reserved TpuV6e in {place} in Calendar Mode", "OnDemand", 700),
        (f"Commitment v1: TpuV6e running in {place} for 1 Year", "Commit1Yr", 700),
    ):
        rate = ((0, nanos * per_mille // 1000),)
        yield make(description, ("Compute", "TPU", usage_type), (region,), "h", rate, since)


def _machine_parts() -> Iterator[tuple[str, str, str]]:
    for accelerator, name in GPUS.items():
        yield f"gpu:{accelerator}", name, "h"
    for family, name in _FAMILIES.items():
        yield f"{family}:core", f"{name} Core", "h"
        yield f"{family}:ram", f"{name} Ram", "GiBy.h"


def _gpu_variants(name: str, place: str) -> Iterator[tuple[str, str, str, int]]:
    """(description, group, usage type, price per mille of on demand)."""
    yield f"Commitment v1: {name} running in {place} for 1 Year", "GPU", "Commit1Yr", 630
    yield f"Commitment v1: {name} running in {place} for 3 Years", "GPU", "Commit3Yr", 457
    yield f"{name} attached to Sole Tenancy VMs running in {place}", "GPU", "OnDemand", 1000
    if name in ("Nvidia Tesla T4 GPU", "Nvidia Tesla P100 GPU", "Nvidia L4 GPU"):
        yield f"{name.removesuffix(' GPU')} Virtual Workstation GPU running in {place}", "GPU", "OnDemand", 1571
    # Free in the catalogue, because a commitment pays for them.
    yield f"Reserved {name} in {place}", "GPU", "OnDemand", 0


def _host_variants(name: str, place: str) -> Iterator[tuple[str, str, str, int]]:
    family, part = name.split()
    group = {"Core": "CPU", "Ram": "RAM"}[part]
    committed = {"Core": "Cpu", "Ram": "Ram"}[part]
    yield f"Commitment v1: {family} {committed} in {place} for 1 Year", group, "Commit1Yr", 630
    yield f"Commitment v1: {family} {committed} in {place} for 3 Year", group, "Commit3Yr", 450
    if family == "N1":
        yield f"Sole Tenancy Instance {part} running in {place}", "N1Standard", "OnDemand", 1100
        yield f"Sole Tenancy Premium for Sole Tenancy Instance {part} running in {place}", group, "OnDemand", 100
        return
    yield f"Reserved {family} Instance {part} in {place}", group, "OnDemand", 0


def _storage(price_list: PriceList, make: MakeSku) -> Iterator[dict[str, Any]]:
    since = price_list.history("disk:pd-standard", "us-central1", False)[0][0]
    for name, group, nanos in (
        ("Regional Storage PD Capacity", "PDStandard", 80_000_000),
        ("Regional Balanced PD Capacity", "SSD", 200_000_000),
        ("Regional SSD backed PD Capacity", "SSD", 340_000_000),
        ("VM state: preserved local SSD", "VmState", 80_000_000),
    ):
        category = ("Storage", group, "OnDemand")
        yield make(name, category, STORAGE_BASE_REGIONS, "GiBy.mo", ((0, nanos),), since)
        # The first five gibibytes are free: a valid rate of zero.
        tiers = ((0, 0), (5, nanos * 11 // 10))
        yield make(f"{name} in Netherlands", category, ("europe-west4",), "GiBy.mo", tiers, since)
    committed = ("Storage", "LocalSSD", "Commit1Yr")
    yield make(
        "Commitment v1: Local SSD in Americas for 1 Year", committed, AMERICAS, "GiBy.mo", ((0, 50_400_000),), since
    )
    for description, family, group, nanos in (
        ("Licensing Fee for Windows Server 2022 Datacenter (CPU cost)", "License", "WindowsServer2022", 46_000_000),
        ("Licensing Fee for NVIDIA Tesla T4 Virtual Workstation (GPU cost)", "License", "NvidiaVws", 200_000_000),
    ):
        yield make(description, (family, group, "OnDemand"), ("global",), "h", ((0, nanos),), since)
