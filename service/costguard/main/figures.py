"""Metrics of the watching process, on their way to the one that Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from costguard.main.wire import Family


def families_of(registry: CollectorRegistry) -> tuple[Family, ...]:
    """What the registry's collectors count now."""
    return tuple(_family(metric) for metric in registry.collect())


def metrics_of(families: Iterable[Family]) -> Iterator[Metric]:
    """The same, as Prometheus's own client has them."""
    for family in families:
        metric = Metric(family.name, family.text, family.type)
        metric.samples = [Sample(name, labels, value) for name, labels, value in family.samples]
        yield metric


def _family(metric: Metric) -> Family:
    samples = tuple((sample.name, dict(sample.labels), float(sample.value)) for sample in metric.samples)
    return Family(name=metric.name, text=metric.documentation, type=metric.type, samples=samples)
