"""Submits and cancels jobs. Both are recorded; the daemon's next turn acts on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.errors import Conflict, Unavailable
from costguard.events import audit_log
from costguard.jobs.decide.checkpoints.disk import saves_on_disk
from costguard.jobs.reports.diagnosis import JobDiagnosis
from costguard.jobs.rows import attempts, job_events, job_rows, kept_disks
from costguard.jobs.rows.lineage import lineage_rows
from costguard.jobs.rows.recovery import drills
from costguard.jobs.submit import intake, submission, wishes
from costguard.jobs.submit.assess import Assessment, Assessor
from costguard.jobs.submit.cost import egress
from costguard.jobs.submit.machine_prices import with_next_machine
from costguard.jobs.submit.quote import JobQuote, quote
from costguard.jobs.submit.submission import Overrides, Submission, without_credentials
from costguard.jobs.submit.where.targets import LaunchTargets
from costguard.ledger.accrual import Accrual
from costguard.model.access import Authority
from costguard.model.duration import hours_text
from costguard.model.event import Event
from costguard.model.job import Job, JobKind, JobState
from costguard.model.ports import Clock
from costguard.model.reported.drill import Drill

__all__ = ["JobQuote", "JobService", "LaunchTargets", "Overrides", "Submission"]

_QUEUED = "Submitted; a zone for its VM is chosen within seconds."


class JobService:
    """Submits, quotes and cancels jobs. `new_id` makes ids such as j7k2m9q4; `wake` asks the daemon for a turn."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        rules: Rules,
        assessor: Assessor,
        launching: LaunchTargets,
        new_id: Callable[[], str],
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._launching = launching
        self._assessor = assessor
        self._new_id = new_id
        self._wake = wake

    def submit(
        self, submission: Submission, idempotency_key: str | None, via: str, authority: Authority | None = None
    ) -> tuple[Job, bool]:
        """The job, and whether it is new. Raises Invalid, or Conflict where the key came with something else.

        `authority` is what it is asked with; None: the settings' lists say what its owner may. A repeat
        under its key is answered with the job, even where it would be refused by now.
        """
        digest = intake.digest_of(asdict(submission))
        if idempotency_key is not None:
            with self._database.read() as connection:
                earlier = _of_key(connection, idempotency_key, digest)
            if earlier is not None:
                return earlier, False
        case = self._assessor.assess(without_credentials(submission), authority)
        if case.refusals or case.recipe is None:
            raise intake.refused_job(case.refusals)
        now = self._clock.now()
        job = Job(
            id=self._new_id(),
            spec=egress.with_costs(case.spec, case.moves),
            recipe=case.recipe,
            state=JobState.QUEUED,
            reason=" ".join((_QUEUED, *case.warnings, *egress.notes(case.moves))),
            created_at=now,
            via=via,
        )
        with self._database.write() as connection:
            # Another request with this key may have come in meanwhile.
            earlier = _of_key(connection, idempotency_key, digest) if idempotency_key is not None else None
            if earlier is not None:
                return earlier, False
            made, _ = job_rows.add(connection, job, idempotency_key, digest)
            lineage_rows.record(connection, made, _resumes_from(case))
            if made.spec.drill:
                drills.add(connection, made, made.spec.owner, now)
            audit_log.append(connection, [_submitted(made, case)], now)
        self._wake()
        return made, True

    def quote(self, submission: Submission, hours: timedelta, authority: Authority | None = None) -> JobQuote:
        """Quotes the cost, the first place, and the reasons to refuse it. Nothing is stored."""
        case = self._assessor.assess(without_credentials(submission), authority)
        advised = self._assessor.advised(case)
        return quote(self._database, self._rules, advised, hours, self._clock.now(), self._launching)

    def with_next_machine(self, diagnosis: JobDiagnosis, accrual: Accrual) -> JobDiagnosis:
        """Adds the machine to try next. May ask Google what a machine type is: not within a transaction."""
        return with_next_machine(diagnosis, self._rules.presets.values(), self._launching, accrual)

    def cancel(
        self, job_id: str, by: str, reason: str, authority: Authority | None = None, *, delete_disk: bool = False
    ) -> tuple[Job, bool]:
        """The job, and whether this request is the first. Raises Missing, Forbidden, or Conflict.

        Its command gets time to save first; cancelling it again changes nothing. `delete_disk` agrees
        that a disk which holds the only copy of what it saved is deleted; without it such a disk is kept.
        """
        now = self._clock.now()
        with self._database.write() as connection:
            job = self._theirs(connection, job_id, by, authority)
            if job.state in (JobState.SUCCEEDED, JobState.FAILED):
                raise Conflict(
                    f"Job {job.title} is over: it {job.state.value}.", "There is nothing to cancel.", kind="job-over"
                )
            is_new = job_rows.ask_cancel(connection, job_id, by, cancelling(job, by, reason, delete_disk), now)
            if is_new:
                audit_log.append(connection, [cancel_asked(job, by, reason, now)], now)
            if delete_disk and saves_on_disk(job):
                self._give_up(connection, job, by, now)
            job = job_rows.read(connection, job_id) or job
        if is_new or delete_disk:
            self._wake()
        return job, is_new

    def drill(self, job_id: str, by: str, authority: Authority | None = None) -> tuple[Job, Drill]:
        """Stores the request for a preemption drill, which its agent holds. Raises Missing, Forbidden, or Conflict."""
        now = self._clock.now()
        with self._database.write() as connection:
            job = self._theirs(connection, job_id, by, authority, "drill")
            if refusal := submission.drill_refusal(job.spec):
                raise Conflict(
                    f"{job.title} cannot be drilled: {refusal}", "Launch it with --checkpoints.", kind="no-drill"
                )
            if job.state.is_over or job.cancel_asked_at is not None:
                raise Conflict(f"Job {job.title} is over or being cancelled.", "Drill one that runs.", kind="job-over")
            drill = drills.add(connection, job, by, now)
            if drill is None:
                what_next = f"Wait for its end: costguard job {job.id}"
                raise Conflict(f"A drill of job {job.title} is not over yet.", what_next, kind="drill-open")
            audit_log.append(connection, [job_events.drill_requested(job, drill, now)], now)
        return job, drill

    def cancel_after_checkpoint(self, job_id: str, by: str, authority: Authority | None = None) -> tuple[Job, bool]:
        """Calls `wishes.cancel_after_checkpoint` in a transaction."""
        now = self._clock.now()
        with self._database.write() as connection:
            job, is_new = wishes.cancel_after_checkpoint(connection, self._rules, job_id, Actor(by, authority), now)
        if is_new:
            self._wake()
        return job, is_new

    def never_mind(self, job_id: str, by: str, authority: Authority | None = None) -> tuple[Job, bool]:
        """Calls `wishes.never_mind` in a transaction."""
        now = self._clock.now()
        with self._database.write() as connection:
            return wishes.never_mind(connection, self._rules, job_id, Actor(by, authority), now)

    def delete_disk(self, job_id: str, by: str, authority: Authority | None = None) -> tuple[Job, bool]:
        """Agrees that the disk that is kept of a job that is over goes. The job, and whether that is new.

        Raises Missing, Forbidden, or Conflict.
        """
        now = self._clock.now()
        with self._database.write() as connection:
            job = self._theirs(connection, job_id, by, authority)
            if not job.state.is_over:
                what_next = "Cancel it, with delete_disk if its disk is to go too."
                raise Conflict(f"Job {job.title} is {job.state.value}: its disk is in use.", what_next, kind="no-disk")
            is_new = job.disk_given_up_at is None
            if is_new:
                tried = attempts.of_jobs(connection, [job_id]).get(job_id, [])
                if kept_disks.attempt_of(job, tried) is None:
                    raise Conflict(
                        f"No disk of job {job.title} is kept.", "There is nothing to delete.", kind="no-disk"
                    )
                self._give_up(connection, job, by, now)
            job = job_rows.read(connection, job_id) or job
        self._wake()
        return job, is_new

    def _theirs(
        self, connection: Connection, job_id: str, by: str, authority: Authority | None, verb: str = "cancel"
    ) -> Job:
        return wishes.theirs(connection, self._rules, job_id, Actor(by, authority), verb)

    def _give_up(self, connection: Connection, job: Job, by: str, now: datetime) -> None:
        if job_rows.give_disk_up(connection, job.id, by, now):
            held = kept_disks.holds(job_rows.checkpoint(connection, [job.id]).get(job.id))
            audit_log.append(connection, [job_events.disk_given_up(job, by, held, now)], now)


def _of_key(connection: Connection, key: str, digest: str) -> Job | None:
    """The job that came with this key; None where the key is new. Raises Conflict."""
    stored_digest = job_rows.digest_of(connection, key)
    if stored_digest is None:
        return None
    intake.check_same(stored_digest, digest, "job")
    return job_rows.of_key(connection, key)


def _resumes_from(case: Assessment) -> str | None:
    """Returns the checkpoint at its location; "" where there is none, and None where nobody could look."""
    if case.resume is not None:
        return case.resume.resume_from
    return "" if case.is_looked_at else None


def _submitted(job: Job, case: Assessment) -> Event:
    spec, made = job.spec, job.recipe
    what = "A development VM" if spec.kind is JobKind.DEV else "A job"
    model = "cheapest" if made.buys_cheapest else made.provisioning_model.in_words
    limits = [str(spec.ceiling)] if spec.ceiling is not None else []
    limits += [hours_text(spec.max_vm_time)] if spec.max_vm_time is not None else []
    limit = f", for at most {' and '.join(limits)}" if limits else ""
    resume = f"; it resumes from {case.resume.resume_from}, which is there already" if case.resume is not None else ""
    kind = f"{spec.preset} ({model} {made.machine_type})"
    warnings = "".join(f" {warning}" for warning in (*case.warnings, *egress.notes(case.moves)))
    text = f"{what}, {job.title}, was submitted by {spec.owner}: {kind}{limit}{resume}.{warnings}"
    return job_events.of_job("JobSubmitted", job, job.created_at, text, "submitted", actor=spec.owner, via=job.via)


def cancelling(job: Job, by: str, reason: str, delete_disk: bool) -> str:
    why = f": {reason.rstrip('.')}" if reason else ""
    if job.spec.kind is JobKind.DEV:
        return f"{by} cancels it{why}; its VM is deleted."
    what = (
        "its command gets time to save first" if job.state is JobState.RUNNING else "no VM is launched for it any more"
    )
    if saves_on_disk(job):
        disk = "is deleted, with all that it saved" if delete_disk or job.disk_given_up_at else "is kept, and bills"
        what = f"{what}, and its disk {disk}"
    return f"{by} cancels it{why}; {what}."


def cancel_asked(job: Job, by: str, reason: str, now: datetime) -> Event:
    text = f"{by} asked to cancel job {job.title}{f': {reason}' if reason else ''}."
    return job_events.of_job("CancelAsked", job, now, text, "cancel_asked", actor=by, reason=reason)


def available_service(jobs: JobService | None) -> JobService:
    """Raises Unavailable where this server takes no jobs."""
    if jobs is None:
        raise Unavailable("This server takes no jobs.", "Ask the one that was started with `costguard serve`.")
    return jobs
