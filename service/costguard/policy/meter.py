"""What many VMs of one kind ran up today, each since another moment: what `pricing` bills, a hundred times as fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TypeAlias

from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.price import PriceKey
from costguard.policy.price_book import PriceBook
from costguard.policy.pricing import BilledPart, parts_of_shape

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_INSTANT = timedelta(microseconds=1)

# From a second on until another one: so many nano-dollars in so many seconds.
_Piece: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Meter:
    """Made for the day that ends with `until`. Each part's pieces are as long as its price stays."""

    machine: tuple[tuple[_Piece, ...], ...]
    gpu: tuple[tuple[_Piece, ...], ...]
    until: int  # in seconds since 1970

    def run_up(self, since: Mapping[int, int]) -> tuple[int, int, int]:
        """Nano-dollars of machines (or storage) and of GPUs, and seconds: of so many from each second of the day on."""
        machine = sum([_amount(part, since) for part in self.machine])
        gpu = sum([_amount(part, since) for part in self.gpu])
        return machine, gpu, sum([max(0, self.until - begun) * many for begun, many in since.items()])


def second_of(moment: datetime) -> int:
    """The whole seconds since 1970: what is billed between two moments is the difference of theirs."""
    return (moment - _EPOCH) // _SECOND


def day_of(until: datetime) -> datetime:
    """The midnight before: meters made for `until` count from there on."""
    return (until - _INSTANT).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def meter_of_shape(
    shape: Shape, region: str, provisioning_model: ProvisioningModel, book: PriceBook, until: datetime
) -> Meter | None:
    """Of a VM that runs; None when not all of it has a price."""
    parts = parts_of_shape(shape)
    machine: list[tuple[_Piece, ...]] = []
    gpu: list[tuple[_Piece, ...]] = []
    for part in parts:
        pieces = _pieces(part, PriceKey(part.resource, region, provisioning_model), book, until)
        if pieces is None:
            return None
        (gpu if part.resource.startswith("gpu:") else machine).append(pieces)
    return Meter(tuple(machine), tuple(gpu), second_of(until)) if parts else None


def meter_of_storage(
    resource: str | None, size_mib: int, region: str, book: PriceBook, until: datetime
) -> Meter | None:
    """Of storage, as `machine`; None when it has no price."""
    if resource is None:
        return None
    part = BilledPart(resource, Fraction(size_mib, 1024))
    pieces = _pieces(part, PriceKey(resource, region, ProvisioningModel.STANDARD), book, until)
    return None if pieces is None else Meter((pieces,), (), second_of(until))


def _pieces(part: BilledPart, key: PriceKey, book: PriceBook, until: datetime) -> tuple[_Piece, ...] | None:
    pieces: list[_Piece] = []
    for price, start, end in book.pieces(key, day_of(until), until):
        if price is None:
            return None
        rate = Fraction(price.rate_nanos, price.unit.seconds) * part.quantity
        pieces.append((second_of(start), second_of(end), rate.numerator, rate.denominator))
    return tuple(pieces)


def _amount(pieces: Sequence[_Piece], since: Mapping[int, int]) -> int:
    """Each piece of each VM rounded, halves to even, as each charge is."""
    total = 0
    for start, end, nanos, seconds in pieces:
        for begun, many in since.items():
            if end > begun:
                whole, rest = divmod(nanos * (end - (begun if begun > start else start)), seconds)
                total += many * (whole + (2 * rest > seconds or (2 * rest == seconds and whole % 2 == 1)))
    return total
