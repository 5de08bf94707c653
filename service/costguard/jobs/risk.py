"""Work that would be lost, or was: since the newest checkpoint that can be resumed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.model.attempt import Attempt, AttemptState, Interruption
from costguard.model.job import SeenCheckpoint
from costguard.model.money import ZERO, Money

_NONE = timedelta()


@dataclass(frozen=True, slots=True)
class WorkAtRisk:
    """So much work, and what it cost; None: the VM's price is not known."""

    span: timedelta
    cost: Money | None


def at_risk(attempt: Attempt, checkpoint: SeenCheckpoint | None, now: datetime) -> WorkAtRisk | None:
    """What would have to be done again if the VM went away now; None where no command runs."""
    started_at = attempt.heard.started_at
    if attempt.state is not AttemptState.RUNNING or started_at is None or attempt.heard.exit is not None:
        return None
    saved_at = checkpoint.written_at if checkpoint is not None else None
    since = max(started_at, saved_at) if saved_at is not None else started_at
    return _priced(max(_NONE, now - since), attempt.rate)


def lost(
    attempts: Sequence[Attempt], interruptions: Sequence[Interruption], written_at: datetime | None
) -> WorkAtRisk | None:
    """What all runs had done since the checkpoint that is resumed from, and the next will do again; None: nothing ran.

    Without a checkpoint (`written_at` None) the next starts from the beginning: then all is lost, back to the last time
    that it was so. What was counted as lost with an earlier interruption is not counted again.
    """
    worked = [one for attempt in attempts for one in _runs(attempt, interruptions)]
    if not worked:
        return None
    total, cost, is_whole = _NONE, ZERO, True
    for place, run in enumerate(reversed(worked)):
        if place and run.from_zero:
            break
        begin = run.begin if written_at is None else max(run.begin, written_at)
        span = max(_NONE, run.end - begin - (run.lost if place else _NONE))
        if span <= _NONE:
            continue
        total += span
        is_whole = is_whole and run.rate is not None
        cost += run.rate.over(span) if run.rate is not None else ZERO
    return WorkAtRisk(total, cost if is_whole and (total or worked[-1].rate is not None) else None)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a command; `lost` is what of it was counted as lost before."""

    begin: datetime
    end: datetime
    rate: Money | None
    lost: timedelta = _NONE
    from_zero: bool = False


def _runs(attempt: Attempt, interruptions: Sequence[Interruption]) -> Iterator[_Run]:
    """Those in which the command of this attempt ran and does not any more."""
    heard, mine = attempt.heard, [one for one in interruptions if one.attempt_id == attempt.id]
    for one in sorted(mine, key=lambda each: each.happened_at):
        begin = one.started_at or (heard.started_at if one.run == heard.run else None)
        if begin is not None:
            yield _Run(begin, max(begin, one.happened_at), attempt.rate, one.lost or _NONE, one.from_zero)
    if heard.started_at is None or any(one.run == heard.run for one in mine):
        return
    end = heard.exit.at if heard.exit is not None else attempt.ended_at
    if end is not None:
        yield _Run(heard.started_at, max(end, heard.started_at), attempt.rate)


def _priced(span: timedelta, rate: Money | None) -> WorkAtRisk:
    return WorkAtRisk(span, rate.over(span) if rate is not None else None)
