"""Single fields of Google's billing export, in each form that they come in: JSON, CSV, and BigQuery's REST answers.

The REST API prints every value as text, some numbers and times in E notation: `5.28E-4`, `1.7566668E9` seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple

from costguard.errors import Invalid
from costguard.model.bill import PACIFIC

_WIDE = Context(prec=60)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEPT = 65_536  # times and rates that are remembered; an export day has a few hundred


class UnreadableRow(Invalid):
    """A row of an export that cannot be read; nothing of what was read with it is stored."""


class Moment(NamedTuple):
    """A time with the days it lies in."""

    at: datetime
    pacific_day: date
    utc_day: date


def billionths(value: Any, field: str) -> int:
    """A number times 10^9, exactly; what is finer than a billionth is rounded half to even.

    A JSON number was read as a double, whose shortest text is the number that was printed: FLOAT64 has no more digits.
    """
    if type(value) is int:
        return value * 1_000_000_000
    try:
        number = Decimal(repr(value) if type(value) is float else value)
        return int(number.scaleb(9, _WIDE).to_integral_value(ROUND_HALF_EVEN, _WIDE))
    except (InvalidOperation, TypeError, ValueError, OverflowError):
        raise UnreadableRow(f"{field} is not a number: {value!r}.") from None


def billionths_or_none(value: Any, field: str) -> int | None:
    return None if value is None or value == "" else billionths(value, field)


def from_billionths(number: int) -> Decimal:
    """The exact decimal, without E notation or trailing zeros."""
    whole = Decimal(number).scaleb(-9, _WIDE).normalize(_WIDE)
    return whole.quantize(Decimal(1), context=_WIDE) if whole == whole.to_integral_value() else whole


@lru_cache(maxsize=_KEPT)
def decimal_text(value: Any, field: str) -> str:
    """A number as its shortest exact text: `0.93364999999987552`, and `1` for `1.0`."""
    try:
        number = Decimal(repr(value) if type(value) is float else value).normalize(_WIDE)
    except (InvalidOperation, TypeError, ValueError):
        raise UnreadableRow(f"{field} is not a number: {value!r}.") from None
    return f"{number:f}"


@lru_cache(maxsize=_KEPT)
def moment(value: Any, field: str) -> Moment:
    """ISO 8601, with or without ` UTC`, or seconds since 1970; BigQuery's TIMESTAMP without a zone is UTC."""
    at = _parsed(value, field)
    return Moment(at, at.astimezone(PACIFIC).date(), at.date())


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
        raise UnreadableRow(f"{field} is not a time: {value!r}.", "Times are such as 2026-11-20T12:00:00Z.") from None


def text(value: Any) -> str:
    """A text that may be absent. Numbers are ids that a tool printed as numbers."""
    return "" if value is None else value if type(value) is str else str(value)


def record(value: Any) -> Mapping[str, Any]:
    """A record that may be absent or null."""
    return value if isinstance(value, Mapping) else _NOTHING


def records(value: Any) -> list[Any]:
    """A repeated record that may be absent or null."""
    return value if isinstance(value, list) else []


_NOTHING: Mapping[str, Any] = {}
