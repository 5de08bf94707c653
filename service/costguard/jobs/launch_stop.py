"""Stopping VMs of jobs whose disks hold the only copy of what was saved: believed when they are seen to be stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.errors import CloudError, NotFound
from costguard.events import facts
from costguard.jobs import attempts, kept_disks, launch_words
from costguard.jobs.launch_step import AboutAttempt, Urgency, is_of, put_off, request_uuid
from costguard.jobs.launch_written import end
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.instance import Status
from costguard.model.observation import Sighting

_LOOK_AGAIN = timedelta(seconds=10)
_LONGEST = timedelta(minutes=2)
_AT_REST = frozenset({Status.STOPPED, Status.SUSPENDED})
_ON_ITS_WAY = frozenset({Status.STOPPING, Status.SUSPENDING, Status.DEPROVISIONING})
_STATES = (AttemptState.RESTING, AttemptState.ENDING)


@dataclass(slots=True)
class Stop(AboutAttempt):
    """The VM of an attempt that is started again later (RESTING), or is kept for what its disk holds (ENDING)."""

    seen: Sighting | None = None
    is_asked: bool = False
    urgency: Urgency = field(default=Urgency.DELETE, init=False)

    def call(self) -> None:
        attempt = self.attempt
        found = self.means.launcher.look(attempt.project, attempt.zone, attempt.name)
        if found is None or not is_of(found, attempt, self.means.maker):
            return
        self.seen = found
        if found.status in _AT_REST | _ON_ITS_WAY:
            return
        uuid = request_uuid(attempt.project, attempt.name, f"stop/{found.gce_id}/{attempt.restarts}/{attempt.tries}")
        self.means.launcher.stop(attempt.project, attempt.zone, found.gce_id, uuid)
        self.is_asked = True

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        attempt = self.attempt
        if isinstance(error, NotFound):
            # It was there a moment ago: the next look says so for certain.
            attempts.change(connection, attempt.id, _STATES, try_after=now)
            return True
        if error is not None:
            changes = put_off(attempt, error, now)
            changes["error"] = ""  # it is no start that failed
            attempts.change(connection, attempt.id, _STATES, **changes)
            return False
        if self.seen is None:
            return self._gone(connection, now)
        if self.seen.status in _AT_REST and attempt.state is AttemptState.ENDING:
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
            try_after=now + min(_LONGEST, _LOOK_AGAIN * 2 ** min(attempt.tries, 5)),
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
            facts.append(connection, [launch_words.disk_kept(self.job, self.attempt, *held, now)], now)
        return changed
