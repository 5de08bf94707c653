"""Computes how long a job waits after failures before it is tried again."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from costguard.jobs.decide.recovery.ended_runs import FAILED, ended_runs, failures_in_a_row
from costguard.jobs.decide.view import JobView
from costguard.model.backoff import Backoff
from costguard.model.job import Terms

_WHOLE_SECOND = timedelta(seconds=1)


def wait(terms: Terms, job_id: str, number: int, failures: int) -> timedelta:
    """Doubled with every failure in a row, and a little different for each job, so that not all ask at once.

    The same attempt always waits equally long: a decision made twice is the same.
    """
    backoff = Backoff(terms.first_wait, terms.longest_wait)
    return backoff.after(failures, jitter=_jitter(f"{job_id}/{number}")) // _WHOLE_SECOND * _WHOLE_SECOND


def after_failures(view: JobView, terms: Terms) -> datetime | None:
    """Returns when it may be tried again: a command that fails, or VMs that come to nothing, are not tried again at
    once.
    """
    failures, ended = failures_in_a_row(view), ended_runs(view)
    if not failures or view.last is None or ended[-1].outcome not in FAILED or ended[-1].ended_at is None:
        return None
    return ended[-1].ended_at + wait(terms, view.job.id, view.last.attempt.number, failures)


def _jitter(key: str) -> float:
    """Returns a factor between three and five quarters."""
    return 0.75 + int.from_bytes(sha256(key.encode()).digest()[:4]) / 2**33
