"""What Google's sustained-use discounts will probably take off the bill: an estimate, never part of spend.

Google (cloud.google.com/compute/docs/sustained-use-discounts) discounts on-demand use beyond a quarter of the
calendar month. Of N1, with up to 30 % off a whole month, each further quarter of the month costs 100, 80, 60
and 40 % of the list price; N2, N2D and C2 get up to 20 % and are left out here, as are sole tenants. GPUs
count, except L4, A100 and H100. Never discounted: Spot VMs, E2, A2, A3 and G2.

Method: use is added up per project, region, month and resource, whatever the machine types ("inferred
instances"): at any moment the n-th vCPU in use belongs to the n-th inferred instance, so that one VM after
another makes one whole month. A sweep over starts and ends gives how long each level was in use. Google
counts per billing account, which Costguard does not know; per project errs on the low side. Committed use,
which Google takes off first, is not known either. Each second counts at the price that it cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Lifetime
from costguard.model.money import Money
from costguard.model.price import PriceKey
from costguard.policy.price_book import PriceBook
from costguard.policy.pricing import parts_of_shape

# What each quarter of the month costs, of the list price.
QUARTERS = (Fraction(1), Fraction(4, 5), Fraction(3, 5), Fraction(2, 5))
_NEVER = frozenset({"gpu:nvidia-l4", "gpu:nvidia-tesla-a100", "gpu:nvidia-a100-80gb"})
_N1 = frozenset({"n1:core", "n1:ram", "n1-custom:core", "n1-custom:ram"})


@dataclass(frozen=True, slots=True)
class Estimate:
    """The discount that one project's use of one resource in one region earned in one month."""

    project: str
    region: str
    month: date  # its first day
    resource: str
    discount: Money


@dataclass(frozen=True, slots=True)
class _Use:
    start: datetime
    end: datetime
    quantity: Fraction


def estimate(lifetimes: Iterable[Lifetime], book: PriceBook, month: date, until: datetime) -> tuple[Estimate, ...]:
    """The discounts of the calendar month that `month` lies in, for use up to `until`; none that are zero.

    Months are taken in UTC, though Google bills by Pacific time: an estimate.
    """
    first = datetime(month.year, month.month, 1, tzinfo=UTC)
    after = datetime(month.year + month.month // 12, month.month % 12 + 1, 1, tzinfo=UTC)
    pools: dict[tuple[str, str, str], list[_Use]] = defaultdict(list)
    for lifetime in lifetimes:
        start = max(first, lifetime.started_at)
        end = min(after, until, lifetime.ended_at or until)
        if lifetime.provisioning_model is ProvisioningModel.SPOT or start >= end:
            continue
        region = lifetime.zone.rsplit("-", 1)[0]
        for part in parts_of_shape(lifetime.shape):
            if is_eligible(part.resource, lifetime.shape.family):
                pools[lifetime.key.project, region, part.resource].append(_Use(start, end, part.quantity))
    found = []
    for (project, region, resource), uses in sorted(pools.items()):
        key = PriceKey(resource, region, ProvisioningModel.STANDARD)
        discount = _discount(uses, book, key, _seconds(after - first))
        if discount:
            found.append(Estimate(project, region, first.date(), resource, discount))
    return tuple(found)


def is_eligible(resource: str, family: str) -> bool:
    """Whether use of this resource by an on-demand VM of this family earns the discount of up to 30 %."""
    if resource.startswith("gpu:"):
        return family == "n1" and resource not in _NEVER and "h100" not in resource
    return resource in _N1


def _discount(uses: Sequence[_Use], book: PriceBook, key: PriceKey, month: Fraction) -> Money:
    """Walk up each level of use through the quarters of the month."""
    used: list[_Level] = []
    total = Fraction(0)
    for start, end, height in _steps(uses):
        for price, piece_start, piece_end in book.pieces(key, start, end):
            if price is None:
                continue
            seconds = _seconds(piece_end - piece_start)
            rate = Fraction(price.rate_nanos, price.unit.seconds)
            used, saved = _climb(used, height, seconds, month)
            total += saved * rate
    return Money(round(total))


@dataclass(frozen=True, slots=True)
class _Level:
    """The slice of use between two heights, and for how many seconds of the month it was in use."""

    top: Fraction
    seconds: Fraction


def _climb(
    levels: Sequence[_Level], height: Fraction, seconds: Fraction, month: Fraction
) -> tuple[list[_Level], Fraction]:
    """All levels up to `height` are in use for some more seconds; what that saves, in list-price seconds.

    Levels are ordered by height, and a lower one was never in use for less time than a higher one.
    """
    saved = Fraction(0)
    grown: list[_Level] = []
    bottom = Fraction(0)
    for level in (*levels, _Level(max(height, levels[-1].top if levels else height), Fraction(0))):
        lower = min(level.top, height)
        if lower > bottom:
            more = level.seconds + seconds
            saved += (lower - bottom) * (_saving(more, month) - _saving(level.seconds, month))
            _put(grown, _Level(lower, more))
        if level.top > max(bottom, height):
            _put(grown, level)
        bottom = max(bottom, level.top)
    return grown, saved


def _put(levels: list[_Level], level: _Level) -> None:
    """On top of the others, as one with the last when both were in use as long."""
    if levels and levels[-1].seconds == level.seconds:
        levels.pop()
    levels.append(level)


def _saving(seconds: Fraction, month: Fraction) -> Fraction:
    """How many list-price seconds a level saves that was in use for so long."""
    quarter = month / len(QUARTERS)
    return sum(
        (
            min(max(seconds - quarter * number, Fraction(0)), quarter) * (1 - share)
            for number, share in enumerate(QUARTERS)
        ),
        Fraction(0),
    )


def _steps(uses: Iterable[_Use]) -> Iterator[tuple[datetime, datetime, Fraction]]:
    """Stretches of time over which the sum of what is in use stays the same."""
    changes: dict[datetime, Fraction] = defaultdict(Fraction)
    for use in uses:
        changes[use.start] += use.quantity
        changes[use.end] -= use.quantity
    height = Fraction(0)
    last: datetime | None = None
    for moment in sorted(changes):
        if last is not None and height > 0:
            yield last, moment, height
        height += changes[moment]
        last = moment


def _seconds(span: timedelta) -> Fraction:
    return Fraction(span // timedelta(microseconds=1), 1_000_000)
