"""Advises what to commit to, from the hours of use. Pure.

A commitment is paid in every hour, and takes its discount off the use of that hour up to its level. Raising the level
by one costs (1 - discount) in all hours and saves one in each hour whose use is higher. So the best level is exceeded
in a share (1 - discount) of the hours: exactly, whatever the use looks like, as the cost is convex in the level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from costguard.ledger.billed.machine_parts import resource_words
from costguard.model.money import Money
from costguard.model.price import HOURS_A_MONTH, TERMS, committed

LEAST_DAYS = 30
"""The fewest days that advice may rest on: a commitment binds for a year."""
FALL = Fraction(1, 5)
"""The fall of use that the risk is given for."""
SCALE = 1024
"""Use is counted in 1024ths of a unit, for a second: shares of vCPUs and MiB of memory are whole numbers of these."""
ALL = "all"
_HOUR = SCALE * 3600  # a unit for an hour
_CENT = 10_000_000  # nano-dollars: a commitment to spend is bought in cents an hour


class CommitmentKind(StrEnum):
    FLEXIBLE = "flexible"  # to spend so much an hour, in any region and family that it covers
    RESOURCES = "resources"  # to so many units of one resource of a family, in one region


# What Google's flexible commitments take off, for one year and for three, by its price page in October 2026. G2 and G4
# are covered with their GPUs since August 2026. Families that are left out have none, or none that is known here.
_HPC_FAMILIES = ("h3", "h4d")
_HPC_TOGETHER = "h3 and h4d"
_USUAL = {1: Fraction(28, 100), 3: Fraction(46, 100)}
_HPC = {1: Fraction(17, 100), 3: Fraction(38, 100)}
FLEXIBLE: Mapping[str, Mapping[int, Fraction]] = {
    **dict.fromkeys(("c2", "c2d", "c3", "c3d", "c4", "c4a", "c4d", "e2", "n1", "n2", "n2d", "n4", "g2", "g4"), _USUAL),
    **dict.fromkeys(_HPC_FAMILIES, _HPC),
}
_WITH_GPUS = frozenset({"g2", "g4"})
UNSURE = frozenset({"n1", "c3"})
"""Families of which public texts disagree whether flexible commitments cover them: unknown, and said so."""


class UseKey(NamedTuple):
    """A billed resource such as `n2:core`, of VMs of one machine family in one region."""

    family: str
    region: str
    resource: str

    @property
    def what(self) -> str:
        """`A100 GPU in us-central1`"""
        return f"{resource_words(self.resource)} in {self.region}"


@dataclass(frozen=True, slots=True)
class Use:
    """On-demand use by the hour: `series` has 1024ths of a unit, times seconds, for each of the `hours`.

    `prices` are nano-dollars an hour of a unit, by (resource, region), of use and of commitments.
    """

    hours: int
    series: Mapping[UseKey, Sequence[int]]
    prices: Mapping[tuple[str, str], Fraction]
    bought_flexible: int = 0  # nano-dollars an hour of use at list price that flexible commitments cover
    bought: Mapping[tuple[str, str], Fraction] | None = None  # units, by (resource, region); None: no bill is read


@dataclass(frozen=True, slots=True)
class CommitmentAdvice:
    """A level to commit to in addition to what is bought, what it would have saved, and its risk.

    `level` is in `unit`s: dollars an hour of use at list price, vCPUs, GiB or GPUs. Money is a month's, except `fee`,
    which is an hour's. `after_fall` is what it saves if use falls by a fifth: below zero, what it loses.
    """

    kind: CommitmentKind
    years: int
    family: str
    region: str
    resource: str
    discount: Fraction
    level: Fraction
    fee: Money
    use: Money
    saved: Money
    after_fall: Money
    exceeded: Fraction  # the share of the hours whose use is higher
    covered: Fraction | None = None  # the share of such use that commitments cover already, by the bill; None: unknown

    @property
    def what(self) -> str:
        """`flexible, N2`, `A100 GPU`"""
        if self.kind is CommitmentKind.RESOURCES:
            return resource_words(self.resource)
        return f"flexible, {'all that it covers' if self.family == ALL else self.family.upper()}"

    @property
    def unit(self) -> str:
        part = self.resource.rpartition(":")[2]
        return {"": "dollars an hour", "core": "vCPUs", "ram": "GiB"}.get(part, "GPUs or TPU chips")

    @property
    def level_text(self) -> str:
        """`$1.84/h`, `24 vCPUs`"""
        if self.kind is CommitmentKind.FLEXIBLE:
            return f"{Money(round(self.level * 10**9))}/h"
        return f"{int(self.level):,} {self.unit}"

    @property
    def after_fall_text(self) -> str:
        """`If use falls by 20 %, it loses $21.90 a month.`"""
        then = "loses" if self.after_fall.nanos < 0 else "still saves"
        return f"If use falls by {int(FALL * 100)} %, it {then} {Money(abs(self.after_fall.nanos))} a month."


def level_of(series: Sequence[int], discount: Fraction) -> int:
    """The level of least cost: the lowest that is exceeded in no more than a share (1 - discount) of the hours."""
    return sorted(series, reverse=True)[int((1 - discount) * len(series))] if series and discount > 0 else 0


def saving(series: Sequence[int], level: int, discount: Fraction) -> Fraction:
    """Returns what a commitment at this level saves over the series, in its unit; below zero where it costs more."""
    return sum(min(use, level) for use in series) - level * (1 - discount) * len(series)


def advise(use: Use) -> list[CommitmentAdvice]:
    """Returns what pays, the largest saving first; of one term and kind, all families together before each alone.

    Flexible commitments and those to resources are alternatives: both discounts are never given on the same use.
    """
    advice = [one for one in (*_flexible(use), *_resources(use)) if one.level > 0 and one.saved.nanos > 0]
    return sorted(advice, key=lambda one: (-one.saved.nanos, one.kind, one.years, one.family, one.region, one.resource))


def unknown_prices(use: Use) -> list[UseKey]:
    """The resources in use of which no commitment's price is known, so that nothing can be said of one to them."""
    return sorted(
        key
        for key in use.series
        if not any((committed(key.resource, years), key.region) in use.prices for years in TERMS)
    )


def _flexible(use: Use) -> Iterable[CommitmentAdvice]:
    spend: dict[tuple[str, str], list[int]] = {}
    for key, series in use.series.items():
        if is_covered(key) and (price := use.prices.get((key.resource, key.region))) is not None:
            dollars = [int(amount * price / _HOUR) for amount in series]
            before = spend.get((key.family, key.region))
            spend[key.family, key.region] = dollars if before is None else _sum(before, dollars)
    for discounts in (_USUAL, _HPC):
        mine = {place: series for place, series in spend.items() if FLEXIBLE[place[0]] is discounts}
        if len(mine) > 1:
            families = ALL if discounts is _USUAL else _HPC_TOGETHER
            whole = [sum(hour) for hour in zip(*mine.values(), strict=True)]
            mine = {(families, ALL): whole, **mine}
        for (family, region), series in mine.items():
            is_all = region == ALL or len(mine) == 1
            bought = use.bought_flexible if is_all and discounts is _USUAL else 0
            for years, discount in discounts.items():
                place = CommitmentKind.FLEXIBLE, years, family, region, ""
                yield _advice(place, discount, series, Fraction(1), _CENT, bought)


def _resources(use: Use) -> Iterable[CommitmentAdvice]:
    for key, series in use.series.items():
        price = use.prices.get((key.resource, key.region))
        for years in TERMS:
            promised = use.prices.get((committed(key.resource, years), key.region))
            if price is None or promised is None or not 0 < promised < price:
                continue
            bought = int((use.bought or {}).get((key.resource, key.region), 0) * _HOUR)
            place = CommitmentKind.RESOURCES, years, *key
            yield _advice(place, 1 - promised / price, series, price / _HOUR, _HOUR, bought)


def flexible_families(family: str) -> frozenset[str]:
    """Returns the machine families that a flexible commitment advised by this name is for."""
    if family == ALL:
        return frozenset(one for one, discounts in FLEXIBLE.items() if discounts is _USUAL)
    return frozenset(_HPC_FAMILIES if family == _HPC_TOGETHER else (family,))


def covers_gpus(family: str) -> bool:
    """Says whether flexible commitments cover the family's GPUs, too."""
    return family in _WITH_GPUS


def is_covered(key: UseKey) -> bool:
    """Says whether a flexible commitment covers it: vCPUs, memory and local SSD of its families, and some GPUs."""
    is_whole = key.resource.startswith("gpu:") or key.resource.endswith(":whole")  # f1-micro and g1-small have none
    return key.family in FLEXIBLE and (key.family in _WITH_GPUS or not is_whole)


def _advice(
    place: tuple[CommitmentKind, int, str, str, str],
    discount: Fraction,
    series: Sequence[int],
    worth: Fraction,
    step: int,
    bought: int,
) -> CommitmentAdvice:
    """`worth`: nano-dollars of one of the series' units; `step`: in how many of these units commitments are sold;
    `bought`: how many are committed to already.
    """
    rest = [max(0, amount - bought) for amount in series]
    best = level_of(rest, discount)
    below = best // step * step
    level = max((below, below + step if best % step else below), key=lambda one: saving(rest, one, discount))
    fallen = [max(0, int(amount * (1 - FALL)) - bought) for amount in series]
    hours = max(1, len(series))
    month = worth * HOURS_A_MONTH / hours
    kind, years, family, region, resource = place
    unit = 10**9 if kind is CommitmentKind.FLEXIBLE else _HOUR
    return CommitmentAdvice(
        kind=kind,
        years=years,
        family=family,
        region=region,
        resource=resource,
        discount=discount,
        level=Fraction(level, unit),
        fee=Money(round(level * (1 - discount) * worth)),
        use=Money(round(sum(series) * month)),
        saved=Money(round(saving(rest, level, discount) * month)),
        after_fall=Money(round(saving(fallen, level, discount) * month)),
        exceeded=Fraction(sum(amount > level for amount in rest), hours),
    )


def _sum(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [first + second for first, second in zip(one, other, strict=True)]
