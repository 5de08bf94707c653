"""The fleet's own history of Spot VMs by zone, from rows of lifetimes and attempts, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.db.transaction import Database
from costguard.deadlines.hazards import PRIOR_PREEMPTIONS, hazards_of
from costguard.jobs.rows.history.zone_history import VMKind, zone_counts
from costguard.model.attempt import AttemptState, Outcome

HOUR = timedelta(hours=1)
A, B, C = "us-central1-a", "us-central1-b", "us-central1-c"


@pytest.fixture
def filled(database: Database) -> Database:
    """Makes a history: in zone a one VM was preempted after 3 h and one runs; zone b refused twice within half an hour.

    VMs on demand, with other GPUs or of long ago say nothing of these zones.
    """
    with database.write() as connection:
        rows.prices(connection)
        for name, zone, begun, span, given in (
            ("one", A, 20, 3, {"end_reason": "preempted"}),
            ("two", A, 5, None, {}),
            ("three", B, 9, 1, {"end_reason": "deleted"}),
            ("standard", C, 9, 1, {"provisioning_model": "standard", "end_reason": "preempted"}),
            ("h100", C, 9, 1, {**rows.H100, "end_reason": "preempted"}),
            ("old", C, 24 * 120, 1, {"end_reason": "preempted"}),
        ):
            vm = rows.instance(connection, name, zone=zone)
            began = NOW - begun * HOUR
            ended = None if span is None else began + span * HOUR
            rows.lifetime(
                connection, vm, began, **{"zone": zone, "provisioning_model": "spot", "ended_at": ended, **given}
            )
        job_rows.added(connection)
        for number, hours in ((1, 10), (2, 9.5)):
            at = NOW - hours * HOUR
            job_rows.attempt(
                connection, number=number, zone=B, intended_at=at, state=AttemptState.OVER,
                outcome=Outcome.STOCKOUT, ended_at=at,
            )  # fmt: skip
    return database


def test_zones_are_counted_by_what_their_vms_met(filled: Database) -> None:
    """Preemptions and recoveries by age, in the hours that were seen; other kinds of VM have a history of their own."""
    with filled.read() as connection:
        by_kind = zone_counts(connection, NOW)
    counts = by_kind[VMKind.of_recipe(job_rows.RECIPE)]
    assert set(counts) == {A, B}
    assert (sum(counts[A].preemptions), sum(counts[A].up_hours)) == (1, 3 + 5)
    assert counts[A].preemptions[4] == 1  # from 1.5 to 4 h
    assert (sum(counts[B].preemptions), sum(counts[B].recoveries)) == (0, 1)
    assert (sum(counts[B].up_hours), sum(counts[B].down_hours)) == (1, 1)
    assert hazards_of(counts[B]).preemption[0] < PRIOR_PREEMPTIONS[0]
    assert VMKind.of_recipe(replace(job_rows.RECIPE, gpu_count=4)) not in by_kind
    assert set(by_kind[VMKind("nvidia-h100-80gb", 8)]) == {C}


def test_traces_name_nobody(filled: Database, client: TestClient) -> None:
    """A series for each zone and kind, which begin together; prices are those of the latest attempt."""
    answer = client.get("/api/v1/traces?days=2&gap_seconds=3600").json()
    traces = {trace["name"]: trace for trace in answer["traces"]}
    assert set(traces) == {f"{A}_nvidia-tesla-t4_1", f"{B}_nvidia-tesla-t4_1", f"{C}_nvidia-h100-80gb_8"}
    first, second = traces[f"{A}_nvidia-tesla-t4_1"], traces[f"{B}_nvidia-tesla-t4_1"]
    assert first["data"] == [1] * 3 + [0] * 12 + [1] * 6
    assert second["data"] == [0] * 11 + [1] * 10
    assert (first["price_per_hour"], second["price_per_hour"]) == (None, "0.25")
    assert len(traces[f"{C}_nvidia-h100-80gb_8"]["data"]) == 10
    text = client.get("/api/v1/traces").text
    for name in ("lab", "ada", "one", "resnet", "2026-11-19"):
        assert name not in text.replace("us-central1-a_", "")


def test_wrong_ranges_of_traces_are_refused(client: TestClient) -> None:
    """The range is from a day to ninety, with a point each minute at most."""
    assert client.get("/api/v1/traces?days=91").status_code == 422
    assert client.get("/api/v1/traces?gap_seconds=1").status_code == 422
