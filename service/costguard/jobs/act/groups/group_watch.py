"""Watches a resize request until its VMs are there, or it has come to nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions.execute import Urgency
from costguard.errors import CloudError
from costguard.jobs.act.attempts.insert import WAITS_FOR, seen_there, taken
from costguard.jobs.act.attempts.vm_step import end, is_of, retry_at, retry_changes
from costguard.jobs.act.groups.group_insert import GroupStep, address_of
from costguard.jobs.decide.recovery.ending import outcome_of, words_of
from costguard.jobs.rows import attempts
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.launch import OperationAnswer, ResizeAnswer, ResizeState
from costguard.model.observation import Sighting

_FORGOTTEN = timedelta(minutes=5)  # a request that Google does not know by then it never took
_SOON = timedelta(seconds=5)  # between looks at VMs that are being made: they bill once they are up
_MOST_LOOKS = 10  # for a VM of a request that has succeeded
_OPEN = (AttemptState.ASKED, AttemptState.WAITING)
_HAS_VMS = frozenset({ResizeState.CREATING, ResizeState.SUCCEEDED, ResizeState.FAILED, ResizeState.UNKNOWN})


@dataclass(slots=True)
class WatchGroupStep(GroupStep):
    """Attempts of one resize request whose VMs are not there yet."""

    answer: ResizeAnswer | None = None
    seen: dict[int, Sighting | None] = field(default_factory=dict)  # by attempt, of those that were looked for
    urgency: Urgency = field(default=Urgency.LOOK, init=False)

    def call(self) -> None:
        lead = self.attempts[0]
        self.answer = self.means.launcher.groups.resize_answer(address_of(lead), lead.resize_request)
        if self.answer is None or self.answer.state in _HAS_VMS:
            for one in self.attempts:
                self.seen[one.id] = self.means.launcher.look(one.project, one.zone, one.name)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        if error is not None:
            for one in self.attempts:
                attempts.change(connection, one.id, _OPEN, **retry_changes(one, error, now))
            return False
        changed = [self._settled(connection, one, now) for one in self.attempts]  # each of them
        return any(changed)

    def _settled(self, connection: Connection, attempt: Attempt, now: datetime) -> bool:
        seen = self.seen.get(attempt.id)
        if seen is not None and is_of(seen, attempt, self.means.maker):
            return seen_there(connection, self.job, attempt, seen, now)
        if seen is not None:
            return end(connection, self.job, attempt, Outcome.REFUSED, taken(attempt), now)
        match self.answer.state if self.answer is not None else None:
            case ResizeState.ACCEPTED:
                return self._waits(connection, attempt, now)
            case ResizeState.FAILED:
                return end(connection, self.job, attempt, *self._failure(attempt), now)
            case ResizeState.CANCELLED:
                why = "its resize request was cancelled, and not by this guard"
                return end(connection, self.job, attempt, Outcome.LOST, why, now)
            case ResizeState.SUCCEEDED if attempt.tries >= _MOST_LOOKS:
                why = "its resize request has succeeded, and its VM is not there"
                return end(connection, self.job, attempt, Outcome.LOST, why, now)
            case None if attempt.state is AttemptState.WAITING:
                why = "its resize request is gone, and nothing says why"
                return end(connection, self.job, attempt, Outcome.LOST, why, now)
            case None if now - (attempt.asked_at or attempt.intended_at) > _FORGOTTEN:
                return self._again(connection, attempt)
            case _:
                return self._later(connection, attempt, now)

    def _waits(self, connection: Connection, attempt: Attempt, now: datetime) -> bool:
        """It is in Google's queue: nothing bills, and it may be given up at any moment."""
        state = AttemptState.WAITING
        changed = attempts.change(
            connection, attempt.id, _OPEN, state=state, tries=0, try_after=now + WAITS_FOR, error=""
        )
        return changed and attempt.state is not state

    def _again(self, connection: Connection, attempt: Attempt) -> bool:
        """Has it requested again: harmless, should Google remember it after all."""
        error = "Google does not know its resize request"
        return attempts.change(
            connection,
            attempt.id,
            [AttemptState.ASKED],
            state=AttemptState.INTENDED,
            tries=0,
            try_after=None,
            error=error,
        )

    def _later(self, connection: Connection, attempt: Attempt, now: datetime) -> bool:
        """VMs may be made at this moment: nothing is decided meanwhile."""
        is_made = self.answer is not None and self.answer.state is ResizeState.CREATING
        again = now + _SOON if self.answer is not None else retry_at(attempt.tries, now)
        tries = 0 if is_made else attempt.tries + 1
        attempts.change(connection, attempt.id, _OPEN, state=AttemptState.ASKED, tries=tries, try_after=again)
        return False

    def _failure(self, attempt: Attempt) -> tuple[Outcome, str]:
        """Google's words; a failure that says nothing else is that the VMs were not to be had."""
        assert self.answer is not None, "a request that failed was read"
        said = OperationAnswer(is_done=True, error_code=self.answer.error_code, error_message=self.answer.error_message)
        outcome = outcome_of(said)
        outcome = Outcome.STOCKOUT if outcome is Outcome.LOST else outcome
        words = words_of(said, attempt.project) if said.error_code or said.error_message else "Google does not say why"
        return outcome, f"its resize request failed: {words}"
