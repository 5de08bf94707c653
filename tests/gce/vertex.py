"""Serves a project with Vertex AI to Google's client over HTTP, and makes bodies of its resources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from requests.adapters import HTTPAdapter
from tests.gce.conftest import Waits

from costguard.gce.client import ComputeCloud
from costguard.gce.vertex.look import VertexRegions
from costguard.gce.vertex.resources import LISTS, read_member
from costguard.model.instance import SeenInstance
from costguard.model.observation import Observation
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

DISCOVERED: dict[str, Any] = json.loads((Path(__file__).parent / "data/aiplatform_v1.json").read_text("utf-8"))
START, PROJECT, REGION, OTHER = datetime(2026, 11, 20, 12, tzinfo=UTC), "demo", "us-central1", "europe-west4"
T4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
H100 = {"machineType": "a3-highgpu-8g", "acceleratorType": "NVIDIA_H100_80GB", "acceleratorCount": 8}
CPU = {"machineType": "n1-highmem-8"}
BY_NAME = {one.collection: one for one in LISTS}


class Calls(HTTPAdapter):
    """Notes the paths that are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.paths.append(request.path_url.partition("?")[0])
        return super().send(request, *args, **kwargs)


@dataclass
class Watched:
    world: World
    cloud: ComputeCloud
    calls: Calls

    def look(self, since: datetime | None = None, *, minutes: int = 1) -> Observation:
        self.world.advance(timedelta(minutes=minutes))
        return self.cloud.observe(PROJECT, since)

    def all_lists(self, since: datetime | None = None) -> Observation:
        """The last of as many looks as there are lists: then each list was read."""
        for _ in LISTS[1:]:
            self.look(since)
        return self.look(since)

    @property
    def asked(self) -> list[str]:
        return [path for path in self.calls.paths if "/locations/" in path]


@pytest.fixture
def watched() -> Iterator[Watched]:
    clock, calls = ManualClock(START), Calls()
    world = World(clock)
    world.vertex.enabled.add(PROJECT)
    with (
        running(world) as url,
        closing(
            ComputeCloud(
                url, clock, wait=Waits(), monotonic=lambda: clock.now().timestamp(), adapter=calls
            ).watch_vertex(VertexRegions((REGION, OTHER)))
        ) as cloud,
    ):
        yield Watched(world, cloud, calls)


def seen_of(observation: Observation) -> dict[str, SeenInstance]:
    return {one.name: one for one in observation.instances}


def job(*pools: tuple[dict[str, Any], int], **more: Any) -> dict[str, Any]:
    return {"workerPoolSpecs": [{"machineSpec": spec, "replicaCount": str(count)} for spec, count in pools], **more}


def raw_job(spec: dict[str, Any], state: str = "JOB_STATE_RUNNING", **more: Any) -> dict[str, Any]:
    return {
        "name": f"projects/123/locations/{REGION}/customJobs/4567",
        "displayName": "Fine-tune Löwe #3",
        "state": state,
        "createTime": "2026-11-20T11:00:00.123Z",
        "startTime": "2026-11-20T11:04:00Z",
        "labels": {"owner": "ana"},
        "jobSpec": spec,
        **more,
    }


def read(collection: str, raw: Any) -> list[SeenInstance]:
    return read_member(BY_NAME[collection], PROJECT, REGION, raw)
