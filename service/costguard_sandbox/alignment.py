"""Aligning and reducing series as Cloud Monitoring does: equal periods that end at the interval's end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard_sandbox.problems import Refused
from costguard_sandbox.utilisation import METRICS, Series

Points = dict[datetime, float]
_REDUCERS: Mapping[str, Callable[[Iterable[float]], float]] = {
    "REDUCE_MAX": max,
    "REDUCE_MIN": min,
    "REDUCE_SUM": sum,
    "REDUCE_MEAN": lambda values: _mean(list(values)),
}
_ALIGNERS: Mapping[str, Callable[[Sequence[float], timedelta], float]] = {
    "ALIGN_MAX": lambda values, _period: max(values),
    "ALIGN_MIN": lambda values, _period: min(values),
    "ALIGN_MEAN": lambda values, _period: _mean(values),
    "ALIGN_SUM": lambda values, _period: sum(values),
    "ALIGN_DELTA": lambda values, _period: sum(values),
    "ALIGN_RATE": lambda values, period: sum(values) / period.total_seconds(),
}


@dataclass(frozen=True, slots=True)
class Aggregation:
    period: timedelta | None = None
    aligner: str = "ALIGN_NONE"
    reducer: str = "REDUCE_NONE"
    group_by: tuple[str, ...] = ()  # `resource.labels.instance_id`, `metric.labels.gpu_number`


@dataclass(slots=True)
class Aligned:
    """A series as it is answered; its points by the moment at which they end."""

    metric_labels: dict[str, str]
    resource_labels: dict[str, str]
    points: Points = field(default_factory=dict)


def checked(aggregation: Aggregation, metric: str) -> Aggregation:
    """Raises Refused (400) for what Cloud Monitoring refuses."""
    if (aggregation.aligner == "ALIGN_NONE") != (aggregation.period is None):
        raise bad_argument("Field aggregation.perSeriesAligner and aggregation.alignmentPeriod go together.")
    if aggregation.aligner not in ("ALIGN_NONE", *_ALIGNERS):
        raise bad_argument(f"Field aggregation.perSeriesAligner had an invalid value of {aggregation.aligner!r}.")
    if aggregation.reducer not in ("REDUCE_NONE", *_REDUCERS):
        raise bad_argument(f"Field aggregation.crossSeriesReducer had an invalid value of {aggregation.reducer!r}.")
    if aggregation.period is not None and aggregation.period < timedelta(minutes=1):
        raise bad_argument("Field aggregation.alignmentPeriod had an invalid value: it must be at least 60 seconds.")
    if aggregation.reducer != "REDUCE_NONE" and aggregation.period is None:
        raise bad_argument("Series must be aligned before they are reduced.")
    if aggregation.aligner in ("ALIGN_RATE", "ALIGN_DELTA") and METRICS[metric].kind == "GAUGE":
        raise bad_argument(f"The aligner {aggregation.aligner} cannot be applied to metrics with kind GAUGE.")
    return aggregation


def aligned(series: Series, aggregation: Aggregation, after: datetime, until: datetime, end: datetime) -> Aligned:
    """The series in periods that end at `end`; nothing measured after `until` is known yet."""
    found = Aligned(dict(series.metric_labels), dict(series.resource_labels))
    if aggregation.period is None:
        found.points = dict(series.points(after, until))
        return found
    periods: dict[datetime, list[float]] = {}
    for moment, value in series.points(after, until):
        periods.setdefault(end - (end - moment) // aggregation.period * aggregation.period, []).append(value)
    align = _ALIGNERS[aggregation.aligner]
    found.points = {moment: align(values, aggregation.period) for moment, values in periods.items()}
    return found


def reduced(series: Iterable[Aligned], aggregation: Aggregation) -> list[Aligned]:
    """One series for each group; labels that are not grouped by are lost, save the project."""
    if aggregation.reducer == "REDUCE_NONE":
        return list(series)
    groups: dict[tuple[tuple[str, str], ...], list[Aligned]] = {}
    for one in series:
        groups.setdefault(_group(one, aggregation.group_by), []).append(one)
    reduce = _REDUCERS[aggregation.reducer]
    answers = []
    for group, members in groups.items():
        answer = Aligned({}, {"project_id": members[0].resource_labels["project_id"]})
        for path, value in group:
            labels = answer.metric_labels if path.startswith("metric.") else answer.resource_labels
            labels[path.rsplit(".", 1)[-1]] = value
        moments = sorted({moment for one in members for moment in one.points})
        answer.points = {at: reduce(one.points[at] for one in members if at in one.points) for at in moments}
        answers.append(answer)
    return answers


def bad_argument(message: str) -> Refused:
    return Refused(400, "badRequest", message, status="INVALID_ARGUMENT")


def _group(one: Aligned, paths: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    group = []
    for path in paths:
        where, _, label = path.replace(".label.", ".labels.").partition(".labels.")
        labels = {"metric": one.metric_labels, "resource": one.resource_labels}.get(where)
        if labels is None or not label:
            raise bad_argument(f"Field aggregation.groupByFields had an invalid value of {path!r}.")
        group.append((path, labels.get(label, "")))
    return tuple(group)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
