"""The metrics: name, type, labels and help of each family, without values."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from tests.api.scraped import full
from tests.golden.databases import migrated

from costguard.api.app import create_app


def texts() -> Mapping[str, str]:
    lines = [
        f"{name} ({kind}) {', '.join(labels)}".rstrip() + f"\n    {text}" for name, kind, labels, text in families()
    ]
    return {"metrics.txt": "\n".join(lines) + "\n"}


def families() -> list[tuple[str, str, list[str], str]]:
    with migrated() as database:
        answer = TestClient(create_app(full(database))).get("/metrics")
    return sorted(
        (
            family.name,
            family.type,
            sorted({label for sample in family.samples for label in sample.labels}),
            family.documentation,
        )
        for family in text_string_to_metric_families(answer.text)
    )
