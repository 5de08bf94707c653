"""Decides what comes of the due times of a schedule: one run at most, and the rest missed or skipped. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from costguard.schedules.recurrence import due_times, next_due
from costguard.schedules.schedule import Schedule, ScheduleState

MOST_LOOKED_AT = 2000  # due times since the last turn: two weeks of one every ten minutes
MOST_RECORDED = 100  # of missed ones, the newest


@dataclass(frozen=True, slots=True)
class DueDecision:
    """The consequences of the due times that have come.

    `launch` is the due time to launch now, `skipped` the one that an open run keeps from it: at most one of them.
    `missed` are the others that are recorded, the oldest first, and `more_missed` the number of those before them.
    `next_due` is None where no time comes any more.
    """

    next_due: datetime | None
    launch: datetime | None = None
    skipped: datetime | None = None
    missed: tuple[datetime, ...] = ()
    more_missed: int = 0


def decide(schedule: Schedule, open_runs: Collection[str], now: datetime) -> DueDecision | None:
    """Decides on all due times up to `now`; None: none has come. `open_runs` are the jobs of runs that are not over.

    Of several due times the newest alone is launched, and that only where it is not too late.
    """
    if schedule.state is not ScheduleState.ACTIVE or schedule.next_due is None or schedule.next_due > now:
        return None
    after = due_times(schedule.recurrence, schedule.next_due)
    due = [schedule.next_due]
    following: datetime | None = None
    for one in islice(after, MOST_LOOKED_AT):
        if one > now:
            following = one
            break
        due.append(one)
    else:
        following = next_due(schedule.recurrence, now)
    *earlier, newest = due
    if now - newest > lateness(schedule, newest, following):
        return _missed(due, following)
    if open_runs and not schedule.overlaps:
        return _missed(earlier, following, skipped=newest)
    return _missed(earlier, following, launch=newest)


def lateness(schedule: Schedule, due_at: datetime, following: datetime | None) -> timedelta:
    """Returns how late a run may be: what its owner chose, else half of the time to the next one."""
    if schedule.late is not None:
        return schedule.late
    return (following - due_at) / 2 if following is not None else timedelta(days=1)


def _missed(
    due: list[datetime],
    following: datetime | None,
    launch: datetime | None = None,
    skipped: datetime | None = None,
) -> DueDecision:
    recorded = tuple(due[-MOST_RECORDED:])
    return DueDecision(following, launch, skipped, recorded, len(due) - len(recorded))
