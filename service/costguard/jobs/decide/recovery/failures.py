"""Decides by a failed run whether another VM may do better, whether it counts, and if its checkpoint is suspect."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from costguard.model.attempt import HUNG, Attempt, GangRound, Outcome, Retry
from costguard.model.job import Terms
from costguard_vm.model.suspects import ResumedRun

# What argparse, click and shells end with on wrong usage, and a shell where a program is not there or cannot be
# executed (POSIX, Shell Command Language, 2.8.2).
_USAGE = frozenset({2, 126, 127})
START = timedelta(minutes=1)  # a command that fails sooner, before its first step, fails again


class Failure(StrEnum):
    """The meaning of a command's failure."""

    REPEATS = "repeats"  # another attempt would fail in the same way: nothing is tried again
    CRASH = "crash"  # counts against `max_crashes`
    NOT_ITS_OWN = "not_its_own"  # of the VM, the network or the checkpoint: tried again a few times in a row


def failure_of(attempt: Attempt, has_worked: bool, terms: Terms) -> Failure:
    """Returns the meaning of an attempt's failed command. `has_worked`: an earlier run of the same command came past
    its start.

    A script that misses a program after hours of work has done that work, and crashed. The output of a command that was
    asked to stop may be that of its own clean-up. A hang always counts: else one that hangs soon after each start and
    late by turns would go on for long.
    """
    end = attempt.agent.exit
    if attempt.stop_why == HUNG:
        return Failure.CRASH
    retry = end.retry if end is not None and not end.asked else None
    is_first_try = not has_worked and attempt.agent.step is None and end is not None and not end.asked
    may_be_checkpoint = resumed_run(attempt).failed_at_once(terms.quick_crash)
    if retry is Retry.NO:
        return Failure.NOT_ITS_OWN if has_worked and may_be_checkpoint else Failure.REPEATS
    if retry is not None:
        return Failure.NOT_ITS_OWN
    if is_first_try and end is not None and end.code in _USAGE and is_quick_crash(attempt, terms):
        return Failure.REPEATS
    if may_be_checkpoint:
        return Failure.NOT_ITS_OWN
    return Failure.REPEATS if is_first_try and ran(attempt) < START else Failure.CRASH


def failure_of_earlier(ran_for: timedelta | None, has_worked: bool, terms: Terms) -> Failure:
    """Returns the meaning of an earlier run's failure on the same VM, of which the next one's reports left no more than
    its length.
    """
    is_quick = ran_for is None or ran_for < terms.quick_crash
    return Failure.NOT_ITS_OWN if is_quick and has_worked else Failure.CRASH


def is_quick_crash(attempt: Attempt, terms: Terms) -> bool:
    return _is_crash(attempt) and ran(attempt) < terms.quick_crash


def resumed_run(attempt: Attempt) -> ResumedRun:
    return ResumedRun(
        number=attempt.number,
        title=f"attempt {attempt.number}",
        resume_from=attempt.resume_from,
        resume_step=attempt.resume_step,
        resumed_at=attempt.intended_at,
        step=attempt.agent.step,
        ran=ran(attempt),
        is_crash=_is_crash(attempt),
    )


def resumed_round(one: GangRound, resumed_at: datetime) -> ResumedRun:
    return ResumedRun(
        number=one.number,
        title=f"round {one.number}",
        resume_from=one.resume_from,
        resume_step=one.resume_step,
        resumed_at=resumed_at,
        step=one.step,
        ran=one.ended_at - one.started_at if one.ended_at and one.started_at else timedelta(),
        is_crash=one.outcome is Outcome.CRASHED,
    )


def _is_crash(attempt: Attempt) -> bool:
    return attempt.outcome is Outcome.CRASHED and attempt.agent.exit is not None


def ran(attempt: Attempt) -> timedelta:
    """Returns the time until the end that its agent reported; zero where the command did not start."""
    agent = attempt.agent
    return agent.exit.at - agent.started_at if agent.exit is not None and agent.started_at is not None else timedelta()
