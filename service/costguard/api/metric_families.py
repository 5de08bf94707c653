"""The ledger's figures in the words of Prometheus. No label holds what somebody may choose who only uses a VM."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from costguard.daemon.counts import Interrupted
from costguard.daemon.metrics import MONTH, Figures
from costguard.model.action import StopOutcome
from costguard.model.attempt import Outcome
from costguard.model.job import JobState
from costguard.model.money import Money
from costguard.model.webhook import WebhookState
from costguard.spend.spend import SpendRow
from costguard.spend.spend_rows import Grouping

_KIND = ("project", "preset", "provisioning_model")
_RECOVERY_BUCKETS = (30, 60, 120, 180, 300, 600, 1200, 3600, 14_400)
_Labels = TypeVar("_Labels", bound=tuple[str, ...])


def families(found: Figures, hooks: Sequence[WebhookState], *, is_acting: bool) -> Iterator[Metric]:
    yield _gauge(
        "lease_held", "Whether this replica acts, by the database; of all replicas one does.", {(): float(is_acting)}
    )
    yield from _fleet(found)
    yield from _health(found)
    yield from _money(found)
    yield from _work(found)
    yield from _webhooks(hooks, found)


def _fleet(found: Figures) -> Iterator[Metric]:
    rates: dict[tuple[str, ...], int] = {}
    counts: dict[tuple[str, ...], float] = {}
    unpriced: dict[tuple[str, ...], float] = {}
    for each in found.burning:
        kind = (each.project, each.preset, each.provisioning_model.value)
        rates[kind] = rates.get(kind, 0) + each.rate.nanos
        unpriced[kind] = unpriced.get(kind, 0) + each.unpriced
        counts[each.project, each.preset, each.provisioning_model.value, each.status.value.lower()] = each.count
    dollars = {kind: _dollars(Money(nanos)) for kind, nanos in rates.items()}
    yield _gauge(
        "burn_rate_dollars_per_hour",
        "What VMs and their disks cost an hour now, but for what has no price.",
        dollars,
        *_KIND,
    )
    yield _gauge("vms", "VMs that are there.", counts, *_KIND, "status")
    yield _gauge("vms_unpriced", "VMs that no cost is known of, or not all of it.", unpriced, *_KIND)


def _health(found: Figures) -> Iterator[Metric]:
    unread = {(look.project,): float(len(look.unread)) for look in found.looks}
    yield _gauge("unread_scopes", "Zones and lists that the last look could not read.", unread, "project")
    blind = {(look.project,): float(look.is_unread) for look in found.looks}
    yield _gauge("project_unread", "Whether the last look could read nothing of the project.", blind, "project")
    complete = {
        (look.project,): look.last_complete_at.timestamp() for look in found.looks if look.last_complete_at is not None
    }
    text = "When a look last read all of the project."
    yield _gauge("last_complete_look_timestamp_seconds", text, complete, "project")
    ages = {} if found.prices_at is None else {(): (found.as_of - found.prices_at).total_seconds()}
    yield _gauge("prices_age_seconds", "How long ago prices were read or changed.", ages)


def _money(found: Figures) -> Iterator[Metric]:
    today = found.as_of.date().isoformat()
    spent = (row for row in found.month if row.group[MONTH.index(Grouping.DAY)] == today)
    yield _gauge("spend_today_dollars", "Spent since midnight UTC.", _sums(spent), *_KIND)
    yield _gauge("spend_month_dollars", "Spent since the first of the month in UTC.", _sums(found.month), *_KIND)
    budgets = {(each.budget.name, each.budget.period.value): each for each in found.budgets}
    of_budgets = (
        ("limit_dollars", "What may be spent in the period.", lambda each: _dollars(each.budget.limit)),
        ("spent_dollars", "What is spent of it.", lambda each: _dollars(each.outlook.spent)),
        (
            "forecast_dollars",
            "What is thought to be spent at the period's end; absent while it is too early to say.",
            lambda each: _dollars(each.outlook.forecast.expected) if each.outlook.forecast.is_grounded else None,
        ),
        (
            "spent_ratio",
            "The share that is spent; 1 is all of it.",
            lambda each: each.outlook.spent.nanos / each.budget.limit.nanos,
        ),
    )
    for name, text, of in of_budgets:
        values = {key: value for key, each in budgets.items() if (value := of(each)) is not None}
        yield _gauge(f"budget_{name}", text, values, "budget", "period")


def _work(found: Figures) -> Iterator[Metric]:
    open_states = [state for state in JobState if not state.is_over]
    jobs = {(state.value,): float(found.open_jobs.get(state, 0)) for state in open_states}
    yield _gauge("jobs", "Jobs that are not over.", jobs, "state")
    stops = {
        (outcome.value, "request" if asked else "limit"): float(found.stops.get((outcome.value, asked), 0))
        for outcome in StopOutcome
        for asked in (True, False)
    }
    yield _counter("stops", "Stops by what they came to; asked for, or due at a limit.", stops, "outcome", "rule")
    yield from _interruptions(found.interrupted)
    events = {(kind,): float(count) for kind, count in sorted(found.facts.items())}
    yield _counter("events", "Events recorded since this process was first scraped.", events, "kind")
    waiting = {(kind,): float(count) for kind, count in found.waiting_messages.items()}
    yield _gauge("messages_waiting", "Messages that Slack has not accepted yet.", waiting, "kind")


def _interruptions(of: Interrupted) -> Iterator[Metric]:
    kinds = sorted({Outcome.PREEMPTED, Outcome.HOST_ERROR, *of.happened})
    happened = {(kind.value,): float(of.happened.get(kind, 0)) for kind in kinds}
    yield _counter("interruptions", "Runs of jobs that were interrupted.", happened, "outcome")
    resumed = {(kind.value,): float(of.resumed.get(kind, 0)) for kind in kinds}
    yield _counter("recoveries", "Interrupted runs after which the work went on.", resumed, "outcome")
    yield _counter("work_lost_dollars", "What the work cost that interruptions undid.", {(): _dollars(of.lost)})
    yield _counter(
        "work_lost_seconds", "How long the work took that interruptions undid.", {(): float(of.lost_seconds)}
    )
    spans = sorted(of.recoveries)
    places = [bisect_right(spans, bound) for bound in _RECOVERY_BUCKETS]
    buckets = [(str(float(bound)), float(count)) for bound, count in zip(_RECOVERY_BUCKETS, places, strict=True)]
    yield HistogramMetricFamily(
        "costguard_recovery_duration_seconds",
        "From a preemption until the work went on.",
        buckets=[*buckets, ("+Inf", float(len(spans)))],
        sum_value=sum(spans),
    )


def _webhooks(hooks: Sequence[WebhookState], found: Figures) -> Iterator[Metric]:
    waiting = {(each.name,): float(each.waiting) for each in hooks}
    yield _gauge("webhook_waiting", "Events that a webhook has not accepted yet.", waiting, "webhook")
    lags = {
        (each.name,): 0.0 if each.since is None else max(0.0, (found.as_of - each.since).total_seconds())
        for each in hooks
    }
    yield _gauge("webhook_lag_seconds", "How long the oldest of them has waited.", lags, "webhook")


def _sums(rows: Iterable[SpendRow]) -> dict[tuple[str, ...], float]:
    """By project, preset and provisioning model."""
    totals: dict[tuple[str, ...], Money] = {}
    for row in rows:
        kind = row.group[1:]
        totals[kind] = totals.get(kind, Money(0)) + row.amounts.total
    return {kind: _dollars(total) for kind, total in totals.items()}


def _dollars(amount: Money) -> float:
    """Prometheus knows no exact numbers; nothing is added up after this."""
    return amount.nanos / 1e9


def _gauge(name: str, text: str, values: Mapping[_Labels, float], *labels: str) -> Metric:
    family = GaugeMetricFamily(f"costguard_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, text: str, values: Mapping[_Labels, float], *labels: str) -> Metric:
    family = CounterMetricFamily(f"costguard_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
