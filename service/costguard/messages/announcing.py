"""Which news of a job become messages: one for each recovery, and none for what the job's card shows by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.model.attempt import Interruption, Outcome
from costguard.model.event import Fact

_SECOND = timedelta(seconds=1)


class JobFact(StrEnum):
    """Kinds of events that may become messages."""

    RESUMED = "JobResumed"
    WAITS = "JobWaits"
    HELD = "JobHeldByBudget"
    FROM_ZERO = "JobRestartedFromZero"
    DISK = "DiskNearlyFull"
    STALLED = "CheckpointsStalled"
    LATE = "JobDeadlinePassed"
    SUCCEEDED = "JobSucceeded"
    FAILED = "JobFailed"
    CANCELLED = "JobCancelled"


_ROUTINE = frozenset({JobFact.RESUMED, JobFact.WAITS, JobFact.HELD, JobFact.DISK})  # these come often


class Form(StrEnum):
    CARD = "card"  # the root of the job's thread, edited as the job changes
    REPLY = "reply"  # in that thread
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Card:
    """What the job's card was posted for: an event, and in which recovery it happened."""

    fact_key: str
    episode: int | None  # None: an earlier version posted it


@dataclass(frozen=True, slots=True)
class Announcement:
    fact: Fact
    form: Form
    episode: int  # how many interruptions came before it
    is_for_team: bool = False


def announced(
    news: Sequence[Fact], interruptions: Sequence[Interruption], card: Card | None, quick: timedelta, now: datetime
) -> Iterator[Announcement]:
    """Of one job, the oldest first. An event that is no message yet may become one at a later look.

    A wait shows on the card alone. A command that failed is back at work only once it has run for `quick`, so that one
    that fails at once makes no message until the job has failed. A start from zero takes the place of "runs again".
    """
    from_zero = {
        earlier.data.get("attempt")
        for earlier in news
        if earlier.kind == JobFact.FROM_ZERO and _is_costly(earlier, quick)
    }
    for fact in news:
        kind = JobFact(fact.kind)
        before = [interruption for interruption in interruptions if interruption.happened_at <= fact.occurred_at]
        after = [interruption for interruption in interruptions if interruption.happened_at > fact.occurred_at]
        episode = len(before)
        if kind is JobFact.FROM_ZERO:
            if _is_costly(fact, quick):
                yield Announcement(fact, Form.ALONE, episode, is_for_team=True)
        elif kind not in _ROUTINE:
            yield Announcement(fact, Form.ALONE, episode, is_for_team=kind is JobFact.FAILED)
        elif kind is JobFact.RESUMED and (
            fact.data.get("attempt") in from_zero or not _lasts(fact, before, after, quick, now)
        ):
            continue
        elif card is None:
            card = Card(fact.key, episode)
            yield Announcement(fact, Form.CARD, episode)
        elif _is_reply(kind, fact, episode, card):
            yield Announcement(fact, Form.REPLY, episode)


def _is_reply(kind: JobFact, fact: Fact, episode: int, card: Card) -> bool:
    """Whether the card does not show it by itself: the one that was posted for it, or in the same recovery, does."""
    if kind is JobFact.WAITS or fact.key == card.fact_key:
        return False
    return kind in (JobFact.HELD, JobFact.DISK) or episode != card.episode


def _is_costly(fact: Fact, quick: timedelta) -> bool:
    """Whether it lost more work than a command that fails at once has done; unknown counts as much."""
    seconds = fact.data.get("seconds")
    return not isinstance(seconds, int) or seconds * _SECOND >= quick


def _lasts(
    fact: Fact, before: Sequence[Interruption], after: Sequence[Interruption], quick: timedelta, now: datetime
) -> bool:
    """Whether a command that failed before has run long enough to count as back at work."""
    last = max(before, key=lambda interruption: interruption.happened_at, default=None)
    if last is None or last.outcome is not Outcome.CRASHED:
        return True
    ended_at = min((interruption.happened_at for interruption in after), default=now)
    return min(ended_at, now) - fact.occurred_at >= quick
