"""Exact dollars: a whole number of nano-dollars, as in Google's catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

NANOS_PER_DOLLAR = 1_000_000_000


@dataclass(frozen=True, slots=True, order=True)
class Money:
    """An amount of US dollars. Adding never loses anything; only showing rounds."""

    nanos: int = 0

    @classmethod
    def of(cls, dollars: str | int | Decimal) -> Money:
        """Raises ValueError when the amount is finer than a nano-dollar."""
        scaled = Decimal(dollars) * NANOS_PER_DOLLAR
        if scaled != scaled.to_integral_value():
            raise ValueError(f"{dollars} is finer than a nano-dollar")
        return cls(int(scaled))

    @property
    def dollars(self) -> Decimal:
        return Decimal(self.nanos).scaleb(-9)

    def over(self, span: timedelta) -> Money:
        """Returns the cost of this hourly rate over a span, cut off to a nano-dollar."""
        return Money(self.nanos * (span // timedelta(microseconds=1)) // 3_600_000_000)

    def times(self, count: int) -> Money:
        """Returns the cost of so many of it."""
        return Money(self.nanos * count)

    def __add__(self, other: Money) -> Money:
        return Money(self.nanos + other.nanos)

    def __sub__(self, other: Money) -> Money:
        return Money(self.nanos - other.nanos)

    def __neg__(self) -> Money:
        return Money(-self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        return money_text(self)


ZERO = Money(0)


def rounded(numerator: int, denominator: int) -> int:
    """Rounds a quotient, halves to even, as `round` does a fraction of it. The denominator is above 0."""
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1))


@dataclass(frozen=True, slots=True)
class Priced:
    """An amount, and whether it is all of it: False when something in it has no price."""

    amount: Money = ZERO
    whole: bool = True

    @classmethod
    def of(cls, amount: Money | None) -> Priced:
        """Makes it of an amount that is whole; None stands for one without a price."""
        return cls(whole=False) if amount is None else cls(amount)

    def __add__(self, other: Priced) -> Priced:
        return Priced(self.amount + other.amount, self.whole and other.whole)


class Amounts(NamedTuple):
    """Spend in its parts, in nano-dollars. GPUs apart from the machine they are in; seconds of running VMs.

    A tuple of numbers: a year by day and owner is tens of thousands of these.
    """

    machine_nanos: int
    gpu_nanos: int
    storage_nanos: int
    seconds: int

    @property
    def machine(self) -> Money:
        return Money(self.machine_nanos)

    @property
    def gpu(self) -> Money:
        return Money(self.gpu_nanos)

    @property
    def storage(self) -> Money:
        return Money(self.storage_nanos)

    @property
    def total(self) -> Money:
        return Money(self.total_nanos)

    @property
    def total_nanos(self) -> int:
        return self.machine_nanos + self.gpu_nanos + self.storage_nanos

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3])


def add_figures(sums: list[int], figures: Sequence[int]) -> None:
    """Adds figures to sums of the same parts, in place."""
    for place, figure in enumerate(figures):
        sums[place] += figure


def money_text(money: Money, places: int = 2) -> str:
    """`$1,234.57`, halves to even; an amount too small for its places is `<$0.01`, not nothing."""
    unit = NANOS_PER_DOLLAR // 10**places
    units, rest = divmod(abs(money.nanos), unit)
    units += 2 * rest > unit or (2 * rest == unit and units % 2 == 1)
    if money.nanos and not units:
        return f"<${10**-places:.{places}f}"
    whole, part = divmod(units, 10**places)
    return f"{'-' if money.nanos < 0 else ''}${whole:,}.{part:0{places}d}"


def rate_text(rate: Money) -> str:
    """Dollars an hour: three places below a dollar, and `$0.00` for nothing."""
    return money_text(rate, 3 if 0 < abs(rate.nanos) < NANOS_PER_DOLLAR else 2)


def about_text(amount: str) -> str:
    """`about $41.20` of an amount's text, and `less than $0.01` of `<$0.01`."""
    return f"less than {amount.removeprefix('<')}" if amount.startswith("<") else f"about {amount}"


def exact_text(money: Money) -> str:
    """Formats an amount in full: `$0.031611`."""
    return f"${money.dollars.normalize():f}"


def priced_text(priced: Priced, show: Callable[[Money], str] = str, nothing: str = "not priced") -> str:
    """`$41.20`, `at least $41.20` where something in it has no price, `nothing` where nothing has one."""
    if priced.whole:
        return show(priced.amount)
    return f"at least {show(priced.amount)}" if priced.amount else nothing
