"""What of jobs is only written down: ends and rests of attempts, orders to stop, how a job stands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.events import facts
from costguard.jobs import attempts, interruptions, job_rows, launch_words
from costguard.jobs.launch_step import OPEN
from costguard.jobs.view import EndAttempt, RestAttempt, TellCommandToStop
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.job import Job, JobState
from costguard.model.money import Priced


def end(
    connection: Connection, job: Job, attempt: Attempt, outcome: Outcome, reason: str, now: datetime, error: str = ""
) -> bool:
    """From here on its VM is to be deleted, or stopped for its disk. False: its outcome was known before."""
    changed = attempts.change(
        connection,
        attempt.id,
        OPEN,
        state=AttemptState.ENDING,
        outcome=outcome,
        reason=reason,
        ended_at=now,
        tries=0,
        try_after=None,
        error=error,
    )
    if changed:
        facts.append(connection, [launch_words.ended(job, attempt, outcome, reason, now)], now)
    return changed


@dataclass(frozen=True, slots=True)
class Ending:
    job: Job
    attempt: Attempt
    action: EndAttempt

    @property
    def job_id(self) -> str:
        return self.job.id

    def write(self, connection: Connection, now: datetime) -> bool:
        changed = end(connection, self.job, self.attempt, self.action.outcome, self.action.reason, now)
        if changed and self.action.interruption is not None:
            interruptions.add(connection, self.action.interruption)
        return changed


@dataclass(frozen=True, slots=True)
class Resting:
    """Its VM is at rest, or stopped now; it keeps its disk, and is started again."""

    job: Job
    attempt: Attempt
    action: RestAttempt

    @property
    def job_id(self) -> str:
        return self.job.id

    def write(self, connection: Connection, now: datetime) -> bool:
        there = (AttemptState.ASKED, AttemptState.BOOTING, AttemptState.RUNNING, AttemptState.RESTARTING)
        changed = attempts.change(
            connection,
            self.attempt.id,
            there,
            state=AttemptState.RESTING,
            stop_asked_at=None,
            stop_why="",
            rested_at=None,
            tries=0,
            try_after=None,
            error="",
        )
        if changed:
            interruption = self.action.interruption
            interruptions.add(connection, interruption)
            told = launch_words.rested(self.job, self.attempt, interruption.run, self.action.reason, now)
            facts.append(connection, [told], now)
        return changed


@dataclass(frozen=True, slots=True)
class Telling:
    """The agent hears it with the answer to its next word. Nothing takes the place of a cancel."""

    job: Job
    attempt: Attempt
    action: TellCommandToStop

    @property
    def job_id(self) -> str:
        return self.job.id

    def write(self, connection: Connection, now: datetime) -> bool:
        asked_at, before = self.attempt.stop_asked_at, self.attempt.stop_why
        if asked_at is not None and (before == self.action.why or before == "cancel"):
            return False
        return attempts.change(
            connection, self.attempt.id, OPEN, stop_asked_at=asked_at or now, stop_why=self.action.why
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """How a job stands from now on. What is over stays so, whatever was decided meanwhile."""

    job: Job
    state: JobState
    reason: str
    next_at: datetime | None
    cost: Priced
    waits_in: int | None = None  # the episode in which it waits for a place; None: it does not

    @property
    def job_id(self) -> str:
        return self.job.id

    def write(self, connection: Connection, now: datetime) -> bool:
        if not job_rows.set_state(connection, self.job.id, self.state, self.reason, self.next_at, now):
            return False
        told = []
        if self.state.is_over:
            cost = f"{self.cost.amount}" if self.cost.whole else f"{self.cost.amount} or more"
            told.append(launch_words.over(self.job, self.state, self.reason, cost, now))
        elif self.waits_in is not None:
            told.append(launch_words.waits(self.job, self.waits_in, self.reason, now))
        facts.append(connection, told, now)
        return self.state is not self.job.state
