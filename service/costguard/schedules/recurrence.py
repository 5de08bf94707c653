"""Times of schedules: `--every day --at 02:00` as cron's five fields, and the due times that follow. Pure.

Daylight saving is handled as by Debian's cron (`man 8 cron`, Debian: "Daylight Saving Time and other time changes"), by
the library cronsim: a run at a fixed time that the clock skips comes right after the change, and one that the clock
shows twice comes once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from costguard.model.duration import span_text
from costguard.schedules.schedule import Recurrence

LEAST_INTERVAL = timedelta(minutes=10)
_LONGEST_CRON = 200  # characters
_LOOKED_AT = 300  # due times in which the shortest interval is looked for...
_BEGIN, _LOOKED_THROUGH = datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=5 * 366)  # ...within these years
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")  # by cron's numbers
_NAMED = {"day": "* * *", "weekday": "* * 1-5", "month": "1 * *"}
_HOURS = re.compile(r"(\d{1,2})\s?h")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


class WrongRecurrence(Exception):
    """A recurrence that cannot be. `part` is the option; the message is one sentence with what to change."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


def recurrence(every: str, at: str, cron: str, time_zone: str) -> Recurrence:
    """Returns the recurrence that these options mean. Raises WrongRecurrence.

    Either `cron` has five fields, or `every` is day, weekday, month, hour, a number of hours such as 6h, or names of
    days, with `at` as HH:MM.
    """
    if bool(every) == bool(cron):
        raise WrongRecurrence(
            "every", "Give either --every, such as --every day --at 02:00, or --cron with five fields."
        )
    if cron and at:
        raise WrongRecurrence("at", "The times of --cron are in its fields: leave --at out.")
    fields = " ".join(cron.split()) if cron else _fields(every, at)
    if len(fields) > _LONGEST_CRON or len(fields.split()) != 5:
        raise WrongRecurrence("cron", f"{cron[:80]!r} does not have the five fields of cron, such as '0 2 * * 1-5'.")
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"{time_zone[:80]!r} is no time zone: use a name such as Europe/Berlin or UTC."
        raise WrongRecurrence("time_zone", message) from None
    made = Recurrence(fields, zone.key)
    _check(made)
    return made


def _fields(every: str, at: str) -> str:
    wanted = every.strip().lower()
    clock = _CLOCK.fullmatch(at.strip()) if at else None
    if at and clock is None:
        raise WrongRecurrence("at", f"{at[:40]!r} is no time of a day: write it as 02:00.")
    hour, minute = (int(clock[1]), int(clock[2])) if clock is not None else (0, 0)
    if wanted == "hour":
        wanted = "1h"
    if match := _HOURS.fullmatch(wanted):
        step = int(match[1])
        if step < 1 or 24 % step:
            raise WrongRecurrence(
                "every", f"A day cannot be divided by {step} hours: use 1h, 2h, 3h, 4h, 6h, 8h or 12h."
            )
        hours = "*" if step == 1 else ",".join(str(one) for one in range(hour % step, 24, step))
        return f"{minute} {hours} * * *"
    if wanted in _NAMED:
        return f"{minute} {hour} {_NAMED[wanted]}"
    days = [one.strip() for one in wanted.split(",")]
    if unknown := [one for one in days if one not in _DAYS]:
        message = (
            f"{unknown[0][:40]!r} is no interval: use day, weekday, month, hour, 6h, or days such as monday,friday."
        )
        raise WrongRecurrence("every", message)
    return f"{minute} {hour} * * {','.join(str(number) for number in sorted({_DAYS.index(one) for one in days}))}"


def _check(made: Recurrence) -> None:
    """Raises WrongRecurrence where the fields mean no time, or come too often."""
    try:
        some = list(islice(times_between(made, _BEGIN, _BEGIN + _LOOKED_THROUGH), _LOOKED_AT))
        never_comes = not some and next_due(made, _BEGIN) is None
    except (CronSimError, AssertionError, TypeError, ValueError):
        message = f"{made.cron[:80]!r} cannot be read as five fields of cron, such as '0 2 * * 1-5'."
        raise WrongRecurrence("cron", message) from None
    if never_comes:
        raise WrongRecurrence("cron", f"{made.cron[:80]!r} never comes: no day fits it.")
    shortest = min((later - earlier for earlier, later in pairwise(some)), default=LEAST_INTERVAL)
    if shortest < LEAST_INTERVAL:
        message = f"{made.cron[:80]!r} comes every {span_text(shortest)}, and {span_text(LEAST_INTERVAL)} are the least"
        raise WrongRecurrence("cron", f"{message} that a schedule may have: choose fewer times.")


def due_times(recurrence: Recurrence, after: datetime) -> Iterator[datetime]:
    """Yields the due times after a moment in UTC, ever later, without an end; none where no day fits.

    A recurrence that was stored is readable: `recurrence` checked it.
    """
    last = after
    for local in CronSim(recurrence.cron, after.astimezone(ZoneInfo(recurrence.time_zone))):
        due = local.astimezone(UTC)
        # The clock shows an hour twice in autumn, and cronsim begins in the first of them. What a skipped hour held
        # comes together, as one run.
        if due > last:
            last = due
            yield due


def next_due(recurrence: Recurrence, after: datetime) -> datetime | None:
    """Returns the first due time after a moment; None where none comes any more."""
    return next(due_times(recurrence, after), None)


def times_between(recurrence: Recurrence, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yields the due times after one moment, up to another."""
    return takewhile(lambda due: due <= until, due_times(recurrence, after))


def in_words(recurrence: Recurrence) -> str:
    """Describes the times: "at 02:00 every day (Europe/Berlin)"."""
    try:
        words = CronSim(recurrence.cron, datetime(2026, 1, 1, tzinfo=UTC)).explain()
    except (CronSimError, AssertionError, IndexError, KeyError, TypeError, ValueError):
        words = f"by cron's {recurrence.cron}"
    return f"{words[:1].lower()}{words[1:]} ({recurrence.time_zone})"
