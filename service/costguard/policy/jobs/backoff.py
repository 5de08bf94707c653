"""How long to wait before something is tried again."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

from costguard.policy.jobs.view import Terms

_SECOND = timedelta(seconds=1)


def wait(terms: Terms, job_id: str, number: int, failures: int) -> timedelta:
    """Doubled with every failure in a row, and a little different for each job, so that not all ask at once.

    The same attempt always waits equally long: a decision made twice is the same.
    """
    doubled = terms.first_wait * 2 ** min(max(failures - 1, 0), 20)
    return _spread(min(doubled, terms.longest_wait), f"{job_id}/{number}")


def _spread(span: timedelta, key: str) -> timedelta:
    """Between three and five quarters of it, whole seconds."""
    share = int.from_bytes(sha256(key.encode()).digest()[:4])
    return (span * 3 / 4 + span / 2 * share / 2**32) // _SECOND * _SECOND
