"""How the Cloud Billing Catalog words, groups and numbers its SKUs of Compute Engine.

Wordings are those of recorded SKUs: of A3 from andylizf/skynomad-artifact @ 62b9aaa; of A3 Mega, A3 Ultra, A4 and G4
from SpareCores sc-crawler's tests and two price feeds of 2026; of the rest from skypilot's fetch_gcp.py and libcloud.
Of A4X (GB200) the catalogue has no SKU: three readers of it say so.
"""

import hashlib
from collections.abc import Mapping

from costguard_sandbox.gce.catalogue.price_table import is_storage

# One SKU often covers several regions under one name; the rest are named after a place.
PLACES: Mapping[str, str] = {
    "africa-south1": "Johannesburg",
    "asia-east1": "APAC",
    "asia-east2": "Hong Kong",
    "asia-northeast1": "Japan",
    "asia-northeast2": "Osaka",
    "asia-northeast3": "Seoul",
    "asia-south1": "Mumbai",
    "asia-south2": "Delhi",
    "asia-southeast1": "Singapore",
    "asia-southeast2": "Jakarta",
    "australia-southeast1": "Sydney",
    "australia-southeast2": "Melbourne",
    "europe-central2": "Warsaw",
    "europe-north1": "Finland",
    "europe-north2": "Stockholm",
    "europe-southwest1": "Madrid",
    "europe-west1": "EMEA",
    "europe-west10": "Berlin",
    "europe-west12": "Turin",
    "europe-west2": "London",
    "europe-west3": "Frankfurt",
    "europe-west4": "Netherlands",
    "europe-west6": "Zurich",
    "europe-west8": "Milan",
    "europe-west9": "Paris",
    "me-central1": "Doha",
    "me-central2": "Dammam",
    "me-west1": "Tel Aviv",
    "northamerica-northeast1": "Montreal",
    "northamerica-northeast2": "Toronto",
    "northamerica-south1": "Mexico",
    "southamerica-east1": "Sao Paulo",
    "southamerica-west1": "Santiago",
    "us-central1": "Iowa",
    "us-east1": "South Carolina",
    "us-east4": "Virginia",
    "us-east5": "Columbus",
    "us-south1": "Dallas",
    "us-west1": "Oregon",
    "us-west2": "Los Angeles",
    "us-west3": "Salt Lake City",
    "us-west4": "Las Vegas",
}
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

_MACHINES = {
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
_STORAGE = {
    "disk:pd-standard": ("Storage PD Capacity", "PDStandard"),
    "disk:pd-balanced": ("Balanced PD Capacity", "SSD"),
    "disk:pd-ssd": ("SSD backed PD Capacity", "SSD"),
    "disk:pd-extreme": ("Extreme PD Capacity", "SSD"),
    "disk:hyperdisk-balanced": ("Hyperdisk Balanced Capacity", "SSD"),
    "local-ssd": ("SSD backed Local Storage", "LocalSSD"),
    "suspended-memory": ("VM state: preserved memory", "VmState"),
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


def describe(resource: str, place: str, *, spot: bool) -> tuple[str, str, str]:
    """(description, resourceFamily, resourceGroup); a place of '' is left out, as for the oldest storage SKUs."""
    if is_storage(resource):
        name, group = _STORAGE[resource]
        name += " attached to Spot Preemptible VMs" if spot else ""
        return f"{name} in {place}" if place else name, "Storage", group
    head, _, tail = resource.partition(":")
    if head in ("gpu", "slice"):
        name = GPUS[tail] if head == "gpu" else "1/8 vGPU no lssd"
        if spot:
            name = _SPOT_GPUS.get(tail, f"{name} attached to Spot Preemptible VMs")
        return f"{name} running in {place}", "Compute", "GPU"
    if head == "shared":
        name, group = _SHARED[tail]
        return f"{'Spot Preemptible ' if spot else ''}{name} running in {place}", "Compute", group
    part = tail.capitalize()
    # N1 keeps the group it had when it was the only machine there was.
    group = "N1Standard" if head == "n1" else {"core": "CPU", "ram": "RAM"}[tail]
    return f"{'Spot Preemptible ' if spot else ''}{_MACHINES[head]} {part} running in {place}", "Compute", group


def usage_type(resource: str, *, spot: bool) -> str:
    """The category's usageType; the catalogue of 2026 has OnDemand for the Spot B200, too."""
    return "Preemptible" if spot and resource != "gpu:nvidia-b200" else "OnDemand"


def has_own_places(resource: str) -> bool:
    """Whether its SKUs are named after cities and countries throughout, as those of newer families are."""
    head, _, tail = resource.partition(":")
    return head in _NEWER or (head in ("gpu", "slice") and tail in _NEWER_GPUS)


def is_sold_singly(resource: str) -> bool:
    """Whether each region has an SKU of its own, as recorded for G4."""
    return resource.startswith("g4:") or resource.endswith(":nvidia-rtx-pro-6000")


def sku_id(*parts: str) -> str:
    """A stable id in Google's form, such as `2E27-4F75-95CD`."""
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest().upper()
    return f"{digest[:4]}-{digest[4:8]}-{digest[8:12]}"
