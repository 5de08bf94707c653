"""Reads what is known of the events' subscription, and of the events of each project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from costguard.daemon.listings import RHYTHM, EventStreams, FeedWire, Rhythm, Stream
from costguard.db.tables import feed_wire
from costguard.ledger.feed import heard_projects


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription as the last pull, and the last look at its length, showed it."""

    name: str
    wire: FeedWire
    unread: int | None  # messages that Google holds for it; None: not known
    oldest_unread_at: datetime | None
    measured_at: datetime | None  # when these two were read
    error: str  # of the last pull; "" where Google answered


def subscription(connection: Connection) -> Subscription | None:
    """Returns the subscription that was pulled last; None where there never was one."""
    row = connection.execute(_LAST_PULLED).first()
    if row is None:
        return None
    wire = FeedWire(row.sent_at, row.heard_at, row.pulled_at, row.message_at, row.can_publish)
    return Subscription(row.subscription, wire, row.unread, row.oldest_unread_at, row.measured_at, row.error)


_LAST_PULLED = select(feed_wire).order_by(feed_wire.c.pulled_at.desc().nulls_last()).limit(1)


@dataclass(frozen=True, slots=True)
class ProjectFeed:
    """The events of one project. `missed` are operations that a listing showed and whose event had not come.

    `heard_at` is None where no event of it ever came.
    """

    heard_at: datetime | None
    entries: int
    doubled: int
    missed: int
    missed_at: datetime | None
    first_heard_at: datetime | None = None


def project_feeds(connection: Connection) -> dict[str, ProjectFeed]:
    return {
        one.project: ProjectFeed(
            one.heard_at if one.entries else None,
            one.entries,
            one.doubled,
            one.missed,
            one.missed_at,
            one.first_heard_at if one.entries else None,
        )
        for one in heard_projects.read_all(connection)
    }


def streams(
    connection: Connection, rhythm: Rhythm = RHYTHM, feeds: Mapping[str, ProjectFeed] | None = None
) -> EventStreams:
    """Returns what the choice of listings rests on."""
    pulled = subscription(connection)
    if pulled is None:
        return EventStreams(None, {}, rhythm)
    feeds = project_feeds(connection) if feeds is None else feeds
    by_project = {project: Stream(feed.heard_at, feed.missed_at) for project, feed in feeds.items()}
    since = min((feed.first_heard_at for feed in feeds.values() if feed.first_heard_at is not None), default=None)
    heard_at = max((feed.heard_at for feed in feeds.values() if feed.heard_at is not None), default=None)
    return EventStreams(pulled.wire, by_project, rhythm, since, heard_at)
