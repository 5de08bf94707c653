"""Steps that launch VMs: an attempt is committed, inserted, and inserted again only after a look at its name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog
from sqlalchemy import Connection

from costguard.actions.execute import Urgency
from costguard.errors import CloudError, NoticeRefused, RequestRefused
from costguard.events import audit_log
from costguard.jobs.act.attempts.vm_step import (
    AttemptStep,
    LaunchContext,
    LaunchStep,
    end,
    is_of,
    request_uuid,
    retry_at,
    retry_changes,
)
from costguard.jobs.decide.actions import LaunchAttempt
from costguard.jobs.decide.checkpoints import work_at_risk
from costguard.jobs.decide.recovery.ending import is_reservation_full
from costguard.jobs.decide.recovery.resume import ResumePoint, has_saved
from costguard.jobs.decide.view import JobView
from costguard.jobs.rows import agenda, attempts, job_events, job_rows
from costguard.jobs.rows.gang import gang_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.ledger import generation
from costguard.model.attempt import Attempt, AttemptState, Outcome, attempt_name
from costguard.model.instance import Status
from costguard.model.job import Job, JobKind
from costguard.model.launch import NO_NOTICE
from costguard.model.observation import Sighting

log = structlog.get_logger(__name__)


WAITS_FOR = timedelta(seconds=30)  # between two looks at a request that waits: a VM bills once it is up


@dataclass(frozen=True, slots=True)
class _Inserted:
    operation: str
    is_notice_refused: bool = False  # and the VM was asked for without one


@dataclass(slots=True)
class InsertStep(LaunchStep):
    """The next attempt of a job, in the place that was decided on."""

    action: LaunchAttempt
    point: ResumePoint
    attempt: Attempt | None = None
    inserted: _Inserted | None = None
    urgency: Urgency = field(default=Urgency.LAUNCH, init=False)

    def intend(self, connection: Connection, now: datetime) -> bool:
        """Intends the attempt: not after a cancel, nor while another attempt is open, but the one that it follows, or
        has this number.
        """
        action, follows, formation = self.action, self.action.follows, self.action.formation
        if formation and not agenda.may_join(connection, self.subject, action.node, formation):
            return False
        if follows is None and not formation and not agenda.may_follow(connection, self.subject):
            return False
        if follows is not None and not agenda.may_stand_by(connection, self.subject, follows):
            return False
        self.attempt = intend_attempt(connection, self.means, self.view, action, self.point, now)
        if self.attempt is None:
            return False
        if follows is None and not formation:
            reckon(connection, self.view, self.attempt, self.point, now)
        return True

    def call(self) -> None:
        self.inserted = _insert(self.means, self.view.job, _given(self.attempt))

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        attempt = _given(self.attempt)
        if error is not None or self.inserted is None:
            return troubled(connection, self.view.job, attempt, error or CloudError("No answer came."), now)
        return accepted(connection, self.means, self.view.job, attempt, self.inserted, now)


class InGroup(NamedTuple):
    """The group that makes an attempt's VM, its resize request, and the id of the intent that the group is of."""

    name: str
    resize_request: str
    request_uuid: str


def intend_attempt(
    connection: Connection,
    means: LaunchContext,
    view: JobView,
    action: LaunchAttempt,
    point: ResumePoint,
    now: datetime,
    group: InGroup | None = None,
) -> Attempt | None:
    """Commits what is to be asked of Google. None: the job has an attempt of this number already."""
    job, life = view.job, generation.read(connection)
    is_refused = means.refused_notices.hold(action.zone, job.recipe.machine_type, now)
    name = attempt_name(job.id, action.number, life.number)
    # Of this very intent: should the database be restored, the same attempt has another one.
    own = request_uuid(job.spec.project, name, f"insert/{now.isoformat()}")
    return attempts.intend(
        connection,
        attempts.NewAttempt(
            job_id=job.id,
            number=action.number,
            name=name,
            project=job.spec.project,
            zone=action.zone,
            gpu_type=job.recipe.gpu_type,
            provisioning_model=action.provisioning_model,
            request_uuid=own if group is None else group.request_uuid,
            max_run=action.max_run,
            intended_at=now,
            generation=life.number,
            rate=action.rate,
            resume_from=point.resume_from,
            resume_step=point.step,
            resume_why=point.why,
            image=_image(view),
            follows=action.follows,
            address=action.address,
            notice=NO_NOTICE if is_refused else job.recipe.notice_of(action.provisioning_model),
            node=action.node,
            formation=action.formation,
            vm_group="" if group is None else group.name,
            resize_request="" if group is None else group.resize_request,
        ),
    )


def reckon(connection: Connection, view: JobView, attempt: Attempt, point: ResumePoint, now: datetime) -> None:
    """Write down what the interruption before cost, now that it is known what is resumed from."""
    job = view.job
    if point.seen is not None:
        job_rows.save_look(connection, job.id, point.seen)
        # Nothing can write there any more, so what looks torn is.
        audit_log.append(connection, [job_events.torn(job, checkpoint, now) for checkpoint in point.seen.torn], now)
    if point.passed_over:
        audit_log.append(connection, [job_events.passed_over(job, attempt, point.passed_over, now)], now)
    ran = [one.attempt for one in view.attempts]
    ended = work_at_risk.once_each_round(ran, view.interruptions) if job.is_gang else view.interruptions
    loss = work_at_risk.lost_in(view, point.written_at)
    if loss is None:
        return
    is_zero = not attempt.resume_from
    if view.rounds:
        gang_rows.set_lost(connection, job.id, view.rounds[-1].number, loss.span, loss.cost, is_zero)
    if ended:
        last = ended[-1]
        interruptions.set_lost(connection, last.attempt_id, last.run, loss.span, loss.cost, is_zero)
    if is_zero:
        saved = has_saved(ran, view.checkpoint, point.seen)
        what = f"from_zero/round/{attempt.round}" if job.is_gang else "from_zero"
        audit_log.append(connection, [job_events.from_zero(job, attempt, loss, now, saved, what)], now)


@dataclass(slots=True)
class RepeatInsertStep(AttemptStep):
    """An attempt of which it is not known whether Google was asked."""

    only_looks: bool = False  # another VM of its job may be at work, so that this one must not be made now
    seen: Sighting | None = None
    inserted: _Inserted | None = None
    urgency: Urgency = field(default=Urgency.LAUNCH, init=False)

    def intend(self, connection: Connection, now: datetime) -> bool:  # noqa: ARG002 as all steps have it
        stored = attempts.read(connection, self.attempt.id)
        return stored is not None and stored.state is AttemptState.INTENDED

    def call(self) -> None:
        attempt = self.attempt
        self.seen = self.means.launcher.look(attempt.project, attempt.zone, attempt.name)
        if self.only_looks:
            return
        if self.seen is None and self.job.cancel_asked_at is None and not self.job.state.is_over:
            self.inserted = _insert(self.means, self.job, attempt)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        job, attempt = self.job, self.attempt
        if error is not None:
            return troubled(connection, job, attempt, error, now)
        if self.inserted is not None:
            return accepted(connection, self.means, job, attempt, self.inserted, now)
        if self.seen is None and self.only_looks and job.cancel_asked_at is None and not job.state.is_over:
            why = OVERTAKEN if attempt.follows is None else _NOT_NEEDED
            return end(connection, job, attempt, Outcome.LOST, why, now)
        if self.seen is None:
            return end(connection, job, attempt, Outcome.CANCELLED, "it was cancelled before it had a VM", now)
        if is_of(self.seen, attempt, self.means.maker):
            return seen_there(connection, job, attempt, self.seen, now)
        return end(connection, job, attempt, Outcome.REFUSED, taken(attempt), now)


def accepted(
    connection: Connection, means: LaunchContext, job: Job, attempt: Attempt, inserted: _Inserted, now: datetime
) -> bool:
    """Google accepted the insert. Nothing is to be decided until it is done, or the agent speaks."""
    if inserted.is_notice_refused:
        means.refused_notices.note(attempt.zone, job.recipe.machine_type, now)
        log.info("notice_refused", job=job.id, attempt=attempt.name, zone=attempt.zone)
    changed = attempts.change(
        connection,
        attempt.id,
        [AttemptState.INTENDED],
        state=AttemptState.ASKED,
        asked_at=now,
        operation=inserted.operation,
        notice=NO_NOTICE if inserted.is_notice_refused else attempt.notice or NO_NOTICE,
        tries=0,
        try_after=retry_at(0, now),
        error="",
    )
    if changed:
        launched(connection, job, attempt, now)
    return False


def adopted(
    connection: Connection, job: Job, attempt: Attempt, gce_id: str, now: datetime, notice: timedelta = NO_NOTICE
) -> bool:
    """Records that its VM is there. Its agent may have reported before: then the command runs already.

    A dev VM has none. `notice` is the VM's own, where it was seen: an insert whose answer was lost may have made it.
    """
    runs = job.spec.kind is JobKind.DEV or agenda.has_started(connection, attempt.id)
    changed = attempts.change(
        connection,
        attempt.id,
        [AttemptState.INTENDED, AttemptState.ASKED, AttemptState.WAITING],
        state=AttemptState.RUNNING if runs else AttemptState.BOOTING,
        asked_at=attempt.asked_at or now,
        gce_id=gce_id,
        made_at=now,
        notice=max(attempt.notice or NO_NOTICE, notice),
        tries=0,
        try_after=None,
        error="",
    )
    if changed and attempt.asked_at is None:
        launched(connection, job, replace(attempt, gce_id=gce_id), now)
    return False


def seen_there(connection: Connection, job: Job, attempt: Attempt, seen: Sighting, now: datetime) -> bool:
    """Records its VM as it was just seen: as PENDING, it is a request of flex-start that waits, and not up."""
    if seen.status is not Status.PENDING:
        return adopted(connection, job, attempt, seen.gce_id, now, seen.notice)
    changed = attempts.change(
        connection,
        attempt.id,
        [AttemptState.INTENDED, AttemptState.ASKED, AttemptState.WAITING],
        state=AttemptState.WAITING,
        asked_at=attempt.asked_at or now,
        gce_id=seen.gce_id,
        tries=0,
        try_after=now + WAITS_FOR,
        error="",
    )
    if changed and attempt.asked_at is None:
        launched(connection, job, replace(attempt, gce_id=seen.gce_id), now)
    return changed and attempt.state is not AttemptState.WAITING


def troubled(connection: Connection, job: Job, attempt: Attempt, error: CloudError, now: datetime) -> bool:
    """Refused for what it says: it is over. Everything else is asked again, after a look, under the same request id."""
    if isinstance(error, RequestRefused):
        outcome = Outcome.STOCKOUT if is_reservation_full(error.message) else Outcome.REFUSED
        return end(connection, job, attempt, outcome, error.message.rstrip("."), now, str(error))
    attempts.change(connection, attempt.id, [AttemptState.INTENDED], **retry_changes(attempt, error, now))
    return False


def launched(connection: Connection, job: Job, attempt: Attempt, now: datetime) -> None:
    interruptions.set_requested(connection, job.id, now)
    audit_log.append(connection, [job_events.launched(job, attempt, now)], now)


def _insert(means: LaunchContext, job: Job, attempt: Attempt) -> _Inserted:
    """Asks for its VM; at once again without the notice of a preemption, where Google refuses that."""
    try:
        return _Inserted(_ask(means, job, attempt))
    except NoticeRefused:
        if not attempt.notice:
            raise
    return _Inserted(_ask(means, job, replace(attempt, notice=NO_NOTICE)), is_notice_refused=True)


def _ask(means: LaunchContext, job: Job, attempt: Attempt) -> str:
    """Another request of the same attempt has another id: under the same one, Google would repeat its first answer."""
    request, request_id = means.maker.request(job, attempt), attempt.request_uuid
    if not attempt.notice and job.recipe.notice_of(attempt.provisioning_model):
        request_id = request_uuid(attempt.project, attempt.name, f"{request_id}/without a notice")
    return means.launcher.insert(attempt.project, attempt.zone, request, request_id)


def _image(view: JobView) -> str:
    """Returns the image by the digest of its first pull, so that every VM runs the same image; by its tag where the job
    asks for it.
    """
    spec = view.job.spec
    digest = next(filter(None, (seen.attempt.agent.image_digest for seen in view.attempts)), "")
    is_final = spec.pull or not spec.image or "@" in spec.image
    return spec.image if is_final or not digest else f"{spec.image}@{digest}"


OVERTAKEN = "it has no VM, and a VM of its job that this database does not know may be running"


_NOT_NEEDED = "it has no VM, and none is needed to take over any more"


def taken(attempt: Attempt) -> str:
    owner = "a VM that this installation did not create"
    return f"the name {attempt.name} is taken in {attempt.zone} by {owner}; it is left alone"


def _given(attempt: Attempt | None) -> Attempt:
    if attempt is None:
        raise ValueError("an insert was called before it was intended")
    return attempt
