"""The recipe that a job is launched by: the preset's, with what the job may have otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from costguard.jobs import sold
from costguard.jobs.asked import Overrides, Refusal, shown
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.launch import Recipe

OVERRIDES = ("zones", "spot", "machine_type", "disk_gib", "max_run_hours", "on_demand_fallback", "image")
SHORTEST_RUN = timedelta(minutes=10)
LONGEST_RUN = timedelta(days=120)  # Google's
SMALLEST_DISK, LARGEST_DISK = 10, 65536  # GiB, Google's

_ZONE = re.compile(r"[a-z]+(?:-[a-z]+)+[0-9]+-(?:[a-z]|ai[0-9]+[a-z])")
_MACHINE_TYPE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_BOOT_IMAGE = re.compile(r"(?:projects/[a-z0-9.:-]+/)?global/images/(?:family/)?[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


def shape_of(recipe: Recipe, machine: Shape) -> Shape:
    """What a VM of the recipe is billed for: its machine type, and the GPUs that are attached to it."""
    return replace(machine, gpu_type=recipe.gpu_type, gpu_count=recipe.gpu_count) if recipe.attaches_gpus else machine


def models_of(recipe: Recipe) -> tuple[ProvisioningModel, ...]:
    """Those that it may be launched with, the wanted one first."""
    if recipe.provisioning_model is ProvisioningModel.SPOT and recipe.falls_back_to_on_demand:
        return (ProvisioningModel.SPOT, ProvisioningModel.STANDARD)
    return (recipe.provisioning_model,)


def with_overrides(recipe: Recipe, wanted: Overrides, machine: Shape | None = None) -> Recipe:
    """`machine` is what the wanted machine type is made of, where another one is wanted and it is known."""
    changed = recipe
    if wanted.zones is not None:
        changed = replace(changed, zones=tuple(dict.fromkeys(wanted.zones)))
    if wanted.spot is not None:
        model = ProvisioningModel.SPOT if wanted.spot else ProvisioningModel.STANDARD
        changed = replace(changed, provisioning_model=model)
    if wanted.machine_type is not None:
        changed = replace(changed, machine_type=wanted.machine_type)
        if machine is not None and not recipe.attaches_gpus:
            changed = replace(changed, gpu_count=machine.gpu_count)
    if wanted.disk_gib is not None:
        changed = replace(changed, disk_gib=wanted.disk_gib)
    if wanted.max_run is not None:
        changed = replace(changed, max_run=wanted.max_run)
    if wanted.on_demand_fallback is not None:
        changed = replace(changed, falls_back_to_on_demand=wanted.on_demand_fallback)
    if wanted.image is not None:
        changed = replace(changed, image=wanted.image)
    return changed


def problems(recipe: Recipe, wanted: Overrides, machine: Shape | None) -> Iterator[Refusal]:
    """What of the overrides cannot be. `machine` is what the wanted machine type is made of; None: it is not known."""
    if wanted.zones is not None:
        if not wanted.zones:
            yield Refusal("overrides.zones", "It is empty: name a zone, or leave it out for the preset's.")
        for zone in wanted.zones:
            if not _ZONE.fullmatch(zone):
                yield Refusal("overrides.zones", f"{shown(zone)} is no zone: write one such as us-central1-a.")
            elif (region := _region_of(recipe.subnetwork)) and not zone.startswith(f"{region}-"):
                message = f"{zone} is not in {region}, where this preset's subnetwork is: name a zone of that region."
                yield Refusal("overrides.zones", message)
    if wanted.machine_type is not None and wanted.machine_type != recipe.machine_type:
        yield from _of_machine(recipe, wanted.machine_type, machine)
    if wanted.disk_gib is not None and not SMALLEST_DISK <= wanted.disk_gib <= LARGEST_DISK:
        message = f"A boot disk has {SMALLEST_DISK} to {LARGEST_DISK} GiB: choose a size between them."
        yield Refusal("overrides.disk_gib", message)
    if wanted.max_run is not None and not SHORTEST_RUN <= wanted.max_run <= LONGEST_RUN:
        message = "A VM may run from 10 minutes to 120 days (Google's limit): choose a time between them."
        yield Refusal("overrides.max_run_hours", message)
    if wanted.image is not None and not _BOOT_IMAGE.fullmatch(wanted.image):
        message = f"{shown(wanted.image)} is nothing to boot from: write projects/P/global/images/family/F"
        yield Refusal("overrides.image", f"{message}; a container's image stands outside of overrides.")


def unsold(recipe: Recipe, wanted: Overrides) -> Iterator[Refusal]:
    """What Google would not sell, in the recipe that these overrides made."""
    message = sold.refusal(recipe.machine_type, models_of(recipe))
    if not message:
        return
    if wanted.machine_type is not None:
        yield Refusal("overrides.machine_type", message)
    elif wanted.on_demand_fallback:
        yield Refusal("overrides.on_demand_fallback", message)
    elif wanted.spot is False:
        yield Refusal("overrides.spot", message)
    else:
        yield Refusal("preset", message)


def _of_machine(recipe: Recipe, name: str, machine: Shape | None) -> Iterator[Refusal]:
    where = "overrides.machine_type"
    if not _MACHINE_TYPE.fullmatch(name) or machine is None:
        yield Refusal(where, f"What {shown(name)} is made of is not known: name a machine type of Google's.")
    elif recipe.attaches_gpus and machine.family != "n1":
        message = f"A {recipe.gpu_type} can be attached to N1 machine types alone: name one, such as n1-standard-8."
        yield Refusal(where, message)
    elif not recipe.attaches_gpus and recipe.gpu_type and machine.gpu_type != recipe.gpu_type:
        has = f"has {machine.gpu_type}" if machine.gpu_type else "has no GPU"
        message = f"{name} {has}, and this preset's VMs have {recipe.gpu_type}"
        yield Refusal(where, f"{message}: name a machine type with it, or another preset.")


def _region_of(subnetwork: str) -> str:
    """That of a subnetwork which names one: VMs of other regions cannot be in it."""
    found = re.search(r"regions/([^/]+)/", subnetwork)
    return found[1] if found else ""


def used(recipe: Recipe, wanted: Overrides) -> Iterator[str]:
    """The overrides that change something: what the preset has anyway may be said by anybody."""
    model = ProvisioningModel.SPOT if wanted.spot else ProvisioningModel.STANDARD
    pairs: tuple[tuple[str, object, object], ...] = (
        ("zones", wanted.zones, recipe.zones),
        ("spot", None if wanted.spot is None else model, recipe.provisioning_model),
        ("machine_type", wanted.machine_type, recipe.machine_type),
        ("disk_gib", wanted.disk_gib, recipe.disk_gib),
        ("max_run_hours", wanted.max_run, recipe.max_run),
        ("on_demand_fallback", wanted.on_demand_fallback, recipe.falls_back_to_on_demand),
        ("image", wanted.image, recipe.image),
    )
    for name, given, usual in pairs:
        if given is not None and given != usual:
            yield name
