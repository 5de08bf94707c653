"""The meaning of a SKU of Compute Engine or Vertex AI: which resource it prices.

The machine type appears in no structured field: only the description tells, so the whole of it must match.
Regions come from `serviceRegions`, never from the place that the description names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from costguard.gce.fields import UNREADABLE
from costguard.gce.vertex.sku import vertex_resource
from costguard.model.instance import ProvisioningModel
from costguard.model.price import EVERYWHERE, Price, PriceKey, Unit, committed, costs_the_same_everywhere, is_address

# Sold at other terms, or on top of something else: Google says OnDemand of most of these too.
_OTHER_TERMS: Final = re.compile(
    r"\b(commitment|committed|dws|reserved|calendar|flex|sole tenancy|premium|regional|licensing|"
    r"virtual workstation|capacity optimized)\b"
)
_SPOT: Final = r"(?P<spot>spot preemptible |preemptible )?"
_PLACE: Final = r" running in .+"
_MAYBE_PLACE: Final = r"(?: (?:running )?in .+)?"

_HOST: Final = re.compile(
    _SPOT + r"(?P<family>a3plus|a3ultra|[a-z]\d+[a-z]?)(?: predefined| amd| arm| memory-optimized)?"
    r"(?P<custom> custom(?: extended)?)? instance (?P<part>core|ram)" + _PLACE
)
_NAMELESS_HOST: Final = re.compile(
    _SPOT
    + r"(?P<name>custom(?: extended)? instance|compute optimized|memory-optimized instance) (?P<part>core|ram)"
    + _PLACE
)
_NAMELESS: Final = {
    "custom instance": "n1-custom",
    "custom extended instance": "n1-custom-extended",
    "compute optimized": "c2",
    "memory-optimized instance": "m1",
}

# One price for a whole VM, whatever it is made of (cloud.google.com/compute/docs/general-purpose-machines).
_VM: Final = re.compile(_SPOT + r"(?P<name>micro instance with burstable cpu|small instance with 1 vcpu)" + _PLACE)
_VMS: Final = {"micro instance with burstable cpu": "f1-micro", "small instance with 1 vcpu": "g1-small"}

_SPOT_VMS: Final = r"(?P<spot> attached to (?:spot )?preemptible vms)?"
_GPU: Final = re.compile(
    r"(?:nvidia )?(?:tesla )?(?P<name>[a-z]\d+(?: \d+gb)?(?: mega| plus)?(?: \d+gb)?) gpu" + _SPOT_VMS + _PLACE
)
# The one GPU whose SKUs do not say that it is one.
_RTX: Final = re.compile(r"rtx 6000 96gb" + _SPOT_VMS + _PLACE)
# A GPU with its share of the VM around it: such VMs have no SKUs for vCPUs, memory or local SSD.
_SLICE: Final = re.compile(_SPOT + r"a4x? nvidia (?P<name>g?b\d00) \(1 gpu slice\)" + _PLACE)
_EIGHTH: Final = re.compile(r"1/8 vgpu no lssd" + _SPOT_VMS + _PLACE)
# A TPU chip with its share of the VM. Words read from the catalogue in June and August 2026, and "TPU7x running in
# Americas".
_TPU: Final = re.compile(r"tpu(?P<name>v5e|v5p|v6e|7x)" + _SPOT_VMS + _PLACE)
# Flex-start, as the catalogue and bills of August 2025 to September 2026 have it: "DWS Defined Duration A3 Core running
# in Americas" (9A32-36B2-7FBC), "... SSD backed Local Storage running in Americas" (2303-1D6A-9C08), "... V6e running
# in Columbus", "Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas" (341A-49A5-0C07), "1/8
# vGPU no lssd attached to ...", and of H4D "DWS Flex Start H4D Standard Core running in Iowa".
_FLEX: Final = (
    re.compile(r"dws (?:defined duration|flex start) (?P<what>.+?)" + _MAYBE_PLACE),
    re.compile(r"(?P<what>.+) attached to dws (?:defined duration|flex start) vms" + _MAYBE_PLACE),
)
# Reservations in calendar mode: "DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) in Seoul" (0EFA-3A56-0BFC), "Reserved
# Nvidia H100 80GB Mega GPU in Americas in Calendar Mode". "Reserved A2 Ram in Netherlands" costs nothing: a commitment
# pays for it.
_CALENDAR: Final = (
    re.compile(r"dws calendar mode (?P<what>.+?)" + _MAYBE_PLACE),
    re.compile(r"reserved (?P<what>.+?)(?: running)? in .+ in calendar mode"),
)
# Both drop words of the SKU on demand: "A3 Core" is its "A3 Instance Core", "V6e" its "TpuV6e".
_SHORT_HOST: Final = re.compile(r"(?P<family>[a-z]\d+[a-z]*)(?: instance| standard)? (?P<part>core|ram)")
_SHORT_TPU: Final = re.compile(r"(?:tpu)?(?P<name>v5e|v5p|v6e|7x)(?: tpu)?")
# As programs print the catalogue: "Commitment v1: A2 Cpu in APAC for 1 Year" (38FA-6071-3D88), "Commitment v1: N2D AMD
# Cpu in Americas for 1 Year", "Commitment v1: Nvidia Tesla T4 GPU running in Americas for 3 Years" (A360-7A19-4436).
_COMMITMENT: Final = re.compile(r"commitment v1: (?P<what>.+?)(?: running)? in .+ for (?P<years>[13]) years?")
_COMMITTED_HOST: Final = re.compile(r"(?:(?P<family>[a-z]\d+[a-z]?)(?: amd| arm)? )?(?P<part>cpu|ram)")
_COMMITTED_PARTS: Final = {"cpu": "core", "ram": "ram"}
_RTX_PRO: Final = "nvidia-rtx-pro-6000"
_GPUS: Final = {
    "t4": "nvidia-tesla-t4",
    "l4": "nvidia-l4",
    "v100": "nvidia-tesla-v100",
    "p100": "nvidia-tesla-p100",
    "p4": "nvidia-tesla-p4",
    "k80": "nvidia-tesla-k80",
    "a100": "nvidia-tesla-a100",
    "a100 80gb": "nvidia-a100-80gb",
    "h100 80gb": "nvidia-h100-80gb",
    "h100 80gb mega": "nvidia-h100-mega-80gb",
    "h100 80gb plus": "nvidia-h100-mega-80gb",
    "h100 mega 80gb": "nvidia-h100-mega-80gb",
    "h200 141gb": "nvidia-h200-141gb",
}

# Of disks that also bill for IOPS and throughput (pd-extreme, hyperdisk) this is the capacity alone.
_DISK: Final = re.compile(
    r"(?P<name>storage pd|balanced pd|ssd backed pd|extreme pd|hyperdisk [a-z]+) capacity" + _MAYBE_PLACE
)
_DISKS: Final = {
    "storage pd": "pd-standard",
    "balanced pd": "pd-balanced",
    "ssd backed pd": "pd-ssd",
    "extreme pd": "pd-extreme",
}
_LOCAL_SSD: Final = re.compile(
    r"ssd backed local storage(?P<spot> attached to (?:spot )?preemptible vms?)?" + _MAYBE_PLACE
)
# A snapshot or an image lies in one region, or in several of one continent at a price of their own.
_STORED: Final = re.compile(r"storage (?:pd )?(?P<kind>snapshot|image)(?: in (?P<place>.+))?")
_CONTINENTS: Final = {"us": "us", "eu": "eu", "europe": "eu", "asia": "asia"}
_STATIC: Final = re.compile(r"static ip charge" + _MAYBE_PLACE)
# Google, VPC pricing: an address in use costs a Spot VM half. Both are sold for all regions at once; that of Spot says
# OnDemand. The first hours of a month, which are free once for a billing account, belong to no VM.
_ADDRESS: Final = re.compile(r"external ip charge on a (?:standard vm|(?P<spot>spot preemptible vm))")
_SAVED_MEMORY: Final = re.compile(r"vm state: .*\b(memory|ram)\b.*")


def prices_of_sku(sku: Any) -> Iterator[Price]:
    """A price for each region that the SKU covers; none when Costguard does not bill by it, or cannot read it."""
    try:
        yield from _prices(sku)
    except UNREADABLE:
        # One odd SKU in tens of thousands must not cost all the others; what it priced is unpriced, and loud.
        return


def subject(description: str, usage_type: str) -> tuple[str, ProvisioningModel] | None:
    """The resource that a SKU's words are about, and for which kind of VM."""
    words = " ".join(description.lower().split())
    if (scheduled := _scheduled(words)) is not None:
        return scheduled if usage_type == "OnDemand" else None
    if _OTHER_TERMS.search(words) or usage_type not in ("OnDemand", "Preemptible"):
        return None
    resource_and_model = _resource(words)
    if resource_and_model is None:
        return None
    resource, is_spot = resource_and_model
    # Some Spot SKUs (of local SSD, of A4) are categorised as OnDemand: the words know better.
    if usage_type == "Preemptible" and not is_spot and not is_address(resource):
        return None
    return resource, ProvisioningModel.SPOT if is_spot else ProvisioningModel.STANDARD


def _scheduled(words: str) -> tuple[str, ProvisioningModel] | None:
    """Reads what Dynamic Workload Scheduler sells: by flex-start, or in a reservation in calendar mode.

    Calendar mode of TPUs is left out: a node of the Cloud TPU API says the same of every reservation, whatever the
    reservation costs.
    """
    for model, patterns in ((ProvisioningModel.FLEX_START, _FLEX), (ProvisioningModel.RESERVATION_BOUND, _CALENDAR)):
        match = next((one for pattern in patterns if (one := pattern.fullmatch(words))), None)
        if match is None:
            continue
        resource = _ordinary(match["what"])
        is_tpu = _SHORT_TPU.fullmatch(match["what"]) is not None
        if resource is not None and not (is_tpu and model is ProvisioningModel.RESERVATION_BOUND):
            return resource, model
    return None


def _ordinary(what: str) -> str | None:
    """The resource of a running VM that the words name without their place; None for anything else."""
    if host := _SHORT_HOST.fullmatch(what):
        what = f"{host['family']} instance {host['part']}"
    elif tpu := _SHORT_TPU.fullmatch(what):
        what = f"tpu{tpu['name']}"
    resource, is_spot = _resource(f"{what} running in {EVERYWHERE}") or ("", False)
    is_of_a_run = resource.startswith("gpu:") or resource.endswith((":core", ":ram")) or resource == "local-ssd"
    return resource if is_of_a_run and not is_spot else None


def commitment(description: str, usage_type: str) -> str | None:
    """The resource that a commitment's SKU prices, such as `commitment-1y:a2:core`; None for any other SKU.

    Its price is what a commitment to one vCPU, GiB, GPU or TPU chip costs an hour, used or not. The vCPUs of a family
    without a name are N1's.
    """
    match = _COMMITMENT.fullmatch(" ".join(description.lower().split()))
    if match is None or usage_type != f"Commit{match['years']}Yr":
        return None
    if host := _COMMITTED_HOST.fullmatch(match["what"]):
        resource = f"{host['family'] or 'n1'}:{_COMMITTED_PARTS[host['part']]}"
    elif (sold := _gpu(f"{match['what']} running in {EVERYWHERE}")) is not None:
        resource = sold[0]
    else:
        return None
    return committed(resource, int(match["years"]))


def _resource(words: str) -> tuple[str, bool] | None:
    if host := _HOST.fullmatch(words):
        custom = (host["custom"] or "").replace(" ", "-")
        return f"{host['family']}{custom}:{host['part']}", host["spot"] is not None
    if host := _NAMELESS_HOST.fullmatch(words):
        return f"{_NAMELESS[host['name']]}:{host['part']}", host["spot"] is not None
    if vm := _VM.fullmatch(words):
        return f"{_VMS[vm['name']]}:whole", vm["spot"] is not None
    if gpu := _gpu(words):
        return gpu
    if disk := _DISK.fullmatch(words):
        return f"disk:{_DISKS.get(disk['name'], disk['name'].replace(' ', '-'))}", False
    if kept := _STORED.fullmatch(words):
        return kept["kind"], False
    if local := _LOCAL_SSD.fullmatch(words):
        return "local-ssd", local["spot"] is not None
    if _STATIC.fullmatch(words):
        return "static-ip", False
    if address := _ADDRESS.fullmatch(words):
        return f"external-ip{':spot' if address['spot'] else ''}", False
    return ("suspended-memory", False) if _SAVED_MEMORY.fullmatch(words) else None


def _gpu(words: str) -> tuple[str, bool] | None:
    if gpu := _GPU.fullmatch(words):
        name = _GPUS.get(gpu["name"])
        return None if name is None else (f"gpu:{name}", gpu["spot"] is not None)
    if rtx := _RTX.fullmatch(words):
        return f"gpu:{_RTX_PRO}", rtx["spot"] is not None
    if tpu := _TPU.fullmatch(words):
        return _tpu(tpu["name"]), tpu["spot"] is not None
    if part := _SLICE.fullmatch(words):
        return f"gpu:nvidia-{part['name']}:whole", part["spot"] is not None
    if part := _EIGHTH.fullmatch(words):
        return f"gpu:{_RTX_PRO}-1/8:whole", part["spot"] is not None
    return None


def _tpu(name: str) -> str:
    return f"gpu:{'tpu7x' if name == '7x' else name}:whole"


def _prices(sku: Mapping[str, Any]) -> Iterator[Price]:
    words, usage_type = sku["description"], sku["category"]["usageType"]
    priced = subject(words, usage_type)
    if priced is None and (promised := commitment(words, usage_type)) is not None:
        priced = promised, ProvisioningModel.STANDARD
    if priced is None and usage_type == "OnDemand" and (managed := vertex_resource(" ".join(words.lower().split()))):
        priced = managed, ProvisioningModel.STANDARD
    if priced is None:
        return
    pricing = sku["pricingInfo"][-1]  # the newest, where there are several
    expression = pricing["pricingExpression"]
    rate_nanos = _rate_nanos(expression["tieredRates"])
    unit = Unit(expression["usageUnit"])
    in_force_from = datetime.fromisoformat(pricing["effectiveTime"])
    if in_force_from.tzinfo is None:
        raise ValueError(f"{pricing['effectiveTime']} has no time zone")
    for region in _regions(sku):
        if region != EVERYWHERE or costs_the_same_everywhere(priced[0]):
            key = PriceKey(priced[0], region, priced[1])
            yield Price(key, unit, rate_nanos, in_force_from, "catalog", sku["skuId"])


def _regions(sku: Mapping[str, Any]) -> list[str]:
    """The regions that it covers; of snapshots that lie in several at once, the word that `storageLocations` has."""
    stored = _STORED.fullmatch(" ".join(sku["description"].lower().split()))
    continent = _CONTINENTS.get(stored["place"] or "") if stored else None
    if continent:
        return [continent]
    is_managed_disk = " on ssd backed pd capacity" in f" {sku['description']}".lower()
    return [EVERYWHERE] if is_managed_disk else list(sku["serviceRegions"])


def _rate_nanos(tiers: list[Mapping[str, Any]]) -> int:
    """The first tier that costs anything: a free allowance comes before it, discounts for volume after it."""
    first = min(tiers, key=lambda tier: tier.get("startUsageAmount", 0))
    paid = [tier for tier in tiers if _nanos(tier["unitPrice"])]
    return _nanos(min(paid, key=lambda tier: tier.get("startUsageAmount", 0), default=first)["unitPrice"])


def _nanos(money: Mapping[str, Any]) -> int:
    if money.get("currencyCode", "USD") != "USD":
        raise ValueError(f"a price in {money['currencyCode']}")
    return int(money.get("units") or 0) * 1_000_000_000 + int(money.get("nanos") or 0)
