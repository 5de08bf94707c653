"""The checker itself, held against what Compute Engine really answered."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.gce.conformance.discovery import problems, problems_of, schema_of

RECORDED = Path(__file__).parents[5] / "shared" / "gce-recorded"
# Keys that a tool wrote into one recording, and a field that left the API after 2013.
FOREIGN = ("'c7n.metrics'", "'c7n:MatchedFilters'", "'maintenanceWindows'")


def bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(RECORDED.glob("*/*.json")):
        recorded = json.loads(file.read_text("utf-8"))
        body = recorded.get("body", recorded)
        if isinstance(body, dict) and "kind" in body:
            yield f"{file.parent.name}/{file.name}", body


def test_every_recorded_answer_passes() -> None:
    """Google's answers, from 2013 to 2026, conform but for the keys known to be foreign."""
    if not RECORDED.is_dir():
        pytest.skip("../shared/gce-recorded is absent")
    results = {name: problems_of(body) for name, body in bodies()}
    assert len(results) > 90
    unexpected = [
        f"{name}: {problem}"
        for name, wrong in results.items()
        for problem in wrong
        if not problem.endswith(tuple(f"no field {key}" for key in FOREIGN))
    ]
    assert unexpected == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": 7}, "Instance.id: 7 is no string"),
        ({"id": "seven"}, "Instance.id: 'seven' is no uint64"),
        ({"status": "GONE"}, "Instance.status: 'GONE' is none of the values there are"),
        ({"deletionProtection": "no"}, "Instance.deletionProtection: 'no' is no boolean"),
        ({"labels": {"owner": 1}}, "Instance.labels[owner]: 1 is no string"),
        ({"labelFingerprint": "not base64!"}, "Instance.labelFingerprint: 'not base64!' is no byte"),
        ({"disks": [{}, {"index": True}]}, "Instance.disks[1].index: True is no integer"),
        ({"owner": "ana"}, "Instance: there is no field 'owner'"),
        ({"scheduling": {"provisioningMode": "SPOT"}}, "Instance.scheduling: there is no field 'provisioningMode'"),
    ],
)
def test_a_nonconforming_field_is_named_with_its_path(change: dict[str, Any], complaint: str) -> None:
    """A wrong type, format, enum value or field name is found at any depth; otherwise the proof is worth nothing."""
    instance = {"kind": "compute#instance", "id": "7", "status": "RUNNING"}
    assert problems_of(instance) == []
    assert problems_of({**instance, **change}) == [complaint]


def test_a_kind_that_the_api_does_not_have_is_a_problem() -> None:
    """A resource whose kind is misspelt is not waved through unread."""
    assert schema_of("compute#instance") == "Instance"
    assert problems_of({"kind": "compute#vm"}) == ["no schema has the kind 'compute#vm'"]
    assert problems({"skus": [{"skuId": 1}]}, "ListSkusResponse", "cloudbilling") == [
        "ListSkusResponse.skus[0].skuId: 1 is no string"
    ]
