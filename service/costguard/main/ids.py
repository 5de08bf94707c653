"""Ids that people read and type, such as j7k2m9q4 of a job and s7k2m9q4 of a sweep."""

from __future__ import annotations

import secrets

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
_LENGTH = 7


def new_job_id() -> str:
    return _new("j")


def new_sweep_id() -> str:
    return _new("s")


def _new(first: str) -> str:
    return first + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
