"""Looks at the served fleet a few times in one process, as Costguard does or as plainly as can be."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypedDict

from tests.benchmarks.memory import peak_mb
from tests.benchmarks.served import PAGE_SIZE, PROJECT
from tests.fakes import HandClock

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Looks(TypedDict):
    """Seconds of each look, by the clock and of CPU, and the process's peak of resident memory in MB."""

    seconds: list[float]
    cpu: list[float]
    peak_mb: float


def looks(how: str, url: str, count: int) -> Looks:
    """`how` is "costguard" or "full"; a fresh process each time."""
    command = [sys.executable, "-m", "tests.benchmarks.look", how, url, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    looks: Looks = json.loads(done.stdout)
    return looks


def _costguard(url: str) -> Callable[[], int]:
    """Masked pages of instances and disks, and operations; all of it converted to the engine's values."""
    import google.auth.transport.requests  # noqa: F401 - what a look imports is counted with the start of the daemon

    from costguard.gce.client import ComputeCloud

    cloud = ComputeCloud(url, HandClock(NOW))
    gc.set_threshold(10_000, 10, 10)  # as every command does

    def look() -> int:
        seen = cloud.observe(PROJECT, None)
        assert not seen.unread
        assert all(vm.disks[0].disk_type for vm in seen.instances)
        return len(seen.instances) + len(seen.unchanged)

    return look


def _full(url: str) -> Callable[[], int]:
    """The pages of instances alone, whole and indented as Google writes them unasked; parsed, nothing converted."""
    import httpx2
    import orjson

    client = httpx2.Client()

    def look() -> int:
        params = {"maxResults": str(PAGE_SIZE)}
        instances = 0
        while True:
            answer = client.get(f"{url}/compute/v1/projects/{PROJECT}/aggregated/instances", params=params)
            page = orjson.loads(answer.content)
            instances += sum(len(scope.get("instances", ())) for scope in page["items"].values())
            if "nextPageToken" not in page:
                return instances
            params["pageToken"] = page["nextPageToken"]

    return look


def _main(how: str, url: str, count: int) -> None:
    look = _costguard(url) if how == "costguard" else _full(url)
    seconds, cpu = [], []
    for _ in range(4):
        begun, cpu_begun = time.perf_counter(), time.process_time()
        instances = look()
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - cpu_begun)
        assert instances == count
    print(json.dumps(Looks(seconds=seconds, cpu=cpu, peak_mb=peak_mb())))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
