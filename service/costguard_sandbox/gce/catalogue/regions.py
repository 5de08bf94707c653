"""Google's regions and zones, and the resources that describe them, with quotas and the default network.

`base_url` is always the part before `/compute/v1`.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

# The API's real timestamp of resources from before its time.
_EPOCH = "1969-12-31T16:00:00.000-08:00"
DEFAULT_NETWORK = "default"
_NETWORK_SINCE = "2024-03-05T09:13:20.104-08:00"
_CPU_PLATFORMS = ("Intel Broadwell", "Intel Cascade Lake", "Intel Ice Lake", "Intel Sapphire Rapids", "AMD Milan")
_GPU_METRICS = {
    "nvidia-tesla-k80": "NVIDIA_K80_GPUS",
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
}
DEFAULT_LIMITS: Mapping[str, float] = {
    "CPUS": 2400.0,
    "PREEMPTIBLE_CPUS": 2400.0,
    "A2_CPUS": 2400.0,
    "DISKS_TOTAL_GB": 102400.0,
    "SSD_TOTAL_GB": 102400.0,
    "LOCAL_SSD_TOTAL_GB": 100000.0,
    "STATIC_ADDRESSES": 70.0,
    "IN_USE_ADDRESSES": 575.0,
    "INSTANCES": 24000.0,
    **dict.fromkeys(_GPU_METRICS.values(), 64.0),
    **{f"PREEMPTIBLE_{metric}": 64.0 for metric in _GPU_METRICS.values()},
    "PREEMPTIBLE_NVIDIA_H100_GPUS": 64.0,
}
"""Regional quotas by default."""


class Region(NamedTuple):
    """The zones are those of `letters`; the subnetwork of an auto mode network is 10.`subnet`.0.0/20.

    `sku_place` is the region's name in the Cloud Billing Catalog, where one SKU often covers several regions. Subnets:
    VPC documentation, "IPv4 ranges for auto mode subnets"; libcloud's recorded aggregated_subnetworks.json has four.
    """

    sku_place: str
    subnet: int
    letters: str = "abc"


REGIONS: Mapping[str, Region] = {
    "africa-south1": Region("Johannesburg", 218),
    "asia-east1": Region("APAC", 140),
    "asia-east2": Region("Hong Kong", 170),
    "asia-northeast1": Region("Japan", 146),
    "asia-northeast2": Region("Osaka", 174),
    "asia-northeast3": Region("Seoul", 178),
    "asia-south1": Region("Mumbai", 160),
    "asia-south2": Region("Delhi", 190),
    "asia-southeast1": Region("Singapore", 148),
    "asia-southeast2": Region("Jakarta", 184),
    "australia-southeast1": Region("Sydney", 152),
    "australia-southeast2": Region("Melbourne", 192),
    "europe-central2": Region("Warsaw", 186),
    "europe-north1": Region("Finland", 166),
    "europe-north2": Region("Stockholm", 226),
    "europe-southwest1": Region("Madrid", 204),
    "europe-west1": Region("EMEA", 132, "bcd"),
    "europe-west10": Region("Berlin", 214),
    "europe-west12": Region("Turin", 210),
    "europe-west2": Region("London", 154),
    "europe-west3": Region("Frankfurt", 156),
    "europe-west4": Region("Netherlands", 164),
    "europe-west6": Region("Zurich", 172),
    "europe-west8": Region("Milan", 198),
    "europe-west9": Region("Paris", 200),
    "me-central1": Region("Doha", 212),
    "me-central2": Region("Dammam", 216),
    "me-west1": Region("Tel Aviv", 208),
    "northamerica-northeast1": Region("Montreal", 162),
    "northamerica-northeast2": Region("Toronto", 188),
    "northamerica-south1": Region("Mexico", 224),
    "southamerica-east1": Region("Sao Paulo", 158),
    "southamerica-west1": Region("Santiago", 194),
    "us-central1": Region("Iowa", 128, "abcf"),
    "us-east1": Region("South Carolina", 142, "bcd"),
    "us-east4": Region("Virginia", 150),
    "us-east5": Region("Columbus", 202),
    "us-south1": Region("Dallas", 206),
    "us-west1": Region("Oregon", 138),
    "us-west2": Region("Los Angeles", 168),
    "us-west3": Region("Salt Lake City", 180),
    "us-west4": Region("Las Vegas", 182),
}
ZONES: tuple[str, ...] = tuple(f"{name}-{letter}" for name, region in REGIONS.items() for letter in region.letters)
ZONE_SCOPES: tuple[str, ...] = tuple(f"zones/{zone}" for zone in ZONES)
"""The scopes of aggregated lists of instances."""
OPERATION_SCOPES: tuple[str, ...] = ("global", *(f"regions/{region}" for region in REGIONS), *ZONE_SCOPES)
"""Operations are also global and regional."""


def stable_id(name: str) -> str:
    """The numeric id of a resource that always exists."""
    return str(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1)


def region_of(zone: str) -> str:
    """`us-central1` for `us-central1-a`."""
    return zone.rpartition("-")[0]


def zones_of(region: str) -> tuple[str, ...]:
    """The region's zones; empty for an unknown region."""
    return tuple(zone for zone in ZONES if region_of(zone) == region)


def gpu_quota_metric(accelerator_type: str, *, spot: bool) -> str | None:
    """The regional quota that one GPU counts against.

    None for on-demand H100 and newer: the API has no such metric, only GPUS_ALL_REGIONS holds them.
    """
    if accelerator_type == "nvidia-h100-80gb":
        return "PREEMPTIBLE_NVIDIA_H100_GPUS" if spot else None
    metric = _GPU_METRICS.get(accelerator_type)
    return f"PREEMPTIBLE_{metric}" if metric and spot else metric


def zone_resource(base_url: str, project: str, zone: str) -> dict[str, Any]:
    """`zones.get`."""
    root = f"{base_url}/compute/v1/projects/{project}"
    return {
        "availableCpuPlatforms": list(_CPU_PLATFORMS),
        "creationTimestamp": _EPOCH,
        "description": zone,
        "id": str(2000 + ZONES.index(zone)),
        "kind": "compute#zone",
        "name": zone,
        "region": f"{root}/regions/{region_of(zone)}",
        "selfLink": f"{root}/zones/{zone}",
        "status": "UP",
        "supportsPzs": True,
    }


def region_resource(
    base_url: str, project: str, region: str, usage: Mapping[str, float], limits: Mapping[str, float]
) -> dict[str, Any]:
    """`regions.get`, with a quota for every metric of the limits given and of the defaults."""
    root = f"{base_url}/compute/v1/projects/{project}"
    return {
        "creationTimestamp": _EPOCH,
        "description": region,
        "id": str(1000 + 10 * list(REGIONS).index(region)),
        "kind": "compute#region",
        "name": region,
        "quotas": _quotas(usage, {**DEFAULT_LIMITS, **limits}),
        "selfLink": f"{root}/regions/{region}",
        "status": "UP",
        "supportsPzs": True,
        "zones": [f"{root}/zones/{zone}" for zone in zones_of(region)],
    }


def project_resource(
    base_url: str, project: str, usage: Mapping[str, float], limits: Mapping[str, float]
) -> dict[str, Any]:
    """`projects.get`, with the quotas that span regions: GPUS_ALL_REGIONS above all."""
    number = project_number(project)
    return {
        "commonInstanceMetadata": {"fingerprint": "3zEcGBxH6Vs=", "kind": "compute#metadata"},
        "creationTimestamp": "2024-03-05T09:12:44.561-08:00",
        "defaultNetworkTier": "PREMIUM",
        "defaultServiceAccount": default_service_account(project),
        "id": str(number * 7 + 1),
        "kind": "compute#project",
        "name": project,
        "quotas": _quotas(usage, {"CPUS_ALL_REGIONS": 4800.0, "GPUS_ALL_REGIONS": 128.0, **limits}),
        "selfLink": f"{base_url}/compute/v1/projects/{project}",
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
    }


def network_resource(base_url: str, project: str) -> dict[str, Any]:
    """`networks.get`: the default network, in auto mode, which every project has."""
    root = f"{base_url}/compute/v1/projects/{project}"
    return {
        "autoCreateSubnetworks": True,
        "creationTimestamp": _NETWORK_SINCE,
        "description": "Default network for the project",
        "id": stable_id(f"{project}/{DEFAULT_NETWORK}"),
        "kind": "compute#network",
        "name": DEFAULT_NETWORK,
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        "routingConfig": {"routingMode": "REGIONAL"},
        "selfLink": f"{root}/global/networks/{DEFAULT_NETWORK}",
        "subnetworks": [f"{root}/regions/{region}/subnetworks/{DEFAULT_NETWORK}" for region in REGIONS],
    }


def subnetwork_resource(base_url: str, project: str, region: str) -> dict[str, Any]:
    """`subnetworks.get`: the default network's in that region. Fields as gcloud printed them in 2023."""
    root = f"{base_url}/compute/v1/projects/{project}"
    return {
        "creationTimestamp": _NETWORK_SINCE,
        "fingerprint": "ZuIhWEGo_1o=",
        "gatewayAddress": f"10.{REGIONS[region].subnet}.0.1",
        "id": stable_id(f"{project}/{region}/{DEFAULT_NETWORK}"),
        "ipCidrRange": f"10.{REGIONS[region].subnet}.0.0/20",
        "kind": "compute#subnetwork",
        "name": DEFAULT_NETWORK,
        "network": f"{root}/global/networks/{DEFAULT_NETWORK}",
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "purpose": "PRIVATE",
        "region": f"{root}/regions/{region}",
        "selfLink": f"{root}/regions/{region}/subnetworks/{DEFAULT_NETWORK}",
        "stackType": "IPV4_ONLY",
    }


def project_number(project: str) -> int:
    """A stable twelve-digit number for a project id."""
    return 100_000_000_000 + int.from_bytes(project.encode()) % 899_999_999_999


def default_service_account(project: str) -> str:
    """The service account of VMs that name none."""
    return f"{project_number(project)}-compute@developer.gserviceaccount.com"


def _quotas(usage: Mapping[str, float], limits: Mapping[str, float]) -> list[dict[str, Any]]:
    return [
        {"limit": float(limit), "metric": metric, "usage": float(usage.get(metric, 0))}
        for metric, limit in limits.items()
    ]
