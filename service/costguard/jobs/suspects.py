"""Checkpoints that a job passes over though they look complete: an attempt that resumed from one failed at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from costguard.model.attempt import Attempt, Outcome
from costguard.model.checkpoint import Checkpoint
from costguard.model.job import Terms

_LONGEST = timedelta(hours=1)  # of loading and the first step, where the command reports its steps


def is_quick_crash(attempt: Attempt, terms: Terms) -> bool:
    heard = attempt.heard
    if attempt.outcome is not Outcome.CRASHED or heard.exit is None:
        return False
    return heard.started_at is None or heard.exit.at - heard.started_at < terms.quick_crash


def failed_at_once(attempt: Attempt, terms: Terms) -> bool:
    """A crash before the first step past the one resumed from; where no step is reported, a crash soon after the start.

    A command that came further has loaded its checkpoint, so that what failed it was something else.
    """
    heard = attempt.heard
    if attempt.outcome is not Outcome.CRASHED or not attempt.resume_from or heard.exit is None:
        return False
    if heard.step is None or attempt.resume_step is None:
        return is_quick_crash(attempt, terms)
    ran = heard.exit.at - heard.started_at if heard.started_at is not None else timedelta()
    return not _came_further(attempt) and ran < _LONGEST


def suspects(attempts: Iterable[Attempt], terms: Terms) -> tuple[Attempt, ...]:
    """The attempts that failed at once, the oldest first, less those of a checkpoint that served a later one."""
    failed: dict[str, Attempt] = {}
    for attempt in attempts:
        if failed_at_once(attempt, terms):
            failed[attempt.resume_from] = attempt
        elif _came_further(attempt):
            failed.pop(attempt.resume_from, None)
    return tuple(sorted(failed.values(), key=lambda attempt: attempt.number))


def suspected_by(checkpoint: Checkpoint, failed: Sequence[Attempt]) -> Attempt | None:
    """The attempt that speaks against it. One that was written again since is another checkpoint."""
    return next(
        (
            attempt
            for attempt in failed
            if attempt.resume_from == checkpoint.resume_from and checkpoint.written_at <= attempt.intended_at
        ),
        None,
    )


def passed_over(attempt: Attempt) -> str:
    """Why the next attempt does not resume from the same."""
    return f"{_of(attempt)}: the complete checkpoint before it is tried"


def tried_again(attempt: Attempt) -> str:
    """Why the next attempt resumes from the same though it is suspected."""
    return f"{_of(attempt)}, and no other is complete: it is tried once more"


def _of(attempt: Attempt) -> str:
    step = f"step {attempt.resume_step}, " if attempt.resume_step is not None else ""
    return f"attempt {attempt.number} failed at once after it resumed from {step}{attempt.resume_from}"


def _came_further(attempt: Attempt) -> bool:
    step, since = attempt.heard.step, attempt.resume_step
    return step is not None and since is not None and step > since
