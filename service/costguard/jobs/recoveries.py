"""How preemptions went by, for all jobs: how soon they were noticed, and how soon work went on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from costguard.db import tables
from costguard.db.remembered import remembers
from costguard.jobs import attempts, interruptions, job_rows
from costguard.jobs.histogram import Histogram, histogram
from costguard.jobs.listing import Lost, lost
from costguard.model.attempt import Attempt, Interruption, Notice, Outcome
from costguard.model.job import Job

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Recovery:
    """One interruption, with its job and the attempt that it was of."""

    interruption: Interruption
    job: Job
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Recoveries:
    """The spans, each from the preemption on, are of preemptions alone; `newest` and all counts are of everything."""

    since: datetime
    total: int
    by_outcome: Mapping[Outcome, int]
    noticed_first: Mapping[Notice, int]
    lost: Lost
    noticed: Histogram
    requested: Histogram
    resumed: Histogram
    newest: tuple[Recovery, ...]


def recoveries(connection: Connection, since: datetime, shown: int = _SHOWN) -> Recoveries:
    """All interruptions from that hour on; the newest, so many as are shown, come with their jobs."""
    since = since.replace(minute=0, second=0, microsecond=0)  # so that the same is asked for an hour
    all_of_them = _summed_up(connection, since)
    newest = interruptions.newest(connection, since, shown) if shown else []
    of = job_rows.of_ids(connection, {each.job_id for each in newest})
    tried = attempts.of_ids(connection, {each.attempt_id for each in newest})
    return replace(
        all_of_them, newest=tuple(Recovery(each, of[each.job_id], tried[each.attempt_id]) for each in newest)
    )


@remembers(tables.interruptions)
def _summed_up(connection: Connection, since: datetime) -> Recoveries:
    """Without the newest, which come with jobs."""
    found = interruptions.courses(connection, since)
    preempted = [each for each in found if each.outcome is Outcome.PREEMPTED]
    return Recoveries(
        since=since,
        total=len(found),
        by_outcome=dict(Counter(each.outcome for each in found).most_common()),
        noticed_first=dict(Counter(each.noticed_by for each in found).most_common()),
        lost=lost(found),
        noticed=histogram(each.noticed for each in preempted),
        requested=histogram(each.requested for each in preempted if each.requested is not None),
        resumed=histogram(each.resumed for each in preempted if each.resumed is not None),
        newest=(),
    )
