"""Requests for jobs, sweeps and schedules: their digests, repeats under a key, and refusals. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from costguard.errors import Conflict, Invalid
from costguard.jobs.submit.submission import JobRefusal

TAKEN = "This Idempotency-Key came with another request before."


def digest_of(request: object) -> str:
    """Returns the digest of a request, by which a repeat is recognised: SHA-256 of its JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()


def check_same(stored_digest: str, digest: str, noun: str) -> None:
    """Raises Conflict where a key came with another request before."""
    if stored_digest != digest:
        what_next = f"Use a new key for a new {noun}, and a key again only to repeat the very same request."
        raise Conflict(TAKEN, what_next, kind="key-taken")


def refused_job(refusals: Sequence[JobRefusal]) -> Conflict | Invalid:
    """Returns the error of a job that was refused: a conflict where it could start now but for a limit."""
    if [refusal.where for refusal in refusals] == ["queue"]:
        what_next = "Launch it without --no-queue (leave `queue` out) to have it wait in line, or try again later."
        return Conflict(f"The job is refused: {refusals[0].message}", what_next, kind="over-limit")
    return refused("job", refusals, "Nothing was launched.")


def refused(noun: str, refusals: Iterable[JobRefusal], what_next: str) -> Invalid:
    """Returns the error of a request that was refused. Each refusal is one sentence with what to change."""
    refusals = tuple(refusals)
    message = f"The {noun} is refused: {' '.join(refusal.message for refusal in refusals)}"
    fields = [(refusal.where, refusal.message) for refusal in refusals]
    return Invalid(message, what_next, kind=f"{noun}-refused", fields=fields)
