"""Machine types have parts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from costguard.errors import CloudError, CloudUnavailable, NotFound
from costguard.gce.machine_types import MachineShape, MachineTypes, by_rule, partition_gib


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("n1-standard-4", (4, 15360, None, 0, 0)),
        ("n1-standard-96", (96, 368640, None, 0, 0)),
        ("n1-highmem-8", (8, 53248, None, 0, 0)),
        ("n1-highcpu-4", (4, 3686, None, 0, 0)),
        ("f1-micro", (1, 614, None, 0, 0)),
        ("e2-micro", (2, 1024, None, 0, 0)),
        ("e2-standard-8", (8, 32768, None, 0, 0)),
        ("n2-highmem-128", (128, 884736, None, 0, 0)),
        ("n2d-highcpu-224", (224, 229376, None, 0, 0)),
        ("c2-standard-60", (60, 245760, None, 0, 0)),
        ("c3-highcpu-22", (22, 45056, None, 0, 0)),
        ("c3-standard-8-lssd", (8, 32768, None, 0, 750)),
        ("g2-standard-24", (24, 98304, "nvidia-l4", 2, 0)),
        ("a2-highgpu-1g", (12, 87040, "nvidia-tesla-a100", 1, 0)),
        ("a2-megagpu-16g", (96, 1392640, "nvidia-tesla-a100", 16, 0)),
        ("a2-ultragpu-4g", (48, 696320, "nvidia-a100-80gb", 4, 1500)),
        ("a3-highgpu-8g", (208, 1916928, "nvidia-h100-80gb", 8, 6000)),
        ("a3-edgegpu-8g", (208, 1916928, "nvidia-h100-80gb", 8, 6000)),
        ("a3-edgegpu-8g-nolssd", (208, 1916928, "nvidia-h100-80gb", 8, 0)),
        ("a3-megagpu-8g", (208, 1916928, "nvidia-h100-mega-80gb", 8, 6000)),
        ("a3-ultragpu-8g", (224, 3022848, "nvidia-h200-141gb", 8, 12000)),
        ("a4-highgpu-8g", (224, 4063232, "nvidia-b200", 8, 12000)),
        ("a4x-highgpu-4g", (140, 905216, "nvidia-gb200", 4, 12000)),
        ("g4-standard-6", (6, 22528, "nvidia-rtx-pro-6000", 1, 0)),
        ("g4-standard-48", (48, 184320, "nvidia-rtx-pro-6000", 1, 0)),
        ("g4-standard-384", (384, 1474560, "nvidia-rtx-pro-6000", 8, 0)),
        ("ct5lp-hightpu-4t", (112, 196608, "v5e", 4, 0)),
        ("ct5p-hightpu-1t-tpu", (52, 114688, "v5p", 1, 0)),
        ("ct5p-hightpu-4t", (208, 458752, "v5p", 4, 0)),
        ("ct6e-standard-1t", (44, 180224, "v6e", 1, 0)),
        ("ct6e-standard-8t-tpu", (360, 1474560, "v6e", 8, 0)),
        ("tpu7x-standard-4t", (224, 983040, "tpu7x", 4, 0)),
        ("custom-4-5120", (4, 5120, None, 0, 0)),
        ("n2-custom-8-65536-ext", (8, 65536, None, 0, 0)),
        ("e2-custom-small-4096", (2, 4096, None, 0, 0)),
    ],
)
def test_known_by_rule(name: str, shape: tuple[object, ...]) -> None:
    """The figures are those of machineTypes.get."""
    assert by_rule(name) == shape


@pytest.mark.parametrize(
    "name", ["t2d-standard-8", "n1-standard-3", "n2-standard-8-lssd", "g4-standard-44", "ct6e-standard-2t", "projects"]
)
def test_not_known_by_rule(name: str) -> None:
    """A size or a family that the rules do not name is asked for, never guessed."""
    assert by_rule(name) is None


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("c4-standard-4-lssd", 375),
        ("a4x-highgpu-4g", 3000),
        ("c4-standard-288-lssd-metal", 3000),
        ("z3-highmem-192-highlssd-metal", 6000),
        ("a4-highgpu-8g", 375),
    ],
)
def test_built_in_local_ssds_have_two_sizes(name: str, gib: int) -> None:
    """machineTypes.get gives their number: 4 of an A4X are 12,000 GiB, and so are 32 of an A4."""
    assert partition_gib(name) == gib


@dataclass
class Asked:
    """Answers, or refuses, as told; notes what it was asked."""

    answer: MachineShape | CloudError
    names: list[str] = field(default_factory=list)

    def __call__(self, project: str, zone: str, name: str) -> MachineShape:
        self.names.append(f"{project}/{name}")
        if isinstance(self.answer, CloudError):
            raise self.answer
        return self.answer


def test_asked_once() -> None:
    """A type that was learnt is not asked for again, whichever project has it."""
    ask = Asked(MachineShape(8, 32768))
    types = MachineTypes(ask, lambda: 0.0)
    assert types.shape("p", "z", "t2d-standard-8") == types.shape("q", "z", "t2d-standard-8") == (8, 32768, None, 0, 0)
    assert ask.names == ["p/t2d-standard-8"]


def test_a_silence_pauses_all_questions_of_the_project() -> None:
    """The project gets no request for a minute after a failure; other projects are not held up."""
    now = [0.0]
    ask = Asked(CloudUnavailable("down"))
    types = MachineTypes(ask, lambda: now[0])
    assert types.shape("p", "z", "x1") is types.shape("p", "z", "x2") is types.shape("q", "z", "x1") is None
    assert ask.names == ["p/x1", "q/x1"]
    now[0], ask.answer = 61.0, MachineShape(1, 1024)
    assert types.shape("p", "z", "x2") == (1, 1024, None, 0, 0)


def test_a_missing_type_pauses_only_itself() -> None:
    """A retired type does not keep others from being asked for, nor itself in a zone that may have it."""
    ask = Asked(NotFound("no such type"))
    types = MachineTypes(ask, lambda: 0.0)
    for zone, name in (("z", "x1"), ("z", "x1"), ("z", "x2"), ("y", "x1")):
        assert types.shape("p", zone, name) is None
    assert ask.names == ["p/x1", "p/x2", "p/x1"]


def test_why_a_type_is_not_known_is_kept() -> None:
    """While it is not asked for again, the first answer is given again."""
    ask = Asked(NotFound("no such type"))
    types = MachineTypes(ask, lambda: 0.0)
    for _ in range(2):
        with pytest.raises(NotFound, match="no such type"):
            types.shape_or_error("p", "z", "x1")
    assert ask.names == ["p/x1"]
