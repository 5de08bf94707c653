"""Figures of the watch: how old listings are, what they cost, who makes them, and how the events come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.daemon import feed_state, hourly_counts
from costguard.daemon.feed_state import ProjectFeed, Subscription
from costguard.daemon.feed_watch import BYTES, MESSAGES, late_at
from costguard.daemon.lease_keeper import LEASE_TTL
from costguard.daemon.listings import RHYTHM, EventStreams, ListingReason, Rhythm
from costguard.db import project_leases
from costguard.db.lease import database_time
from costguard.ledger.projects import ProjectLook
from costguard.model.money import Money

SHARES = (0.5, 0.95, 1.0)

# https://cloud.google.com/pubsub/pricing, Message Delivery Basic: $40 a TiB of what is published and what is delivered,
# at least 1,000 bytes a request. The first 10 GiB of a billing account in a month are free; others may use them up.
_TIB, _TIB_NANOS, _LEAST_BYTES = 2**40, 40_000_000_000, 1000
_MONTH_HOURS, _DAY_HOURS = 730, 24


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests to Google's lists within the last whole hour, and what listing every project in every pass takes."""

    made: int
    in_every_pass: int


@dataclass(frozen=True, slots=True)
class FeedFigures:
    """Tells how the events come. `late_s` are bounds in seconds by share of the last hour's events; None: above all.

    `month_cost` is Pub/Sub's price of a month such as the last day, without what is free; None before the first hour.
    """

    subscription: Subscription
    is_alive: bool
    heartbeat_age: timedelta | None
    unread_age: timedelta | None  # of the oldest message that Google holds
    entries: int
    doubled: int
    missed: int  # operations that a listing showed, and whose event had not come
    events: int  # within the last whole hour
    late_s: Mapping[float, int | None]
    month_cost: Money | None

    @property
    def late_half_seconds(self) -> int | None:
        return self.late_s.get(0.5)

    @property
    def late_most_seconds(self) -> int | None:
        return self.late_s.get(0.95)


@dataclass(frozen=True, slots=True)
class WatchFigures:
    """`feed` is None where no events are pulled. `doubts` counts the projects that every pass lists, by the reason."""

    streams: EventStreams = field(default_factory=EventStreams)
    feed: FeedFigures | None = None
    doubts: Mapping[ListingReason, int] = field(default_factory=dict)
    ages: Mapping[float, timedelta] = field(default_factory=dict)  # of listings, by share of projects
    requests: Requests | None = None  # None: not a whole hour was counted
    holders: Mapping[str, int] = field(default_factory=dict)  # projects by the replica that watches them
    unheld: int = 0  # projects that no replica watches at this moment

    @property
    def oldest(self) -> timedelta | None:
        return self.ages.get(1.0)

    @property
    def requests_per_hour(self) -> int | None:
        return None if self.requests is None else self.requests.made

    @property
    def requests_per_hour_in_every_pass(self) -> int | None:
        return None if self.requests is None else self.requests.in_every_pass


def read(connection: Connection, looks: Sequence[ProjectLook], now: datetime, rhythm: Rhythm = RHYTHM) -> WatchFigures:
    feeds = feed_state.project_feeds(connection)
    streams = feed_state.streams(connection, rhythm, feeds)
    pulled = feed_state.subscription(connection)
    hour = hourly_counts.last_hours(connection, now)
    leases = project_leases.read(connection, database_time(connection), LEASE_TTL)
    held = {row.project: row.holder for row in leases if row.is_held}
    watched = [look.project for look in looks]
    doubts = Counter(why for project in watched if (why := streams.doubt(project, now)) is not None)
    return WatchFigures(
        streams=streams,
        feed=None if pulled is None else _feed(connection, pulled, feeds, hour or {}, streams, now),
        doubts=doubts,
        ages=ages_of(looks, now),
        requests=None if hour is None else _requests(hour),
        holders=Counter(held[project] for project in watched if project in held),
        unheld=sum(project not in held for project in watched) if leases else 0,
    )


def ages_of(looks: Sequence[ProjectLook], now: datetime) -> dict[float, timedelta]:
    """The age of the last whole listing that so large a share of projects does not exceed. Pure."""
    ages = sorted(max(timedelta(), now - look.last_complete_at) for look in looks if look.last_complete_at is not None)
    return {share: ages[max(0, -int(-share * len(ages) // 1) - 1)] for share in SHARES} if ages else {}


def month_cost(messages: int, byte_count: int, hours: int) -> Money:
    """Pub/Sub's price of a month of 730 hours such as these; a message is published and delivered once each. Pure."""
    billed = 2 * max(byte_count, messages * _LEAST_BYTES)
    return Money(billed * _MONTH_HOURS * _TIB_NANOS // (_TIB * hours))


def _feed(
    connection: Connection,
    pulled: Subscription,
    feeds: Mapping[str, ProjectFeed],
    hour: Mapping[str, int],
    streams: EventStreams,
    now: datetime,
) -> FeedFigures:
    day = hourly_counts.last_hours(connection, now, _DAY_HOURS)
    counted, hours = (day, _DAY_HOURS) if day is not None else (hour, 1)
    late = {share: late_at(hour, share) for share in SHARES[:2]}
    heard_at, oldest_at = pulled.wire.heard_at, pulled.oldest_unread_at
    return FeedFigures(
        subscription=pulled,
        is_alive=pulled.wire.is_alive(streams.rhythm, now),
        heartbeat_age=None if heard_at is None else max(timedelta(), now - heard_at),
        unread_age=None if oldest_at is None else max(timedelta(), now - oldest_at),
        entries=sum(feed.entries for feed in feeds.values()),
        doubled=sum(feed.doubled for feed in feeds.values()),
        missed=sum(feed.missed for feed in feeds.values()),
        events=sum(number for what, number in hour.items() if what.startswith("event_to_ledger/")),
        late_s=late,
        month_cost=month_cost(counted.get(MESSAGES, 0), counted.get(BYTES, 0), hours) if counted else None,
    )


def _requests(hour: Mapping[str, int]) -> Requests:
    return Requests(hour.get(hourly_counts.REQUESTS, 0), hour.get(hourly_counts.WITHOUT_EVENTS, 0))
