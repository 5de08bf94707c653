"""Places, machine types, accelerators and images."""

import pytest
from tests.sandbox.gce.conformance.discovery import problems_of

from costguard_sandbox.gce.catalogue import disks
from costguard_sandbox.gce.catalogue.machine_types import (
    ACCELERATOR_TYPES,
    MACHINE_TYPES,
    accelerator_type_resource,
    find,
    machine_type_resource,
    offered,
)
from costguard_sandbox.gce.catalogue.regions import (
    OPERATION_SCOPES,
    REGIONS,
    ZONE_SCOPES,
    ZONES,
    gpu_quota_metric,
    project_resource,
    region_of,
    region_resource,
    zone_resource,
    zones_of,
)

BASE = "http://127.0.0.1:1"


def test_regions_and_zones_are_googles() -> None:
    """127 zones in 42 regions, us-central1 with four zones and the two regions that begin at b."""
    assert (len(ZONES), len(REGIONS), len(ZONE_SCOPES)) == (127, 42, 127)
    assert zones_of("us-central1") == ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")
    assert zones_of("us-east1") == ("us-east1-b", "us-east1-c", "us-east1-d")
    assert {region_of(zone) for zone in ZONES} == set(REGIONS)
    assert len(OPERATION_SCOPES) == 127 + 42 + 1


@pytest.mark.parametrize("zone", ["us-central1-a", "europe-west4-b", "asia-east1-c"])
def test_every_resource_of_a_zone_has_googles_shape(zone: str) -> None:
    """Zones, regions, projects, machine and accelerator types pass the API's own schemas."""
    shown = [
        zone_resource(BASE, "p", zone),
        region_resource(BASE, "p", region_of(zone), {"CPUS": 8}, {"NVIDIA_T4_GPUS": 4}),
        project_resource(BASE, "p", {"GPUS_ALL_REGIONS": 1}, {}),
        *(machine_type_resource(BASE, "p", zone, machine) for machine in offered(zone)),
        *(accelerator_type_resource(BASE, "p", zone, name) for name in ACCELERATOR_TYPES[zone]),
        disks.image_resource(BASE, *disks.DEFAULT_FAMILY),
    ]
    assert [problem for resource in shown for problem in problems_of(resource)] == []


def test_quotas_show_usage_and_limit() -> None:
    """A limit that was set replaces Google's default, and usage is shown with it."""
    region = region_resource(BASE, "p", "us-central1", {"NVIDIA_T4_GPUS": 3}, {"NVIDIA_T4_GPUS": 4})
    quotas = {quota["metric"]: (quota["usage"], quota["limit"]) for quota in region["quotas"]}
    assert quotas["NVIDIA_T4_GPUS"] == (3.0, 4.0)
    assert quotas["PREEMPTIBLE_NVIDIA_A100_GPUS"][0] == 0.0
    project = project_resource(BASE, "p", {}, {})
    assert "GPUS_ALL_REGIONS" in {quota["metric"] for quota in project["quotas"]}


@pytest.mark.parametrize(
    ("accelerator", "spot", "metric"),
    [
        ("nvidia-tesla-t4", False, "NVIDIA_T4_GPUS"),
        ("nvidia-tesla-a100", True, "PREEMPTIBLE_NVIDIA_A100_GPUS"),
        ("nvidia-a100-80gb", True, "PREEMPTIBLE_NVIDIA_A100_80GB_GPUS"),
        ("nvidia-h100-80gb", True, "PREEMPTIBLE_NVIDIA_H100_GPUS"),
        ("nvidia-h100-80gb", False, None),
        ("nvidia-from-the-future", False, None),
    ],
)
def test_a_gpu_counts_against_its_own_quota(accelerator: str, spot: bool, metric: str | None) -> None:
    """On-demand H100s have no regional metric; only the quota over all regions holds them."""
    assert gpu_quota_metric(accelerator, spot=spot) == metric


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_mb"),
    [
        ("n1-standard-8", 8, 30720),
        ("a2-highgpu-1g", 12, 87040),
        ("custom-4-5120", 4, 5120),
        ("n1-custom-2-13312-ext", 2, 13312),
        ("n2-custom-8-16384", 8, 16384),
        ("e2-custom-4-8192", 4, 8192),
        ("e2-custom-micro-1280", 2, 1280),
        ("e2-custom-medium-8192", 2, 8192),
        ("c4-standard-4", 4, 15360),
        ("c4-highcpu-2", 2, 4096),
    ],
)
def test_a_machine_type_is_known_by_its_name(name: str, vcpus: int, memory_mb: int) -> None:
    """Predefined types come from the table, custom ones from what their name says."""
    machine = find("us-central1-a", name)
    assert machine is not None
    assert (machine.vcpus, machine.memory_mb) == (vcpus, memory_mb)


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        ("us-central1-a", "n1-standard-3"),
        ("us-central1-a", "custom-3-4096"),
        ("us-central1-a", "custom-2-100"),
        ("us-central1-a", "e2-custom-micro-4096"),
        ("us-central1-a", "e2-custom-small-2100"),
        ("us-central1-a", "a4-highgpu-8g"),
        ("us-east1-c", "a2-highgpu-1g"),
        ("nowhere-a", "n1-standard-1"),
        ("nowhere-a", "custom-2-2048"),
    ],
)
def test_a_machine_type_that_google_lacks_there_is_not_found(zone: str, name: str) -> None:
    """Unknown names, impossible custom sizes, unknown zones, and GPUs that the zone does not have."""
    assert find(zone, name) is None


def test_built_in_gpus_are_listed_with_the_machine() -> None:
    """Accelerator-optimized types name their GPUs; N1 types have none until some are attached."""
    a2 = machine_type_resource(BASE, "p", "us-central1-a", MACHINE_TYPES["a2-highgpu-1g"])
    assert a2["accelerators"] == [{"guestAcceleratorCount": 1, "guestAcceleratorType": "nvidia-tesla-a100"}]
    assert MACHINE_TYPES["a3-highgpu-8g"].local_ssd_gib == 6000
    assert "accelerators" not in machine_type_resource(BASE, "p", "us-central1-a", MACHINE_TYPES["n1-standard-8"])


@pytest.mark.parametrize(
    "source",
    [
        "projects/debian-cloud/global/images/family/debian-12",
        "https://www.googleapis.com/compute/v1/projects/debian-cloud/global/images/family/debian-12",
        "http://127.0.0.1:8080/compute/v1/projects/debian-cloud/zones/-/imageFamilyViews/debian-12",
        "projects/debian-cloud/global/images/debian-12-bookworm-v20261110",
    ],
)
def test_an_image_is_found_however_a_create_names_it(source: str) -> None:
    """Families, family views and image names, as full or partial URLs, mean the same image."""
    image = disks.image_of(BASE, source)
    assert image is not None
    assert image["name"] == "debian-12-bookworm-v20261110"


@pytest.mark.parametrize("source", ["", "debian-12", "projects/debian-cloud/global/images/family/debian-99"])
def test_an_unpublished_image_is_not_found(source: str) -> None:
    """A create that names it has to be refused."""
    assert disks.image_of(BASE, source) is None
