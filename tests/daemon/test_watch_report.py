"""The figures of the watch: ages of listings, their cost, who makes them, and how the events come."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from sqlalchemy import insert
from tests.api import rows
from tests.api.rows import NOW
from tests.api.scraped import feed_rows

from costguard.daemon import hourly_counts, watch_report
from costguard.daemon.listings import ListingReason
from costguard.daemon.watch_report import Requests, WatchFigures, ages_of, month_cost
from costguard.db.tables import feed_wire
from costguard.db.transaction import Database
from costguard.ledger import projects

MINUTE = timedelta(minutes=1)


def _read(database: Database) -> WatchFigures:
    with database.read() as connection:
        return watch_report.read(connection, projects.read_all(connection), NOW)


def test_figures_of_a_guard_without_events(database: Database) -> None:
    """Every project is listed in every pass, and no hour was counted yet; nothing is made up for what is not known."""
    with database.write() as connection:
        rows.project(connection)
    figures = _read(database)
    assert (figures.feed, figures.requests, figures.doubts) == (None, None, {ListingReason.SILENT: 1})
    assert (figures.ages[1.0], figures.holders, figures.unheld) == (timedelta(), {}, 0)


def test_figures_of_events_that_come(database: Database) -> None:
    """A project of which nothing ever came is not relied on; the last hour's counts give cost and lateness."""
    with database.write() as connection:
        rows.project(connection)
        rows.project(connection, "other", last_complete_at=NOW - 10 * MINUTE)
        feed_rows(connection)
    figures = _read(database)
    feed = figures.feed
    assert feed is not None
    assert (feed.is_alive, feed.heartbeat_age, feed.unread_age) == (True, timedelta(seconds=30), 2 * MINUTE)
    assert (feed.events, feed.late_half_seconds, feed.late_most_seconds) == (40, 2, 5)
    assert figures.requests == Requests(made=2, in_every_pass=28)
    assert (figures.oldest, figures.doubts) == (10 * MINUTE, {ListingReason.UNPROVEN: 2})
    assert (figures.holders, figures.unheld) == ({"guard-1:4242": 1}, 1)
    assert feed.month_cost == month_cost(40, 120_000, 1)


def test_cost_of_a_day_comes_before_that_of_an_hour(sqlite_database: Database) -> None:
    """A month is reckoned from the last day once there is one: a busy hour is no month."""
    with sqlite_database.write() as connection:
        connection.execute(insert(feed_wire).values(subscription="s", pulled_at=NOW))
        hourly_counts.add(connection, {"feed_bytes": 2_400}, NOW - timedelta(hours=24))
        hourly_counts.add(connection, {"feed_bytes": 10**9}, NOW - timedelta(hours=1))
    feed = _read(sqlite_database).feed
    assert feed is not None
    assert feed.month_cost == month_cost(0, 10**9 + 2_400, 24)


def test_cost_of_events_is_that_of_google_s_example() -> None:
    """Google's own example: 1 MiB a second published, and delivered once, is 2 x 2.47 TiB in 30 days, at $40 each.

    https://cloud.google.com/pubsub/pricing; its month has 720 hours, ours 730.
    """
    month = month_cost(messages=3600, byte_count=3600 * 2**20, hours=1).dollars * 720 / 730
    tib = Decimal(2 * 2**20 * 3600 * 24 * 30) / 2**40
    assert abs(month - tib * 40) < Decimal("0.001")
    assert 197 < month < 198


def test_small_messages_are_billed_as_a_thousand_bytes() -> None:
    """Google assesses at least so much of a request."""
    assert month_cost(messages=10, byte_count=500, hours=1) == month_cost(messages=10, byte_count=10_000, hours=1)


def test_ages_are_of_shares_of_projects(sqlite_database: Database) -> None:
    """The tenth youngest of twenty projects is the half, the nineteenth 95 %; one never read counts for none."""
    with sqlite_database.write() as connection:
        for number in range(20):
            rows.project(connection, f"p{number:02}", last_complete_at=NOW - (number + 1) * MINUTE)
        rows.project(connection, "new", last_complete_at=None)
    with sqlite_database.read() as connection:
        ages = ages_of(projects.read_all(connection), NOW)
    assert ages == {0.5: 10 * MINUTE, 0.95: 19 * MINUTE, 1.0: 20 * MINUTE}
    assert ages_of([], NOW) == {}
