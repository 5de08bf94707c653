"""Google's regions and zones, and the resources that describe them with their quotas.

`base_url` is always the part before `/compute/v1`.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

_ZONE_LETTERS = {"us-central1": "abcf", "us-east1": "bcd", "europe-west1": "bcd"}
REGIONS: tuple[str, ...] = (
    "africa-south1",
    "asia-east1",
    "asia-east2",
    "asia-northeast1",
    "asia-northeast2",
    "asia-northeast3",
    "asia-south1",
    "asia-south2",
    "asia-southeast1",
    "asia-southeast2",
    "australia-southeast1",
    "australia-southeast2",
    "europe-central2",
    "europe-north1",
    "europe-north2",
    "europe-southwest1",
    "europe-west1",
    "europe-west10",
    "europe-west12",
    "europe-west2",
    "europe-west3",
    "europe-west4",
    "europe-west6",
    "europe-west8",
    "europe-west9",
    "me-central1",
    "me-central2",
    "me-west1",
    "northamerica-northeast1",
    "northamerica-northeast2",
    "northamerica-south1",
    "southamerica-east1",
    "southamerica-west1",
    "us-central1",
    "us-east1",
    "us-east4",
    "us-east5",
    "us-south1",
    "us-west1",
    "us-west2",
    "us-west3",
    "us-west4",
)
ZONES: tuple[str, ...] = tuple(
    f"{region}-{letter}" for region in REGIONS for letter in _ZONE_LETTERS.get(region, "abc")
)
ZONE_SCOPES: tuple[str, ...] = tuple(f"zones/{zone}" for zone in ZONES)
"""What an aggregated list of instances names on every page."""
OPERATION_SCOPES: tuple[str, ...] = ("global", *(f"regions/{region}" for region in REGIONS), *ZONE_SCOPES)
"""Operations also live globally and in regions."""

# What the API really gives for resources that are older than its clock.
_EPOCH = "1969-12-31T16:00:00.000-08:00"
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
"""A regional quota where a world says nothing else."""


def stable_id(name: str) -> str:
    """The numeric id of something that is always there, as the API shows it."""
    return str(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1)


def region_of(zone: str) -> str:
    """`us-central1` for `us-central1-a`."""
    return zone.rpartition("-")[0]


def zones_of(region: str) -> tuple[str, ...]:
    """The region's zones; none for an unknown region."""
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
        "id": str(1000 + 10 * REGIONS.index(region)),
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


def project_number(project: str) -> int:
    """A stable twelve-digit number for a project id."""
    return 100_000_000_000 + int.from_bytes(project.encode()) % 899_999_999_999


def default_service_account(project: str) -> str:
    """Whom a VM created without a service account of its own runs as."""
    return f"{project_number(project)}-compute@developer.gserviceaccount.com"


def _quotas(usage: Mapping[str, float], limits: Mapping[str, float]) -> list[dict[str, Any]]:
    return [
        {"limit": float(limit), "metric": metric, "usage": float(usage.get(metric, 0))}
        for metric, limit in limits.items()
    ]
