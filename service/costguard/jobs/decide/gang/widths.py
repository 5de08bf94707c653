"""Decides with how many VMs an elastic gang runs, between the least and the most of its job. Pure.

It begins with what is there, and asks for the rest where the others are. VMs that come later join at a round's
beginning: the next that comes anyway, or one made for them where they save more time than the others lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from costguard.jobs.decide.gang.members import Gang, gang_of
from costguard.jobs.decide.view import AttemptView, JobView

PATIENCE = timedelta(minutes=5)  # of VMs that are there, for one that is not: each of them bills
# From the word that ends a round until the next is at work, where no start of the gang was measured: our allowance for
# the command's grace of a minute, the last uploads, the check of the connections, and reading the checkpoint.
RESTART = timedelta(minutes=5)
# A gang grows soon after a checkpoint: until the next one, the others would do more and more again. The guard looks for
# one every five minutes.
_FRESH = timedelta(minutes=10)
# Of a VM that no round was ended for: it bills, and waits for one that may never come, such as a preemption's.
STANDS_BY = timedelta(minutes=30)
# Where a round would be ended for it as soon as one of its checkpoints is seen: some jobs save once an hour.
_AWAITS_CHECKPOINT = timedelta(hours=2)


def may_begin(gang: Gang, ready: Sequence[AttemptView], now: datetime) -> datetime | bool:
    """Says whether the members that are `ready` may begin the round; a moment: then they may, without those that are
    late.

    A member of an earlier round may write or upload until it is ready, and is always waited for. A VM that never ran is
    waited for where all were requested together, for `PATIENCE` from when enough were ready; not where it replaces one.
    """
    late = [seen for seen in gang.open if all(seen.attempt.id != one.attempt.id for one in ready)]
    if not late:
        return len(ready) >= gang.least
    if not gang.is_elastic or len(ready) < gang.least or any(seen.attempt.round for seen in late):
        return False
    if gang.was_formed:
        return True
    enough = sorted(seen.attempt.ready_at or now for seen in ready)[gang.least - 1]
    return True if now >= enough + PATIENCE else enough + PATIENCE


def may_grow(view: JobView) -> bool:
    """Says whether a round of it runs without VMs that it may have."""
    if not view.job.spec.is_elastic or view.job.state.is_over:
        return False
    gang = gang_of(view)
    return bool(gang.in_round) and (bool(gang.missing) or any(seen.attempt.round < gang.round for seen in gang.open))


def pays_to_grow(gang: Gang, more: int, now: datetime) -> bool:
    """Says whether the running round is to end for so many more VMs; False where the work left is not known."""
    left = gang.view.rest
    started = [seen.attempt.agent.started_at for seen in gang.in_round]
    since = [moment for moment in started if moment is not None]
    if left is None or len(since) < len(gang.in_round):
        return False
    saved = gang.view.checkpoint.written_at if gang.view.checkpoint is not None else None
    if saved is None or saved < max(since):
        return False  # nothing of this round is saved: all of it would be done again
    unsaved = max(now - saved, timedelta())
    return unsaved <= _FRESH and gain(left, len(gang.in_round), more) > unsaved + restart(gang)


def is_nearly_done(gang: Gang) -> bool:
    """Says whether another VM would come too late: what it saves is less than what a new beginning takes."""
    left = gang.view.rest
    if left is None or not gang.suffices or not gang.is_whole:
        return False
    return gain(left, len(gang.in_round), 1) <= restart(gang)


def stands_by_until(gang: Gang, seen: AttemptView, waiting: int, now: datetime) -> datetime:
    """Returns until when a VM that is ready stands by for the next round, as one of so many that wait; then it is given
    back.
    """
    left = gang.view.rest
    pays = left is not None and gain(left, len(gang.in_round), waiting) > restart(gang)
    return (seen.attempt.ready_at or now) + (_AWAITS_CHECKPOINT if pays else STANDS_BY)


def gain(left: timedelta, have: int, more: int) -> timedelta:
    """Returns the time that more VMs save of what is left at the present number, where each adds as much speed as each
    of the others.
    """
    return left * more / (have + more)


def restart(gang: Gang) -> timedelta:
    """Returns how long a new beginning takes: `RESTART`, or more where this round took longer to start its command."""
    spans = [
        seen.attempt.agent.started_at - seen.attempt.released_at
        for seen in gang.in_round
        if seen.attempt.agent.started_at is not None and seen.attempt.released_at is not None
    ]
    return max([RESTART, *spans])
