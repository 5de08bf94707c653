"""Prometheus metrics that processes count and time, and their sums over processes; no web framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from costguard.daemon.feed_watch import LATE_BUCKETS_S, Lateness
from costguard.daemon.listings import ListingReason
from costguard.daemon.metric_projects import MOST_PROJECTS, OTHERS
from costguard.daemon.metrics import EventCounts
from costguard.daemon.reconcile import PassReport
from costguard.model.access import Via

_PASS_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_ANSWER_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class WatchMeters:
    """The counters of the watching process; the serving one shows them. Thread-safe."""

    def __init__(self) -> None:
        self.registry = process_registry("costguard_watch")
        self._named = set[str]()  # projects
        self._passes = Histogram(
            "costguard_pass_duration_seconds",
            "How long passes took, by how they ended.",
            ["outcome"],
            buckets=_PASS_BUCKETS,
            registry=self.registry,
        )
        self._listing = self._counter(
            "costguard_listing_failures_total", "Zones and lists that a pass could not read.", "project"
        )
        self._messages = self._counter(
            "costguard_messages_total", "Messages to Slack, by what came of each try.", "kind", "outcome"
        )
        self._deliveries = self._counter(
            "costguard_webhook_deliveries_total",
            "Events posted to webhooks, by what came of each try.",
            "webhook",
            "outcome",
        )
        self._tracker_requests = self._counter(
            "costguard_tracker_requests_total",
            "Requests to experiment trackers, by what came of each try.",
            "tracker",
            "outcome",
        )
        self._listed = self._counter("costguard_listings_total", "Projects that passes listed, by the reason.", "why")
        self._late = Histogram(
            "costguard_event_to_ledger_seconds",
            "From an event until it was in the ledger.",
            buckets=LATE_BUCKETS_S,
            registry=self.registry,
        )
        self._late_since_publish = Histogram(
            "costguard_publish_to_ledger_seconds",
            "From when an event's message was published until the event was in the ledger.",
            buckets=LATE_BUCKETS_S,
            registry=self.registry,
        )
        for outcome in ("done", "interrupted", "failed"):
            self._passes.labels(outcome)

    def passed(self, seconds: float, report: PassReport | None) -> None:
        """A pass is over; without a report it failed."""
        outcome = "failed" if report is None else "interrupted" if report.interrupted else "done"
        self._passes.labels(outcome).observe(seconds)
        if report is None:
            return
        for one in report.recorded:
            # A project shows up with its first pass, so that the first failure is an increase.
            if len(self._named) < MOST_PROJECTS:
                self._named.add(one.project)
            project = one.project if one.project in self._named else OTHERS
            self._listing.labels(project).inc(len(one.unread) or bool(one.error))
            self._listed.labels(report.due.get(one.project, ListingReason.WORK).value).inc()

    def late(self, late: Lateness) -> None:
        """An event is in the ledger."""
        self._late.observe(late.from_event)
        if late.from_publish is not None:
            self._late_since_publish.observe(late.from_publish)

    def message(self, kind: str, outcome: str) -> None:
        self._messages.labels(kind, outcome).inc()

    def delivery(self, webhook: str, outcome: str) -> None:
        self._deliveries.labels(webhook, outcome).inc()

    def tracker(self, tracker: str, outcome: str) -> None:
        self._tracker_requests.labels(tracker, outcome).inc()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)


class Meters:
    """The counters of the serving process. Thread-safe.

    Counters begin at nothing with the process, as Prometheus expects.
    """

    def __init__(self, version: str = "") -> None:
        self.registry = process_registry()
        self.events = EventCounts()
        build = Gauge(
            "costguard_build_info", "Always 1; the label says which version runs.", ["version"], registry=self.registry
        )
        build.labels(version).set(1)
        self._answers = Histogram(
            "costguard_http_request_duration_seconds",
            "How long requests took, by route and class of status. Of a stream: until it began.",
            ["route", "method", "status"],
            buckets=_ANSWER_BUCKETS,
            registry=self.registry,
        )
        self._sign_ins = Counter(
            "costguard_sign_ins_total",
            "Tries to sign in, by way and by what came of them.",
            ["via", "outcome"],
            registry=self.registry,
        )
        for via in (Via.LINK, Via.OIDC):  # there from the beginning, so that the first refusal is an increase
            for outcome in ("in", "refused"):
                self._sign_ins.labels(via.value, outcome)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        self._answers.labels(route, method, f"{status // 100}xx").observe(seconds)

    def signed_in(self, via: Via, is_in: bool) -> None:
        self._sign_ins.labels(via.value, "in" if is_in else "refused").inc()


def process_registry(namespace: str = "") -> CollectorRegistry:
    """Makes a registry with the figures of this process itself, such as its memory."""
    # They would be twice as many series, to say when this process began.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's own, without types
    registry = CollectorRegistry()
    ProcessCollector(namespace, registry=registry)
    return registry


# Of one process or version each, so that a sum would say nothing.
_NOT_SUMMED = frozenset({"costguard_build_info", "process_max_fds", "process_start_time_seconds"})


def summed(metrics: Iterable[Metric]) -> Iterator[Metric]:
    """Adds up what several processes have counted under the same names and labels."""
    families: dict[str, tuple[Metric, dict[tuple[str, tuple[tuple[str, str], ...]], float]]] = {}
    for metric in metrics:
        _, values = families.setdefault(metric.name, (metric, {}))
        for sample in metric.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if metric.name in _NOT_SUMMED:
                values[key] = max(values.get(key, 0.0), sample.value)
            else:
                values[key] = values.get(key, 0.0) + sample.value
    for first, values in families.values():
        metric = Metric(first.name, first.documentation, first.type)
        metric.samples = [Sample(name, dict(labels), value) for (name, labels), value in values.items()]
        yield metric
