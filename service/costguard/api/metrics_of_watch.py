"""Metrics of the watch: listings, their cost and their holders, and the events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from costguard.daemon.listings import ListingReason
from costguard.daemon.watch_report import FeedFigures, WatchFigures

_Labels = TypeVar("_Labels", bound=tuple[str, ...])
_DOUBTS = (ListingReason.SILENT, ListingReason.UNPROVEN, ListingReason.MISSED)


def families_of_watch(watch: WatchFigures) -> Iterator[Metric]:
    ages = {(f"{share:g}",): age.total_seconds() for share, age in watch.ages.items()}
    text = "How old the last complete listing is of so large a share of projects, at most."
    yield _gauge("listing_age_seconds", text, ages, "quantile")
    doubts = {(why.value,): float(watch.doubts.get(why, 0)) for why in _DOUBTS}
    yield _gauge("projects_listed_in_every_pass", "Projects whose events are not relied on.", doubts, "why")
    requests: dict[tuple[str, ...], float] = {}
    if watch.requests is not None:
        requests = {("made",): watch.requests.made, ("in_every_pass",): watch.requests.in_every_pass}
    text = "Requests to Google's lists in the last whole hour, and with every project listed in every pass."
    yield _gauge("listing_requests_per_hour", text, requests, "mode")
    held = {(holder,): float(number) for holder, number in watch.holders.items()}
    yield _gauge("projects_held", "Projects that each replica watches.", held, "holder")
    yield _gauge("projects_unheld", "Projects that no replica watches now.", {(): float(watch.unheld)})
    yield from _feed(watch.feed)


def _feed(feed: FeedFigures | None) -> Iterator[Metric]:
    """The families of a guard without a subscription have no samples."""
    alive = {} if feed is None else {(): float(feed.is_alive)}
    yield _gauge("feed_alive", "Whether the events' subscription delivers what is published to its topic.", alive)
    heartbeats = {} if feed is None or feed.heartbeat_age is None else {(): feed.heartbeat_age.total_seconds()}
    yield _gauge("feed_heartbeat_age_seconds", "How long ago the newest heartbeat that came back was sent.", heartbeats)
    unread = {} if feed is None or feed.subscription.unread is None else {(): float(feed.subscription.unread)}
    yield _gauge("feed_messages_unread", "Messages that Pub/Sub holds for the guard.", unread)
    oldest = {} if feed is None or feed.unread_age is None else {(): feed.unread_age.total_seconds()}
    yield _gauge("feed_oldest_unread_seconds", "How long the oldest of them has been waiting.", oldest)
    counts = {} if feed is None else {"entries": feed.entries, "doubled": feed.doubled, "missed": feed.missed}
    for name, text in (
        ("entries", "Audit entries that came."),
        ("doubled", "Audit entries that came more than once."),
        ("missed", "Operations that a listing showed and whose audit entry had not come."),
    ):
        yield _counter(f"feed_{name}", text, {(): float(counts[name])} if counts else {})
    cost = {} if feed is None or feed.month_cost is None else {(): feed.month_cost.nanos / 1e9}
    yield _gauge("feed_month_dollars", "Pub/Sub's price of a month such as the last day.", cost)


def _gauge(name: str, text: str, values: Mapping[_Labels, float], *labels: str) -> Metric:
    family = GaugeMetricFamily(f"costguard_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, text: str, values: Mapping[_Labels, float]) -> Metric:
    family = CounterMetricFamily(f"costguard_{name}", text, labels=())
    for key, value in values.items():
        family.add_metric(key, value)
    return family
