"""The recorded answers of the real Compute Engine give lifetimes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from costguard.gce.convert import Shapes, instance_from
from costguard.gce.machine_types import by_rule
from costguard.gce.operations import operation_from
from costguard.ledger.timeline import runs_of
from costguard.model.observation import SeenOperation

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "gce-recorded"
if not RECORDED.is_dir():
    pytest.skip(f"the recorded answers are not here ({RECORDED})", allow_module_level=True)

# (VM, status as listed) -> its lifetimes: start, end, reason; "~" marks an end that is an estimate.
EXPECTED = {
    # Listed once, stopped: its stamps tell the last run, and an upper bound of its end.
    ("name-123", "stopped"): [("2025-09-10T08:48:58", "~2025-09-10T08:56:17", "unknown")],
    ("instance-1", "stopped"): [("2023-06-28T14:01:42", "~2023-07-08T02:08:51", "unknown")],
    # A stop stamp older than the start, or none: nothing tells until when it ran.
    ("custodian-dev", "stopped"): [],
    ("drone", "stopped"): [],
    # Running: since its last start, whatever older stop it still shows.
    ("iap-test-webapp", "running"): [("2021-03-25T13:51:01", None, None)],
    ("c7n-jenkins", "running"): [("2018-05-19T12:15:46", None, None)],
    ("custodian", "running"): [("2016-04-24T08:44:01", None, None)],
    ("pleasant-pipefish", "running"): [("2026-07-07T21:02:15", None, None)],
    ("distinct-lab", "running"): [("2026-07-07T20:56:15", None, None)],
    # Suspended and resumed, with the operations that tell so: the end is the suspend operation's start.
    ("pro-narwhal", "suspended"): [("2023-08-26T13:20:12", "2023-08-26T13:20:24", "suspended")],
    # Read while it is being preempted, without the operation: the moment of the look is the latest it can be.
    ("ehgp-v7-4fa0e0789a7d5bb06b787d35", "stopping"): [("2026-09-23T02:43:30", "~2026-09-24T02:43:30", "unknown")],
}


def _answers() -> Iterator[tuple[str, Any]]:
    for path in sorted(RECORDED.glob("*/*.json")):
        answer = orjson.loads(path.read_bytes())
        yield path.parent.name, answer.get("body", answer) if isinstance(answer, dict) else answer


def _of_kind(value: Any, kind: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("kind") == kind:
            yield value
        for part in value.values():
            yield from _of_kind(part, kind)
    elif isinstance(value, list):
        for part in value:
            yield from _of_kind(part, kind)


@pytest.fixture(scope="module")
def lifetimes() -> dict[tuple[str, str], list[list[tuple[str, str | None, str | None]]]]:
    """Returns, for every recorded VM and status, the lifetimes that each recording gives, all operations known."""
    operations: dict[str, dict[str, SeenOperation]] = defaultdict(dict)
    for _, answer in _answers():
        for raw in _of_kind(answer, "compute#operation"):
            if (operation := operation_from("p", raw)) is not None:
                operations[operation.target_id][operation.operation_id] = operation
    runs_by_vm: dict[tuple[str, str], list[list[tuple[str, str | None, str | None]]]] = defaultdict(list)
    for folder, answer in _answers():
        for raw in _of_kind(answer, "compute#instance"):
            shapes = Shapes(lambda _zone, name: by_rule(name))
            seen, _ = instance_from("p", raw["zone"].rsplit("/", 1)[-1], raw, {}, shapes)
            stamps = (seen.created_at, seen.last_started_at, seen.last_stopped_at, seen.last_suspended_at)
            read_at = max(stamp for stamp in stamps if stamp is not None) + timedelta(days=1)
            of_vm = sorted(operations[seen.key.gce_id].values(), key=lambda operation: operation.inserted_at)
            runs = [
                (
                    f"{run.started_at:%Y-%m-%dT%H:%M:%S}",
                    f"{'~' * run.end_is_estimate}{run.ended_at:%Y-%m-%dT%H:%M:%S}" if run.ended_at else None,
                    run.reason.value if run.reason else None,
                )
                for run in runs_of((), of_vm, seen, read_at)
            ]
            runs_by_vm[(seen.name if folder != "libcloud" else f"libcloud {seen.name}", seen.status.value)].append(runs)
    return runs_by_vm


@pytest.mark.parametrize("vm", EXPECTED, ids=str)
def test_recorded_vm(lifetimes: dict[Any, list[Any]], vm: tuple[str, str]) -> None:
    """Each recording of this VM in this status gives these lifetimes."""
    assert lifetimes[vm], "the recording is gone"
    assert EXPECTED[vm] in lifetimes[vm]


def test_vms_of_2013_run_since_they_were_made(lifetimes: dict[Any, list[Any]]) -> None:
    """They have no start stamp; a stopped one tells of no run."""
    old = {vm: runs for vm, runs in lifetimes.items() if vm[0].startswith("libcloud ")}
    running = [run for (_, status), all_runs in old.items() if status == "running" for runs in all_runs for run in runs]
    assert len(running) == 18
    assert all(start.startswith("2013-12-13") and end is None for start, end, _ in running)
    assert all(runs == [] for (_, status), all_runs in old.items() if status != "running" for runs in all_runs)


def test_no_recording_gives_an_impossible_lifetime(lifetimes: dict[Any, list[Any]]) -> None:
    """All 52 listings: ends come after starts, and a VM listed as running has exactly one open lifetime."""
    assert sum(len(recordings) for recordings in lifetimes.values()) == 52
    for recordings in lifetimes.values():
        for runs in recordings:
            assert all(end is None or end.lstrip("~") > start for start, end, _ in runs)
            assert [run for run in runs[:-1] if run[1] is None] == []
