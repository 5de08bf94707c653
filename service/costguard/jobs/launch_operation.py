"""What became of an insert or a start that Google accepted: its operation is read until it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.errors import BadAnswer, CloudError, NotFound, RequestRefused
from costguard.events import facts
from costguard.jobs import attempts, interruptions, launch_words
from costguard.jobs.launch_insert import adopted
from costguard.jobs.launch_pace import Kind
from costguard.jobs.launch_step import AboutAttempt, Urgency, again_after, is_of, put_off, request_uuid
from costguard.jobs.launch_written import end
from costguard.jobs.operation_errors import NAME_TAKEN, outcome_of, words_of
from costguard.jobs.view import RestartVm
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.instance import Status
from costguard.model.job import Job
from costguard.model.launch import OperationAnswer
from costguard.model.observation import Sighting

_FORGOTTEN = timedelta(minutes=5)  # an operation that Google does not know by then it never began
_STOPPED_S = timedelta(seconds=15)  # a VM that is still stopping is started a little later
_UP = frozenset({Status.PENDING, Status.PROVISIONING, Status.STAGING, Status.RUNNING, Status.REPAIRING})


@dataclass(slots=True)
class Watch(AboutAttempt):
    """An insert whose operation is not known to be done."""

    answer: OperationAnswer | None = None
    seen: Sighting | None = None
    urgency: Urgency = field(default=Urgency.LOOK, init=False)

    def call(self) -> None:
        where, attempt = (self.attempt.project, self.attempt.zone), self.attempt
        self.answer = self.means.launcher.operation(*where, attempt.operation)
        known = self.answer is not None and self.answer.is_done and self.answer.target_id
        is_failed = self.answer is not None and self.answer.error_code not in ("", NAME_TAKEN)
        if (self.answer is None or self.answer.is_done) and not (known or is_failed):
            self.seen = self.means.launcher.look(*where, attempt.name)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        job, attempt, answer = self.job, self.attempt, self.answer
        if error is not None:
            return self._later(connection, now, error)
        if answer is not None and answer.error_code and not self._is_there():
            return end(connection, job, attempt, self._outcome(answer), words_of(answer), now)
        if self._is_there() and self.seen is not None:
            return adopted(connection, job, attempt, self.seen.gce_id, now)
        if answer is not None and answer.is_done and answer.target_id:
            return adopted(connection, job, attempt, answer.target_id, now)
        is_forgotten = answer is None and now - (attempt.asked_at or attempt.intended_at) > _FORGOTTEN
        if is_forgotten:
            # The same insert again: harmless, should Google remember it after all.
            return attempts.change(
                connection,
                attempt.id,
                [AttemptState.ASKED],
                state=AttemptState.INTENDED,
                operation="",
                tries=0,
                try_after=None,
                error="Google knows nothing of the insert any more",
            )
        return self._later(connection, now)

    def _outcome(self, answer: OperationAnswer) -> Outcome:
        """A VM whose agent spoke was there, and was taken away while Google still made it."""
        outcome = outcome_of(answer)
        return Outcome.PREEMPTED if outcome is Outcome.STOCKOUT and self.attempt.heard.at is not None else outcome

    def _is_there(self) -> bool:
        return self.seen is not None and is_of(self.seen, self.attempt, self.means.maker)

    def _later(self, connection: Connection, now: datetime, error: CloudError | None = None) -> bool:
        """It goes on; so long, nothing is to be decided."""
        attempt = self.attempt
        speaks = attempt.heard.at is not None  # then it cannot take much longer
        again = again_after(0 if speaks else attempt.tries, now)
        later: attempts.Changes = {"tries": attempt.tries + 1, "try_after": again}
        changes = put_off(attempt, error, now) if error is not None else later
        attempts.change(connection, attempt.id, [AttemptState.ASKED], **changes)
        return False


@dataclass(slots=True)
class Start(AboutAttempt):
    """A VM that Google stopped is started again, with its disk. `action` is None where that was committed before."""

    action: RestartVm | None = None
    number: int = 0
    committed_at: datetime | None = None  # part of its request id, so that it is of this very intent
    seen: Sighting | None = None
    operation: str = ""
    urgency: Urgency = field(default=Urgency.LAUNCH, init=False)

    @property
    def begins_with(self) -> Kind:
        return Kind.WRITE if self.action is not None else Kind.READ

    def intend(self, connection: Connection, now: datetime) -> bool:
        """Each start is counted, for each has a request id of its own: a repeat of one that failed fails for ever."""
        stored = attempts.read(connection, self.attempt.id)
        if stored is None:
            return False
        if self.action is None:
            self.number, self.committed_at = stored.restarts, stored.asked_at
            return stored.state is AttemptState.RESTARTING and not stored.operation
        self.number, self.committed_at = stored.restarts + 1, now
        return attempts.change(
            connection,
            self.attempt.id,
            [AttemptState.RESTING],
            state=AttemptState.RESTARTING,
            restarts=self.number,
            asked_at=now,
            operation="",
            tries=0,
            try_after=None,
            error="",
        )

    def call(self) -> None:
        attempt = self.attempt
        if self.action is None:
            self.seen = self.means.launcher.look(attempt.project, attempt.zone, attempt.name)
            if self.seen is not None and is_of(self.seen, attempt, self.means.maker) and self.seen.status in _UP:
                return
        moment = self.committed_at.isoformat() if self.committed_at is not None else ""
        uuid = request_uuid(attempt.project, attempt.name, f"start/{self.number}/{moment}")
        self.operation = self.means.launcher.start(attempt.project, attempt.zone, attempt.gce_id, uuid)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        if isinstance(error, NotFound):
            return end(connection, self.job, self.attempt, Outcome.LOST, "its VM is gone, and its disk", now)
        if isinstance(error, RequestRefused | BadAnswer):
            return back_to_rest(connection, self.attempt, str(error), now + _STOPPED_S)
        if error is not None:
            restarting = [AttemptState.RESTARTING]
            attempts.change(connection, self.attempt.id, restarting, **put_off(self.attempt, error, now))
            return False
        if not self.operation:
            return up_again(connection, self.job, self.attempt, now)
        interruptions.set_requested(connection, self.job.id, now)
        attempts.change(
            connection,
            self.attempt.id,
            [AttemptState.RESTARTING],
            operation=self.operation,
            asked_at=now,
            tries=0,
            try_after=again_after(0, now),
            error="",
        )
        return False


@dataclass(slots=True)
class WatchStart(AboutAttempt):
    """A start whose operation is not known to be done."""

    answer: OperationAnswer | None = None
    seen: Sighting | None = None
    urgency: Urgency = field(default=Urgency.LOOK, init=False)

    def call(self) -> None:
        attempt = self.attempt
        self.answer = self.means.launcher.operation(attempt.project, attempt.zone, attempt.operation)
        if self.answer is None:
            self.seen = self.means.launcher.look(attempt.project, attempt.zone, attempt.name)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        attempt, answer = self.attempt, self.answer
        if error is None and answer is not None and answer.error_code:
            return back_to_rest(connection, attempt, words_of(answer), again_after(attempt.restarts, now))
        is_up = self.seen is not None and self.seen.status in _UP
        if error is None and ((answer is not None and answer.is_done) or is_up):
            return up_again(connection, self.job, attempt, now)
        if error is None and answer is None and now - (attempt.asked_at or now) > _FORGOTTEN:
            return back_to_rest(connection, attempt, "Google knows nothing of the start any more", now)
        later: attempts.Changes = {"tries": attempt.tries + 1, "try_after": again_after(attempt.tries, now)}
        changes = put_off(attempt, error, now) if error is not None else later
        attempts.change(connection, attempt.id, [AttemptState.RESTARTING], **changes)
        return False


def back_to_rest(connection: Connection, attempt: Attempt, error: str, again: datetime) -> bool:
    """It did not start. It cannot move, for its disk is there: it is tried again."""
    return attempts.change(
        connection,
        attempt.id,
        [AttemptState.RESTARTING],
        state=AttemptState.RESTING,
        rested_at=attempt.rested_at or attempt.asked_at,
        operation="",
        try_after=again,
        error=error,
    )


def up_again(connection: Connection, job: Job, attempt: Attempt, now: datetime) -> bool:
    changed = attempts.change(
        connection,
        attempt.id,
        [AttemptState.RESTARTING],
        state=AttemptState.BOOTING,
        made_at=now,
        tries=0,
        try_after=None,
        error="",
    )
    if changed:
        interruptions.set_requested(connection, job.id, now)
        facts.append(connection, [launch_words.restarted(job, attempt, now)], now)
    return changed
