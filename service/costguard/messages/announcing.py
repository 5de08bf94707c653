"""Decides which news about a job becomes a message of its own, and which only updates its card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.model.attempt import Interruption, Outcome
from costguard.model.event import Event

_SECOND = timedelta(seconds=1)


class JobEvent(StrEnum):
    """Kinds of events that may become messages."""

    RESUMED = "JobResumed"
    WAITS = "JobWaits"
    HELD = "JobHeldByBudget"
    FROM_ZERO = "JobRestartedFromZero"
    DISK = "DiskNearlyFull"
    BOUND = "JobBoundFound"
    STRAGGLES = "JobStragglerFound"
    STALLED = "CheckpointsStalled"
    UNRECOGNISED = "CheckpointsUnrecognised"
    DRILLED = "DrillEnded"
    AT_RISK = "JobDeadlineAtRisk"
    LATE = "JobDeadlinePassed"
    HANGS = "JobHangs"
    GOES_ON = "JobGoesOn"
    LOSS = "JobLossWrong"
    STANDS_STILL = "JobStandsStill"
    NOT_LOGGED = "TrackerRunRefused"
    GIVEN_UP = "TrackerPointsGivenUp"
    SUCCEEDED = "JobSucceeded"
    FAILED = "JobFailed"
    CANCELLED = "JobCancelled"


_ROUTINE = frozenset(
    {JobEvent.RESUMED, JobEvent.WAITS, JobEvent.HELD, JobEvent.DISK, JobEvent.BOUND}
)  # these come often


# Below the card, which is posted for them if need be.
_IN_THREAD = frozenset(
    {
        *(JobEvent.HANGS, JobEvent.GOES_ON, JobEvent.DRILLED, JobEvent.LOSS, JobEvent.STANDS_STILL),
        *(JobEvent.NOT_LOGGED, JobEvent.GIVEN_UP, JobEvent.UNRECOGNISED, JobEvent.STRAGGLES),
    }
)


class Form(StrEnum):
    CARD = "card"  # the root of the job's thread, edited as the job changes
    REPLY = "reply"  # in that thread
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Card:
    """The event that the job's card was posted for, and its recovery."""

    event_key: str
    episode: int | None  # None: an earlier version posted it


@dataclass(frozen=True, slots=True)
class Announcement:
    event: Event
    form: Form
    episode: int  # how many interruptions came before it
    is_for_team: bool = False


def announced(
    news: Sequence[Event], interruptions: Sequence[Interruption], card: Card | None, quick: timedelta, now: datetime
) -> Iterator[Announcement]:
    """Yields the announcements of one job, the oldest first. An event that is no message yet may become one at a later
    look.

    A wait shows on the card alone. A command that failed is back at work only once it has run for `quick`, so that one
    that fails at once makes no message until the job has failed. A start from zero takes the place of "runs again".
    """
    from_zero = {
        earlier.data.get("attempt")
        for earlier in news
        if earlier.kind == JobEvent.FROM_ZERO and is_costly(earlier, quick)
    }
    for event in news:
        kind = JobEvent(event.kind)
        before = [interruption for interruption in interruptions if interruption.happened_at <= event.occurred_at]
        after = [interruption for interruption in interruptions if interruption.happened_at > event.occurred_at]
        episode = len(before)
        if kind is JobEvent.FROM_ZERO:
            if is_costly(event, quick):
                yield Announcement(event, Form.ALONE, episode, is_for_team=True)
        elif kind in _IN_THREAD:
            if card is None:
                card = Card(event.key, episode)
                yield Announcement(event, Form.CARD, episode)
            yield Announcement(event, Form.REPLY, episode)
        elif kind not in _ROUTINE:
            yield Announcement(event, Form.ALONE, episode, is_for_team=kind is JobEvent.FAILED)
        elif kind is JobEvent.RESUMED and (
            event.data.get("attempt") in from_zero or not _lasts(event, before, after, quick, now)
        ):
            continue
        elif card is None:
            card = Card(event.key, episode)
            yield Announcement(event, Form.CARD, episode)
        elif _is_reply(kind, event, episode, card):
            yield Announcement(event, Form.REPLY, episode)


def _is_reply(kind: JobEvent, event: Event, episode: int, card: Card) -> bool:
    """Says whether the event needs a reply: the card posted for it, or in the same recovery, shows it by itself."""
    if kind is JobEvent.WAITS or event.key == card.event_key:
        return False
    return kind in (JobEvent.HELD, JobEvent.DISK, JobEvent.BOUND) or episode != card.episode


def is_costly(event: Event, quick: timedelta) -> bool:
    """Says whether it lost more work than a command that fails at once has done; unknown counts as much."""
    seconds = event.data.get("seconds")
    return not isinstance(seconds, int) or seconds * _SECOND >= quick


def _lasts(
    event: Event, before: Sequence[Interruption], after: Sequence[Interruption], quick: timedelta, now: datetime
) -> bool:
    """Says whether a command that failed before has run long enough to count as back at work."""
    last = max(before, key=lambda interruption: interruption.happened_at, default=None)
    if last is None or last.outcome is not Outcome.CRASHED:
        return True
    ended_at = min((interruption.happened_at for interruption in after), default=now)
    return min(ended_at, now) - event.occurred_at >= quick
