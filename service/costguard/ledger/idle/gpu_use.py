"""The fleet's GPU use: utilisation weighted by GPU-hours, day by day. What was not measured is unknown, never zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import BigInteger, Connection, case, func, literal, select, type_coerce

from costguard.db.tables import gpu_use, lifetimes
from costguard.db.types import EPOCH
from costguard.db.upsert import upsert
from costguard.ledger.idle.evidence import GAP
from costguard.model.instance import TPUS
from costguard.model.utilisation import WHOLE_BP, GpuUse, Series

_PERIOD = timedelta(minutes=1)  # of Google's samples and of our agent's
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DayUse:
    """`known_us`: microseconds of GPUs with a known utilisation; `used_us`: those times their utilisation."""

    known_us: int = 0
    used_us: int = 0

    def __add__(self, other: DayUse) -> DayUse:
        return DayUse(self.known_us + other.known_us, self.used_us + other.used_us)


_NOTHING = DayUse()


def counted(measured: Sequence[Series], gpus: int, since: datetime, until: datetime) -> dict[date, DayUse]:
    """Adds up the utilisation of a VM's GPUs in (since, until], by UTC day.

    A sample stands for the time since the one before it; where figures are missing, for a minute alone.
    """
    days: dict[date, DayUse] = {}
    newest_first = sorted((series for series in measured if series), key=lambda series: series[-1].at, reverse=True)
    for series in newest_first[:gpus]:
        before: datetime | None = None
        for sample in series:
            is_whole = before is not None and sample.at - before <= GAP
            first = before if before is not None and is_whole else sample.at - _PERIOD
            before = sample.at
            begin, end = max(first, since), min(sample.at, until)
            if begin < end:
                known_us = (end - begin) // _MICROSECOND
                use = DayUse(known_us, known_us * min(sample.value, WHOLE_BP) // WHOLE_BP)
                day = (end - _MICROSECOND).date()
                days[day] = days.get(day, _NOTHING) + use
    return days


def add(connection: Connection, project: str, days: Mapping[date, DayUse]) -> None:
    """Adds to the project's days. The caller writes in the same transaction up to when samples are counted."""
    if not days:
        return
    columns = gpu_use.c
    query = select(columns.day, columns.known_us, columns.used_us)
    stored = connection.execute(query.where(columns.project == project, columns.day.in_(sorted(days))))
    before = {row.day: DayUse(row.known_us, row.used_us) for row in stored}
    sums = {day: use + before.get(day, _NOTHING) for day, use in days.items()}
    rows = [
        {"project": project, "day": day, "known_us": use.known_us, "used_us": use.used_us} for day, use in sums.items()
    ]
    upsert(connection, gpu_use, rows, ["project", "day"])


def between(connection: Connection, since: datetime, until: datetime) -> GpuUse:
    """Reads the use in [since, until), by the stored UTC days from that of `since` on. TPUs are no GPUs."""
    columns = gpu_use.c
    query = select(func.coalesce(func.sum(columns.known_us), 0), func.coalesce(func.sum(columns.used_us), 0))
    known_us, used_us = (
        int(total) for total in connection.execute(query.where(columns.day.between(since.date(), until.date()))).one()
    )
    gpu_time = _gpu_time(connection, since, until)
    known_time = min(gpu_time, known_us * _MICROSECOND)
    return GpuUse(gpu_time, known_time, min(known_time, used_us * _MICROSECOND))


def _gpu_time(connection: Connection, since: datetime, until: datetime) -> timedelta:
    columns = lifetimes.c
    begins, ends = ((moment - EPOCH) // _MICROSECOND for moment in (since, until))
    started, ended = (type_coerce(column, BigInteger) for column in (columns.started_at, columns.ended_at))
    first = case((started > begins, started), else_=literal(begins, BigInteger))
    last = case((columns.ended_at.is_(None), literal(ends, BigInteger)), (ended > ends, ends), else_=ended)
    query = select(func.coalesce(func.sum(columns.gpu_count * (last - first)), 0)).where(
        columns.gpu_count > 0,
        columns.gpu_type.not_in(sorted(TPUS)),
        columns.started_at < until,
        (columns.ended_at.is_(None)) | (columns.ended_at > since),
    )
    return int(connection.execute(query).scalar_one()) * _MICROSECOND
