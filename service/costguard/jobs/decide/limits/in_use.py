"""Counts what is in use at once, by limit: VMs, their GPUs, and what they cost an hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from costguard.model.budget import FleetLimit
from costguard.model.money import ZERO, Money


@dataclass(frozen=True, slots=True)
class InUse:
    """VMs, their GPUs, and their hourly cost together; `unpriced` counts the VMs whose cost is not known."""

    vms: int = 0
    gpus: int = 0
    rate: Money = ZERO
    unpriced: int = 0

    def __add__(self, other: InUse) -> InUse:
        return InUse(
            self.vms + other.vms, self.gpus + other.gpus, self.rate + other.rate, self.unpriced + other.unpriced
        )

    def __sub__(self, other: InUse) -> InUse:
        return InUse(
            self.vms - other.vms, self.gpus - other.gpus, self.rate - other.rate, self.unpriced - other.unpriced
        )

    def times(self, count: int) -> InUse:
        return InUse(self.vms * count, self.gpus * count, self.rate.times(count), self.unpriced * count)


NOTHING = InUse()


def of_vm(gpus: int, rate: Money | None) -> InUse:
    """Returns one VM as it counts; a rate of None is not known."""
    return InUse(1, gpus, ZERO if rate is None else rate, int(rate is None))


@dataclass(frozen=True, slots=True)
class LimitedBy:
    """The parts by which limits apply to VMs; "" where there is none. The owner is in lower case."""

    project: str
    preset: str
    owner: str
    team: str = ""


@dataclass(frozen=True, slots=True)
class PresentUse:
    """VMs that are there, or may be: those of one job, or with the job "" those that no job launched.

    `ends_at` is when its job is expected to end; None: not known.
    """

    by: LimitedBy
    amount: InUse
    job: str = ""
    title: str = ""
    ends_at: datetime | None = None


class Bucket(NamedTuple):
    """A part that a limit counts together: everything in its scope, or in it one value of `for_each`."""

    limit: str
    value: str = ""


def limits_on(limits: Sequence[FleetLimit], by: LimitedBy) -> list[tuple[FleetLimit, Bucket]]:
    """Returns the limits that apply to VMs of these parts, the narrower first, each with its bucket.

    VMs without a value of the part that a limit is kept by, such as those of no team, are under no such limit.
    """
    applying = [(one, Bucket(one.name, value)) for one in limits if (value := _value(one, by)) is not None]
    return sorted(applying, key=lambda pair: _width(pair[0]))


def _value(limit: FleetLimit, by: LimitedBy) -> str | None:
    scope = limit.scope
    given = (
        (scope.project, by.project),
        (scope.preset, by.preset),
        (scope.owner.lower() if scope.owner is not None else None, by.owner),
        (scope.team, by.team),
    )
    if any(wanted is not None and wanted != value for wanted, value in given):
        return None
    if limit.for_each is None:
        return ""
    value: str = getattr(by, limit.for_each.value)
    return value or None


def _width(limit: FleetLimit) -> tuple[bool, int, str]:
    """Orders limits from narrow to wide. Any fixed order keeps jobs from starving; see `queue.line_up`."""
    scope = limit.scope
    parts = sum(part is not None for part in (scope.project, scope.preset, scope.owner, scope.team))
    return limit.for_each is None, -parts, limit.name


def counted(limits: Sequence[FleetLimit], uses: Iterable[PresentUse]) -> dict[Bucket, InUse]:
    """Adds up what is in use, by bucket."""
    sums: dict[Bucket, InUse] = {}
    for use in uses:
        for limit, bucket in limits_on(limits, use.by):
            if use.job or limit.counts_others:
                sums[bucket] = sums.get(bucket, NOTHING) + use.amount
    return sums


def most_that_fit(limit: FleetLimit, used: InUse, one: InUse, most: int) -> int:
    """Returns how many more VMs like `one` fit under a limit of which so much is in use, at most `most`.

    VMs of unknown cost fit under a limit of dollars where nothing else of unknown cost is in use and money is left:
    one job at a time, whose VMs come together.
    """
    room = most
    for amount, taken, needed in ((limit.vms, used.vms, one.vms), (limit.gpus, used.gpus, one.gpus)):
        if amount is not None and needed:
            room = min(room, max(amount - taken, 0) // needed)
    dollars = limit.dollars_per_hour
    if dollars is None:
        return room
    if one.unpriced:
        return room if not used.unpriced and used.rate < dollars else 0
    if one.rate > ZERO:
        room = min(room, max(dollars.nanos - used.rate.nanos, 0) // one.rate.nanos)
    return room


def fits_never(limit: FleetLimit, one: InUse, count: int) -> bool:
    """Says whether so many VMs exceed a limit also where nothing else is in use."""
    return most_that_fit(limit, NOTHING, one, count) < count


def short_of(limit: FleetLimit, used: InUse, one: InUse, count: int) -> str:
    """Names the resource that is short: "vms", "gpus" or "dollars_per_hour"."""
    only: Mapping[str, FleetLimit] = {
        "gpus": FleetLimit(limit.name, limit.scope, gpus=limit.gpus),
        "vms": FleetLimit(limit.name, limit.scope, vms=limit.vms),
    }
    short = (name for name, part in only.items() if most_that_fit(part, used, one, count) < count)
    return next(short, "dollars_per_hour")
