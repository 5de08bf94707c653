"""The price list of the simulated cloud: one timeline per resource, region and provisioning model."""

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache

from costguard_sandbox.gce.catalogue.machine_types import ACCELERATOR_TYPES
from costguard_sandbox.gce.catalogue.regions import REGIONS, zones_of

# Regional price over us-central1, per mille, of the order of Google's; the rest of the world costs a tenth more.
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
# Google's figures that do not follow the region's factor.
_EXACT: Mapping[tuple[str, str], tuple[int, int | None]] = {
    ("gpu:nvidia-tesla-t4", "asia-east1"): (350_000_000, 140_000_000),
    ("gpu:nvidia-tesla-v100", "asia-east1"): (2_480_000_000, 879_200_000),
    ("gpu:nvidia-tesla-t4", "europe-west4"): (367_500_000, 140_000_000),
    ("gpu:nvidia-l4", "europe-west4"): (588_040_000, 210_600_000),
    ("gpu:nvidia-tesla-v100", "europe-west4"): (2_604_000_000, 714_800_000),
    ("tpu:ct5lp", "us-west4"): (1_200_000_000, 494_237_000),
    ("flex_start:tpu:ct5lp", "us-west4"): (600_000_000, None),
    ("tpu:ct6e", "europe-west4"): (2_970_000_000, 1_782_000_000),
    ("flex_start:tpu:ct6e", "europe-west4"): (1_350_000_000, None),
    ("flex_start:gpu:nvidia-tesla-t4", "asia-east1"): (350_000_000, None),
    ("flex_start:gpu:nvidia-tesla-t4", "europe-west4"): (367_500_000, None),
    ("flex_start:gpu:nvidia-l4", "europe-west4"): (588_040_000, None),
    ("flex_start:gpu:nvidia-tesla-a100", "europe-west4"): (1_613_650_000, None),
    ("flex_start:gpu:nvidia-a100-80gb", "europe-west4"): (2_032_850_000, None),
}
# Spot A3 High in eight regions, (core, memory, GPU), as the Cloud Billing Catalog had it (Source.CATALOG_2025).
_SPOT_A3: Mapping[str, tuple[int, int, int]] = {
    "asia-south2": (21_600_420, 1_880_942, 8_298_989_000),
    "asia-southeast1": (5_660_000, 493_000, 2_291_800_000),
    "europe-west1": (5_050_000, 440_000, 1_941_700_000),
    "europe-west3": (5_420_000, 472_000, 2_080_800_000),
    "us-central1": (5_860_000, 511_000, 2_253_000_000),
    "us-east4": (4_590_000, 400_000, 1_763_200_000),
    "us-east5": (5_170_000, 450_000, 1_985_600_000),
    "us-west1": (5_860_000, 511_000, 2_253_000_000),
}
STORAGE_BASE_REGIONS = ("asia-east1", "europe-west1", "us-central1", "us-east1", "us-west1")
"""Disks cost the same in these regions: one SKU without a place name covers them all."""
_STORAGE_ELSEWHERE = 1100
EVERYWHERE = "global"
SOLD_EVERYWHERE = frozenset({"external-ip"})
"""Recorded: SKUs C054-7F72-A02E and 4AF8-7C1F-39C4 have the one service region `global`."""
_BUILT_IN = {
    "a2": ("nvidia-tesla-a100", "nvidia-a100-80gb"),
    "a3": ("nvidia-h100-80gb",),
    "a3plus": ("nvidia-h100-mega-80gb",),
    "a3ultra": ("nvidia-h200-141gb",),
    "g2": ("nvidia-l4",),
    "g4": ("nvidia-rtx-pro-6000",),
}
OPENING = datetime(2024, 1, 1, 8, 0, tzinfo=UTC)
"""The time at which the first prices came into force."""
Timeline = tuple[tuple[datetime, int], ...]


class Source(StrEnum):
    """The source of a figure. Spot prices change daily: a figure with a date was right then."""

    PAGE = "Google, VM instance pricing, Iowa (us-central1), a copy of late 2025 or later"
    DISKS = "Google, Disk and image pricing, us-central1"
    SUMS = "the same page's price of the whole VM, less its other parts"
    CATALOG_2025 = "Cloud Billing Catalog of 2025-10-22: andylizf/skynomad-artifact @ 62b9aaa"
    CATALOG_2026 = "Cloud Billing Catalog of 2026: SKUs quoted in SpareCores sc-crawler's tests and two price feeds"
    FLEX_BILL = "a bill of August 2025 for a flex-start a3-highgpu-8g in us-central1, quoted by SKU id and unit price"
    FLEX_2026 = (
        "Cloud Billing Catalog, flex-start in us-central1 as several readers of it quoted it, April to August 2026"
    )
    CALENDAR = "Cloud Billing Catalog, calendar mode, as quoted in November 2025 and July 2026"
    UNDISCOUNTED = "Google, About Flex-start VMs: only A4, A3, A2 and H4D are cheaper; so the price on demand"
    SKYPILOT = "skypilot-org/skypilot-catalog v7 gcp/vms.csv @ 017e250: the VM's or the GPU's Spot price"
    LIBCLOUD = "apache/libcloud pricing.json @ 6e39117, of 2023-08-06, from the Cloud Billing Catalog"
    SPLIT = "the page's price of the whole VM is Google's, its split into cores, memory and GPUs is made up"
    INVENTED = "made up, of the order of Google's: no figure was found"


@dataclass(frozen=True, slots=True)
class Price:
    """Nano-dollars a unit on demand and as Spot; None where Google sells no Spot."""

    standard: int
    spot: int | None
    source: Source
    spot_source: Source | None = None


_PAGE, _SUMS, _DISKS = Source.PAGE, Source.SUMS, Source.DISKS
_SKYPILOT, _LIBCLOUD, _SPLIT, _INVENTED = Source.SKYPILOT, Source.LIBCLOUD, Source.SPLIT, Source.INVENTED
_CATALOG_2025, _CATALOG_2026 = Source.CATALOG_2025, Source.CATALOG_2026
_BILL, _FLEX_2026, _CALENDAR, _UNDISCOUNTED = Source.FLEX_BILL, Source.FLEX_2026, Source.CALENDAR, Source.UNDISCOUNTED

FLEX_START, RESERVATION_BOUND = "flex_start", "reservation_bound"
_SCHEDULED: Mapping[str, Price] = {
    # Dynamic Workload Scheduler. Flex-start has SKUs of its own for everything in a running VM, local SSD included.
    "flex_start:a2:core": Price(17_390_000, None, _FLEX_2026),
    "flex_start:a2:ram": Price(2_330_000, None, _FLEX_2026),
    "flex_start:a3:core": Price(10_934_000, None, _BILL),
    "flex_start:a3:ram": Price(952_000, None, _BILL),
    "flex_start:a3plus:core": Price(11_545_000, None, _INVENTED),
    "flex_start:a3plus:ram": Price(1_005_000, None, _INVENTED),
    "flex_start:a3ultra:core": Price(9_353_000, None, _INVENTED),
    "flex_start:a3ultra:ram": Price(814_000, None, _INVENTED),
    "flex_start:g2:core": Price(24_988_441, None, _UNDISCOUNTED),
    "flex_start:g2:ram": Price(2_927_392, None, _UNDISCOUNTED),
    "flex_start:gpu:nvidia-tesla-a100": Price(1_613_650_000, None, _FLEX_2026),
    "flex_start:gpu:nvidia-a100-80gb": Price(1_846_198_000, None, _FLEX_2026),
    "flex_start:gpu:nvidia-h100-80gb": Price(4_200_761_000, None, _BILL),
    "flex_start:gpu:nvidia-h100-mega-80gb": Price(4_423_936_000, None, _FLEX_2026),
    "flex_start:gpu:nvidia-h200-141gb": Price(4_655_870_000, None, _INVENTED),
    "flex_start:gpu:nvidia-b200": Price(8_055_000_000, None, _FLEX_2026),
    "flex_start:gpu:nvidia-l4": Price(560_040_240, None, _UNDISCOUNTED),
    "flex_start:gpu:nvidia-tesla-t4": Price(350_000_000, None, _UNDISCOUNTED),
    "flex_start:slice:nvidia-rtx-pro-6000": Price(323_440_000, None, _FLEX_2026),
    "flex_start:local-ssd": Price(80_000_000, None, _BILL),
    "flex_start:tpu:ct5lp": Price(600_000_000, None, _CATALOG_2026),
    "flex_start:tpu:ct6e": Price(1_350_000_000, None, _CATALOG_2026),
    # Reservations in calendar mode; of their vCPUs and memory no SKU was found.
    "reservation_bound:gpu:nvidia-h100-80gb": Price(4_570_000_000, None, _CALENDAR),
    "reservation_bound:gpu:nvidia-h100-mega-80gb": Price(4_841_121_000, None, _CALENDAR),
    "reservation_bound:gpu:nvidia-b200": Price(11_277_000_000, None, _CALENDAR),
}

BASE: Mapping[str, Price] = {
    "n1:core": Price(31_611_000, 8_011_000, _PAGE, _SKYPILOT),
    "n1:ram": Price(4_237_000, 1_073_700, _PAGE, _SKYPILOT),
    "n1-custom:core": Price(33_191_550, 8_411_500, _PAGE, _INVENTED),
    "n1-custom:ram": Price(4_446_000, 1_127_400, _PAGE, _INVENTED),
    "shared:f1-micro": Price(7_600_000, 3_500_000, _PAGE, _LIBCLOUD),
    "shared:g1-small": Price(25_700_000, 7_000_000, _PAGE, _LIBCLOUD),
    "e2:core": Price(21_811_590, 6_543_000, _PAGE, _INVENTED),
    "e2:ram": Price(2_923_530, 877_000, _PAGE, _INVENTED),
    "e2-custom:core": Price(22_902_170, 6_870_150, _PAGE, _INVENTED),
    # Memory above 6.5 GiB a vCPU of N1 and above 8 GiB of N2 and N2D.
    "n1-custom-extended:ram": Price(9_550_000, 2_420_000, _PAGE, _INVENTED),
    "n2-custom-extended:ram": Price(9_550_000, 2_310_000, _PAGE, _INVENTED),
    "n2d-custom-extended:ram": Price(8_309_000, 1_980_000, _PAGE, _INVENTED),
    "e2-custom:ram": Price(3_069_707, 920_850, _PAGE, _INVENTED),
    "n2:core": Price(31_611_000, 7_650_000, _PAGE, _INVENTED),
    "n2:ram": Price(4_237_000, 1_025_000, _PAGE, _INVENTED),
    "n2-custom:core": Price(33_191_550, 8_032_500, _PAGE, _INVENTED),
    "n2-custom:ram": Price(4_448_850, 1_076_200, _PAGE, _INVENTED),
    "n2d:core": Price(27_502_000, 6_550_000, _PAGE, _INVENTED),
    "n2d:ram": Price(3_686_000, 878_000, _PAGE, _INVENTED),
    "n2d-custom:core": Price(28_877_100, 6_877_500, _PAGE, _INVENTED),
    "n2d-custom:ram": Price(3_870_300, 921_900, _PAGE, _INVENTED),
    "c2:core": Price(33_982_000, 8_200_000, _PAGE, _INVENTED),
    "c2:ram": Price(4_555_000, 1_098_000, _PAGE, _INVENTED),
    "c3:core": Price(34_650_000, 5_900_000, _PAGE, _INVENTED),
    "c3:ram": Price(3_938_000, 671_000, _PAGE, _INVENTED),
    "c4:core": Price(34_650_000, 13_860_000, _SUMS, _INVENTED),
    "c4:ram": Price(3_938_000, 1_575_000, _CATALOG_2026, _INVENTED),
    "t2d:core": Price(27_502_000, 5_010_000, _PAGE, _INVENTED),
    "t2d:ram": Price(3_686_000, 671_000, _PAGE, _INVENTED),
    "a2:core": Price(31_611_000, 12_641_000, _PAGE, _SKYPILOT),
    "a2:ram": Price(4_237_000, 1_694_900, _PAGE, _SKYPILOT),
    "a3:core": Price(25_498_080, 5_860_000, _SUMS, _CATALOG_2025),
    "a3:ram": Price(2_220_330, 511_000, _SUMS, _CATALOG_2025),
    "a3plus:core": Price(26_923_680, 6_190_000, _CATALOG_2026, _SPLIT),
    "a3plus:ram": Price(2_344_470, 540_000, _CATALOG_2026, _SPLIT),
    "a3ultra:core": Price(18_705_346, 11_100_000, _SPLIT, _SPLIT),
    "a3ultra:ram": Price(1_628_700, 960_000, _SPLIT, _SPLIT),
    "g2:core": Price(24_988_441, 9_999_000, _SUMS, _SUMS),
    "g2:ram": Price(2_927_392, 1_171_250, _SUMS, _SUMS),
    "g4:core": Price(48_910_000, 19_570_000, _CATALOG_2026, _SPLIT),
    "g4:ram": Price(5_870_000, 2_350_000, _CATALOG_2026, _SPLIT),
    "gpu:nvidia-tesla-p4": Price(600_000_000, 240_000_000, _PAGE, _INVENTED),
    "gpu:nvidia-tesla-p100": Price(1_460_000_000, 584_000_000, _PAGE, _INVENTED),
    "gpu:nvidia-tesla-t4": Price(350_000_000, 140_000_000, _PAGE, _SKYPILOT),
    "gpu:nvidia-l4": Price(560_040_240, 223_100_000, _SUMS, _SUMS),
    "gpu:nvidia-tesla-v100": Price(2_480_000_000, 992_000_000, _PAGE, _SKYPILOT),
    "gpu:nvidia-tesla-a100": Price(2_933_908_000, 1_147_200_000, _SUMS, _SKYPILOT),
    "gpu:nvidia-a100-80gb": Price(3_928_080_000, 1_571_200_000, _SUMS, _SKYPILOT),
    "gpu:nvidia-h100-80gb": Price(9_796_550_569, 2_253_000_000, _CATALOG_2026, _CATALOG_2025),
    "gpu:nvidia-h100-mega-80gb": Price(10_344_275_712, 3_078_687_000, _CATALOG_2026, _SPLIT),
    "gpu:nvidia-h200-141gb": Price(9_311_740_000, 4_539_808_000, _CATALOG_2026, _SPLIT),
    # One price for a GPU with its cores, memory and local SSD: A4 has no SKUs for those.
    "gpu:nvidia-b200": Price(16_110_000_000, 4_954_200_000, _CATALOG_2026, _CATALOG_2026),
    "gpu:nvidia-rtx-pro-6000": Price(1_095_650_000, 438_260_000, _CATALOG_2026, _SPLIT),
    # An eighth of a GPU with its cores and memory, for g4-standard-6, -12 (two) and -24 (four).
    "slice:nvidia-rtx-pro-6000": Price(646_880_000, 258_750_000, _CATALOG_2026, _INVENTED),
    # A TPU chip with its share of the VM: there are no other SKUs of a TPU VM. v6e in us-east5 on 7 August 2026.
    "tpu:ct5lp": Price(1_200_000_000, 494_237_000, _CATALOG_2026, _CATALOG_2026),
    "tpu:ct5p": Price(4_200_000_000, 1_680_000_000, _PAGE, _INVENTED),
    "tpu:ct6e": Price(2_700_000_000, 1_403_300_000, _CATALOG_2026, _CATALOG_2026),
    "tpu:tpu7x": Price(12_000_000_000, 4_800_000_000, _CATALOG_2026, _INVENTED),
    **_SCHEDULED,
    "local-ssd": Price(80_000_000, 32_000_000, _DISKS, _INVENTED),
    "disk:pd-standard": Price(40_000_000, None, _DISKS),
    "disk:pd-balanced": Price(100_000_000, None, _DISKS),
    "disk:pd-ssd": Price(170_000_000, None, _DISKS),
    "disk:pd-extreme": Price(125_000_000, None, _DISKS),
    "disk:hyperdisk-balanced": Price(80_000_000, None, _DISKS),
    # An address in use costs the same everywhere: see `EVERYWHERE`.
    "external-ip": Price(5_000_000, 2_500_000, _CATALOG_2026, _CATALOG_2026),
    "static-ip": Price(10_000_000, None, _CATALOG_2026),
    "snapshot": Price(50_000_000, None, _DISKS),
    "image": Price(50_000_000, None, _DISKS),
    # 0.000232877 a GiB-hour of a month of 730: the price of SSD persistent disk.
    "suspended-memory": Price(170_000_000, None, _PAGE),
}


def bare(resource: str) -> str:
    """The resource without the way in which Dynamic Workload Scheduler sells it."""
    return resource.removeprefix(f"{FLEX_START}:").removeprefix(f"{RESERVATION_BOUND}:")


def unit_of(resource: str) -> str:
    """The usage unit of a resource's rate, as the catalogue writes it."""
    if resource.endswith(":ram"):
        return "GiBy.h"
    return "GiBy.mo" if is_storage(resource) else "h"


def is_storage(resource: str) -> bool:
    """Says whether it is storage: disks, local SSD, saved memory, snapshots, images."""
    kept = ("local-ssd", "suspended-memory", "snapshot", "image")
    return resource.startswith("disk:") or bare(resource) in kept


@cache
def first_prices() -> Mapping[tuple[str, str, bool], int]:
    """(resource, region, Spot) -> nano-dollars per unit, for everything that Google sells there."""
    prices: dict[tuple[str, str, bool], int] = {}
    for region in REGIONS:
        gpus = {name for zone in zones_of(region) for name in ACCELERATOR_TYPES[zone]}
        for resource, price in BASE.items():
            if resource in SOLD_EVERYWHERE or not _sold(resource, gpus):
                continue
            standard, spot = _EXACT.get((resource, region), (price.standard, price.spot))
            factor = 1000 if (resource, region) in _EXACT else _factor(resource, region)
            prices[resource, region, False] = _scaled(standard, factor)
            if spot is not None:
                prices[resource, region, True] = _spot_a3(resource, region) or _scaled(spot, factor)
    for resource in SOLD_EVERYWHERE:
        one = BASE[resource]
        assert one.spot is not None  # an address of a Spot VM costs half
        prices[resource, EVERYWHERE, False], prices[resource, EVERYWHERE, True] = one.standard, one.spot
    return prices


def _spot_a3(resource: str, region: str) -> int | None:
    parts = ("a3:core", "a3:ram", "gpu:nvidia-h100-80gb")
    return _SPOT_A3[region][parts.index(resource)] if resource in parts and region in _SPOT_A3 else None


def _sold(resource: str, gpus: set[str]) -> bool:
    head, _, tail = bare(resource).partition(":")
    if head in ("gpu", "slice", "tpu"):
        return tail in gpus
    return head not in _BUILT_IN or not gpus.isdisjoint(_BUILT_IN[head])


def _factor(resource: str, region: str) -> int:
    if is_storage(resource):
        return 1000 if region in STORAGE_BASE_REGIONS else _STORAGE_ELSEWHERE
    return _FACTORS.get(region, _ELSEWHERE)


def _scaled(nanos: int, per_mille: int) -> int:
    return (nanos * per_mille + 500) // 1000


class NoRate(LookupError):
    """Nothing of that kind is sold in that region."""


class PriceList:
    """Prices with their history. A change applies from a later moment than the last one.

    `regions` are those that it sells in: all of them by default, and fewer where a catalogue is to be read quickly.
    """

    def __init__(self, regions: Collection[str] = REGIONS) -> None:
        self._timelines: dict[tuple[str, str, bool], Timeline] = {
            key: ((OPENING, nanos),) for key, nanos in first_prices().items() if key[1] in (*regions, EVERYWHERE)
        }

    def rate(self, resource: str, region: str, spot: bool, at: datetime) -> tuple[int, str]:
        """Nano-dollars per unit at a moment, and the unit: `h`, `GiBy.h` or `GiBy.mo`.

        Disks and saved memory cost Spot VMs the same. Before the first price, the first price applies.
        """
        timeline = self.history(resource, region, spot)
        index = bisect_right(timeline, at, key=lambda change: change[0])
        return timeline[max(index - 1, 0)][1], unit_of(resource)

    def change(self, resource: str, region: str, spot: bool, nanos: int, at: datetime) -> None:
        """A new price from a moment on. Raises ValueError when there is a later one."""
        timeline = self.history(resource, region, spot)
        if at <= timeline[-1][0]:
            raise ValueError(f"{resource} in {region} already has a price from {timeline[-1][0].isoformat()}")
        self._timelines[self._key(resource, region, spot)] = (*timeline, (at, nanos))

    def history(self, resource: str, region: str, spot: bool) -> Timeline:
        """Every (in force from, nano-dollars), oldest first."""
        try:
            return self._timelines[self._key(resource, region, spot)]
        except KeyError:
            model = "Spot" if spot else "on demand"
            raise NoRate(f"{resource} is not sold {model} in {region}") from None

    def sold(self) -> list[tuple[str, str, bool]]:
        """Every (resource, region, Spot) that has a price."""
        return list(self._timelines)

    @staticmethod
    def _key(resource: str, region: str, spot: bool) -> tuple[str, str, bool]:
        region = EVERYWHERE if resource in SOLD_EVERYWHERE else region
        return resource, region, spot and (resource == "local-ssd" or not is_storage(resource))


class Misprint(StrEnum):
    """The kind of error in the prices of a catalogue."""

    ZERO = "zero"
    THOUSANDFOLD = "thousandfold"
    NO_DISCOUNT = "no_discount"  # Spot at the on-demand price


class MisprintedList(PriceList):
    """The prices as a wrong catalogue shows them. What is billed is the list that it was made of."""

    def __init__(self, right: PriceList, misprint: Misprint) -> None:
        super().__init__(regions=())
        self._right = right
        self._misprint = misprint

    def rate(self, resource: str, region: str, spot: bool, at: datetime) -> tuple[int, str]:
        return self._right.rate(resource, region, spot, at)

    def history(self, resource: str, region: str, spot: bool) -> Timeline:
        *before, (since, nanos) = self._right.history(resource, region, spot)
        if self._misprint is Misprint.NO_DISCOUNT:
            shown = self._right.history(resource, region, False)[-1][1] if spot else nanos
        else:
            shown = 0 if self._misprint is Misprint.ZERO else nanos * 1000
        return (*before, (since, shown))

    def sold(self) -> list[tuple[str, str, bool]]:
        return self._right.sold()
