"""Which preset a VM belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costguard.model.instance import Shape
from costguard.model.preset import OTHER, Match, Preset

PRESET_LABEL = "costguard-preset"


def classify(labels: Mapping[str, str], shape: Shape, presets: Sequence[Preset]) -> str:
    """The name of the VM's preset: the one its label names, else the first that matches, else `other`.

    A label that names no known preset is passed over, so that a typing error does not hide a VM's GPUs.
    """
    named = labels.get(PRESET_LABEL)
    if named is not None and (named == OTHER or any(preset.name == named for preset in presets)):
        return named
    return next((preset.name for preset in presets if _matches(preset.match, labels, shape)), OTHER)


def _matches(match: Match, labels: Mapping[str, str], shape: Shape) -> bool:
    if match == Match():
        return False
    return (
        all(labels.get(key) == value for key, value in match.labels.items())
        and (not match.gpu_types or shape.gpu_type in match.gpu_types)
        and shape.gpu_count >= match.gpu_count_min
        and (match.gpu_count_max is None or shape.gpu_count <= match.gpu_count_max)
    )
