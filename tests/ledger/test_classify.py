"""Each VM belongs to a preset."""

from __future__ import annotations

import pytest

from costguard.ledger.owner import PRESET_LABEL, classify
from costguard.model.instance import Shape
from costguard.model.preset import Match, Preset


def preset(name: str, match: Match) -> Preset:
    return Preset(name=name, match=match, limit=None)


PRESETS = (
    preset("t4", Match(gpu_types=frozenset({"nvidia-tesla-t4"}), gpu_count_min=1, gpu_count_max=1)),
    preset(
        "a100", Match(gpu_types=frozenset({"nvidia-tesla-a100", "nvidia-a100-80gb"}), gpu_count_min=1, gpu_count_max=1)
    ),
    preset("multi-gpu", Match(gpu_count_min=2)),
    preset("other", Match()),
)


def shape(gpu_type: str | None = None, gpu_count: int = 0) -> Shape:
    return Shape("n1-standard-4", 4, 15360, gpu_type=gpu_type, gpu_count=gpu_count)


@pytest.mark.parametrize(
    ("gpu_type", "gpu_count", "expected"),
    [
        ("nvidia-tesla-t4", 1, "t4"),
        ("nvidia-tesla-t4", 2, "multi-gpu"),
        ("nvidia-tesla-a100", 1, "a100"),
        ("nvidia-a100-80gb", 1, "a100"),
        ("nvidia-tesla-a100", 16, "multi-gpu"),
        ("nvidia-h100-80gb", 8, "multi-gpu"),
        ("nvidia-l4", 1, "other"),
        (None, 0, "other"),
    ],
)
def test_shape_decides(gpu_type: str | None, gpu_count: int, expected: str) -> None:
    """A VM falls under the preset that its GPUs match, and under `other` when none does."""
    assert classify({}, shape(gpu_type, gpu_count), PRESETS) == expected


def test_tpus_match_by_their_generation() -> None:
    """A preset of v6e takes VMs with v6e chips, as many as it says, and no GPU VM."""
    presets = (preset("tpu", Match(gpu_types=frozenset({"v6e"}), gpu_count_min=4)), *PRESETS)
    assert classify({}, shape("v6e", 4), presets) == "tpu"
    assert classify({}, shape("v6e", 1), presets) == "other"
    assert classify({}, shape("v5p", 4), presets) == "multi-gpu"
    assert classify({}, shape("nvidia-l4", 4), presets) == "multi-gpu"


def test_label_wins() -> None:
    """The preset that a VM's label names wins over what its GPUs would match."""
    assert classify({PRESET_LABEL: "a100"}, shape("nvidia-tesla-t4", 1), PRESETS) == "a100"
    assert classify({PRESET_LABEL: "other"}, shape("nvidia-tesla-t4", 1), PRESETS) == "other"


def test_unknown_label_is_passed_over() -> None:
    """A label that names no preset does not take the VM from the preset that it matches."""
    assert classify({PRESET_LABEL: "a1000"}, shape("nvidia-tesla-t4", 1), PRESETS) == "t4"


def test_other_is_known_without_being_listed() -> None:
    """`other` exists even where no preset is configured."""
    assert classify({PRESET_LABEL: "other"}, shape(), ()) == "other"
    assert classify({}, shape("nvidia-tesla-t4", 1), ()) == "other"


def test_first_match_wins() -> None:
    """Where two presets match, the one listed first is the VM's."""
    debug = preset("debug", Match(labels={"purpose": "debug"}))
    labels = {"purpose": "debug"}
    assert classify(labels, shape("nvidia-tesla-t4", 1), (debug, *PRESETS)) == "debug"
    assert classify(labels, shape("nvidia-tesla-t4", 1), (*PRESETS, debug)) == "t4"


def test_every_part_must_hold() -> None:
    """A match with several parts wants all of them."""
    both = preset("both", Match(labels={"team": "vision", "stage": "dev"}, gpu_count_min=1))
    labels = {"team": "vision", "stage": "dev"}
    assert classify(labels, shape("nvidia-l4", 1), (both,)) == "both"
    assert classify(labels, shape(), (both,)) == "other"
    assert classify({"team": "vision"}, shape("nvidia-l4", 1), (both,)) == "other"


def test_vms_without_gpu_can_have_a_preset() -> None:
    """A largest count of 0 is a part that was given: it matches VMs without a GPU, and those alone."""
    plain = preset("plain", Match(gpu_count_max=0))
    assert classify({}, shape(), (plain,)) == "plain"
    assert classify({}, shape("nvidia-l4", 1), (plain,)) == "other"


def test_nothing_given_matches_nothing() -> None:
    """A preset without a match is reached by its label alone."""
    by_label = preset("by-label", Match())
    assert classify({}, shape(), (by_label,)) == "other"
    assert classify({PRESET_LABEL: "by-label"}, shape(), (by_label,)) == "by-label"
