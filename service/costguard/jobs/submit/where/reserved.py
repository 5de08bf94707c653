"""Looks at the reservation that a job is to run on: what speaks against it, and until when it is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from costguard.errors import CloudError
from costguard.jobs.decide.limits.ceiling import LEAST_RUN
from costguard.jobs.submit.submission import JobRefusal, Overrides
from costguard.jobs.submit.where.targets import LaunchTargets
from costguard.model.duration import span_text
from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import Recipe, ReservedVms
from costguard.model.moments import moment_text
from costguard.model.words import list_text

_WORKERS = 8

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReservedJob:
    """The job, with its deadline at the reservation's end, and its recipe, in the zones that have the reservation."""

    spec: JobSpec
    recipe: Recipe
    refusals: tuple[JobRefusal, ...] = ()
    warnings: tuple[str, ...] = ()


def look_at_reservation(
    spec: JobSpec, recipe: Recipe, wanted: Overrides, launching: LaunchTargets, now: datetime
) -> ReservedJob:
    """Asks Google about the job's reservation in each zone of its recipe.

    Where Google does not answer, the job is not refused: its insert will tell.
    """
    if not recipe.reservation or launching.reservations is None or spec.project not in launching.projects:
        return ReservedJob(spec, recipe)
    read = _read(launching, spec.project, recipe)
    there = {zone: one for zone, one in read.items() if isinstance(one, ReservedVms)}
    unknown = {zone: one for zone, one in read.items() if isinstance(one, str)}
    name, where = recipe.reservation, "preset" if wanted.buy is None else "overrides.buy"
    if not there and not unknown:
        message = (
            f"There is no reservation {name} in {list_text(list(recipe.zones))}: check its name, its project and the "
            "zones, with `gcloud compute reservations list`."
        )
        return ReservedJob(spec, recipe, (JobRefusal(where, message),))
    wrong = {zone: why for zone, one in there.items() if (why := _problem(recipe, zone, one, now))}
    if wrong and len(wrong) == len(there) and not unknown:
        return ReservedJob(spec, recipe, tuple(JobRefusal(where, why) for why in dict.fromkeys(wrong.values())))
    usable = {zone: one for zone, one in there.items() if zone not in wrong}
    ends = min((one.ends_at for one in usable.values() if one.ends_at is not None), default=None)
    zones = tuple(zone for zone in recipe.zones if zone in usable or zone in unknown)
    made = replace(recipe, zones=zones, reservation_ends_at=ends)
    warnings = [
        f"Reservation {name} bills whether it is used or not: an hour of it costs as an hour on demand, and no more "
        "while this job uses it.",
        *(f"Whether {zone} has reservation {name} is not known: {why}." for zone, why in unknown.items()),
        *_full(name, usable, bool(unknown)),
    ]
    if ends is None:
        return ReservedJob(spec, made, warnings=tuple(warnings))
    bound, more = _until(spec, name, ends)
    return ReservedJob(bound, made, warnings=(*warnings, more))


def _read(launching: LaunchTargets, project: str, recipe: Recipe) -> Mapping[str, ReservedVms | str | None]:
    """Returns by zone the reservation, why it is not known, or None where there is none."""

    def read(zone: str) -> ReservedVms | str | None:
        assert launching.reservations is not None, "it was looked at before"
        try:
            return launching.reservations(project, zone, recipe.reservation)
        except CloudError as error:
            log.warning("reservation_not_read", project=project, zone=zone, error=str(error))
            return error.message.rstrip(".")

    zones = list(dict.fromkeys(recipe.zones))
    if not zones:
        return {}
    with ThreadPoolExecutor(min(_WORKERS, len(zones)), thread_name_prefix="reservations") as pool:
        return dict(zip(zones, pool.map(read, zones), strict=True))


def _problem(recipe: Recipe, zone: str, one: ReservedVms, now: datetime) -> str:
    """Explains why the job's VMs cannot run on it, and what to do; "" where they can."""
    name = f"Reservation {recipe.reservation} in {zone}"
    if not one.must_be_named:
        return (
            f"{name} is open to all VMs that fit, and cannot be named (specificReservationRequired is not set): buy "
            "the job on demand, whose VMs use it by themselves, or make the reservation again with "
            "--require-specific-reservation."
        )
    if one.machine_type and one.machine_type != recipe.machine_type:
        return (
            f"{name} is of {one.machine_type}, and the job's VMs are {recipe.machine_type}: choose the machine type "
            "that is reserved, or another reservation."
        )
    reserved, wanted = (one.gpu_type, one.gpu_count), (recipe.gpu_type, recipe.gpu_count)
    if recipe.attaches_gpus and one.machine_type and reserved != wanted:
        return f"{name} has {_gpus(*reserved)}, and the job's VMs have {_gpus(*wanted)}: choose another reservation."
    if one.ends_at is not None and one.ends_at - now < LEAST_RUN:
        return (
            f"{name} ends at {moment_text(one.ends_at)}, which leaves less than {span_text(LEAST_RUN)} for a VM: "
            "choose another reservation, or buy the job in another way."
        )
    return ""


def _gpus(kind: str, count: int) -> str:
    return f"{count} {kind}" if count else "no GPU"


def _full(name: str, usable: Mapping[str, ReservedVms], is_unknown_elsewhere: bool) -> Iterator[str]:
    """Warns where none of the zones has room now."""
    counted = {zone: one for zone, one in usable.items() if one.count > 0}
    full = {zone: one for zone, one in counted.items() if one.in_use >= one.count}
    if not full or len(full) < len(usable) or is_unknown_elsewhere:
        return
    uses = list_text([f"{one.in_use} of {one.count} in use in {zone}" for zone, one in full.items()])
    yield f"Reservation {name} is full now ({uses}): the job waits until one is free."


def _until(spec: JobSpec, name: str, ends: datetime) -> tuple[JobSpec, str]:
    """Returns the job with the reservation's end as its deadline where it has none of its own, and what to know."""
    said = f"Reservation {name} ends at {moment_text(ends)}, and its VMs with it"
    if spec.kind is not JobKind.TRAINING:
        return spec, f"{said}."
    if spec.deadline is None:
        return replace(spec, deadline=ends), f"{said}: the job must end by then, which is its deadline."
    if spec.deadline > ends:
        late = span_text(max(spec.deadline - ends, timedelta(minutes=1)))
        return spec, f"{said}, {late} before the job's deadline: it has no VM after that."
    return spec, f"{said}, after the job's deadline."
