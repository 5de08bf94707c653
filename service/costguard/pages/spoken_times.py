"""Moments inside sentences, which are written in UTC, as elements that the page's script shows in the viewer's zone."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from markupsafe import Markup, escape

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CLOCK = r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?"
_DATE = rf"(?P<day>\d{{1,2}}) (?P<month>{'|'.join(_MONTHS)}) "
_SPOKEN = re.compile(
    rf"\b(?:(?P<iso>\d{{4}}-\d\d-\d\d)[ T]|(?P<weekday>{'|'.join(_DAYS)}) (?:{_DATE})?)?"
    rf"{_CLOCK} UTC\b(?: on (?P<on_day>\d{{1,2}}) (?P<on_month>{'|'.join(_MONTHS)}))?"
)


def spoken(text: object, near: datetime) -> Markup:
    """`near`: when it was said. A weekday or a clock time alone means the nearest one; what is no date stays text."""
    sentence, made, end = str(text), Markup(""), 0
    for match in _SPOKEN.finditer(sentence):
        moment = _moment(match, near.astimezone(UTC))
        if moment is None:
            continue
        style = "clock" if match["second"] else "short" if _has_date(match) else "week"
        made += escape(sentence[end : match.start()]) + Markup(
            '<time datetime="{}" title="{}" data-style="{}">{}</time>'
        ).format(moment.isoformat().replace("+00:00", "Z"), moment.strftime("%Y-%m-%d %H:%M:%S UTC"), style, match[0])
        end = match.end()
    return made + escape(sentence[end:])


def _has_date(match: re.Match[str]) -> bool:
    return any(match[part] for part in ("iso", "day", "on_day"))


def _moment(match: re.Match[str], near: datetime) -> datetime | None:
    clock = time(int(match["hour"]), int(match["minute"]), int(match["second"] or 0), tzinfo=UTC)
    try:
        if match["iso"]:
            return datetime.combine(date.fromisoformat(match["iso"]), clock)
        if _has_date(match):
            day, month = int(match["day"] or match["on_day"]), _MONTHS.index(match["month"] or match["on_month"]) + 1
            dates = [date(near.year + off, month, day) for off in (-1, 0, 1)]
        else:
            dates = [near.date() + timedelta(days=off) for off in range(-6, 7)]
    except ValueError:  # 31 Feb, or 29 Feb of a year without one
        return None
    if match["weekday"] and not match["day"]:
        dates = [each for each in dates if _DAYS[each.weekday()] == match["weekday"]]
    return min((datetime.combine(each, clock) for each in dates), key=lambda each: abs(each - near))
