"""Durations: parsed and formatted in one way."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_SPAN = re.compile(r"(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
_SPAN_S = (604_800, 86_400, 3_600, 60, 1)
_UNITS = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))


def elapsed(start: datetime, end: datetime) -> timedelta:
    """Whole seconds from one reading of the clock to another, as they are billed; never below zero.

    Each reading is rounded down, so that the parts of a span add up to the whole.
    """
    return max(timedelta(), ((end - _EPOCH) // _SECOND - (start - _EPOCH) // _SECOND) * _SECOND)


def span_text(span: timedelta, *, tenths: bool = False) -> str:
    """`2 d 5 h`, `3 h 12 min`, `40 s`: the two largest units, rounded down. `tenths`: `1.3 s` below ten seconds."""
    seconds = max(0, span.days * 86_400 + span.seconds)  # a VM may have started a moment ahead of our clock
    if tenths and seconds < 10 and span.microseconds:
        return f"{span.total_seconds():.1f} s"
    for word, size, smaller_word, smaller in _UNITS:
        if seconds >= size:
            count, rest = seconds // size, seconds % size // smaller
            return f"{count} {word} {rest} {smaller_word}" if rest else f"{count} {word}"
    return f"{seconds} s"


def hours_text(span: timedelta) -> str:
    """`40 VM hours`, `1 VM hour`, `2.5 VM hours`: a time that VMs ran, added up, rounded down."""
    number = hours_number(span)
    return f"{number} VM {'hour' if number == '1' else 'hours'}"


def hours_number(span: timedelta) -> str:
    """`40`, `2.5`: to a tenth of an hour, rounded down."""
    tenths = max(0, span // _SECOND) * 10 // 3600
    return f"{tenths // 10:,}" if tenths % 10 == 0 else f"{tenths / 10:,.1f}"


def read_span(text: str) -> timedelta | None:
    """`90s`, `15m`, `8h`, `3d`, `1w`, or several from large to small: `1h30m`. None where it is none of these."""
    match = _SPAN.fullmatch(text) if text else None
    if match is None:
        return None
    return timedelta(seconds=sum(int(count or 0) * unit for count, unit in zip(match.groups(), _SPAN_S, strict=True)))
