"""VMs of today's families are billed by part."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costguard.gce.machine_types import by_rule
from costguard.ledger.billed.machine_parts import is_billed_as_gpus, parts_of_shape, resource_words
from costguard.model.instance import Shape
from costguard.model.price import OF_A_RUN


def parts(machine_type: str, gpu: tuple[str, int] | None = None) -> dict[str, Fraction]:
    machine = by_rule(machine_type)
    assert machine is not None
    shape = Shape(machine_type, *machine)
    if gpu is not None:
        shape = Shape(machine_type, machine.vcpus, machine.memory_mib, *gpu)
    return {part.resource: part.quantity for part in parts_of_shape(shape)}


@pytest.mark.parametrize(
    ("machine_type", "billed"),
    [
        ("a2-megagpu-16g", {"a2:core": 96, "a2:ram": 1360, "gpu:nvidia-tesla-a100": 16}),
        ("a2-ultragpu-1g", {"a2:core": 12, "a2:ram": 170, "gpu:nvidia-a100-80gb": 1, "local-ssd": 375}),
        ("a3-highgpu-8g", {"a3:core": 208, "a3:ram": 1872, "gpu:nvidia-h100-80gb": 8, "local-ssd": 6000}),
        ("a3-edgegpu-8g", {"a3:core": 208, "a3:ram": 1872, "gpu:nvidia-h100-80gb": 8, "local-ssd": 6000}),
        ("a3-megagpu-8g", {"a3plus:core": 208, "a3plus:ram": 1872, "gpu:nvidia-h100-mega-80gb": 8, "local-ssd": 6000}),
        ("a3-ultragpu-8g", {"a3ultra:core": 224, "a3ultra:ram": 2952, "gpu:nvidia-h200-141gb": 8, "local-ssd": 12000}),
        ("a4-highgpu-8g", {"gpu:nvidia-b200:whole": 8}),
        ("a4x-highgpu-4g", {"gpu:nvidia-gb200:whole": 4}),
        ("g2-standard-24", {"g2:core": 24, "g2:ram": 96, "gpu:nvidia-l4": 2}),
        ("g4-standard-96", {"g4:core": 96, "g4:ram": 360, "gpu:nvidia-rtx-pro-6000": 2}),
        ("g4-standard-6", {"gpu:nvidia-rtx-pro-6000-1/8:whole": 1}),
        ("g4-standard-24", {"gpu:nvidia-rtx-pro-6000-1/8:whole": 4}),
    ],
)
def test_each_family_is_billed_by_its_own_skus(machine_type: str, billed: dict[str, int]) -> None:
    """The sums are those of dstackai/gpuhunt and SpareCores/sc-crawler from the catalogue; A4 has one SKU for all it
    is.
    """
    assert parts(machine_type) == billed


@pytest.mark.parametrize(
    ("machine_type", "ordinary", "extended"),
    [
        ("n1-custom-2-13312-ext", {"n1-custom:ram": 13}, {}),
        ("custom-2-20480-ext", {"n1-custom:ram": 13}, {"n1-custom-extended:ram": 7}),
        ("n2-custom-8-81920-ext", {"n2-custom:ram": 64}, {"n2-custom-extended:ram": 16}),
        ("n2d-custom-2-20480-ext", {"n2d-custom:ram": 16}, {"n2d-custom-extended:ram": 4}),
        ("n4-custom-2-20480-ext", {}, {"n4-custom-extended:ram": 20}),
    ],
)
def test_extended_memory_is_billed_by_its_own_sku(
    machine_type: str, ordinary: dict[str, int], extended: dict[str, int]
) -> None:
    """Google's price page: above 6.5 GiB a vCPU of N1, 8 of N2 and N2D; of others it is unpriced, all of it."""
    quantities = parts(machine_type)
    assert {name: quantity for name, quantity in quantities.items() if name.endswith(":ram")} == ordinary | extended


@pytest.mark.parametrize("gpu", ["nvidia-tesla-t4", "nvidia-tesla-v100", "nvidia-tesla-p100", "nvidia-tesla-p4"])
def test_gpus_attached_to_n1_are_billed_beside_their_host(gpu: str) -> None:
    """N1 hosts cost the same with any GPU, and the GPU comes on top."""
    assert parts("n1-standard-8", (gpu, 2)) == {"n1:core": 8, "n1:ram": 30, f"gpu:{gpu}": 2}


@pytest.mark.parametrize(
    "machine_type", ["n1-standard-8", "f1-micro", "e2-micro", "a3-ultragpu-8g", "a4-highgpu-8g", "g4-standard-6"]
)
def test_each_run_has_one_part_that_counts_its_seconds(machine_type: str) -> None:
    """The daily totals take how long a run lasted from exactly one of its charges."""
    assert len([resource for resource in parts(machine_type) if resource.endswith(OF_A_RUN)]) == 1


def test_an_a4_without_known_gpus_has_parts_to_miss_a_price() -> None:
    """No part at all would bill nothing, and say nothing."""
    shape = Shape("a4-highgpu-8g", 224, 3968 * 1024)
    assert {part.resource for part in parts_of_shape(shape)} == {"a4:core", "a4:ram"}
    assert not is_billed_as_gpus(shape)


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("n1:core", "N1 vCPU"),
        ("a3ultra:ram", "A3ULTRA memory"),
        ("f1-micro:whole", "f1-micro VM"),
        ("gpu:nvidia-h200-141gb", "H200 141GB GPU"),
        ("gpu:nvidia-b200:whole", "B200 GPU with its share of the VM"),
        ("gpu:nvidia-rtx-pro-6000-1/8:whole", "RTX PRO 6000 1/8 GPU with its share of the VM"),
    ],
)
def test_resources_have_names_that_people_use(resource: str, name: str) -> None:
    """The name of a whole VM's resource says so."""
    assert resource_words(resource) == name
