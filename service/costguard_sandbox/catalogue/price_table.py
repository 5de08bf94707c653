"""The simulated cloud's own figures, in nano-dollars: what Google published for us-central1, and how regions differ.

Kept apart from whatever the product ships: both could otherwise be wrong in the same way.
"""

from collections.abc import Mapping
from functools import cache

from costguard_sandbox.catalogue.machine_types import ACCELERATOR_TYPES
from costguard_sandbox.catalogue.places import REGIONS, zones_of

# resource -> (on-demand, Spot) in us-central1; None where Google sells no Spot of it.
_BASE: Mapping[str, tuple[int, int | None]] = {
    "n1:core": (31_611_000, 8_011_000),
    "n1:ram": (4_237_000, 1_073_700),
    "n1-custom:core": (33_174_000, 8_411_500),
    "n1-custom:ram": (4_446_000, 1_127_400),
    "e2:core": (21_811_590, 6_543_000),
    "e2:ram": (2_923_530, 877_000),
    # Google's price page for E2: custom vCPUs and memory cost 5 % more. The Spot figures are made up in proportion.
    "e2-custom:core": (22_902_170, 6_870_150),
    "e2-custom:ram": (3_069_707, 920_850),
    # Google's price page, "N1 shared-core machine types"; Spot as in libcloud's copy of the catalogue (2023-08-06).
    "shared:f1-micro": (7_600_000, 3_500_000),
    "shared:g1-small": (25_700_000, 7_000_000),
    "n2:core": (31_611_000, 7_650_000),
    "n2:ram": (4_237_000, 1_025_000),
    "n2-custom:core": (33_174_000, 8_032_500),
    "n2-custom:ram": (4_446_000, 1_076_200),
    "n2d:core": (27_502_000, 6_550_000),
    "n2d:ram": (3_686_000, 878_000),
    "n2d-custom:core": (28_877_000, 6_877_500),
    "n2d-custom:ram": (3_870_000, 921_900),
    "c2:core": (33_982_000, 8_200_000),
    "c2:ram": (4_555_000, 1_098_000),
    "c3:core": (34_650_000, 5_900_000),
    "c3:ram": (3_938_000, 671_000),
    "t2d:core": (27_502_000, 5_010_000),
    "t2d:ram": (3_686_000, 671_000),
    "a2:core": (31_611_000, 12_641_000),
    "a2:ram": (4_237_000, 1_694_900),
    "a3:core": (25_498_080, 5_860_000),
    "a3:ram": (2_220_330, 511_000),
    "g2:core": (24_988_440, 9_999_000),
    "g2:ram": (2_927_240, 1_171_300),
    "gpu:nvidia-tesla-p100": (1_460_000_000, 584_000_000),
    "gpu:nvidia-tesla-t4": (350_000_000, 140_000_000),
    "gpu:nvidia-l4": (560_040_000, 223_100_000),
    "gpu:nvidia-tesla-v100": (2_480_000_000, 992_000_000),
    "gpu:nvidia-tesla-a100": (2_933_908_000, 1_147_200_000),
    "gpu:nvidia-a100-80gb": (3_930_000_000, 1_571_200_000),
    "gpu:nvidia-h100-80gb": (9_796_550_570, 2_253_000_000),
    "local-ssd": (80_000_000, 32_000_000),
    "disk:pd-standard": (40_000_000, None),
    "disk:pd-balanced": (100_000_000, None),
    "disk:pd-ssd": (170_000_000, None),
    "disk:pd-extreme": (125_000_000, None),
    "disk:hyperdisk-balanced": (80_000_000, None),
    "suspended-memory": (170_000_000, None),
}

# Regional price over us-central1, per mille, where it is known; the rest of the world costs a tenth more.
_FACTORS: Mapping[str, int] = {
    "us-central1": 1000,
    "us-east1": 1000,
    "us-west1": 1000,
    "us-east5": 1000,
    "us-east4": 1126,
    "us-west2": 1201,
    "us-west3": 1201,
    "us-west4": 1126,
    "asia-east1": 1158,
    "asia-northeast1": 1285,
    "asia-northeast3": 1283,
    "asia-southeast1": 1234,
    "asia-south1": 1201,
    "australia-southeast1": 1419,
    "europe-west4": 1101,
    "europe-west2": 1288,
    "europe-west6": 1399,
    "southamerica-east1": 1587,
}
_ELSEWHERE = 1100

# Where Google's figure does not follow the region's factor.
_EXACT: Mapping[tuple[str, str], tuple[int, int]] = {
    ("gpu:nvidia-tesla-t4", "asia-east1"): (350_000_000, 140_000_000),
    ("gpu:nvidia-tesla-v100", "asia-east1"): (2_480_000_000, 879_200_000),
    ("gpu:nvidia-tesla-t4", "europe-west4"): (367_500_000, 140_000_000),
    ("gpu:nvidia-l4", "europe-west4"): (588_040_000, 210_600_000),
    ("gpu:nvidia-tesla-v100", "europe-west4"): (2_604_000_000, 714_800_000),
}

STORAGE_BASE_REGIONS = ("asia-east1", "europe-west1", "us-central1", "us-east1", "us-west1")
"""Disks cost the same in these, and one SKU without a place name covers them all."""
_STORAGE_ELSEWHERE = 1100

_BUILT_IN = {
    "a2": ("nvidia-tesla-a100", "nvidia-a100-80gb"),
    "a3": ("nvidia-h100-80gb",),
    "g2": ("nvidia-l4",),
}


def unit_of(resource: str) -> str:
    """The usage unit of a resource's rate, as the catalogue writes it."""
    if resource.endswith(":ram"):
        return "GiBy.h"
    return "GiBy.mo" if is_storage(resource) else "h"


def is_storage(resource: str) -> bool:
    """Whether it is space rather than machine time: disks, local SSD, saved memory."""
    return resource.startswith("disk:") or resource in ("local-ssd", "suspended-memory")


@cache
def first_prices() -> Mapping[tuple[str, str, bool], int]:
    """(resource, region, Spot) -> nano-dollars per unit, for everything that Google sells there."""
    prices: dict[tuple[str, str, bool], int] = {}
    for region in REGIONS:
        gpus = {name for zone in zones_of(region) for name in ACCELERATOR_TYPES[zone]}
        for resource, (standard, spot) in _BASE.items():
            if not _sold(resource, gpus):
                continue
            standard, spot = _EXACT.get((resource, region), (standard, spot))
            factor = 1000 if (resource, region) in _EXACT else _factor(resource, region)
            prices[resource, region, False] = _scaled(standard, factor)
            if spot is not None:
                prices[resource, region, True] = _scaled(spot, factor)
    return prices


def _sold(resource: str, gpus: set[str]) -> bool:
    head, _, tail = resource.partition(":")
    if head == "gpu":
        return tail in gpus
    return head not in _BUILT_IN or not gpus.isdisjoint(_BUILT_IN[head])


def _factor(resource: str, region: str) -> int:
    if is_storage(resource):
        return 1000 if region in STORAGE_BASE_REGIONS else _STORAGE_ELSEWHERE
    return _FACTORS.get(region, _ELSEWHERE)


def _scaled(nanos: int, per_mille: int) -> int:
    return (nanos * per_mille + 500) // 1000
