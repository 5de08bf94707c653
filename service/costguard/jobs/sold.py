"""Which machine types Google does not sell in the ways that Costguard launches VMs: on demand, and as Spot.

Sources: cloud.google.com/ai-hypercomputer/docs/consumption-models, /compute/docs/accelerator-optimized-machines
("Consumption option availability by machine type") and /compute/docs/gpus (the note on A3 High).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from costguard.model.instance import ProvisioningModel

_RESERVED: Final = re.compile(r"a4x-.+")
_NOT_ON_DEMAND: Final = (
    (re.compile(r"(?:a4|a3-ultragpu)-.+"), "as Spot, by flex-start or by reservation"),
    (re.compile(r"a3-highgpu-[124]g(?:-.+)?"), "as Spot or by flex-start"),
)


def refusal(machine_type: str, models: Iterable[ProvisioningModel]) -> str:
    """Why VMs of this type cannot be launched in all of these ways, and what to do; "" where they can."""
    models = set(models)
    if _RESERVED.fullmatch(machine_type):
        return (
            f"Google sells {machine_type} by reservation only, and Costguard launches on-demand and Spot VMs: create "
            "it in your reservation yourself (Costguard watches it like any other VM), or choose a machine type that "
            "is sold as Spot, such as a4-highgpu-8g."
        )
    sold = next((how for types, how in _NOT_ON_DEMAND if types.fullmatch(machine_type)), "")
    if not sold or ProvisioningModel.STANDARD not in models:
        return ""
    change = "turn on_demand_fallback off" if ProvisioningModel.SPOT in models else "launch it with spot = true"
    return (
        f"Google sells {machine_type} {sold}, not on demand: {change}, or choose a machine type that is sold on "
        "demand, such as a3-highgpu-8g."
    )
