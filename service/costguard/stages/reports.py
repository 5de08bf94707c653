"""Receives agents' reports on staged inputs: counts what left the source, and says which VM may fetch more."""

from __future__ import annotations

from sqlalchemy import Connection, select, text

from costguard.db.tables import LIVE_ATTEMPT, attempts, jobs
from costguard.db.transaction import Database
from costguard.model.data import StageRules
from costguard.model.ports import Clock
from costguard.stages import decide, stage_rows
from costguard.stages.stage import StageAnswer, StageReport

_REFUSED = StageAnswer(use=False, fetch=False)


class StageReports:
    """`rules` name the buckets of stages: no other place is ever used."""

    def __init__(self, database: Database, clock: Clock, rules: StageRules) -> None:
        self._database, self._clock, self._rules = database, clock, rules

    def answer(self, attempt_name: str, report: StageReport) -> StageAnswer:
        """Records a report and answers it, in one transaction.

        A report on what is no staged input of the attempt's job is refused, so that a VM counts nothing and vouches for
        nothing that its job does not name. The bytes count in any case where the source is the job's.
        """
        now = self._clock.now()
        with self._database.write() as connection:
            job_id = _job_of(connection, attempt_name, report.source)
            if job_id is None:
                return _REFUSED
            stage_rows.use(connection, report, attempt_name, job_id, now)
            before = stage_rows.lock(connection, report.digest)
            is_same = before is None or (before.address, before.source, before.size) == (
                report.address,
                report.source,
                report.size,
            )
            if report.address not in self._rules.locations or not is_same:
                return _REFUSED
            lives = before is not None and _lives(connection, before.holder)
            stage, answer = decide.reported(before, report, attempt_name, now, holder_lives=lives)
            if not stage_rows.save(connection, stage, is_new=before is None):
                return StageAnswer(use=True, fetch=False)  # another VM was first: this one asks again
            return answer


def _job_of(connection: Connection, attempt_name: str, source: str) -> str | None:
    """Returns the job of an attempt with this staged input; None: it has no such input."""
    query = (
        select(jobs.c.id, jobs.c.spec["inputs"].label("inputs"))
        .join_from(attempts, jobs, jobs.c.id == attempts.c.job_id)
        .where(attempts.c.name == attempt_name)
    )
    row = connection.execute(query).first()
    is_its = row is not None and any(one["source"] == source and one.get("staged") for one in row.inputs or ())
    return str(row.id) if row is not None and is_its else None


def _lives(connection: Connection, attempt_name: str) -> bool:
    query = select(attempts.c.id).where(attempts.c.name == attempt_name, text(LIVE_ATTEMPT))
    return attempt_name != "" and connection.execute(query).first() is not None
