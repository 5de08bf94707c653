"""The metrics: name, type, labels and help of each family, without values."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from tests.api.scraped import full
from tests.golden.databases import migrated

from costguard.api.app import create_app


def texts() -> Mapping[str, str]:
    with migrated() as database:
        answer = TestClient(create_app(full(database))).get("/metrics")
    lines = []
    for family in text_string_to_metric_families(answer.text):
        labels = sorted({label for sample in family.samples for label in sample.labels})
        lines.append(f"{family.name} ({family.type}) {', '.join(labels)}".rstrip() + f"\n    {family.documentation}")
    return {"metrics.txt": "\n".join(sorted(lines)) + "\n"}
