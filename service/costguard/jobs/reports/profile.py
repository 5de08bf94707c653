"""Reads the profile that agents reported of a job, next to an earlier job's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from costguard.errors import Invalid, Missing
from costguard.jobs.decide.machines.bound_savings import is_same_training
from costguard.jobs.decide.profile.cures import Cure, cures_of, data_share
from costguard.jobs.decide.profile.job_profile import JobProfile
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.diagnosis import diagnosis_rows
from costguard.jobs.rows.profile import profile_rows
from costguard.model.job import Job

_EARLIER = 50  # jobs of the same owner, to find an earlier run


@dataclass(frozen=True, slots=True)
class JobProfileAnswer:
    """The profile of a job, next to that of an `earlier` one; None: there is none to compare with.

    `why_none` says why it holds no stacks; "" where it holds some.
    """

    job: Job
    profile: JobProfile
    cures: Sequence[Cure]
    earlier: Job | None
    earlier_profile: JobProfile | None
    why_none: str

    @property
    def data_share(self) -> float:
        """Returns the share of the main thread's time in which it waited for data, or prepared it."""
        return data_share(self.profile.stacks.main)


def profile_of(connection: Connection, job_id: str, compared: str | None = None) -> JobProfileAnswer:
    """Reads a job's profile. `compared` is the job to compare with; None: the last one before it that finished, of the
    same owner, project, preset and script, and has a profile; "": none.

    Raises Missing, or Invalid where the job to compare with has no profile.
    """
    job = job_rows.read(connection, job_id)
    if job is None:
        raise Missing(f"There is no job {job_id!r}.", "GET /api/v1/jobs lists all jobs.")
    earlier = _named(connection, compared) if compared else None
    if compared is None:
        earlier = _last_finished(connection, job)
    ids = [one.id for one in (job, earlier) if one is not None]
    profiles = profile_rows.of_jobs(connection, ids)
    profile = profiles.get(job.id, JobProfile())
    return JobProfileAnswer(
        job=job,
        profile=profile,
        cures=cures_of(profile, bound_of(connection, job.id)),
        earlier=earlier,
        earlier_profile=None if earlier is None else profiles[earlier.id],
        why_none="" if profile.is_known else _why_none(profile),
    )


def cures_of_jobs(connection: Connection, job_ids: Iterable[str]) -> dict[str, list[Cure]]:
    """Returns the cures that the profiles of these jobs name; jobs without any are left out."""
    profiles = profile_rows.of_jobs(connection, set(job_ids))
    cures = {job_id: cures_of(profile, bound_of(connection, job_id)) for job_id, profile in profiles.items()}
    return {job_id: some for job_id, some in cures.items() if some}


def is_kept(connection: Connection, job_id: str) -> bool:
    """Says whether a profile of it holds stacks."""
    return bool(profile_rows.with_stacks(connection, [job_id]))


def bound_of(connection: Connection, job_id: str) -> str | None:
    """Returns the latest verdict on what bounds it that held; None: none has."""
    stretches = diagnosis_rows.of_jobs(connection, [job_id]).get(job_id, [])
    return next((one.verdict.bound for one in stretches if one.holds), None)


def _why_none(profile: JobProfile) -> str:
    if profile.error:
        return f"No stacks could be read: {profile.error}."
    return (
        "No profile has come from its VM: its command has not run for two minutes yet, or profiles are not allowed "
        "(--profile, or profile in [jobs] of the settings)."
    )


def _named(connection: Connection, job_id: str) -> Job:
    job = job_rows.read(connection, job_id)
    if job is None:
        raise Missing(f"There is no job {job_id!r} to compare with.", "GET /api/v1/jobs lists all jobs.")
    if not profile_rows.with_stacks(connection, [job.id]):
        raise Invalid(
            f"Job {job.title} has no profile to compare with.", "Compare with a job that was launched with --profile."
        )
    return job


def _last_finished(connection: Connection, job: Job) -> Job | None:
    filters = job_rows.JobFilters(owner=(job.spec.owner,), preset=(job.spec.preset,), project=(job.spec.project,))
    page = job_rows.page(connection, filters, (job.created_at, job.id), _EARLIER)
    alike = [one for one in page if one.state.is_over and is_same_training(one.spec, job.spec)]
    profiled = profile_rows.with_stacks(connection, [one.id for one in alike])
    return next((one for one in alike if one.id in profiled), None)
