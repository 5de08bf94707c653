"""Disk types, and public images by family."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costguard_sandbox.gce.catalogue.regions import stable_id

# (project, family) -> (image name, disk size in GB, description)
_FAMILIES: Mapping[tuple[str, str], tuple[str, int, str]] = {
    ("debian-cloud", "debian-12"): ("debian-12-bookworm-v20261110", 10, "Debian, Debian GNU/Linux, 12 (bookworm)"),
    ("debian-cloud", "debian-13"): ("debian-13-trixie-v20261110", 10, "Debian, Debian GNU/Linux, 13 (trixie)"),
    ("ubuntu-os-cloud", "ubuntu-2204-lts"): ("ubuntu-2204-jammy-v20261105", 10, "Canonical, Ubuntu, 22.04 LTS, amd64"),
    ("ubuntu-os-cloud", "ubuntu-2404-lts-amd64"): (
        "ubuntu-2404-noble-amd64-v20261105",
        10,
        "Canonical, Ubuntu, 24.04 LTS, amd64",
    ),
    ("cos-cloud", "cos-stable"): ("cos-stable-125-19216-104-12", 10, "Google, Container-Optimized OS, stable"),
    **{
        ("deeplearning-platform-release", family): (
            f"{family}-v20261101",
            50,
            f"Google, Deep Learning VM, {title}, M134",
        )
        for family, title in {
            "common-cpu": "base without GPU software",
            "common-cu124": "CUDA 12.4",
            "common-cu129-ubuntu-2204-nvidia-580": "CUDA 12.9 with driver 580",
            "pytorch-2-9-cu129-ubuntu-2204-nvidia-580": "PyTorch 2.9, CUDA 12.9 with driver 580",
            "common-cu128-ubuntu-2204-nvidia-570": "CUDA 12.8 with driver 570",
            "pytorch-latest-cu124": "PyTorch, CUDA 12.4",
            "pytorch-2-7-cu128-ubuntu-2204-nvidia-570": "PyTorch 2.7, CUDA 12.8 with driver 570",
            "tf-latest-gpu": "TensorFlow with GPU",
        }.items()
    },
}
# Where `gcloud compute images list` looks (its PUBLIC_IMAGE_PROJECTS), and Google's own for machine learning.
PUBLISHERS = frozenset(
    {
        "centos-cloud",
        "cos-cloud",
        "debian-cloud",
        "deeplearning-platform-release",
        "fedora-coreos-cloud",
        "opensuse-cloud",
        "oracle-linux-cloud",
        "rhel-cloud",
        "rhel-sap-cloud",
        "rocky-linux-accelerator-cloud",
        "rocky-linux-cloud",
        "suse-cloud",
        "suse-sap-cloud",
        "ubuntu-os-accelerator-images",
        "ubuntu-os-cloud",
        "ubuntu-os-pro-cloud",
        "windows-cloud",
        "windows-sql-cloud",
    }
)
DEFAULT_FAMILY = ("debian-cloud", "debian-12")


_SINCE = "1969-12-31T16:00:00.000-08:00"


def image_resource(base_url: str, project: str, family: str) -> dict[str, Any]:
    """`images.getFromFamily`. Raises KeyError for an unknown family."""
    name, size_gb, description = _FAMILIES[project, family]
    root = f"{base_url}/compute/v1/projects/{project}/global"
    return {
        "architecture": "X86_64",
        "archiveSizeBytes": str(size_gb * 123_456_789),
        "creationTimestamp": "2026-11-01T02:17:46.520-07:00",
        "description": description,
        "diskSizeGb": str(size_gb),
        "enableConfidentialCompute": False,
        "family": family,
        "guestOsFeatures": [{"type": "UEFI_COMPATIBLE"}, {"type": "VIRTIO_SCSI_MULTIQUEUE"}, {"type": "GVNIC"}],
        "id": stable_id(f"{project}/{name}"),
        "kind": "compute#image",
        "labelFingerprint": "42WmSpB8rSM=",
        "licenseCodes": ["2147286739765738111"],
        "licenses": [f"{root}/licenses/{family}"],
        "name": name,
        "rawDisk": {"containerType": "TAR", "source": ""},
        "selfLink": f"{root}/images/{name}",
        "sourceType": "RAW",
        "status": "READY",
        "storageLocations": ["eu", "asia", "us"],
    }


def images_of(base_url: str, project: str) -> list[dict[str, Any]]:
    """`images.list`: one image per family of the project, by name."""
    images = [image_resource(base_url, owner, family) for owner, family in _FAMILIES if owner == project]
    return sorted(images, key=lambda image: str(image["name"]))


def image_family_view(base_url: str, project: str, family: str) -> dict[str, Any]:
    """`imageFamilyViews.get`: the family's current image, wrapped."""
    return {"image": image_resource(base_url, project, family)}


def smallest_disk_gib(source_image: str) -> int | None:
    """The minimum size of a disk with this image; 1 if unknown, None if its publisher has no such image."""
    publisher = source_image.rpartition("projects/")[2].partition("/")[0]
    if "projects/" not in source_image or publisher not in {owner for owner, _ in _FAMILIES}:
        return 1
    image = image_of("", source_image)
    return int(image["diskSizeGb"]) if image else None


def image_of(base_url: str, source_image: str) -> dict[str, Any] | None:
    """The image that a `sourceImage` names; None when there is none.

    Full URLs and partial paths are equivalent; a family is named by `global/images/family/F` or by
    `zones/Z/imageFamilyViews/F`, an image by `global/images/NAME`.
    """
    project, _, path = source_image.rpartition("projects/")[2].partition("/")
    kind, _, name = path.rpartition("/")
    if not kind.endswith(("images/family", "imageFamilyViews", "global/images")):
        return None
    for (owner, family), (image, _, _) in _FAMILIES.items():
        if owner == project and name == (image if kind.endswith("global/images") else family):
            return image_resource(base_url, owner, family)
    return None


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


def find_disk_type(name: str) -> DiskType | None:
    return DISK_TYPES.get(name)


def disk_type_resource(base_url: str, project: str, zone: str, name: str) -> dict[str, Any]:
    """`diskTypes.get`. Raises KeyError for an unknown type."""
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
