"""Moments as people read them, in their own time zones."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_WEEKDAY_SAYS_IT = timedelta(days=3)  # beyond, pages could not tell which Tuesday is meant


def zone_of(name: str, otherwise: str = "UTC") -> ZoneInfo:
    """The zone of this name; where Slack tells one that this machine does not know, the other one."""
    try:
        return ZoneInfo(name or otherwise)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo(otherwise)


def moment_text(moment: datetime, zone: ZoneInfo, now: datetime, with_zone: bool = True) -> str:
    """`Tue 09:00 UTC`; with its date when that Tuesday is three days or more away."""
    here = moment.astimezone(zone)
    day = "%a" if abs(moment - now) < _WEEKDAY_SAYS_IT else "%a %-d %b"
    return here.strftime(f"{day} %H:%M %Z" if with_zone else f"{day} %H:%M")
