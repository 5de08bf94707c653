"""The reference of metrics: each family with its type, labels and help."""

from __future__ import annotations

from tests.golden.metrics import families

_HEAD = """# Metrics

<!-- Generated: python -m tests.golden reference -->

`GET /metrics` answers in the formats of Prometheus. A token with the permission `metrics` and no other is enough:
`costguard token create prometheus --permission metrics`. [`deploy/prometheus.yaml`](../../../deploy/prometheus.yaml)
configures the scrape, [`deploy/prometheus-alerts.yaml`](../../../deploy/prometheus-alerts.yaml) holds alerts, and
[`deploy/grafana-dashboard.json`](../../../deploy/grafana-dashboard.json) a dashboard.

| Metric | Type | Labels | Meaning |
|---|---|---|---|
"""


def text() -> str:
    return _HEAD + "".join(
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {meaning} |\n"
        for name, kind, labels, meaning in families()
    )
