"""Ids that people read and type, such as j7k2m9q4 of a job (s of a sweep, c of a schedule), and names of processes."""

from __future__ import annotations

import os
import secrets
import socket

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
_LENGTH = 7


def new_job_id() -> str:
    return _new("j")


def new_sweep_id() -> str:
    return _new("s")


def new_schedule_id() -> str:
    return _new("c")


def new_holder() -> str:
    """Distinguishes two daemons on one host, and a restarted one from the one that it replaces."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def _new(first: str) -> str:
    return first + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
