"""Steps that stop job VMs and restart them with their disks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions import ending_vms
from costguard.actions.execute import CallKind, Urgency
from costguard.errors import BadAnswer, CloudError, NotFound, RequestRefused
from costguard.events import audit_log
from costguard.jobs.act.attempts.vm_step import AttemptStep, end, is_of, request_uuid, retry_at, retry_changes
from costguard.jobs.decide.actions import RestartVm
from costguard.jobs.decide.recovery.ending import words_of
from costguard.jobs.rows import attempts, job_events, kept_disks
from costguard.jobs.rows.recovery import interruptions
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.backoff import Backoff
from costguard.model.instance import Status
from costguard.model.job import Job
from costguard.model.launch import OperationAnswer
from costguard.model.observation import Sighting

_BACKOFF = Backoff(timedelta(seconds=10), timedelta(minutes=2))
_NOT_RUNNING = frozenset({Status.STOPPED, Status.SUSPENDED})
_ON_ITS_WAY = frozenset({Status.STOPPING, Status.SUSPENDING, Status.DEPROVISIONING})
_STATES = (AttemptState.RESTING, AttemptState.ENDING)


@dataclass(slots=True)
class StopStep(AttemptStep):
    """The VM of an attempt that is started again later (RESTING), or is kept for what its disk holds (ENDING)."""

    seen: Sighting | None = None
    is_asked: bool = False
    urgency: Urgency = field(default=Urgency.STOP, init=False)

    def call(self) -> None:
        attempt = self.attempt
        seen = self.means.launcher.look(attempt.project, attempt.zone, attempt.name)
        if seen is None or not is_of(seen, attempt, self.means.maker):
            return
        self.seen = seen
        if seen.status in _NOT_RUNNING | _ON_ITS_WAY:
            return
        uuid = request_uuid(attempt.project, attempt.name, f"stop/{seen.gce_id}/{attempt.restarts}/{attempt.tries}")
        address, is_own = (attempt.project, attempt.zone, attempt.name), bool(attempt.gce_id)
        ending_vms.stop(self.means.launcher, address, seen, uuid, is_own=is_own)
        self.is_asked = True

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        attempt = self.attempt
        if isinstance(error, NotFound):
            # It was there a moment ago: the next look says so for certain.
            attempts.change(connection, attempt.id, _STATES, try_after=now)
            return True
        if error is not None:
            changes = retry_changes(attempt, error, now)
            changes["error"] = ""  # it is no start that failed
            attempts.change(connection, attempt.id, _STATES, **changes)
            return False
        if self.seen is None:
            return self._gone(connection, now)
        if self.seen.status in _NOT_RUNNING and attempt.state is AttemptState.ENDING:
            return self._kept(connection, self.seen, now)
        if self.seen.status is Status.STOPPED and attempt.state is AttemptState.RESTING:
            resting = [AttemptState.RESTING]
            return attempts.change(connection, attempt.id, resting, rested_at=now, tries=0, try_after=None, error="")
        attempts.change(
            connection,
            attempt.id,
            _STATES,
            gce_id=self.seen.gce_id,
            tries=attempt.tries + 1,
            try_after=now + _BACKOFF.after(attempt.tries + 1),
            error="",
        )
        return False

    def _gone(self, connection: Connection, now: datetime) -> bool:
        attempt = self.attempt
        if attempt.state is AttemptState.RESTING:
            return end(connection, self.job, attempt, Outcome.LOST, "its VM is gone, and its disk with it", now)
        over = AttemptState.OVER
        ending = [AttemptState.ENDING]
        return attempts.change(connection, attempt.id, ending, state=over, gone_at=now, try_after=None, error="")

    def _kept(self, connection: Connection, seen: Sighting, now: datetime) -> bool:
        changed = attempts.change(
            connection,
            self.attempt.id,
            [AttemptState.ENDING],
            state=AttemptState.KEPT,
            gce_id=seen.gce_id,
            tries=0,
            try_after=None,
            error="",
        )
        if changed:
            held = kept_disks.words(connection, self.job, now)
            audit_log.append(connection, [job_events.disk_kept(self.job, self.attempt, *held, now)], now)
        return changed


_STOPPED_S = timedelta(seconds=15)  # a VM that is still stopping is started a little later
_FORGOTTEN = timedelta(minutes=5)  # an operation that Google does not know by then it never began
_UP = frozenset({Status.PENDING, Status.PROVISIONING, Status.STAGING, Status.RUNNING, Status.REPAIRING})


@dataclass(slots=True)
class StartStep(AttemptStep):
    """A VM that Google stopped is started again, with its disk. `action` is None where that was committed before."""

    action: RestartVm | None = None
    number: int = 0
    committed_at: datetime | None = None  # part of its request id, so that it is of this very intent
    seen: Sighting | None = None
    operation: str = ""
    urgency: Urgency = field(default=Urgency.LAUNCH, init=False)

    @property
    def begins_with(self) -> CallKind:
        return CallKind.WRITE if self.action is not None else CallKind.READ

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
            attempts.change(connection, self.attempt.id, restarting, **retry_changes(self.attempt, error, now))
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
            try_after=retry_at(0, now),
            error="",
        )
        return False


@dataclass(slots=True)
class WatchStartStep(AttemptStep):
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
            return back_to_rest(connection, attempt, words_of(answer, attempt.project), retry_at(attempt.restarts, now))
        is_up = self.seen is not None and self.seen.status in _UP
        if error is None and ((answer is not None and answer.is_done) or is_up):
            return up_again(connection, self.job, attempt, now)
        if error is None and answer is None and now - (attempt.asked_at or now) > _FORGOTTEN:
            return back_to_rest(connection, attempt, "Google no longer knows the operation that starts it", now)
        later: attempts.Changes = {"tries": attempt.tries + 1, "try_after": retry_at(attempt.tries, now)}
        changes = retry_changes(attempt, error, now) if error is not None else later
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
        audit_log.append(connection, [job_events.restarted(job, attempt, now)], now)
    return changed
