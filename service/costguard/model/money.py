"""Dollars, exactly: a whole number of nano-dollars, as Google's catalogue writes them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

NANOS_PER_DOLLAR = 1_000_000_000
_NANOS_PER_CENT = 10_000_000


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

    @property
    def cents(self) -> int:
        """Whole cents, halves to even."""
        whole, rest = divmod(self.nanos, _NANOS_PER_CENT)
        return whole + (2 * rest > _NANOS_PER_CENT or (2 * rest == _NANOS_PER_CENT and whole % 2 == 1))

    def over(self, span: timedelta) -> Money:
        """What this rate an hour comes to over a span, cut off to a nano-dollar."""
        return Money(self.nanos * (span // timedelta(microseconds=1)) // 3_600_000_000)

    def __add__(self, other: Money) -> Money:
        return Money(self.nanos + other.nanos)

    def __sub__(self, other: Money) -> Money:
        return Money(self.nanos - other.nanos)

    def __neg__(self) -> Money:
        return Money(-self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        cents = self.cents
        sign = "-" if cents < 0 else ""
        whole, part = divmod(abs(cents), 100)
        return f"{sign}${whole:,}.{part:02d}"


ZERO = Money(0)


@dataclass(frozen=True, slots=True)
class Priced:
    """An amount, and whether it is all of it: False when something in it has no price."""

    amount: Money = ZERO
    whole: bool = True

    def __add__(self, other: Priced) -> Priced:
        return Priced(self.amount + other.amount, self.whole and other.whole)
