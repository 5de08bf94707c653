"""Metrics for Prometheus: the ledger's figures, and what all processes have counted.

No label holds anything that people who merely use a VM can choose.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from costguard.api.deps import Deps, Given
from costguard.api.metrics_of_watch import families_of_watch
from costguard.api.route import RESPONSES
from costguard.daemon.meters import summed
from costguard.daemon.metric_projects import dearest, gathered, troubled
from costguard.daemon.metrics import MONTH, Figures, InterruptionCounts, figures
from costguard.db.health_rows import holders, is_held_by
from costguard.jobs.listing.limits import LimitUse
from costguard.model.access import Permission
from costguard.model.action import StopOutcome
from costguard.model.attempt import Outcome
from costguard.model.delivery.webhook import WebhookState
from costguard.model.job import JobState
from costguard.model.money import Money
from costguard.spend.spend import SpendRow
from costguard.spend.spend_rows import Grouping
from costguard.web.permissions import needs

router = APIRouter(tags=["metrics"], responses=RESPONSES, dependencies=[needs(Permission.METRICS)])

_TEXT = {"schema": {"type": "string"}}
_KIND = ("project", "preset", "provisioning_model")
_RECOVERY_BUCKETS = (30, 60, 120, 180, 300, 600, 1200, 3600, 14_400)
_Labels = TypeVar("_Labels", bound=tuple[str, ...])


@router.get(
    "/metrics",
    summary="Get metrics for Prometheus",
    operation_id="getMetrics",
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
            "description": "The metrics, one per line, in the format that Accept prefers.",
        }
    },
)
def metrics(deps: Given, request: Request) -> Response:
    """Returns all metrics. A token may have this permission alone:

    `costguard token create prometheus --permission metrics`.
    """
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(_Everything(deps)), media_type=media_type, headers={"Cache-Control": "no-store"})


class _Everything(Collector):
    """All of the ledger's figures are as of one moment."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def collect(self) -> Iterator[Metric]:
        deps = self._deps
        with deps.database.read() as connection:
            readings = figures(connection, deps.rules, deps.clock.now(), deps.meters.events, deps.rhythm)
            hooks = deps.webhook_states(connection)
            is_acting = is_held_by(holders(connection), deps.holder)
        yield from families(readings, hooks, is_acting=is_acting)
        yield from summed(chain(deps.meters.registry.collect(), deps.other_metrics()))


def families(figures: Figures, hooks: Sequence[WebhookState], *, is_acting: bool) -> Iterator[Metric]:
    yield _gauge(
        "lease_held", "Whether this replica acts, by the database; one of all replicas does.", {(): float(is_acting)}
    )
    yield from _fleet(figures)
    yield from _health(figures)
    yield from families_of_watch(figures.watch)
    yield from _money(figures)
    yield from _work(figures)
    yield from _limits(figures.limits)
    yield from _webhooks(hooks, figures)


def _fleet(figures: Figures) -> Iterator[Metric]:
    rates: dict[tuple[str, ...], int] = {}
    counts: dict[tuple[str, ...], float] = {}
    unpriced: dict[tuple[str, ...], float] = {}
    called = _called(figures)
    for group in figures.burning:
        kind = (called(group.project), group.preset, group.provisioning_model.value)
        rates[kind] = rates.get(kind, 0) + group.rate.nanos
        unpriced[kind] = unpriced.get(kind, 0) + group.unpriced
        by_status = (*kind, group.status.value.lower())
        counts[by_status] = counts.get(by_status, 0) + group.count
    dollars = {kind: _dollars(Money(nanos)) for kind, nanos in rates.items()}
    yield _gauge(
        "burn_rate_dollars_per_hour",
        "The hourly cost of VMs and their disks now, without what has no price.",
        dollars,
        *_KIND,
    )
    yield _gauge("vms", "VMs that exist.", counts, *_KIND, "status")
    yield _gauge("vms_unpriced", "VMs without a complete price.", unpriced, *_KIND)


def _health(figures: Figures) -> Iterator[Metric]:
    called, looks = troubled(figures.looks, figures.as_of), figures.looks
    unread = gathered(((look.project, float(len(look.unread))) for look in looks), called, operator.add)
    yield _gauge("unread_scopes", "Zones and lists that the last read missed.", unread, "project")
    blind = gathered(((look.project, float(look.is_unread)) for look in looks), called, max)
    yield _gauge("project_unread", "Whether the last read of the project failed completely.", blind, "project")
    read = ((look.project, look.last_complete_at.timestamp()) for look in looks if look.last_complete_at is not None)
    complete = gathered(read, called, min)
    text = "When the project was last read completely; of those that have no series of their own, the oldest."
    yield _gauge("last_complete_look_timestamp_seconds", text, complete, "project")
    ages = {} if figures.prices_at is None else {(): (figures.as_of - figures.prices_at).total_seconds()}
    yield _gauge("prices_age_seconds", "How long ago prices were read or changed.", ages)


def _money(figures: Figures) -> Iterator[Metric]:
    today = figures.as_of.date().isoformat()
    spent, called = (row for row in figures.month if row.group[MONTH.index(Grouping.DAY)] == today), _called(figures)
    yield _gauge("spend_today_dollars", "Spent since midnight UTC.", _sums(spent, called), *_KIND)
    text = "Spent since the first of the month, UTC."
    yield _gauge("spend_month_dollars", text, _sums(figures.month, called), *_KIND)
    budgets = {(budget.budget.name, budget.budget.period.value): budget for budget in figures.budgets}
    of_budgets = (
        ("limit_dollars", "The limit of the period.", lambda standing: _dollars(standing.budget.limit)),
        ("spent_dollars", "The spend of the period so far.", lambda standing: _dollars(standing.outlook.spent)),
        (
            "forecast_dollars",
            "The forecast for the end of the period; absent while it is too early for one.",
            lambda standing: (
                _dollars(standing.outlook.forecast.expected) if standing.outlook.forecast.is_grounded else None
            ),
        ),
        (
            "spent_ratio",
            "The share of the limit that is spent; 1 is all of it.",
            lambda standing: standing.outlook.spent.nanos / standing.budget.limit.nanos,
        ),
    )
    for name, text, read in of_budgets:
        values = {key: value for key, standing in budgets.items() if (value := read(standing)) is not None}
        yield _gauge(f"budget_{name}", text, values, "budget", "period")


def _work(figures: Figures) -> Iterator[Metric]:
    open_states = [state for state in JobState if not state.is_over]
    jobs = {(state.value,): float(figures.open_jobs.get(state, 0)) for state in open_states}
    yield _gauge("jobs", "Jobs that have not ended.", jobs, "state")
    stops = {
        (outcome.value, "request" if is_requested else "limit"): float(
            figures.stops.get((outcome.value, is_requested), 0)
        )
        for outcome in StopOutcome
        for is_requested in (True, False)
    }
    yield _counter("stops", "Stops by outcome; requested, or due at a limit.", stops, "outcome", "rule")
    yield from _interruptions(figures.interrupted)
    events = {(kind,): float(count) for kind, count in sorted(figures.events.items())}
    yield _counter("events", "Events recorded since this process was first scraped.", events, "kind")
    waiting = {(kind,): float(count) for kind, count in figures.waiting_messages.items()}
    yield _gauge("messages_waiting", "Messages that Slack has not accepted yet.", waiting, "kind")


def _limits(uses: Sequence[LimitUse]) -> Iterator[Metric]:
    """Measures limits; where each owner, team, project or preset has one, the value that uses the most counts."""
    most: dict[tuple[str, ...], float] = {}
    used: dict[tuple[str, ...], float] = {}
    waiting: dict[tuple[str, ...], float] = {}
    for use in uses:
        limit, dollars = use.limit, use.limit.dollars_per_hour
        waiting[limit.name,] = waiting.get((limit.name,), 0) + len(use.waiting)
        amounts: tuple[tuple[str, float | None, float], ...] = (
            ("vms", limit.vms, use.used.vms),
            ("gpus", limit.gpus, use.used.gpus),
            ("dollars_per_hour", None if dollars is None else _dollars(dollars), _dollars(use.used.rate)),
        )
        for resource, allowed, taken in amounts:
            if allowed is not None:
                most[limit.name, resource] = float(allowed)
                used[limit.name, resource] = max(float(taken), used.get((limit.name, resource), 0.0))
    yield _gauge("limit_most", "The most that may be in use at once under a limit.", most, "limit", "resource")
    text = "The amount in use under a limit; of one that is kept by value, the most that a value uses."
    yield _gauge("limit_used", text, used, "limit", "resource")
    yield _gauge("limit_waiting_jobs", "Jobs that wait for a limit.", waiting, "limit")


def _interruptions(interrupted: InterruptionCounts) -> Iterator[Metric]:
    kinds = sorted({Outcome.PREEMPTED, Outcome.HOST_ERROR, *interrupted.happened})
    happened = {(kind.value,): float(interrupted.happened.get(kind, 0)) for kind in kinds}
    yield _counter("interruptions", "Runs of jobs that were interrupted.", happened, "outcome")
    resumed = {(kind.value,): float(interrupted.resumed.get(kind, 0)) for kind in kinds}
    yield _counter("recoveries", "Interrupted runs after which the work resumed.", resumed, "outcome")
    yield _counter("work_lost_dollars", "The cost of work that interruptions undid.", {(): _dollars(interrupted.lost)})
    yield _counter(
        "work_lost_seconds", "The duration of work that interruptions undid.", {(): float(interrupted.lost_seconds)}
    )
    spans = sorted(interrupted.recoveries)
    places = [bisect_right(spans, bound) for bound in _RECOVERY_BUCKETS]
    buckets = [(str(float(bound)), float(count)) for bound, count in zip(_RECOVERY_BUCKETS, places, strict=True)]
    yield HistogramMetricFamily(
        "costguard_recovery_duration_seconds",
        "From a preemption until the work resumed.",
        buckets=[*buckets, ("+Inf", float(len(spans)))],
        sum_value=sum(spans),
    )


def _webhooks(hooks: Sequence[WebhookState], figures: Figures) -> Iterator[Metric]:
    waiting = {(hook.name,): float(hook.waiting) for hook in hooks}
    yield _gauge("webhook_waiting", "Events that a webhook has not accepted yet.", waiting, "webhook")
    lags = {
        (hook.name,): 0.0 if hook.since is None else max(0.0, (figures.as_of - hook.since).total_seconds())
        for hook in hooks
    }
    yield _gauge("webhook_lag_seconds", "How long the oldest of them has been waiting.", lags, "webhook")


def _called(figures: Figures) -> Callable[[str], str]:
    """Returns what to call a project in metrics of money and VMs: itself where its month is among the dearest."""
    nanos: dict[str, int] = {}
    for row in figures.month:
        project = row.group[1]
        nanos[project] = nanos.get(project, 0) + row.amounts.total.nanos
    return dearest((*nanos, *(group.project for group in figures.burning)), nanos)


def _sums(rows: Iterable[SpendRow], called: Callable[[str], str]) -> dict[tuple[str, ...], float]:
    """Sums rows by project, preset and provisioning model."""
    totals: dict[tuple[str, ...], Money] = {}
    for row in rows:
        kind = (called(row.group[1]), *row.group[2:])
        totals[kind] = totals.get(kind, Money(0)) + row.amounts.total
    return {kind: _dollars(total) for kind, total in totals.items()}


def _dollars(amount: Money) -> float:
    """Prometheus has no exact numbers; nothing is added up after this."""
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
