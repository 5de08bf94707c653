"""Watches the insert of a job's VM until it is done, and a request of flex-start until it is granted or gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions.execute import Urgency
from costguard.errors import CloudError
from costguard.jobs.act.attempts.insert import WAITS_FOR, adopted, seen_there
from costguard.jobs.act.attempts.vm_step import AttemptStep, end, is_of, retry_at, retry_changes
from costguard.jobs.decide.recovery.ending import NAME_TAKEN, outcome_of, words_of
from costguard.jobs.rows import attempts
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.buying import FLEX
from costguard.model.duration import span_text
from costguard.model.job import Job
from costguard.model.launch import NO_NOTICE, OperationAnswer
from costguard.model.observation import Sighting
from costguard.refusals.reader import is_about_notice

_FORGOTTEN = timedelta(minutes=5)  # an operation that Google does not know by then it never began


@dataclass(slots=True)
class WatchInsertStep(AttemptStep):
    """An insert whose operation is not known to be done."""

    answer: OperationAnswer | None = None
    seen: Sighting | None = None
    urgency: Urgency = field(default=Urgency.LOOK, init=False)

    def call(self) -> None:
        where, attempt = (self.attempt.project, self.attempt.zone), self.attempt
        self.answer = self.means.launcher.operation(*where, attempt.operation)
        is_known = self.answer is not None and self.answer.is_done and self.answer.target_id
        is_failed = self.answer is not None and self.answer.error_code not in ("", NAME_TAKEN)
        if is_failed:
            return
        # Whether a flex-start VM is PENDING, and the operation with it or done, only a look can tell.
        may_wait = attempt.provisioning_model is FLEX
        if may_wait or ((self.answer is None or self.answer.is_done) and not is_known):
            self.seen = self.means.launcher.look(*where, attempt.name)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        job, attempt, answer = self.job, self.attempt, self.answer
        if error is not None:
            return self._later(connection, now, error)
        if answer is not None and answer.error_code and not self._is_there():
            if attempt.notice and is_about_notice(answer.error_message):
                return self._without_notice(connection, now)
            outcome, words = self._outcome(answer), words_of(answer, attempt.project)
            return end(connection, job, attempt, outcome, words, now, zones_available=answer.zones_available)
        if self._is_there() and self.seen is not None:
            return seen_there(connection, job, attempt, self.seen, now)
        is_made = answer is not None and answer.is_done and answer.target_id
        if attempt.provisioning_model is FLEX and (is_made or attempt.state is AttemptState.WAITING):
            return end(connection, job, attempt, *_given_up_by_google(job, attempt, now), now)
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
                error="Google no longer knows the operation that creates it",
            )
        return self._later(connection, now)

    def _without_notice(self, connection: Connection, now: datetime) -> bool:
        """Has the VM asked for again, without the notice that its operation failed for."""
        self.means.refused_notices.note(self.attempt.zone, self.job.recipe.machine_type, now)
        return attempts.change(
            connection,
            self.attempt.id,
            [AttemptState.ASKED],
            state=AttemptState.INTENDED,
            notice=NO_NOTICE,
            operation="",
            tries=0,
            try_after=None,
            error="Google refused the notice of a preemption",
        )

    def _outcome(self, answer: OperationAnswer) -> Outcome:
        """A VM whose agent spoke was there, and was taken away while Google still made it.

        Google's words for a request of flex-start that was not granted are not public: what ends one that waited, and
        says nothing else, is that.
        """
        outcome = outcome_of(answer)
        if outcome is Outcome.LOST and self.attempt.state is AttemptState.WAITING:
            outcome = Outcome.STOCKOUT
        return Outcome.PREEMPTED if outcome is Outcome.STOCKOUT and self.attempt.agent.at is not None else outcome

    def _is_there(self) -> bool:
        return self.seen is not None and is_of(self.seen, self.attempt, self.means.maker)

    def _later(self, connection: Connection, now: datetime, error: CloudError | None = None) -> bool:
        """The operation is still running: nothing is decided meanwhile."""
        attempt = self.attempt
        speaks = attempt.agent.at is not None  # then it cannot take much longer
        again = retry_at(0 if speaks else attempt.tries, now)
        later: attempts.Changes = {"tries": attempt.tries + 1, "try_after": again}
        changes = retry_changes(attempt, error, now) if error is not None else later
        attempts.change(connection, attempt.id, [AttemptState.ASKED, AttemptState.WAITING], **changes)
        return False


def _given_up_by_google(job: Job, attempt: Attempt, now: datetime) -> tuple[Outcome, str]:
    """Returns the outcome of a request of flex-start whose VM is gone, and nothing says why."""
    waited = now - (attempt.asked_at or attempt.intended_at)
    if waited + WAITS_FOR >= job.recipe.wait:
        return Outcome.STOCKOUT, f"not granted within {span_text(job.recipe.wait)}"
    return Outcome.LOST, f"its request of flex-start was gone after {span_text(waited)}, and nothing says why"
