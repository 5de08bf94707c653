"""Attempts that resumed from a checkpoint and failed at once, by the rule of `model/suspects.py`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from costguard.model.attempt import Attempt, Outcome
from costguard.model.job import Terms
from costguard_vm.model import suspects as rule


def is_quick_crash(attempt: Attempt, terms: Terms) -> bool:
    return _is_crash(attempt) and ran(attempt) < terms.quick_crash


def suspects(attempts: Iterable[Attempt], terms: Terms) -> tuple[rule.ResumedRun, ...]:
    """The attempts that failed at once, the oldest first, without those whose checkpoint served a later one."""
    return rule.suspects(map(resumed_run, attempts), terms.quick_crash)


def resumed_run(attempt: Attempt) -> rule.ResumedRun:
    return rule.ResumedRun(
        number=attempt.number,
        title=f"attempt {attempt.number}",
        resume_from=attempt.resume_from,
        resume_step=attempt.resume_step,
        resumed_at=attempt.intended_at,
        step=attempt.agent.step,
        ran=ran(attempt),
        is_crash=_is_crash(attempt),
    )


def _is_crash(attempt: Attempt) -> bool:
    return attempt.outcome is Outcome.CRASHED and attempt.agent.exit is not None


def ran(attempt: Attempt) -> timedelta:
    """Returns the time until the end that its agent reported; zero where the command did not start."""
    agent = attempt.agent
    return agent.exit.at - agent.started_at if agent.exit is not None and agent.started_at is not None else timedelta()
