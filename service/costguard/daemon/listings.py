"""Decides which projects a pass lists in full. Pure.

While a project's events come, a listing every fourteen minutes confirms them. Else it is listed in every pass, as is
one of which something is to be decided or is under way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from zlib import crc32


class Look(Protocol):
    """The state of knowledge about a project."""

    @property
    def last_complete_at(self) -> datetime | None: ...
    @property
    def last_tried_at(self) -> datetime: ...
    @property
    def wanted_at(self) -> datetime | None: ...
    @property
    def unread(self) -> Collection[object]: ...


class ListingReason(StrEnum):
    """The reason why a pass lists a project."""

    NEVER_READ = "never_read"
    UNREAD = "unread"  # the last look missed a part of it
    WORK = "work"  # a job's VM, a stop or a request is under way, or a reminder or a stop is due
    SILENT = "silent"  # no events come at all
    UNPROVEN = "unproven"  # none ever came of this project, and too little shows that its sink lets events through
    MISSED = "missed"  # a listing showed an operation whose event had not come
    TURN = "turn"  # its events come, or it is quiet, and it is its turn


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The interval of listings while events come, and what counts as that. All spans are of the guard's clock."""

    every: timedelta = timedelta(minutes=14)  # with a pass of a minute, no listing is older than fifteen
    heartbeat: timedelta = timedelta(seconds=30)  # how often the guard sends itself one
    alive_within: timedelta = timedelta(seconds=90)  # a heartbeat that came back is no older
    quiet_for: timedelta = timedelta(minutes=15)  # the longest without a message, where no heartbeat can be sent
    regained_after: timedelta = timedelta(minutes=15)  # without another event missed
    sink_shown_within: timedelta = timedelta(hours=1)  # by an event of any project

    def at_speed(self, speed: float) -> Rhythm:
        """The same rhythm for a clock that runs so many times as fast: passes come at real intervals."""
        return replace(self, **{name: getattr(self, name) * speed for name in self.__slots__})

    def has_turn(self, project: str, since: datetime, until: datetime) -> bool:
        """Says whether the project's turn came after `since`, up to `until`; the same in every process.

        Turns of all projects are spread evenly, also after all were listed at once: an interval that differs from
        project to project brings hundreds together again within the hour.
        """
        own = self.every * (crc32(project.encode()) % 10_000) / 10_000
        return (until - _EPOCH - own) // self.every > (since - _EPOCH - own) // self.every


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RHYTHM = Rhythm()


@dataclass(frozen=True, slots=True)
class FeedWire:
    """The state of the subscription. `heard_at` is when the newest heartbeat that came back was sent.

    `can_publish` is False where Google refuses to take heartbeats: then the newest message stands for them.
    """

    sent_at: datetime | None = None
    heard_at: datetime | None = None
    pulled_at: datetime | None = None  # the last pull that Google answered
    message_at: datetime | None = None  # when the newest message was published
    can_publish: bool = True

    def is_alive(self, rhythm: Rhythm, now: datetime) -> bool:
        """Says whether what is published comes through soon. A moment to come is as wrong as one that is long past."""
        if self.can_publish:
            return self.heard_at is not None and abs(now - self.heard_at) <= rhythm.alive_within
        if self.pulled_at is None or self.message_at is None:
            return False
        return abs(now - self.pulled_at) <= rhythm.alive_within and abs(now - self.message_at) <= rhythm.quiet_for


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of one project: when the last came, and when a listing last showed an operation without one."""

    heard_at: datetime | None = None
    missed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EventStreams:
    """All that is known of events. `wire` is None where there is no subscription.

    `since` is when the first event of any project came, and `heard_at` when the newest did.
    """

    wire: FeedWire | None = None
    by_project: Mapping[str, Stream] = field(default_factory=dict)
    rhythm: Rhythm = RHYTHM
    since: datetime | None = None
    heard_at: datetime | None = None

    def doubt(self, project: str, now: datetime) -> ListingReason | None:
        """Returns why the events of this project are not to be relied on; None: they are.

        Heartbeats do not pass through the sink, so events show that it works. A project of which none ever came is
        quiet, or left out: its listings tell which, as an operation without its event is a missed one. After a missed
        one events are relied on again once another came, and some minutes went by without a further gap.
        """
        if self.wire is None or not self.wire.is_alive(self.rhythm, now):
            return ListingReason.SILENT
        stream = self.by_project.get(project)
        if stream is not None and stream.missed_at is not None:
            is_back = stream.heard_at is not None and stream.heard_at > stream.missed_at
            if not is_back or now - stream.missed_at < self.rhythm.regained_after:
                return ListingReason.MISSED
        is_heard = stream is not None and stream.heard_at is not None
        return None if is_heard or self._is_sink_shown(now) else ListingReason.UNPROVEN

    def _is_sink_shown(self, now: datetime) -> bool:
        """Says whether events of other projects came long enough to have found out those that are left out."""
        if self.since is None or self.heard_at is None or now - self.since < self.rhythm.regained_after:
            return False
        return now - self.heard_at <= self.rhythm.sink_shown_within

    def longest_age(self, project: str, now: datetime, usual: timedelta) -> timedelta:
        """Returns how old the last listing may be; `usual` where the project is listed in every pass."""
        return usual if self.doubt(project, now) is not None else usual + self.rhythm.every


def due(
    watched: Sequence[str],
    looks: Mapping[str, Look],
    streams: EventStreams,
    wanted: Collection[str],
    now: datetime,
) -> dict[str, ListingReason]:
    """Returns the projects that this pass lists, in the order of `watched`, each with the reason.

    `wanted` are those of which something is under way or to be decided.
    """
    reasons = ((project, _why(project, looks.get(project), streams, project in wanted, now)) for project in watched)
    return {project: why for project, why in reasons if why is not None}


def _why(
    project: str, look: Look | None, streams: EventStreams, is_wanted: bool, now: datetime
) -> ListingReason | None:
    if look is None or look.last_complete_at is None:
        return ListingReason.NEVER_READ
    if look.unread:
        return ListingReason.UNREAD
    if is_wanted or (look.wanted_at is not None and look.last_tried_at < look.wanted_at):
        return ListingReason.WORK
    if (doubt := streams.doubt(project, now)) is not None:
        return doubt
    if look.last_complete_at - now > streams.rhythm.alive_within:
        return ListingReason.TURN  # the clock was set back
    return ListingReason.TURN if streams.rhythm.has_turn(project, look.last_complete_at, now) else None
