"""Prices the presets that can be launched, each where and as it is cheapest now, to compare their machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from costguard.errors import CloudError
from costguard.jobs.decide.machines.chip_prices import MachinePrice, by_compute
from costguard.jobs.decide.machines.chips import CHIPS, peak_of
from costguard.jobs.decide.machines.next_machine import names_one, next_machine
from costguard.jobs.reports.diagnosis import JobDiagnosis
from costguard.jobs.submit.cost.offers import cheapest
from costguard.jobs.submit.where.places import Shapes, rates
from costguard.jobs.submit.where.targets import LaunchTargets
from costguard.ledger.accrual import Accrual
from costguard.model.buying import models_of, not_sold
from costguard.model.instance import Shape
from costguard.model.launch import Recipe
from costguard.model.preset import Preset

_HOUR = timedelta(hours=1)


def preset_prices(presets: Iterable[Preset], shapes: Shapes, project: str, accrual: Accrual) -> list[MachinePrice]:
    """Prices each preset with an accelerator as its recipe has it, bought in the cheapest way that the recipe allows.

    The disk is part of it, and an external address unless the recipe has none. The least dollars for a FLOP come first.
    """
    return by_compute(
        _priced(preset.name, preset.launch, shapes, project, accrual)
        for preset in presets
        if preset.launch is not None and preset.launch.gpu_count
    )


def other_machine_prices(
    like: Recipe, priced: Iterable[MachinePrice], shapes: Shapes, project: str, accrual: Accrual
) -> list[MachinePrice]:
    """Prices the smallest machine type of each chip that no preset has, in the zones of this recipe.

    Only types that have a price there, and that are sold in a way in which the recipe buys. Whether one of these zones
    has the type is not asked.
    """
    with_preset = {one.gpu_type for one in priced}
    made = [
        replace(like, machine_type=chip.smallest, gpu_type=chip.gpu_type, gpu_count=1, attaches_gpus=False)
        for chip in CHIPS.values()
        if chip.smallest and chip.gpu_type not in with_preset and not not_sold(chip.smallest, models_of(like))
    ]
    others = (_priced("", recipe, shapes, project, accrual) for recipe in made)
    return by_compute(one for one in others if one.rate is not None)


def with_next_machine(
    diagnosis: JobDiagnosis, presets: Iterable[Preset], launching: LaunchTargets, accrual: Accrual
) -> JobDiagnosis:
    """Adds the machine to try next for what bounds the job: of a preset, or else of a priced machine type."""
    held, now = diagnosis.held, diagnosis.machine
    if held is None or now is None or not names_one(held.verdict):
        return diagnosis
    shapes, project = launching.shapes, launching.known(diagnosis.job.spec.project)
    prices = preset_prices(presets, shapes, project, accrual)
    chosen = next_machine(held.verdict, now, held.steps_per_s, prices)
    if chosen is None:
        others = other_machine_prices(diagnosis.job.recipe, prices, shapes, project, accrual)
        chosen = next_machine(held.verdict, now, held.steps_per_s, others)
    return diagnosis if chosen is None else replace(diagnosis, next=chosen)


def _priced(name: str, recipe: Recipe, shapes: Shapes, project: str, accrual: Accrual) -> MachinePrice:
    machine = _shape(shapes, project, recipe)
    count = recipe.gpu_count if name or machine is None else machine.gpu_count
    unpriced = MachinePrice(
        name, recipe.machine_type, recipe.gpu_type, count, peak_of(recipe.machine_type, recipe.gpu_type, count)
    )
    offer = cheapest(rates(recipe, machine, recipe.zones, accrual), models_of(recipe), _HOUR)
    if offer is None:
        return unpriced
    return replace(unpriced, zone=offer.zone, provisioning_model=offer.provisioning_model, rate=offer.rate)


def _shape(shapes: Shapes, project: str, recipe: Recipe) -> Shape | None:
    """The same in all zones that have it; None where Google does not say: its price is then not known."""
    for zone in recipe.zones:
        try:
            return shapes(project, zone, recipe.machine_type)
        except CloudError:
            continue
    return None
