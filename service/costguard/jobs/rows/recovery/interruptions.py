"""Rows of interruptions, one for each interrupted run, and how recoveries went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, Select, select, tuple_, type_coerce, update

from costguard.db import tables
from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.types import storable
from costguard.db.upsert import upsert
from costguard.jobs.decide.measures.histogram import Histogram, histogram
from costguard.jobs.rows import attempts, job_rows
from costguard.model.attempt import Attempt, Interruption, Notice, Outcome
from costguard.model.job import Job
from costguard.model.money import ZERO, Money

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class JobRecovery:
    """An interruption, with its job and its attempt."""

    interruption: Interruption
    job: Job
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The spans, each from the preemption on, are of preemptions alone; `newest` and all counts are of everything."""

    since: datetime
    total: int
    by_outcome: Mapping[Outcome, int]
    noticed_first: Mapping[Notice, int]
    lost: LostWork
    noticed: Histogram
    requested: Histogram
    resumed: Histogram
    newest: tuple[JobRecovery, ...]


def recoveries(connection: Connection, since: datetime, shown: int = _SHOWN) -> RecoveryReport:
    """All interruptions from that hour on; the newest, so many as are shown, come with their jobs."""
    since = since.replace(minute=0, second=0, microsecond=0)  # so that the same is asked for an hour
    all_of_them = _summed_up(connection, since)
    newest = newest_interruptions(connection, since, shown) if shown else []
    jobs_by_id = job_rows.of_ids(connection, {one.job_id for one in newest})
    tried = attempts.of_ids(connection, {one.attempt_id for one in newest})
    return replace(
        all_of_them, newest=tuple(JobRecovery(one, jobs_by_id[one.job_id], tried[one.attempt_id]) for one in newest)
    )


@remembers(tables.interruptions)
def _summed_up(connection: Connection, since: datetime) -> RecoveryReport:
    """Sums up interruptions without the newest, which come with jobs."""
    spans = recovery_spans(connection, since)
    preempted = [span for span in spans if span.outcome is Outcome.PREEMPTED]
    return RecoveryReport(
        since=since,
        total=len(spans),
        by_outcome=dict(Counter(span.outcome for span in spans).most_common()),
        noticed_first=dict(Counter(span.noticed_by for span in spans).most_common()),
        lost=sum_lost(spans),
        noticed=histogram(span.noticed for span in preempted),
        requested=histogram(span.requested for span in preempted if span.requested is not None),
        resumed=histogram(span.resumed for span in preempted if span.resumed is not None),
        newest=(),
    )


_SECOND = timedelta(seconds=1)


def add(connection: Connection, new: Interruption) -> bool:
    """False: this run has one already, which stands as it is."""
    row = {
        "attempt_id": new.attempt_id,
        "run": new.run,
        "job_id": storable(new.job_id),
        "outcome": new.outcome.value,
        "happened_at": new.happened_at,
        "noticed_at": new.noticed_at,
        "noticed_by": new.noticed_by.value,
        "started_at": new.started_at,
        "requested_at": new.requested_at,
        "resumed_at": new.resumed_at,
        "lost_s": None if new.lost is None else new.lost // _SECOND,
        "lost_nanos": None if new.lost_cost is None else new.lost_cost.nanos,
        "from_zero": new.from_zero,
    }
    return upsert(connection, tables.interruptions, [row], ["attempt_id", "run"], update_columns=[]) == 1


def set_requested(connection: Connection, job_id: str, at: datetime) -> int:
    """The next VM, or its start, was asked of Google: of all of the job's that still waited for one. How many."""
    mine = update(tables.interruptions).where(
        tables.interruptions.c.job_id == job_id, tables.interruptions.c.requested_at.is_(None)
    )
    return connection.execute(mine.values(requested_at=at)).rowcount


def set_resumed(connection: Connection, job_id: str, attempt_id: int, run: int, at: datetime) -> int:
    """This run of this attempt began to work: of all before it that were not resumed. How many."""
    before = tuple_(tables.interruptions.c.attempt_id, tables.interruptions.c.run) < (attempt_id, run)
    mine = update(tables.interruptions).where(
        tables.interruptions.c.job_id == job_id, tables.interruptions.c.resumed_at.is_(None), before
    )
    return connection.execute(mine.values(resumed_at=at)).rowcount


def set_lost(
    connection: Connection, attempt_id: int, run: int, lost: timedelta, lost_cost: Money | None, from_zero: bool
) -> None:
    """Records the work that it had lost, which is known once it is known what the next run resumes from."""
    mine = update(tables.interruptions).where(
        tables.interruptions.c.attempt_id == attempt_id, tables.interruptions.c.run == run
    )
    nanos = None if lost_cost is None else lost_cost.nanos
    connection.execute(mine.values(lost_s=lost // _SECOND, lost_nanos=nanos, from_zero=from_zero))


def of_jobs(connection: Connection, job_ids: Collection[str]) -> dict[str, list[Interruption]]:
    """The oldest first; jobs without any are left out."""
    by_job: dict[str, list[Interruption]] = {}
    for some in chunks(set(job_ids)):
        for row in connection.execute(*_of_jobs(some)):
            by_job.setdefault(row.job_id, []).append(_interruption(row))
    return by_job


@prepared
def _of_jobs(job_ids: list[str]) -> Select[Any]:
    columns = tables.interruptions.c
    query = select(tables.interruptions).where(columns.job_id.in_(job_ids))
    return query.order_by(columns.attempt_id, columns.happened_at, columns.run)


@dataclass(frozen=True, slots=True)
class RecoverySpans:
    """The spans of one interruption, all from its beginning, without its job."""

    outcome: Outcome
    noticed_by: Notice
    noticed: timedelta
    requested: timedelta | None
    resumed: timedelta | None
    lost: timedelta | None
    lost_cost: Money | None
    from_zero: bool


def recovery_spans(connection: Connection, moment: datetime) -> list[RecoverySpans]:
    """Returns the spans of interruptions from then on, the oldest first."""
    return [
        RecoverySpans(
            _OUTCOMES[outcome],
            _NOTICES[noticed_by],
            timedelta(microseconds=noticed),
            None if requested is None else timedelta(microseconds=requested),
            None if resumed is None else timedelta(microseconds=resumed),
            None if lost_s is None else timedelta(seconds=lost_s),
            None if lost_nanos is None else Money(lost_nanos),
            bool(from_zero),
        )
        for outcome, noticed_by, noticed, requested, resumed, lost_s, lost_nanos, from_zero in connection.execute(
            _COURSES.where(_OF.happened_at >= moment)
        )
    ]


def newest_interruptions(connection: Connection, moment: datetime, limit: int) -> list[Interruption]:
    """Returns the interruptions from then on, the newest first."""
    query = select(tables.interruptions).where(_OF.happened_at >= moment)
    ordered = query.order_by(_OF.happened_at.desc(), _OF.attempt_id.desc(), _OF.run.desc())
    return [_interruption(row) for row in connection.execute(ordered.limit(limit))]


# A month may hold thousands, and calling an enum is slow.
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_NOTICES = {notice.value: notice for notice in Notice}
_OF = tables.interruptions.c
_HAPPENED = type_coerce(_OF.happened_at, BigInteger)
_COURSES = select(
    _OF.outcome,
    _OF.noticed_by,
    *(type_coerce(moment, BigInteger) - _HAPPENED for moment in (_OF.noticed_at, _OF.requested_at, _OF.resumed_at)),
    _OF.lost_s,
    _OF.lost_nanos,
    _OF.from_zero,
).order_by(_OF.happened_at, _OF.attempt_id, _OF.run)


def _interruption(row: Row[Any]) -> Interruption:
    return Interruption(
        attempt_id=row.attempt_id,
        job_id=row.job_id,
        run=row.run,
        outcome=_OUTCOMES[row.outcome],
        happened_at=row.happened_at,
        noticed_at=row.noticed_at,
        noticed_by=_NOTICES[row.noticed_by],
        requested_at=row.requested_at,
        resumed_at=row.resumed_at,
        lost=None if row.lost_s is None else timedelta(seconds=row.lost_s),
        lost_cost=None if row.lost_nanos is None else Money(row.lost_nanos),
        from_zero=bool(row.from_zero),
        started_at=row.started_at,
    )


@dataclass(frozen=True, slots=True)
class LostWork:
    """Work that was done in vain, as far as it is known, and how often there was nothing to resume from."""

    span: timedelta = timedelta()
    cost: Money = ZERO
    from_zero: int = 0


def sum_lost(ended: Sequence[Interruption | RecoverySpans]) -> LostWork:
    return LostWork(
        sum((one.lost for one in ended if one.lost is not None), timedelta()),
        sum((one.lost_cost for one in ended if one.lost_cost is not None), ZERO),
        sum(one.from_zero for one in ended),
    )
