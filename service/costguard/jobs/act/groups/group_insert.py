"""Steps that request VMs all at once: their attempts are committed, and then template, group and resize request made.

Each of the three is known by a name of this very intent. What is there is looked at first, and one thing is begun at a
time, so that a guard that ends anywhere goes on where it stood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions.execute import StepDefaults, Urgency
from costguard.errors import CloudError, RequestRefused
from costguard.jobs.act.attempts.insert import OVERTAKEN, InGroup, intend_attempt, launched
from costguard.jobs.act.attempts.vm_step import LaunchContext, LaunchStep, end, request_uuid, retry_at, retry_changes
from costguard.jobs.decide.actions import LaunchAttempt
from costguard.jobs.decide.recovery.ending import is_reservation_full
from costguard.jobs.decide.recovery.resume import ResumePoint
from costguard.jobs.rows import agenda, attempts
from costguard.ledger import generation
from costguard.model.attempt import Attempt, AttemptState, Outcome, attempt_name, group_name
from costguard.model.job import Job
from costguard.model.launch import GroupAddress, ResizeRequest

_NEXT_PART = timedelta(seconds=3)  # after which a part that was begun is looked for: it takes Google a second or two
_MOST_TRIES = 20  # of looks, 3 s apart at first: a template and a group take two or three of them
_INTENDED = (AttemptState.INTENDED,)


def address_of(attempt: Attempt) -> GroupAddress:
    """Returns the group that makes the attempt's VM."""
    return GroupAddress(attempt.project, attempt.zone, attempt.vm_group)


@dataclass(slots=True)
class GroupInsertStep(LaunchStep):
    """The next attempts of a gang on flex-start, in one place: a group for all of them, or a request of the group that
    the others have.
    """

    actions: Sequence[LaunchAttempt]
    point: ResumePoint
    attempts: list[Attempt] = field(default_factory=list)
    is_requested: bool = False
    urgency: Urgency = field(default=Urgency.LAUNCH, init=False)

    def intend(self, connection: Connection, now: datetime) -> bool:
        """Intends all attempts or none; see `InsertStep`."""
        may = (agenda.may_join(connection, self.subject, one.node, one.formation) for one in self.actions)
        if not all(may):
            return False
        group = self._group(connection, now)
        made = [
            intend_attempt(connection, self.means, self.view, action, self.point, now, group) for action in self.actions
        ]
        self.attempts = [one for one in made if one is not None]
        return bool(self.attempts)

    def _group(self, connection: Connection, now: datetime) -> InGroup:
        """Returns the group of the formation's first attempt, which these join; a new one where that is among them."""
        first = self.actions[0]
        name = f"r{first.number}"
        for seen in self.view.attempts:
            if seen.attempt.number == first.formation:
                return InGroup(seen.attempt.vm_group, name, seen.attempt.request_uuid)
        lead = attempt_name(self.subject, first.number, generation.read(connection).number)
        uuid = request_uuid(self.project, lead, f"insert/{now.isoformat()}")
        return InGroup(group_name(lead, uuid), name, uuid)

    def call(self) -> None:
        self.is_requested = request_next(self.means, self.view.job, self.attempts)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        return settle_request(connection, self.view.job, self.attempts, now, error, is_requested=self.is_requested)


@dataclass(slots=True)
class GroupStep(StepDefaults):
    """A step on attempts of one group, at least one."""

    means: LaunchContext
    job: Job
    attempts: Sequence[Attempt]

    @property
    def subject(self) -> str:
        return self.job.id

    @property
    def project(self) -> str:
        return self.attempts[0].project


@dataclass(slots=True)
class RepeatGroupStep(GroupStep):
    """Attempts of one resize request, of which it is not known whether Google has it, or which it does not have yet."""

    only_looks: bool = False  # another VM of its job may be at work, so that these must not be made now
    is_requested: bool = False
    is_wanted: bool = True
    urgency: Urgency = field(default=Urgency.LAUNCH, init=False)

    def intend(self, connection: Connection, now: datetime) -> bool:  # noqa: ARG002 as all steps have it
        stored = attempts.of_ids(connection, [one.id for one in self.attempts])
        intended = (one for one in stored.values() if one.state is AttemptState.INTENDED)
        self.attempts = sorted(intended, key=lambda one: one.number)
        self.is_wanted = self.job.cancel_asked_at is None and not self.job.state.is_over
        return bool(self.attempts)

    def call(self) -> None:
        if self.only_looks or not self.is_wanted:
            lead = self.attempts[0]
            answer = self.means.launcher.groups.resize_answer(address_of(lead), lead.resize_request)
            self.is_requested = answer is not None
            return
        self.is_requested = request_next(self.means, self.job, self.attempts)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        if error is None and not self.is_requested and not self.is_wanted:
            why = "it was cancelled before its VMs were requested"
            return _end_all(connection, self.job, self.attempts, Outcome.CANCELLED, why, now)
        if error is None and not self.is_requested and self.only_looks:
            return _end_all(connection, self.job, self.attempts, Outcome.LOST, OVERTAKEN, now)
        return settle_request(connection, self.job, self.attempts, now, error, is_requested=self.is_requested)


def request_next(means: LaunchContext, job: Job, members: Sequence[Attempt]) -> bool:
    """Begins the next part that is missing. True: Google has the resize request. Raises CloudError."""
    lead, groups = members[0], means.launcher.groups
    group = address_of(lead)
    if groups.resize_answer(group, lead.resize_request) is not None:
        return True

    def uuid(what: str) -> str:
        return request_uuid(lead.project, lead.vm_group, f"{what}/{lead.request_uuid}/{lead.tries}")

    parts = groups.parts(group)
    if not parts.has_template:
        groups.insert_template(group, means.maker.request(job, lead), uuid("template"))
        return False
    if not parts.has_group:
        groups.insert_group(group, uuid("group"))
        return False
    wanted = ResizeRequest(lead.resize_request, tuple(one.name for one in members), lead.max_run)
    groups.resize(group, wanted, uuid(lead.resize_request))
    return True


def settle_request(
    connection: Connection,
    job: Job,
    members: Sequence[Attempt],
    now: datetime,
    error: CloudError | None,
    *,
    is_requested: bool,
) -> bool:
    """Records that Google has the request, or that the next part is to be made, or why it is refused."""
    if isinstance(error, RequestRefused):
        outcome = Outcome.STOCKOUT if is_reservation_full(error.message) else Outcome.REFUSED
        return _end_all(connection, job, members, outcome, error.message.rstrip("."), now, str(error))
    tries = members[0].tries + 1
    if not is_requested and tries > _MOST_TRIES:
        why = f"the group for its VMs was not there after {tries - 1} tries{f': {error}' if error is not None else ''}"
        return _end_all(connection, job, members, Outcome.LOST, why, now)
    for one in members:
        if error is not None:
            attempts.change(connection, one.id, _INTENDED, **retry_changes(one, error, now))
        elif not is_requested:
            again = now + _NEXT_PART if tries < _MOST_TRIES // 2 else retry_at(tries, now)
            attempts.change(connection, one.id, _INTENDED, tries=tries, try_after=again, error="")
        else:
            state = AttemptState.ASKED
            changed = attempts.change(
                connection,
                one.id,
                _INTENDED,
                state=state,
                asked_at=now,
                tries=0,
                try_after=now + _NEXT_PART,
                error="",
            )
            if changed:
                launched(connection, job, replace(one, state=state), now)
    return False


def _end_all(
    connection: Connection,
    job: Job,
    members: Sequence[Attempt],
    outcome: Outcome,
    reason: str,
    now: datetime,
    error: str = "",
) -> bool:
    changed = [end(connection, job, one, outcome, reason, now, error) for one in members]  # each of them
    return any(changed)
