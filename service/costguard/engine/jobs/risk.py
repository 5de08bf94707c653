"""Work that would be lost, or was: since the newest checkpoint that can be resumed from."""

from __future__ import annotations

from collections.abc import Sequence
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
    """What the last run of these had done, and the next will do again; None where none had begun.

    Without a checkpoint (`written_at` None) the next starts from the beginning: then what earlier runs had saved is
    lost as well, back to the last time that it was so.
    """
    ended = {one.attempt_id: one for one in interruptions}
    worked = [(one, span) for one in attempts if (span := _span(one, ended.get(one.id))) is not None]
    if not worked:
        return None
    last, (began, until) = worked[-1]
    if written_at is not None:
        return _priced(max(_NONE, until - max(began, written_at)), last.rate)
    total, cost = _NONE, ZERO
    whole = True
    for attempt, (start, end) in reversed(worked):
        before = ended.get(attempt.id)
        if attempt is not last and before is not None and before.from_zero:
            break
        saved = end - start
        if attempt is not last and before is not None and before.lost is not None:
            saved = max(_NONE, saved - before.lost)
        total += saved
        whole = whole and attempt.rate is not None
        cost += attempt.rate.over(saved) if attempt.rate is not None else ZERO
    return WorkAtRisk(total, cost if whole else None)


def _span(attempt: Attempt, interruption: Interruption | None) -> tuple[datetime, datetime] | None:
    """From when to when its command ran, as far as the last run goes."""
    heard = attempt.heard
    if heard.started_at is None:
        return None
    ends = [heard.exit.at if heard.exit is not None else None, attempt.ended_at]
    if interruption is not None:
        ends.insert(0, interruption.happened_at)
    end = next((each for each in ends if each is not None), None)
    return None if end is None else (heard.started_at, max(end, heard.started_at))


def _priced(span: timedelta, rate: Money | None) -> WorkAtRisk:
    return WorkAtRisk(span, rate.over(span) if rate is not None else None)
