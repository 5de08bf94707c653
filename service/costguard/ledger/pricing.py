"""Computes the cost of lifetimes and storage, to the nano-dollar.

Google's rules (cloud.google.com/compute/vm-instance-pricing and /spot-vms/pricing): "All vCPUs, GPUs, and GB of memory
are charged a minimum of 1 minute" a run, then by the second; local SSD, a charge for disks, by the second from the
first; a Spot VM preempted within a minute of its start is free; disks and the memory of suspended VMs bill per second
whether anything runs or not. A resource priced by the month (disks, local SSD, saved memory) costs its price in each
calendar month of US Pacific time, however long that is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from costguard.ledger.billed.machine_parts import BilledPart, parts_of_shape
from costguard.ledger.price_book import PriceBook, WholeDays
from costguard.model.instance import InstanceKind, ProvisioningModel, Shape, region_of
from costguard.model.lifetime import Charge, EndReason, Lifetime, StorageSpan
from costguard.model.managed.machines import UNKNOWN_TYPE, ManagedMachines
from costguard.model.money import Money, rounded
from costguard.model.price import EVERYWHERE, FEE, Price, PriceAge, PriceKey, costs_the_same_everywhere, is_address

MINIMUM = timedelta(seconds=60)
"""The least that a run is billed, and the time within which a preempted Spot VM is free."""

_DAY = timedelta(days=1)
_MOST_PARTS, _MOST_WHOLE_DAYS = 1000, 400  # whose whole days are kept, and how many: some tens of MB
_MOST_ROWS = 32  # of whole days in a row, which refer to the same charges
_SECOND = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_WHAT_TO_DO = (
    "it is priced once Google's catalogue was read and lists it. Leave `enabled` under [prices] on, and enable the "
    "Cloud Billing API (cloudbilling.googleapis.com)."
)
_OF_A_RESERVATION = (
    "Google's catalogue lists prices of reservations in calendar mode alone, and not all of them; what others cost is "
    "in their contract. See Google's bill for what it costs."
)


@dataclass(frozen=True, slots=True)
class Bill:
    """The charges, and in words the parts without a price ("" when all have one)."""

    charges: tuple[Charge, ...] = ()
    unpriced: str = ""

    @property
    def amount(self) -> Money:
        return Money(sum(charge.amount.nanos for charge in self.charges))


@dataclass(slots=True)
class _Gaps:
    """Collects what has no price, each thing once, in the order met."""

    keys: dict[str, None] = field(default_factory=dict)
    is_reserved: bool = False

    def add(self, key: PriceKey) -> None:
        self.keys[f"{key.resource} ({key.provisioning_model.in_words}) in {key.region}"] = None
        self.is_reserved = key.provisioning_model is ProvisioningModel.RESERVATION_BOUND

    def __str__(self) -> str:
        if not self.keys:
            return ""
        what_to_do = _OF_A_RESERVATION if self.is_reserved else _WHAT_TO_DO
        return f"No price is known for {', '.join(self.keys)}: {what_to_do}"


def billed_seconds(start: datetime, end: datetime) -> int:
    """Whole seconds of [start, end): any cut of a span adds up to the whole."""
    return (end - _EPOCH) // _SECOND - (start - _EPOCH) // _SECOND


def amount_of(price: Price, quantity: Fraction, seconds: int, at: datetime) -> Money:
    """Returns the amount of one charge, halves of a nano-dollar to even.

    `at`: any moment in the month that it belongs to.
    """
    nanos, in_seconds = price.nanos_in_seconds(at)
    return Money(rounded(nanos * seconds * quantity.numerator, in_seconds * quantity.denominator))


def bill_lifetime(lifetime: Lifetime, book: PriceBook, until: datetime, since: datetime | None = None) -> Bill:
    """The charges of a run within [since, until); a run that ended is never billed past its end.

    The one-minute minimum reaches past the end of a short run, so cut at midnights and bill up to an end,
    not between two moments inside the first minute.
    """
    if lifetime.ended_at is not None and _is_free(lifetime):
        return Bill()
    if not lifetime.shape.machine_type:
        return Bill((), "It came and went between two looks: nothing tells what it was made of, nor what it cost.")
    if not lifetime.shape.is_known and lifetime.key.kind.is_of_vertex:
        return Bill((), _managed_unknown(lifetime))
    if not lifetime.shape.is_known and lifetime.key.kind is InstanceKind.TPU_NODE:
        return Bill((), f"How many TPU chips of which kind {lifetime.shape.machine_type} has is not known.")
    if not lifetime.shape.is_known:
        return Bill(
            (),
            f"The machine type {lifetime.shape.machine_type} is not known in {lifetime.zone}: Google does not offer it "
            "there, or the service account may not read machine types (compute.machineTypes.get). "
            "The server's log says which.",
        )
    end = min(until, _billed_end(lifetime)) if lifetime.ended_at is not None else until
    region = region_of(lifetime.zone)
    keyed = [
        (part, _run_key(part.resource, region, lifetime.provisioning_model)) for part in parts_of_shape(lifetime.shape)
    ]
    exact = end if lifetime.ended_at is None else min(end, lifetime.ended_at)
    return _bill(keyed, book, _later(lifetime.started_at, since), end, exact)


def _managed_unknown(lifetime: Lifetime) -> str:
    machines = ManagedMachines.read(lifetime.shape.machine_type)
    if machines is None or machines.machine_type == UNKNOWN_TYPE:
        return (
            "Google chooses its machines and does not say which, as for AutoML models and automatic resources: see "
            "Google's bill for what it costs."
        )
    return (
        f"The vCPUs and memory of {machines.machine_type} are not known to Costguard: see Google's bill for what it "
        "costs."
    )


def bill_storage(span: StorageSpan, book: PriceBook, until: datetime, since: datetime | None = None) -> Bill:
    """The charges of a disk, a suspended VM's memory or external addresses, within [since, until)."""
    if span.resource is None:
        return Bill(
            (),
            f"What kind of storage {span.name} is, is not known: let the service account read disks and machine types "
            "(compute.disks.list, compute.machineTypes.get).",
        )
    end = until if span.ended_at is None else min(until, span.ended_at)
    key = _storage_key(span.resource, region_of(span.zone))
    return _bill(
        [(BilledPart(span.resource, Fraction(span.size_mib, 1024)), key)], book, _later(span.started_at, since), end
    )


def bill_span(span: Lifetime | StorageSpan, book: PriceBook, until: datetime, since: datetime | None = None) -> Bill:
    """The charges of either."""
    made: Callable[..., Bill] = bill_storage if isinstance(span, StorageSpan) else bill_lifetime
    return made(span, book, until, since)


def rate_per_hour(
    shape: Shape, region: str, provisioning_model: ProvisioningModel, book: PriceBook, at: datetime
) -> Money | None:
    """Returns the hourly cost of a running VM of this shape without its disks; None when any part has no price."""
    parts = parts_of_shape(shape)
    if not parts:
        return None
    return _rate([(part, _run_key(part.resource, region, provisioning_model)) for part in parts], book, at)


def price_age(
    shape: Shape, region: str, provisioning_model: ProvisioningModel, book: PriceBook, at: datetime
) -> PriceAge | None:
    """Returns the age of the prices behind `rate_per_hour`; None where none of them ships with Costguard."""
    return book.age([_run_key(part.resource, region, provisioning_model) for part in parts_of_shape(shape)], at)


def gpu_rate_per_hour(
    shape: Shape, region: str, provisioning_model: ProvisioningModel, book: PriceBook, at: datetime
) -> Money | None:
    """The part of the same that is billed as GPUs; None when a GPU has no price."""
    parts = [part for part in parts_of_shape(shape) if part.resource.startswith("gpu:")]
    return _rate([(part, _run_key(part.resource, region, provisioning_model)) for part in parts], book, at)


def storage_rate_per_hour(
    resource: str | None, size_mib: int, region: str, book: PriceBook, at: datetime
) -> Money | None:
    """Returns the hourly cost of storage in the month that `at` lies in; None when it has no price."""
    if resource is None:
        return None
    key = _storage_key(resource, region)
    return _rate([(BilledPart(resource, Fraction(size_mib, 1024)), key)], book, at)


def _run_key(resource: str, region: str, provisioning_model: ProvisioningModel) -> PriceKey:
    """A managed service's fee, and its boot disks, cost the same however the machine is bought."""
    if costs_the_same_everywhere(resource):
        return PriceKey(resource, EVERYWHERE, ProvisioningModel.STANDARD)
    return PriceKey(resource, region, ProvisioningModel.STANDARD if resource.endswith(FEE) else provisioning_model)


def _storage_key(resource: str, region: str) -> PriceKey:
    """Storage costs Spot VMs the same; an address of theirs is a resource of its own."""
    place = EVERYWHERE if is_address(resource) else region
    return PriceKey(resource, place, ProvisioningModel.STANDARD)


def _rate(keyed: Sequence[tuple[BilledPart, PriceKey]], book: PriceBook, at: datetime) -> Money | None:
    total = Fraction(0)
    for part, key in keyed:
        price = book.at(key, at)
        if price is None:
            return None
        total += price.nanos_per_second(at) * 3600 * part.quantity
    return Money(round(total))


def _bill(
    keyed: Sequence[tuple[BilledPart, PriceKey]],
    book: PriceBook,
    start: datetime,
    end: datetime,
    exact: datetime | None = None,
) -> Bill:
    """`exact`: up to when parts without a minimum are billed; None: up to `end`, as all others."""
    charges: list[Charge] = []
    gaps = _Gaps()
    if start >= end:
        return Bill()
    days = _days(start, end)
    exact_days = days if exact in (None, end) else _days(start, exact)
    for part, key in keyed:
        for begin, stop, are_whole in days if part.has_minimum else exact_days:
            made = (_whole_days if are_whole else _charges)(part, key, book, begin, stop)
            if made is None:
                gaps.add(key)
            else:
                charges += made
    return Bill(tuple(charges), str(gaps))


def _whole_days(
    part: BilledPart, key: PriceKey, book: PriceBook, first: datetime, last: datetime
) -> tuple[Charge, ...] | None:
    """Bills the days between two midnights; a whole day costs the same for all VMs with such a part.

    A year of a large fleet is a few such days, and most of its VMs have the same ones in a row.
    """
    question = (part.resource, part.quantity, key)
    kept = book.whole_days.get(question)
    if kept is None or len(kept.by_day) >= _MOST_WHOLE_DAYS:
        if len(book.whole_days) >= _MOST_PARTS:
            book.whole_days.clear()
        kept = book.whole_days[question] = WholeDays()
    in_a_row = kept.in_a_row.get((first, last))
    if in_a_row is not None:
        return in_a_row
    charges: list[Charge] = []
    for number in range((last - first) // _DAY):
        day = first + number * _DAY
        made = kept.by_day.get(day) or _charges(part, key, book, day, day + _DAY)
        if made is None:
            return None
        kept.by_day[day] = made
        charges += made
    if len(kept.in_a_row) >= _MOST_ROWS:
        kept.in_a_row.clear()
    in_a_row = kept.in_a_row[first, last] = tuple(charges)
    return in_a_row


def _charges(
    part: BilledPart, key: PriceKey, book: PriceBook, start: datetime, end: datetime
) -> tuple[Charge, ...] | None:
    charges: list[Charge] = []
    for price, piece_start, piece_end in book.pieces(key, start, end):
        if price is None:
            return None
        seconds = billed_seconds(piece_start, piece_end)
        amount = amount_of(price, part.quantity, seconds, piece_start)
        charges.append(
            Charge(part.resource, start.date(), piece_start, piece_end, seconds, part.quantity, price.id or 0, amount)
        )
    return tuple(charges)


def _days(start: datetime, end: datetime) -> list[tuple[datetime, datetime, bool]]:
    """Cuts a time at its first and last midnight, and says of each piece whether it is of whole days."""
    if start >= end:
        return []
    at, last = start.astimezone(UTC), _midnight(end.astimezone(UTC))
    first = _midnight(at)
    if first != at:
        first += _DAY
    if first > last:
        return [(at, end, False)]
    days = [] if first == at else [(at, first, False)]
    if first < last:
        days.append((first, last, True))
    if last < end:
        days.append((last, end, False))
    return days


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _billed_end(lifetime: Lifetime) -> datetime:
    assert lifetime.ended_at is not None
    return max(lifetime.ended_at, lifetime.started_at + MINIMUM)


def _is_free(lifetime: Lifetime) -> bool:
    assert lifetime.ended_at is not None
    return (
        lifetime.end_reason is EndReason.PREEMPTED
        and lifetime.provisioning_model is ProvisioningModel.SPOT
        and lifetime.ended_at - lifetime.started_at < MINIMUM
    )


def _later(moment: datetime, other: datetime | None) -> datetime:
    return moment if other is None else max(moment, other)
