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

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.lifetime import RunsOfAShape
from costguard.model.money import Money
from costguard.model.price import PriceKey
from costguard.policy.billed_parts import parts_of_shape
from costguard.policy.price_book import PriceBook

_Changes: TypeAlias = tuple[list[int], list[int]]  # moments, and which runs begin (even) or end (odd) then

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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


def estimate(on_demand: Iterable[RunsOfAShape], book: PriceBook, month: date, until: datetime) -> tuple[Estimate, ...]:
    """The discounts of the calendar month that `month` lies in, for use up to `until`; none that are zero.

    Months are taken in UTC, though Google bills by Pacific time: an estimate.
    """
    first = datetime(month.year, month.month, 1, tzinfo=UTC)
    after = datetime(month.year + month.month // 12, month.month % 12 + 1, 1, tzinfo=UTC)
    regions: dict[tuple[str, str], list[RunsOfAShape]] = defaultdict(list)
    for runs in on_demand:
        if _eligible(runs.shape):
            regions[runs.project, runs.zone.rsplit("-", 1)[0]].append(runs)
    found = []
    for (project, region), each in sorted(regions.items()):
        changes = _changes(each, _microseconds(first - _EPOCH), _microseconds(min(after, until) - _EPOCH))
        for resource in sorted({resource for runs in each for resource, _ in _eligible(runs.shape)}):
            heights = [dict(_eligible(runs.shape)).get(resource, 0) for runs in each]
            key = PriceKey(resource, region, ProvisioningModel.STANDARD)
            rates = _rates(book, key, first, after)
            discount = _discount(changes, heights, rates, _microseconds(after - first))
            if discount:
                found.append(Estimate(project, region, first.date(), resource, discount))
    return tuple(found)


def _changes(runs: Sequence[RunsOfAShape], first: int, last: int) -> _Changes:
    """Every beginning and end within [first, last), by the microseconds since `first`."""
    kinds = 2 * len(runs)
    # Moment and kind as one number: tens of thousands are sorted, and pairs take several times as long.
    numbers: list[int] = []
    for place, of in enumerate(runs):
        for begin, end in zip(of.begins, of.ends, strict=True):
            start, stop = max(begin, first), last if end is None or end > last else end
            if start < stop:
                numbers += ((start - first) * kinds + 2 * place, (stop - first) * kinds + 2 * place + 1)
    numbers.sort()
    return [number // kinds for number in numbers], [number % kinds for number in numbers]


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


def _discount(changes: _Changes, heights: Sequence[int], rates: Mapping[int, Fraction], month: int) -> Money:
    """What the use of one pool saved, each stretch of constant price at its own rate."""
    moments, kinds = changes
    steps = [step for height in heights for step in (height, -height)]
    total = Fraction(0)
    held: dict[int, int] = defaultdict(int)  # for how long so much was in use, no less and no more
    height = saved = last = place = 0
    for until, rate in sorted(rates.items()):
        through = bisect_right(moments, until)
        for moment, kind in zip(moments[place:through], kinds[place:through], strict=True):
            held[height] += moment - last
            height += steps[kind]
            last = moment
        held[height] += until - last
        place, last = through, until
        before, saved = saved, _saved(held, month)
        total += (saved - before) * rate
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
