"""The ways to buy a VM's hours, as people name them: `spot`, `flex`, `demand`, `reserved:NAME`, `cheapest`.

Google's rules of each: "Compute Engine instances provisioning models" and "About Flex-start VMs"
(cloud.google.com/compute/docs/instances/provisioning-models, .../about-flex-start-vms).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import (
    CHEAPEST,
    LONGEST_FLEX_RUN,
    LONGEST_WAIT,
    SHORTEST_WAIT,
    WAYS,
    Recipe,
    is_sold_by_flex_start,
)
from costguard.model.launch import RESERVED as RESERVED_NAMED

SPOT, FLEX, DEMAND = ProvisioningModel.SPOT, ProvisioningModel.FLEX_START, ProvisioningModel.STANDARD
RESERVED = ProvisioningModel.RESERVATION_BOUND
_MODELS = {word: model for model, word in WAYS.items()}
EXAMPLES = f"spot, flex, demand, {CHEAPEST} or {RESERVED_NAMED}NAME"
_RESERVATION = re.compile(r"(?:projects/[a-z0-9.:-]+/reservations/)?[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")

# Machine types that Google does not sell in every way. Sources:
# cloud.google.com/ai-hypercomputer/docs/consumption-models, /compute/docs/accelerator-optimized-machines
# ("Consumption option availability by machine type") and /compute/docs/gpus (the note on A3 High).
_BY_RESERVATION = re.compile(r"a4x-.+")
_NOT_ON_DEMAND = (
    (re.compile(r"(?:a4|a3-ultragpu)-.+"), "as Spot, by flex-start or by reservation"),
    (re.compile(r"a3-highgpu-[124]g(?:-.+)?"), "as Spot or by flex-start"),
)


def problem(text: str) -> str:
    """Explains what is wrong with a way to buy, and what to write; "" where it is one."""
    if text in _MODELS or text == CHEAPEST:
        return ""
    if text.startswith(RESERVED_NAMED):
        name = text.removeprefix(RESERVED_NAMED)
        if _RESERVATION.fullmatch(name):
            return ""
        shared = f"{RESERVED_NAMED}projects/P/reservations/NAME"
        return f"names no reservation: write {RESERVED_NAMED}NAME, or {shared} of another's."
    return f"is no way to buy a VM: write {EXAMPLES}."


def bought(recipe: Recipe, text: str) -> Recipe:
    """Returns the recipe, bought this way. Raises ValueError where it is none: see `problem`."""
    if why := problem(text):
        raise ValueError(f"{text!r} {why}")
    if text == CHEAPEST:
        return replace(recipe, provisioning_model=SPOT, buys_cheapest=True, reservation="")
    if text.startswith(RESERVED_NAMED):
        name = text.removeprefix(RESERVED_NAMED)
        return replace(recipe, provisioning_model=RESERVED, buys_cheapest=False, reservation=name)
    return replace(recipe, provisioning_model=_MODELS[text], buys_cheapest=False, reservation="")


def models_of(recipe: Recipe) -> tuple[ProvisioningModel, ...]:
    """Returns the models that it may be launched with, the wanted one first.

    The cheapest is looked for among the ways in which Google sells the machine type.
    """
    if recipe.buys_cheapest:
        flex = (FLEX,) if is_sold_by_flex_start(recipe.machine_type) else ()
        return (SPOT, *flex, *(() if _way_sold(recipe.machine_type) else (DEMAND,)))
    if recipe.falls_back_to_on_demand and recipe.provisioning_model is not DEMAND:
        return (recipe.provisioning_model, DEMAND)
    return (recipe.provisioning_model,)


def not_sold(machine_type: str, models: Iterable[ProvisioningModel]) -> str:
    """Explains why VMs of this type cannot be launched in all of these ways, and what to do; "" where they can."""
    models = set(models)
    if _BY_RESERVATION.fullmatch(machine_type) and models != {RESERVED}:
        return (
            f"Google sells {machine_type} by reservation only: buy it as {RESERVED_NAMED}NAME, or choose a machine "
            "type that is sold as Spot, such as a4-highgpu-8g."
        )
    if FLEX in models and not is_sold_by_flex_start(machine_type):
        return (
            f"Google sells no flex-start VMs of {machine_type}: choose a type of the series A2, A3, A4, G2 or G4, or a "
            "TPU (ct5p, ct6e, tpu7x), or buy it as spot or demand."
        )
    way_sold = _way_sold(machine_type)
    if not way_sold or DEMAND not in models:
        return ""
    change = "turn on_demand_fallback off" if len(models) > 1 else "buy it as spot or flex"
    return (
        f"Google sells {machine_type} {way_sold}, not on demand: {change}, or choose a machine type that is sold on "
        "demand, such as a3-highgpu-8g."
    )


def _way_sold(machine_type: str) -> str:
    """Returns how Google sells a type that it does not sell on demand; "" for the others."""
    return next((how for types, how in _NOT_ON_DEMAND if types.fullmatch(machine_type)), "")


def wait_problem(wait: timedelta) -> str:
    """Explains why a flex-start request cannot wait for this time; "" where it can."""
    if not wait or SHORTEST_WAIT <= wait <= LONGEST_WAIT:
        return ""
    return (
        f"A flex-start request waits for {span_text(SHORTEST_WAIT)} to {span_text(LONGEST_WAIT)} (Google's limits), "
        "or 0s: now or not at all."
    )


def longest_run(recipe: Recipe, model: ProvisioningModel) -> timedelta:
    """Returns how long one of its VMs may run: a flex-start VM for seven days at most."""
    return min(recipe.max_run, LONGEST_FLEX_RUN) if model is FLEX else recipe.max_run


def has_group_identity(recipe: Recipe) -> bool:
    """Says whether VMs of a job may be made by a group, which grants so many flex-start VMs or none.

    Each VM of a group proves by Google's identity document which it is, and one without a service account has none
    ("Verify the identity of VMs").
    """
    return bool(recipe.service_account)
