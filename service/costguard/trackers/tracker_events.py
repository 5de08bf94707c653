"""Events about runs of experiment trackers: one sentence each, for the audit log and the job's owner."""

from __future__ import annotations

from datetime import datetime

from costguard.jobs.rows import job_events
from costguard.model.delivery.tracker import TrackedRun
from costguard.model.event import Event
from costguard.model.job import Job
from costguard.model.moments import utc_text
from costguard.model.words import count_text


def refused(job: Job, run: TrackedRun, error: str, now: datetime) -> Event:
    text = f"The cost of job {job.title} is not logged to the {run.tracker.in_words} run {run.run}: {error}"
    return job_events.of_job(
        "TrackerRunRefused", job, now, text, f"tracker_refused/{run.id}/{utc_text(now)}", tracker=run.tracker.value
    )


def given_up(job: Job, run: TrackedRun, count: int, oldest: datetime, now: datetime) -> Event:
    text = (
        f"{count_text(count, 'point')} of job {job.title} from {utc_text(oldest)} on never reached the "
        f"{run.tracker.in_words} run {run.run}, and are given up after 30 days. The ledger has the cost whole."
    )
    what = f"tracker_given_up/{run.id}/{utc_text(oldest)}"
    return job_events.of_job("TrackerPointsGivenUp", job, now, text, what, tracker=run.tracker.value)
