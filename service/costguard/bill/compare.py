"""Compares a day of the ledger with the bill, for each resource of each VM and for each disk. Pure.

What may differ without an error is taken from recorded bills: a row's cost lies up to two millionths below its exact
product; GPU and host seconds of a project differ by up to half a percent; a disk's hours are ragged, so disks are
compared by the day. Nothing is corrected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import TypeVar

from costguard.bill import vertex
from costguard.bill.commitments import is_fee, names_use, offset_nanos, saved_nanos
from costguard.bill.lines import (
    BilledThing,
    BillLine,
    BillStanding,
    BillState,
    DayComparison,
    LedgerUse,
    OutsideKey,
    Reason,
    Savings,
)
from costguard.bill.sums import BillSum, RateKey, SkuNames, SoldAs, used_of, usual_rate_of, usual_rates
from costguard.model.billing.bill import COMPUTE_ENGINE, BilledKind, BillRow, CostType

_SECONDS = 1
_SHARE = Fraction(1, 1000)
_GPU_AND_HOST = Fraction(1, 200)
_DISK_SECONDS = 900
"""V-disk: more GiB-seconds in an hour than 50 GiB have. Such an hour leaks into the next, at both ends of a day."""
_MOST_SUSTAINED = Fraction(3, 5)
"""The last quarter of a month costs 40 % of the base price at most discounted
(cloud.google.com/compute/docs/sustained-use-discounts)."""

_Any = TypeVar("_Any")
_Key = tuple[BilledThing, str]
_STANDING_REASONS = {
    BillStanding.OPEN: Reason.STILL_TO_COME,
    BillStanding.BEFORE_EXPORT: Reason.BEFORE_EXPORT,
    BillStanding.NO_EXPORT: Reason.NO_EXPORT,
    BillStanding.BEFORE_WATCH: Reason.BEFORE_WATCH,
}


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a comparison besides both sides: SKUs, how far each project's bill was read, what is watched."""

    skus: SkuNames
    standing: Callable[[str], BillStanding]
    watched: Callable[[str], bool]
    gpu_only: bool = False  # whether VMs without a GPU are not in the ledger, as the settings may say
    unpriced: Collection[BilledThing] = frozenset()  # of which the ledger charges nothing, or not all
    rates: Mapping[RateKey, Fraction] | None = None  # the usual ones; None: those of the rows given


def compare_day(day: date, uses: Iterable[LedgerUse], rows: Iterable[BillRow], context: Context) -> DayComparison:
    """Every line of the UTC day, the largest difference first."""
    of_day = [row for row in rows if row.utc_day == day]
    rates = context.rates if context.rates is not None else usual_rates(of_day)
    sides = _Sides({(use.thing, use.resource): use for use in vertex.pooled(uses)})
    for row in of_day:
        sides.add(row, context.skus, rates)
    lines = [_line(day, pair, sides, context) for pair in _paired(sides)]
    lines = _with_host_seconds(lines)
    lines.sort(key=lambda line: (-abs(line.difference), line.thing, line.resource))
    return DayComparison(
        day,
        tuple(lines),
        outside=_whole(sides.outside),
        unused_reservations=_whole(sides.reservations),
        offsets=_whole(sides.offsets),
        saved_outside=_whole(sides.saved_outside),
    )


class _Sides:
    """Both sides of a day, by thing and resource."""

    def __init__(self, uses: dict[_Key, LedgerUse]) -> None:
        self.uses = uses
        self.billed: dict[_Key, BillSum] = {}
        self.outside: dict[OutsideKey, Fraction] = defaultdict(Fraction)
        self.reservations: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        self.offsets: dict[OutsideKey, Fraction] = defaultdict(Fraction)
        self.saved_outside: dict[str, Fraction] = defaultdict(Fraction)
        self.vms: dict[str, BilledThing] = {}
        self._disks: dict[str, BilledThing] = {}  # by id, or by name where the ledger has none: no name is a number
        self._names: dict[tuple[str, str], set[str]] = defaultdict(set)
        for (thing, _), use in uses.items():
            if thing.kind is BilledKind.INSTANCE:
                self.vms[thing.id] = thing
                self._names[thing.project, use.vm_name].add(thing.id)
            elif thing.kind is BilledKind.DISK:
                self._disks[thing.id] = thing

    def add(self, row: BillRow, skus: SkuNames, rates: Mapping[RateKey, Fraction]) -> None:
        effective = Fraction(row.effective_nanos) / Fraction(row.rate)
        if row.is_unused_reservation or row.kind is BilledKind.RESERVATION:
            self.reservations[row.project_id, row.reservation_name or row.resource_name or row.resource_id] += effective
            return
        sold = skus(row.sku_id, row.sku_text)
        used = used_of(row)
        thing = self._thing(row) or self._of_vertex(row, sold)
        is_use = row.cost_type in (CostType.REGULAR, CostType.ADJUSTMENT)
        if sold is None or used is None or thing is None or not is_use:
            key = OutsideKey(row.project_id, row.sku_id, _words(row), is_fee(row))
            self.outside[key] += effective
            if key.is_fee and names_use(row):
                self.offsets[key] += Fraction(offset_nanos(row)) / Fraction(row.rate)
            elif row.service_id in ("", COMPUTE_ENGINE) and (saved := saved_nanos(row)):
                self.saved_outside[row.project_id] += saved
            return
        self.billed.setdefault((thing, sold.resource), BillSum()).add(row, sold, used, usual_rate_of(row, rates))

    def _of_vertex(self, row: BillRow, sold: SoldAs | None) -> BilledThing | None:
        """Returns the project's Vertex AI for a row of it that the ledger has charges to compare with; else None."""
        thing = vertex.thing_of(row.project_id)
        is_charged = sold is not None and (thing, sold.resource) in self.uses
        return thing if is_charged and vertex.is_row(row) else None

    def has_gpu(self, thing: BilledThing) -> bool:
        """Says whether the bill has a GPU of this VM."""
        return any(other == thing and resource.startswith("gpu:") for other, resource in self.billed)

    def _thing(self, row: BillRow) -> BilledThing | None:
        """Returns the resource as the ledger would hold it; None for a row without a resource, or of another
        service.
        """
        if row.kind is BilledKind.INSTANCE:
            gce_id = row.resource_id
            if not gce_id:
                named = self._names.get((row.project_id, row.resource_name), set())
                gce_id = next(iter(named)) if len(named) == 1 else ""
            vm = self.vms.get(gce_id)
            if vm is None and row.product:
                return None
            return vm or BilledThing(BilledKind.INSTANCE, row.project_id, gce_id or row.resource_name)
        if row.kind is BilledKind.DISK:
            if row.resource_id in self._disks:
                return self._disks[row.resource_id]
            by_name = row.resource_name in self._disks or not row.resource_id
            identity = row.resource_name if by_name else row.resource_id
            return BilledThing(BilledKind.DISK, row.project_id, identity)
        return None


def _words(row: BillRow) -> str:
    if row.cost_type not in (CostType.REGULAR, CostType.ADJUSTMENT):
        return row.sku_text or row.cost_type.value
    return f"{row.sku_text} ({row.product})" if row.product else row.sku_text


@dataclass(frozen=True, slots=True)
class _Pair:
    """Both sides of a line; `resource` is the ledger's, or the bill's where the ledger has none."""

    thing: BilledThing
    resource: str
    use: LedgerUse | None
    billed: BillSum | None
    is_other_sku: bool = False


def _paired(sides: _Sides) -> list[_Pair]:
    """Each line once. Those of one VM or disk that stand alone on both sides are put together."""
    pairs: list[_Pair] = []
    alone: dict[_Key, LedgerUse] = {}
    by_id: dict[str, list[_Key]] = defaultdict(list)
    for key, use in sides.uses.items():
        billed = sides.billed.pop(key, None)
        if billed is None:
            alone[key] = use
            by_id[key[0].id].append(key)
        else:
            pairs.append(_Pair(*key, use, billed))
    for key, billed in sides.billed.items():
        other = _counterpart(key, billed, {one: alone[one] for one in by_id[key[0].id] if one in alone})
        if other is None:
            pairs.append(_Pair(*key, None, billed))
        else:
            pairs.append(_Pair(*other, alone.pop(other), billed, is_other_sku=other[1] != key[1]))
    return pairs + [_Pair(*key, use, None) for key, use in alone.items()]


def _counterpart(key: _Key, billed: BillSum, alone: Mapping[_Key, LedgerUse]) -> _Key | None:
    """The ledger's line that was billed under another SKU of the same part, or to another project."""
    thing, resource = key
    for other, use in alone.items():
        if other[0] == thing and _part(other[1]) == _part(resource):
            return other
        is_moved = thing.kind is BilledKind.DISK and other[0].kind is BilledKind.DISK and other[0].id == thing.id
        if is_moved and other[1] == resource and billed.zone in ("", use.zone):
            return other
    return None


def _part(resource: str) -> str:
    return resource.partition(":")[0] if resource.startswith(("gpu:", "disk:")) else resource.rpartition(":")[2]


def _line(day: date, pair: _Pair, sides: _Sides, context: Context) -> BillLine:
    thing, use, billed = pair.thing, pair.use, pair.billed
    standing = context.standing(thing.project if use is not None or billed is None else billed.project)
    reason, expected = _finding(pair, sides, context)
    state = BillState.DIFFERS if reason else BillState.AGREED
    if standing is not BillStanding.CLOSED:
        state, reason = BillState.OPEN, _STANDING_REASONS[standing]
    is_vm = thing.kind is BilledKind.INSTANCE
    name = use.name if use else _name(thing, billed)
    return BillLine(
        day=day,
        thing=thing,
        name=name,
        gce_id=use.gce_id if use else thing.id if is_vm else "",
        vm_name=use.vm_name if use else name if is_vm else "",
        zone=use.zone if use else billed.zone if billed else "",
        resource=pair.resource,
        sku_ids=tuple(sorted(billed.sku_ids)) if billed else (),
        state=state,
        reason=reason,
        ledger_used=use.used if use else Fraction(0),
        billed_used=billed.used if billed else Fraction(0),
        ledger_nanos=use.nanos if use else None,
        list_nanos=billed.list_nanos if billed else None,
        effective_nanos=billed.effective_nanos if billed else None,
        savings=billed.savings if billed else Savings(),
        shares=use.shares if use else (),
        bill_project=billed.other_project(thing.project) if billed else "",
        seconds=use.seconds if use else 0,
        billed_model=next(iter(billed.models)) if billed and len(billed.models) == 1 else "",
        expected_nanos=expected,
    )


def _name(thing: BilledThing, billed: BillSum | None) -> str:
    return (billed.name if billed else "") or thing.id


def _finding(pair: _Pair, sides: _Sides, context: Context) -> tuple[Reason, int | None]:
    """Returns the reason why the line differs, and the ledger's price of the billed usage.

    Usage of Vertex AI that the ledger does not hold, such as a batch prediction, is billed by the same SKUs: a
    difference of its sums is no error of either side.
    """
    thing, use, billed = pair.thing, pair.use, pair.billed
    if vertex.is_thing(thing):
        return _of_vertex(pair)
    if billed is None:
        assert use is not None
        return (Reason.MISSING if use.used and use.nanos else Reason.NONE), None
    if use is None:
        return _unknown(thing, billed, sides, context), None
    expected = Fraction(use.nanos) * billed.used / use.used if use.used else Fraction(0)
    if thing in context.unpriced and not use.nanos:
        return Reason.UNPRICED, None
    if pair.is_other_sku:
        return Reason.OTHER_SKU, round(expected)
    return _difference(thing, use, billed, expected), round(expected)


def _of_vertex(pair: _Pair) -> tuple[Reason, int | None]:
    use, billed = pair.use, pair.billed
    if use is None or billed is None or not use.used:
        return (Reason.VERTEX if use is None or use.nanos else Reason.NONE), None
    expected = Fraction(use.nanos) * billed.used / use.used
    return (Reason.VERTEX if _difference(pair.thing, use, billed, expected) else Reason.NONE), round(expected)


def _unknown(thing: BilledThing, billed: BillSum, sides: _Sides, context: Context) -> Reason:
    if not context.watched(billed.project):
        return Reason.NOT_WATCHED
    if not billed.used and abs(billed.list) <= billed.below:
        return Reason.NONE
    if thing in context.unpriced:
        return Reason.UNPRICED
    if thing.kind is BilledKind.DISK:
        return Reason.UNKNOWN_DISK
    if sides.vms.get(thing.id) == thing:
        return Reason.UNKNOWN_PART
    if context.gpu_only and not sides.has_gpu(thing):
        return Reason.NOT_WATCHED
    return Reason.UNKNOWN_VM


def _difference(thing: BilledThing, use: LedgerUse, billed: BillSum, expected: Fraction) -> Reason:
    if billed.other_project(thing.project) != thing.project:
        return Reason.OTHER_PROJECT
    if quantity := _quantity(thing, use, billed):
        return quantity
    if not _fits(billed.list, expected, billed):
        if billed.usual_list != billed.list and _fits(billed.usual_list, expected, billed):
            return Reason.CURRENCY_RATE
        return Reason.PRICE
    if -billed.credits > billed.cost + billed.below or billed.sustained > billed.cost * _MOST_SUSTAINED + billed.below:
        return Reason.CREDIT
    return Reason.NONE


def _quantity(thing: BilledThing, use: LedgerUse, billed: BillSum) -> Reason:
    unit = use.used / use.seconds if use.seconds else Fraction(1)
    over = billed.used - use.used
    if abs(over) <= _SECONDS * unit + _SHARE * use.used:
        return Reason.NONE
    if billed.repeated and over > 0:
        return Reason.REPEATED
    if thing.kind is BilledKind.DISK:
        if use.holders > 1 and over < 0:
            return Reason.SHARED_DISK
        if abs(over) <= _DISK_SECONDS * unit / use.holders and not billed.repeated:
            return Reason.DISK_HOURS
    return Reason.MORE if over > 0 else Reason.LESS


def _fits(at_list: Fraction, expected: Fraction, billed: BillSum) -> bool:
    """Says whether it is the ledger's price of the billed usage, as Google cuts rows and prices. Nanos are rounded."""
    return -billed.below - 2 <= at_list - expected <= billed.above + 2


def _with_host_seconds(lines: Sequence[BillLine]) -> list[BillLine]:
    """A GPU that differs from its host by less than half a percent is as recorded bills have it (G-vx)."""
    agreed: dict[BilledThing, set[str]] = defaultdict(set)
    for line in lines:
        if line.state is BillState.AGREED and line.thing.kind is BilledKind.INSTANCE and line.ledger_nanos is not None:
            agreed[line.thing].add(line.resource)
    return [_host_line(line, agreed.get(line.thing, set())) for line in lines]


def _host_line(line: BillLine, agreed: set[str]) -> BillLine:
    if line.reason not in (Reason.MORE, Reason.LESS) or line.thing.kind is not BilledKind.INSTANCE or not agreed:
        return line
    is_other_kind = any(resource.startswith("gpu:") != line.resource.startswith("gpu:") for resource in agreed)
    is_small = abs(line.billed_used - line.ledger_used) <= _GPU_AND_HOST * line.ledger_used
    return replace(line, reason=Reason.GPU_AND_HOST) if is_other_kind and is_small else line


def _whole(sums: Mapping[_Any, Fraction]) -> dict[_Any, int]:
    return {key: round(nanos) for key, nanos in sums.items()}
