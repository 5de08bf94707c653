"""Aligning and reducing series as Cloud Monitoring does: equal periods that end at the interval's end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.utilisation import METRICS, Series

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
# https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.alertPolicies#Aligner
_FIT = {
    "GAUGE": ("ALIGN_MAX", "ALIGN_MIN", "ALIGN_MEAN", "ALIGN_SUM"),
    "DELTA": ("ALIGN_DELTA", "ALIGN_RATE", "ALIGN_SUM"),
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
    aligner, reducer, period, of = aggregation.aligner, aggregation.reducer, aggregation.period, METRICS[metric]
    if (aligner == "ALIGN_NONE") != (period is None):
        raise bad_value("aggregation.perSeriesAligner", aligner, "It goes together with aggregation.alignmentPeriod.")
    if aligner not in ("ALIGN_NONE", *_ALIGNERS):
        raise bad_value("aggregation.perSeriesAligner", aligner)
    if reducer not in ("REDUCE_NONE", *_REDUCERS):
        raise bad_value("aggregation.crossSeriesReducer", reducer)
    if period is not None and period < timedelta(minutes=1):
        given = f"{period.total_seconds():g}s"
        raise bad_value("aggregation.alignmentPeriod", given, "The period must be at least 60 seconds.")
    if reducer != "REDUCE_NONE" and period is None:
        raise bad_value("aggregation.crossSeriesReducer", reducer, "Series must be aligned before they are reduced.")
    if period is not None and aligner not in _FIT[of.kind]:
        why = f"The aligner cannot be applied to metrics with kind {of.kind} and value type {of.value_type}."
        raise bad_value("aggregation.perSeriesAligner", aligner, why)
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
    return Refused(400, "", message, status="INVALID_ARGUMENT")


def bad_value(field: str, given: str, why: str = "") -> Refused:
    """In Google's words, such as `Field filter had an invalid value of "x": ...`."""
    return bad_argument(f'Field {field} had an invalid value of "{given}"' + (f": {why}" if why else "."))


def _group(one: Aligned, paths: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    group = []
    for path in paths:
        where, _, label = path.replace(".label.", ".labels.").partition(".labels.")
        labels = {"metric": one.metric_labels, "resource": one.resource_labels}.get(where)
        if labels is None or not label:
            raise bad_value("aggregation.groupByFields", path)
        group.append((path, labels.get(label, "")))
    return tuple(group)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
