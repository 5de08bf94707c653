"""SKUs that look like the price of a VM's part and are not: what a reader of the catalogue must pass over."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from costguard_sandbox.gce.catalogue.price_table import STORAGE_BASE_REGIONS
from costguard_sandbox.gce.catalogue.prices import NoRate, PriceList
from costguard_sandbox.gce.catalogue.sku_text import AMERICAS, GPUS

_FAMILIES = {"a2": "A2", "a3": "A3", "a3plus": "A3Plus", "a3ultra": "A3Ultra", "g2": "G2", "g4": "G4", "n1": "N1"}
MakeSku = Callable[..., dict[str, Any]]


def decoys(price_list: PriceList, at: datetime, make: MakeSku) -> Iterator[dict[str, Any]]:
    """Commitments, reservations, scheduled modes, premiums, licences and their like.

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
    yield from _storage(price_list, make)


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
    # Recorded for A3 Mega, whose ordinary SKU says Plus: "Nvidia H100 Mega 80GB GPU attached to DWS ..." and "Reserved
    # Nvidia H100 80GB Mega GPU in Americas in Calendar Mode".
    by_appointment = name.replace("80GB Plus", "Mega 80GB")
    yield f"{by_appointment} attached to DWS Defined Duration VMs running in {place}", "GPU", "OnDemand", 550
    yield f"Reserved {name.replace('Plus', 'Mega')} in {place} in Calendar Mode", "GPU", "OnDemand", 700
    yield f"{name} attached to Sole Tenancy VMs running in {place}", "GPU", "OnDemand", 1000
    if name in ("Nvidia Tesla T4 GPU", "Nvidia Tesla P100 GPU", "Nvidia L4 GPU"):
        yield f"{name.removesuffix(' GPU')} Virtual Workstation GPU running in {place}", "GPU", "OnDemand", 1571
    # Commitments fulfil these, so that the catalogue calls them free.
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
    yield f"DWS Defined Duration {family} {part} running in {place}", group, "OnDemand", 550
    yield f"Reserved {family} Instance {part} in {place}", group, "OnDemand", 0
    yield f"Reserved {family} {part} in {place} in Calendar Mode", group, "OnDemand", 700


def _storage(price_list: PriceList, make: MakeSku) -> Iterator[dict[str, Any]]:
    since = price_list.history("disk:pd-standard", "us-central1", False)[0][0]
    for name, group, nanos in (
        ("Regional Storage PD Capacity", "PDStandard", 80_000_000),
        ("Regional Balanced PD Capacity", "SSD", 200_000_000),
        ("Regional SSD backed PD Capacity", "SSD", 340_000_000),
        ("Storage PD Snapshot", "PDSnapshot", 50_000_000),
        ("VM state: preserved local SSD", "VmState", 80_000_000),
    ):
        category = ("Storage", group, "OnDemand")
        yield make(name, category, STORAGE_BASE_REGIONS, "GiBy.mo", ((0, nanos),), since)
        # The first five gibibytes are free: a rate of zero that is no mistake.
        tiers = ((0, 0), (5, nanos * 11 // 10))
        yield make(f"{name} in Netherlands", category, ("europe-west4",), "GiBy.mo", tiers, since)
    committed = ("Storage", "LocalSSD", "Commit1Yr")
    yield make(
        "Commitment v1: Local SSD in Americas for 1 Year", committed, AMERICAS, "GiBy.mo", ((0, 50_400_000),), since
    )
    for description, family, group, nanos in (
        ("External IP Charge on a Spot Preemptible VM", "Network", "IpAddress", 2_500_000),
        ("External IP Charge on a Standard VM", "Network", "IpAddress", 5_000_000),
        ("Licensing Fee for Windows Server 2022 Datacenter (CPU cost)", "License", "WindowsServer2022", 46_000_000),
        ("Licensing Fee for NVIDIA Tesla T4 Virtual Workstation (GPU cost)", "License", "NvidiaVws", 200_000_000),
    ):
        yield make(description, (family, group, "OnDemand"), ("global",), "h", ((0, nanos),), since)
