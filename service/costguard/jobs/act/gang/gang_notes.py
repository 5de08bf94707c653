"""Notes about the rounds of gangs: that all members begin one, and that one is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from costguard.events import audit_log
from costguard.jobs.act.attempts.insert import reckon
from costguard.jobs.act.attempts.vm_step import JobNote
from costguard.jobs.decide.actions import LetRoundBegin, NextRound
from costguard.jobs.decide.recovery.resume import ResumePoint
from costguard.jobs.decide.view import JobView
from costguard.jobs.rows import agenda, job_events
from costguard.jobs.rows.gang import gang_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.model.attempt import Attempt


@dataclass(frozen=True, slots=True)
class LetRoundBeginNote:
    """The agents hear with the answers to their next words what all commands begin with."""

    view: JobView
    members: Sequence[Attempt]
    action: LetRoundBegin
    point: ResumePoint

    @property
    def subject(self) -> str:
        return self.view.job.id

    def write(self, connection: Connection, now: datetime) -> bool:
        job, point, number = self.view.job, self.point, self.action.round
        if not agenda.is_open(connection, job.id):
            return False
        resume = point.resume_from, point.step, point.why
        if not gang_rows.let_begin(connection, job.id, number, self.action.attempt_ids, resume, now):
            return False
        lead = replace(
            self.members[0], resume_from=point.resume_from, resume_step=point.step, resume_why=point.why, round=number
        )
        reckon(connection, self.view, lead, point, now)
        audit_log.append(connection, [job_events.round_began(job, lead, number, len(self.members), now)], now)
        return True


@dataclass(frozen=True, slots=True)
class NextRoundNote(JobNote):
    """The agents hear with the answers to their next words that the round is over."""

    action: NextRound

    def write(self, connection: Connection, now: datetime) -> bool:
        number = self.action.round
        if not gang_rows.next_round(connection, self.job.id, number):
            return False
        if self.action.over is not None:
            gang_rows.add_round(connection, self.job.id, self.action.over, now)
        if self.action.interruption is not None:
            interruptions.add(connection, self.action.interruption)
        audit_log.append(connection, [job_events.round_over(self.job, number - 1, self.action.reason, now)], now)
        return True
