"""The kinds of disk that zones offer, with the sizes that they may have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SINCE = "1969-12-31T16:00:00.000-08:00"


@dataclass(frozen=True, slots=True)
class DiskType:
    """Sizes are in GiB, as the API's `GB` means them."""

    description: str
    default_gib: int
    smallest_gib: int
    largest_gib: int
    is_persistent: bool = True


# Sizes: `gcloud compute disk-types list`. Defaults of pd-standard, pd-ssd and local-ssd: libcloud's recorded
# aggregated_disktypes.json; of the others: Google's pages on Persistent Disk and Hyperdisk.
DISK_TYPES: Mapping[str, DiskType] = {
    "hyperdisk-balanced": DiskType("Hyperdisk Balanced", 100, 4, 65536),
    "hyperdisk-extreme": DiskType("Hyperdisk Extreme", 1000, 64, 65536),
    "hyperdisk-ml": DiskType("Hyperdisk ML", 100, 4, 65536),
    "hyperdisk-throughput": DiskType("Hyperdisk Throughput", 2048, 2048, 32768),
    "local-ssd": DiskType("Local SSD", 375, 375, 375, is_persistent=False),
    "pd-balanced": DiskType("Balanced Persistent Disk", 100, 10, 65536),
    "pd-extreme": DiskType("Extreme Persistent Disk", 1000, 500, 65536),
    "pd-ssd": DiskType("SSD Persistent Disk", 100, 10, 65536),
    "pd-standard": DiskType("Standard Persistent Disk", 500, 10, 65536),
}


def find(name: str) -> DiskType | None:
    return DISK_TYPES.get(name)


def disk_type_resource(base_url: str, project: str, zone: str, name: str) -> dict[str, Any]:
    """`diskTypes.get`; a KeyError for a type that there is not."""
    offered = DISK_TYPES[name]
    zone_link = f"{base_url}/compute/v1/projects/{project}/zones/{zone}"
    return {
        "creationTimestamp": _SINCE,
        "defaultDiskSizeGb": str(offered.default_gib),
        "description": offered.description,
        "id": str(30_000 + 1 + list(DISK_TYPES).index(name)),
        "kind": "compute#diskType",
        "name": name,
        "selfLink": f"{zone_link}/diskTypes/{name}",
        "validDiskSize": f"{offered.smallest_gib}GB-{offered.largest_gib}GB",
        "zone": zone_link,
    }
