"""How long to wait before something is tried again."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from costguard.jobs.limits import ended_runs, failures_in_a_row
from costguard.jobs.view import JobView
from costguard.model.attempt import Outcome
from costguard.model.job import Terms

_SECOND = timedelta(seconds=1)
_FAILURES = frozenset({Outcome.CRASHED, Outcome.LOST, Outcome.NOT_STARTED})


def wait(terms: Terms, job_id: str, number: int, failures: int) -> timedelta:
    """Doubled with every failure in a row, and a little different for each job, so that not all ask at once.

    The same attempt always waits equally long: a decision made twice is the same.
    """
    doubled = terms.first_wait * 2 ** min(max(failures - 1, 0), 20)
    return _spread(min(doubled, terms.longest_wait), f"{job_id}/{number}")


def after_failures(view: JobView, terms: Terms) -> datetime | None:
    """When it may be tried again: a command that fails, or VMs that come to nothing, are not tried again at once."""
    failures, ended = failures_in_a_row(view), ended_runs(view)
    if not failures or view.last is None or ended[-1].outcome not in _FAILURES or ended[-1].ended_at is None:
        return None
    return ended[-1].ended_at + wait(terms, view.job.id, view.last.attempt.number, failures)


def _spread(span: timedelta, key: str) -> timedelta:
    """Between three and five quarters of it, whole seconds."""
    share = int.from_bytes(sha256(key.encode()).digest()[:4])
    return (span * 3 / 4 + span / 2 * share / 2**32) // _SECOND * _SECOND
