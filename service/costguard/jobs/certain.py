"""Ends that would repeat on every VM: they are tried once."""

from __future__ import annotations

from costguard.jobs.limits import is_quick_crash
from costguard.model.attempt import Attempt, Outcome
from costguard.model.job import Terms

# What a shell ends with where a program cannot be executed, or is not there (POSIX, Shell Command Language, 2.8.2).
_SHELLS_OWN = frozenset({126, 127})


def would_repeat(attempt: Attempt, terms: Terms) -> bool:
    """The agent says so, or a shell did not find its program before any step was made.

    A script that misses a program after hours of work has done that work, and counts as a crash.
    """
    end = attempt.heard.exit
    if end is None or end.asked:
        return False
    if attempt.outcome is Outcome.NOT_STARTED:
        return end.repeats
    is_shells = attempt.outcome is Outcome.CRASHED and end.code in _SHELLS_OWN
    return is_shells and attempt.heard.step is None and is_quick_crash(attempt, terms)
