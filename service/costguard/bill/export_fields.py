"""Single fields of Google's billing export, in each form that they come in: JSON, CSV, and BigQuery's REST answers.

The REST API prints every value as text, some numbers and times in E notation: `5.28E-4`, `1.7566668E9` seconds.
A figure that no bill can have is refused, so that one row of another tool's making cannot end the reading, or the
comparison that follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple

from costguard.errors import Invalid
from costguard.model.billing.bill import PACIFIC

_WIDE = Context(prec=60)
_MOST_NUMBER = Decimal("1e24")  # byte-seconds of a petabyte for a year are 3.6e22
_MOST_MONEY = Decimal("4e9")  # of one row, in any currency: the database holds 9.2e18 nanos
_LEAST_RATE, _MOST_RATE = Decimal("1e-6"), Decimal("1e9")  # of a currency for a dollar; in 2026 from 0.3 to 100,000
_FIRST_YEAR = 2012
"""Compute Engine was announced in June 2012."""
_LAST_YEAR = 2999
"""`check_period` bounds times by the clock; this only keeps them in what a time zone can shift."""
_SHOWN = 60  # characters of a wrong value that an error repeats
MOST_TEXT = 2_048
"""Characters of one text field. The longest of Google's own, a global name, has about 250."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEPT = 65_536  # times and rates that are remembered; an export day has a few hundred


class UnreadableRow(Invalid):
    """A row of an export that cannot be read, or that no bill can have: it is left out, and the others are read."""


class Moment(NamedTuple):
    """A time with the days it lies in."""

    at: datetime
    pacific_day: date
    utc_day: date


def shown(value: Any) -> str:
    """A wrong value as an error repeats it: cut, so that a row of megabytes does not fill the screen."""
    text = value if type(value) is str else ascii(value) if isinstance(value, int | float | Decimal) else str(value)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def billionths(value: Any, field: str) -> int:
    """A number times 10^9, exactly; what is finer than a billionth is rounded half to even.

    A JSON number was read as a double, whose shortest text is the number that was printed: FLOAT64 has no more digits.
    Raises UnreadableRow for what is not a number, and for one that no usage has.
    """
    return int(_number(value, field, _MOST_NUMBER).scaleb(9, _WIDE).to_integral_value(ROUND_HALF_EVEN, _WIDE))


def money(value: Any, field: str) -> int:
    """Nanos of the row's currency, as `billionths` has them. Raises UnreadableRow beyond four thousand million."""
    return int(_number(value, field, _MOST_MONEY).scaleb(9, _WIDE).to_integral_value(ROUND_HALF_EVEN, _WIDE))


def money_or_none(value: Any, field: str) -> int | None:
    return None if value is None or value == "" else money(value, field)


def _number(value: Any, field: str, most: Decimal) -> Decimal:
    if type(value) is int and -(10**9) < value < 10**9:
        return Decimal(value)
    try:
        number = Decimal(repr(value) if type(value) is float else value)
        if -most <= number <= most:
            return number
    except (InvalidOperation, TypeError, ValueError, OverflowError):
        raise UnreadableRow(f"{field} is not a number: {shown(value)}.") from None
    raise UnreadableRow(f"{field} is no number that a bill can have: {shown(value)}.")


def stored_billionths(number: str) -> int:
    """A sum that was stored, times 10^9."""
    return int(Decimal(number).scaleb(9, _WIDE))


def from_billionths(number: int) -> Decimal:
    """The exact decimal, without E notation or trailing zeros."""
    whole = Decimal(number).scaleb(-9, _WIDE).normalize(_WIDE)
    return whole.quantize(Decimal(1), context=_WIDE) if whole == whole.to_integral_value() else whole


def rate_text(value: Any, field: str) -> str:
    """Currency for a dollar as its shortest exact text: `0.93364999999987552`, and `1` for `1.0`.

    Raises UnreadableRow for a rate that no currency has: zero and less among them, as amounts are divided by it.
    """
    return _rate_text(value if isinstance(value, str | int | float | Decimal) else shown(value), field)


@lru_cache(maxsize=_KEPT)
def _rate_text(value: str | float | Decimal, field: str) -> str:
    number = _number(value, field, _MOST_NUMBER).normalize(_WIDE)
    if not is_rate(number):
        raise UnreadableRow(f"{field} is no rate that a currency can have: {shown(value)}.")
    return f"{number:f}"


def is_rate(number: Decimal) -> bool:
    """Says whether a currency may have so many units for a dollar."""
    return _LEAST_RATE <= number <= _MOST_RATE


def moment(value: Any, field: str) -> Moment:
    """ISO 8601, with or without ` UTC`, or seconds since 1970; BigQuery's TIMESTAMP without a zone is UTC.

    Raises UnreadableRow for what is no time, and for years before Compute Engine.
    """
    return _moment(value if isinstance(value, str | int | float | Decimal | datetime) else shown(value), field)


@lru_cache(maxsize=_KEPT)
def _moment(value: str | float | Decimal | datetime, field: str) -> Moment:
    at = _parsed(value, field)
    if not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        raise UnreadableRow(f"{field} is in a year that no bill has: {shown(value)}.")
    return Moment(at, at.astimezone(PACIFIC).date(), at.date())


def check_period(start: Moment, end: Moment, before: datetime | None) -> None:
    """Raises UnreadableRow for usage that ends before it begins, or that begins after `before`."""
    if end.at < start.at:
        raise UnreadableRow(f"its usage ends before it begins: {start.at.isoformat()} to {end.at.isoformat()}.")
    if before is not None and start.at > before:
        raise UnreadableRow(f"its usage is still to come: it begins at {start.at.isoformat()}.")


def moment_or_none(value: Any, field: str) -> Moment | None:
    return None if value is None or value == "" else moment(value, field)


def _parsed(value: Any, field: str) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    text = str(value)
    try:
        if "-" in text[1:] and ":" in text:
            at = datetime.fromisoformat(text.removesuffix(" UTC"))
            return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        micros = Decimal(text).scaleb(6, _WIDE).to_integral_value(ROUND_HALF_EVEN, _WIDE)
        return _EPOCH + timedelta(microseconds=int(micros))
    except (ValueError, InvalidOperation, OverflowError):
        example = "Times are such as 2026-11-20T12:00:00Z."
        raise UnreadableRow(f"{field} is not a time: {shown(value)}.", example) from None


def text(value: Any) -> str:
    """A text that may be absent. Numbers are ids that a tool printed as numbers."""
    return "" if value is None else value if type(value) is str else str(value)


def is_storable(value: str) -> bool:
    """Says whether a text is of a length that Google's have, and every database takes it."""
    if len(value) > MOST_TEXT or "\0" in value:
        return False
    return value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value)


def record(value: Any) -> Mapping[str, Any]:
    """A record that may be absent or null."""
    return value if isinstance(value, Mapping) else _NOTHING


def records(value: Any) -> list[Any]:
    """A repeated record that may be absent or null."""
    return value if isinstance(value, list) else []


_NOTHING: Mapping[str, Any] = {}
