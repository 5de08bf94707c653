"""When nobody is to be disturbed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from costguard.model.moments import zone_of
from costguard.model.money import Money
from costguard.model.reminder import QuietRule

_DAY = timedelta(days=1)
_FAR = timedelta(days=8)  # a rule that makes every day quiet has no end; this one stands for it


def quiet_until(rule: QuietRule, zone_name: str, rate: Money | None, now: datetime) -> datetime | None:
    """When the quiet that holds now ends, a night and the weekend after it being one; None: it is not quiet.

    A rate that is not known is no reason to wake anybody.
    """
    if rate is not None and rule.unless_above is not None and rate > rule.unless_above:
        return None
    zone = zone_of(zone_name)
    until = now
    while until - now < _FAR and (end := _end(rule, zone, until)) is not None:
        until = end
    return until if until > now else None


def _end(rule: QuietRule, zone: ZoneInfo, at: datetime) -> datetime | None:
    """The end of the quiet piece around this moment.

    Pieces are cut in UTC: an hour that the clock repeats or leaves out lies wholly in one of them, or in none.
    """
    today = at.astimezone(zone).date()
    if today.weekday() in rule.days:
        return _moment(today + _DAY, time(), zone)
    for day in (today - _DAY, today):
        ends_on = day if rule.starts < rule.ends else day + _DAY
        starts_at, ends_at = _moment(day, rule.starts, zone), _moment(ends_on, rule.ends, zone)
        if rule.starts != rule.ends and starts_at <= at < ends_at:
            return ends_at
    return None


def _moment(day: date, at: time, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, at, zone).astimezone(UTC)
