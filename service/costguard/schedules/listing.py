"""Schedules with their runs and what those cost, as the API, the pages and the command line show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.db.named import RowFilters
from costguard.jobs.rows import job_rows
from costguard.ledger.accrual import Accrual
from costguard.model.job import Job
from costguard.model.money import Priced
from costguard.schedules import schedule_rows
from costguard.schedules.recurrence import in_words
from costguard.schedules.schedule import RunOutcome, Schedule, ScheduleRun
from costguard.spend import job_costs

SHOWN_RUNS = 50  # of one schedule
_NOTHING = Priced()


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run with its job and the cost of that; None, and nothing, where none was launched."""

    run: ScheduleRun
    launched: Job | None
    cost: Priced

    @property
    def job(self) -> str | None:
        return self.run.job_id or None

    @property
    def state(self) -> str | None:
        return None if self.launched is None else self.launched.state.value


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule with its last run. `counts` are of all its runs, by outcome."""

    schedule: Schedule
    last: RunRow | None
    counts: Mapping[RunOutcome, int]

    @property
    def times(self) -> str:
        return in_words(self.schedule.recurrence)

    @property
    def launched(self) -> int:
        return self.counts.get(RunOutcome.LAUNCHED, 0)

    @property
    def not_launched(self) -> int:
        return sum(count for outcome, count in self.counts.items() if outcome not in _LAUNCHES)


_LAUNCHES = (RunOutcome.LAUNCHED, RunOutcome.LAUNCHING)


@dataclass(frozen=True, slots=True)
class ScheduleOverview:
    """All about one schedule. `cost` is of the runs that are shown: the last ones, the newest first."""

    row: ScheduleRow
    runs: Sequence[RunRow]
    cost: Priced


def schedules_page(
    connection: Connection,
    accrual: Accrual,
    filters: RowFilters,
    after: tuple[datetime, str] | None,
    limit: int,
) -> list[ScheduleRow]:
    """The newest first; `after` is the creation and the id of the last one that was shown."""
    some = schedule_rows.page(connection, filters, after, limit)
    ids = [schedule.id for schedule in some]
    last = schedule_rows.last_runs(connection, ids, 1)
    counts = schedule_rows.outcomes(connection, ids)
    rows = _run_rows(connection, accrual, [run for runs in last.values() for run in runs])
    return [
        ScheduleRow(schedule, rows[last[schedule.id][0]] if last[schedule.id] else None, counts[schedule.id])
        for schedule in some
    ]


def schedule_detail(connection: Connection, accrual: Accrual, schedule_id: str) -> ScheduleOverview | None:
    """Reads a schedule with its last runs. None: there is no such schedule."""
    schedule = schedule_rows.read(connection, schedule_id)
    if schedule is None:
        return None
    runs = schedule_rows.last_runs(connection, [schedule_id], SHOWN_RUNS)[schedule_id]
    rows = _run_rows(connection, accrual, runs)
    counts = schedule_rows.outcomes(connection, [schedule_id])[schedule_id]
    lines = [rows[run] for run in runs]
    row = ScheduleRow(schedule, lines[0] if lines else None, counts)
    return ScheduleOverview(row, lines, sum((line.cost for line in lines), start=_NOTHING))


def _run_rows(connection: Connection, accrual: Accrual, runs: Sequence[ScheduleRun]) -> dict[ScheduleRun, RunRow]:
    ids = [run.job_id for run in runs if run.job_id]
    launched = job_rows.of_ids(connection, ids)
    costs = job_costs.costs(connection, accrual, ids)
    return {run: RunRow(run, launched.get(run.job_id), costs.get(run.job_id, _NOTHING)) for run in runs}
