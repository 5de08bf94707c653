"""What many VMs of one kind ran up today, each since another moment: what `pricing` bills, a hundred times as fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from costguard.ledger.billed_parts import BilledPart, parts_of_shape
from costguard.ledger.price_book import PriceBook
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.price import PriceKey

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_INSTANT = timedelta(microseconds=1)


class _Piece(NamedTuple):
    """While a second costs the same: from a second on until another, so many nano-dollars in so many seconds."""

    start: int
    end: int
    nanos: int
    seconds: int
    price_id: int
    quantity: Fraction


class Begun:
    """VMs of one kind, counted by the second of the day that each is metered from."""

    def __init__(self, counts: Mapping[int, int]) -> None:
        self.counts = counts
        self.many = sum(counts.values())
        self.first, self.last = min(counts), max(counts)
        self.seconds = sum([second * many for second, many in counts.items()])
        self._by_rest: dict[int, list[tuple[int, int]]] = {}

    def by_rest(self, divisor: int) -> list[tuple[int, int]]:
        """How many leave which rest: worked out once, as what began stays and only the present moves on."""
        found = self._by_rest.get(divisor)
        if found is None:
            rests: Counter[int] = Counter()
            for second, many in self.counts.items():
                rests[second % divisor] += many
            found = self._by_rest[divisor] = list(rests.items())
        return found


@dataclass(frozen=True, slots=True)
class Meter:
    """Made for the day that ends with `until`. Each part's pieces are as long as what a second of it costs stays."""

    machine: tuple[tuple[_Piece, ...], ...]
    gpu: tuple[tuple[_Piece, ...], ...]
    until: int  # in seconds since 1970

    def run_up(self, begun: Begun) -> tuple[int, int, int]:
        """Nano-dollars of machines (or storage) and of GPUs, and seconds, of all that began on this day."""
        machine = sum([_amount(piece, begun) for part in self.machine for piece in part])
        gpu = sum([_amount(piece, begun) for part in self.gpu for piece in part])
        if begun.last <= self.until:
            return machine, gpu, begun.many * self.until - begun.seconds
        return machine, gpu, sum([max(0, self.until - second) * many for second, many in begun.counts.items()])

    def used(self, begun: Begun) -> list[tuple[int, Fraction, int]]:
        """The same by price: its id, the units times seconds that were used, and nano-dollars."""
        return [
            (piece.price_id, piece.quantity * _seconds(piece, begun), _amount(piece, begun))
            for part in (*self.machine, *self.gpu)
            for piece in part
        ]


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
        rate = price.nanos_per_second(start) * part.quantity
        ends = second_of(start), second_of(end)
        pieces.append(_Piece(*ends, rate.numerator, rate.denominator, price.id or 0, part.quantity))
    return tuple(pieces)


def _amount(piece: _Piece, begun: Begun) -> int:
    """Of each VM rounded, halves to even, as each charge is."""
    start, end, nanos, seconds, *_ = piece
    if start <= begun.first and begun.last <= end:
        return _amount_at_once(end, nanos, seconds, begun)
    return sum(
        many * _rounded(nanos * (end - max(second, start)), seconds)
        for second, many in begun.counts.items()
        if end > second
    )


def _seconds(piece: _Piece, begun: Begun) -> int:
    return sum(many * max(0, piece.end - max(second, piece.start)) for second, many in begun.counts.items())


def _amount_at_once(end: int, nanos: int, seconds: int, begun: Begun) -> int:
    """How times are rounded depends on their rest alone, and a price by the hour, in lowest terms, leaves few rests.

    Of t seconds, a multiple of 2 x `seconds` makes an even number of nano-dollars, and so the rest is rounded as t is.
    """
    rests = rounded = 0
    for rest, many in begun.by_rest(2 * seconds):
        short = (end - rest) % (2 * seconds)
        rests += many * short
        rounded += many * _rounded(nanos * short, seconds)
    return nanos * (begun.many * end - begun.seconds - rests) // seconds + rounded


def _rounded(nanos: int, seconds: int) -> int:
    whole, rest = divmod(nanos, seconds)
    return whole + (2 * rest > seconds or (2 * rest == seconds and whole % 2 == 1))
