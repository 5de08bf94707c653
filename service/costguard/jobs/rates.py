"""What a VM of a recipe costs an hour in each of its zones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from costguard.jobs.quote import Rate
from costguard.jobs.recipe import shape_of
from costguard.ledger.accrual import Accrual
from costguard.ledger.billed_parts import is_billed_as_gpus
from costguard.model.instance import LIST_PRICED, ProvisioningModel, Shape
from costguard.model.launch import Recipe
from costguard.model.money import Money

# Project, zone, machine type; None: not known.
Shapes: TypeAlias = Callable[[str, str, str], Shape | None]


def rates(
    recipe: Recipe, machine: Shape | None, zones: Iterable[str], accrual: Accrual
) -> dict[tuple[str, ProvisioningModel], Rate]:
    """Spot and on-demand in each zone. `machine` is what the recipe's machine type is made of."""
    return {(zone, model): _rate(recipe, machine, zone, model, accrual) for zone in zones for model in LIST_PRICED}


def hourly(
    recipe: Recipe, machine: Shape | None, zones: Iterable[str], accrual: Accrual
) -> dict[tuple[str, ProvisioningModel], Money | None]:
    """Machine, GPUs and disk in one figure; None where a part has no price."""
    return {place: rate.total for place, rate in rates(recipe, machine, zones, accrual).items()}


def _rate(recipe: Recipe, machine: Shape | None, zone: str, model: ProvisioningModel, accrual: Accrual) -> Rate:
    disk = accrual.storage_rate(f"disk:{recipe.disk_type}", recipe.disk_gib * 1024, zone)
    if machine is None:
        return Rate(disk=disk)
    shape = shape_of(recipe, machine)
    if shape.gpu_type is None:
        return Rate(accrual.rate(shape, zone, model), Money(), disk)
    whole = accrual.rate(shape, zone, model)
    bare = (
        Money() if is_billed_as_gpus(shape) else accrual.rate(replace(shape, gpu_type=None, gpu_count=0), zone, model)
    )
    return Rate(bare, whole - bare if whole is not None and bare is not None else None, disk)
