"""What Google's sustained-use discounts will probably take off the bill: an estimate, never part of spend.

Google (cloud.google.com/compute/docs/sustained-use-discounts) discounts on-demand use beyond a quarter of the
calendar month. Of N1, its shared-core types among them, with up to 30 % off a whole month, each further quarter of
the month costs 100, 80, 60 and 40 % of the list price; N2, N2D and C2 get up to 20 % and are left out here, as are
sole tenants. GPUs count, except L4, A100 and H100. Never discounted: Spot VMs, E2, A2, A3 and G2.

Method: use is added up per project, region, month and resource, whatever the machine types ("inferred
instances"): at any moment the n-th vCPU in use belongs to the n-th inferred instance, so that one VM after
another makes one whole month. A sweep over starts and ends gives how long each height of use was held, and
from the top down these add up to how long each inferred instance was in use. What one saves depends on that
time alone, and not on when it was, as long as the price stays the same: so it is worked out once for each
price, as what was saved when that price ended less what was saved when it began. All in whole numbers. Google
counts per billing account, which Costguard does not know; per project errs on the low side. Committed use,
which Google takes off first, is not known either. Each second counts at the price that it cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime
from costguard.model.money import Money
from costguard.model.price import PriceKey
from costguard.policy.billed_parts import parts_of_shape
from costguard.policy.price_book import PriceBook

_PER_CENT_OFF = (0, 20, 40, 60)  # the list price, in each quarter of the month
_PARTS = 1024  # of a vCPU, a GPU or a GiB: memory comes in whole MiB, the others are whole
_NEVER = frozenset({"gpu:nvidia-l4", "gpu:nvidia-tesla-a100", "gpu:nvidia-a100-80gb"})
_N1 = frozenset({"n1:core", "n1:ram", "n1-custom:core", "n1-custom:ram", "f1-micro:whole", "g1-small:whole"})


@dataclass(frozen=True, slots=True)
class Estimate:
    """The discount that one project's use of one resource in one region earned in one month."""

    project: str
    region: str
    month: date  # its first day
    resource: str
    discount: Money


def estimate(lifetimes: Iterable[Lifetime], book: PriceBook, month: date, until: datetime) -> tuple[Estimate, ...]:
    """The discounts of the calendar month that `month` lies in, for use up to `until`; none that are zero.

    Months are taken in UTC, though Google bills by Pacific time: an estimate.
    """
    first = datetime(month.year, month.month, 1, tzinfo=UTC)
    after = datetime(month.year + month.month // 12, month.month % 12 + 1, 1, tzinfo=UTC)
    last = min(after, until)
    # By how much the use of each pool changes, at so many microseconds of the month.
    pools: dict[tuple[str, str, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for lifetime in lifetimes:
        start = max(first, lifetime.started_at)
        end = last if lifetime.ended_at is None else min(last, lifetime.ended_at)
        if lifetime.provisioning_model is not ProvisioningModel.STANDARD or start >= end:
            continue
        region = lifetime.zone.rsplit("-", 1)[0]
        begins, ends = _microseconds(start - first), _microseconds(end - first)
        for resource, height in _eligible(lifetime.shape):
            changes = pools[lifetime.key.project, region, resource]
            changes[begins] += height
            changes[ends] -= height
    found = []
    for (project, region, resource), changes in sorted(pools.items()):
        key = PriceKey(resource, region, ProvisioningModel.STANDARD)
        discount = _discount(changes, _rates(book, key, first, after), _microseconds(after - first))
        if discount:
            found.append(Estimate(project, region, first.date(), resource, discount))
    return tuple(found)


def is_eligible(resource: str, family: str) -> bool:
    """Whether use of this resource by an on-demand VM of this family earns the discount of up to 30 %."""
    if resource.startswith("gpu:"):
        return family == "n1" and resource not in _NEVER and "h100" not in resource
    return resource in _N1


@lru_cache(maxsize=4096)
def _eligible(shape: Shape) -> tuple[tuple[str, int], ...]:
    """The resources of this shape that earn the discount, and how much it has of each, in _PARTS."""
    parts = [part for part in parts_of_shape(shape) if is_eligible(part.resource, shape.family)]
    return tuple((part.resource, int(part.quantity * _PARTS)) for part in parts)


def _rates(book: PriceBook, key: PriceKey, first: datetime, after: datetime) -> dict[int, Fraction]:
    """Nano-dollars a second, by the microsecond of the month until which they hold; empty when there is no price."""
    return {
        _microseconds(end - first): price.nanos_per_second(start)
        for price, start, end in book.pieces(key, first, after)
        if price is not None and start < end
    }


def _discount(changes: Mapping[int, int], rates: Mapping[int, Fraction], month: int) -> Money:
    """What the use of one pool saved, each stretch of constant price at its own rate."""
    total = Fraction(0)
    held: dict[int, int] = defaultdict(int)  # for how long so much was in use, no less and no more
    height = saved = last = 0
    for moment in sorted({*changes, *rates}):
        held[height] += moment - last
        height += changes.get(moment, 0)
        last = moment
        if moment in rates:
            before, saved = saved, _saved(held, month)
            total += (saved - before) * rates[moment]
    return Money(round(total / (100 * _PARTS * 1_000_000)))


def _saved(held: Mapping[int, int], month: int) -> int:
    """What use up to such heights for so long saves: per cent of the list price, of _PARTS in microseconds."""
    saved = used = 0
    for height, below in pairwise((*sorted(held, reverse=True), 0)):
        used += held[height]  # all between `below` and this height was in use at this height, and at all above it
        saved += (height - below) * _saving(used, month // len(_PER_CENT_OFF))
    return saved


def _saving(used: int, quarter: int) -> int:
    """Of each quarter of the month its own share, as far as it was used."""
    return sum(
        min(max(used - quarter * number, 0), quarter) * per_cent for number, per_cent in enumerate(_PER_CENT_OFF)
    )


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
