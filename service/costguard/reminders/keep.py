"""Until when a keep moves the due moment, or why it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from costguard.model.duration import span_text
from costguard.model.moments import moment_text
from costguard.model.reminder import Keep, ReminderRule, Request

MORNING = time(9)
_FEW = 3


def kept_until(
    request: Request,
    zone: ZoneInfo,
    due_at: datetime,
    rule: ReminderRule,
    keeps: Collection[Keep],
    is_admin: bool,
    now: datetime,
    admins: Iterable[str] = (),
) -> datetime | str:
    """The new due moment; a refusal in words where the rule does not allow it.

    Hours count from now, or from a due moment that is still to come. Without hours it is tomorrow at nine where
    the person is. `admins` are those whom the refusal names.
    """
    if len(keeps) >= rule.keeps and not is_admin:
        times = {0: "It cannot be kept by its owner", 1: "It was kept once already"}
        return f"{times.get(len(keeps), f'It was kept {len(keeps)} times already')}; {_ask(admins)}."
    if request.hours is None:
        tomorrow = now.astimezone(zone).date() + timedelta(days=1)
        until = datetime.combine(tomorrow, MORNING, zone).astimezone(UTC)
    elif request.hours < 1:
        return f"It cannot be kept for {request.hours} h. Give a whole number of hours, 1 or more."
    elif request.hours > rule.longest_keep / timedelta(hours=1):
        return _too_long(rule)
    else:
        until = max(now, due_at) + timedelta(hours=request.hours)
    if until <= due_at:
        due = moment_text(due_at, zone, now)
        return f"Nobody asks about it before {due} anyway; keeping it until then changes nothing."
    if until - now > rule.longest_keep:
        return _too_long(rule)
    return until


def _too_long(rule: ReminderRule) -> str:
    return (
        f"It can be kept for {span_text(rule.longest_keep)} from now at most. Ask for less, and again when it is due."
    )


def _ask(admins: Iterable[str]) -> str:
    found = sorted(admins)
    named = ", ".join(found[:_FEW])
    return f"ask an admin: {named}" if found else "only an admin could do it again, and [access] names none"
