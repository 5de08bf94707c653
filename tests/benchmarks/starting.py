"""A guard as a command, all of its processes: from its start to its first answer, and its idle memory."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Event
from urllib.error import URLError
from urllib.request import urlopen

import httpx2
from tests.benchmarks.measure import Measured
from tests.main.two_processes import children_of

from costguard.clock import SystemClock
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

_STARTS = 3
_GOAL_S = 1.8
_GOAL_MB = 300.0
_PROJECT = "acme-training"
_ZONE = "us-central1-a"
_VMS = 20
_PASSES = 3
_SETTINGS = """
[watch]
projects = ["{project}"]
every = "10s"
[database]
url = "sqlite:///{database}"
[server]
listen = "127.0.0.1:{port}"
[compute]
endpoint = "{cloud}"
[prices]
enabled = false
"""


def starting(folder: Path) -> Iterator[Measured]:
    """Starts on a new database, then on the one that is there; the last of them is left running for some passes."""
    seconds: dict[str, list[float]] = {"new": [], "existing": []}
    cpu: dict[str, list[float]] = {"new": [], "existing": []}
    resident, shared_out = [], []
    with running(_world()) as cloud:
        for number in range(_STARTS):
            for database in seconds:
                with _served(folder / f"start-{number}.db", cloud) as (process, took, url):
                    seconds[database].append(took)
                    cpu[database].append(sum(map(_cpu_s, [process.pid, *children_of(process.pid)])))
                    if database == "existing" and number == _STARTS - 1:
                        _wait_for_passes(url)
                        everyone = [process.pid, *children_of(process.pid)]
                        resident.append(sum(_memory_mb(pid, "Rss") for pid in everyone))
                        shared_out.append(sum(_memory_mb(pid, "Pss") for pid in everyone))
    for database, starts in seconds.items():
        yield Measured(f"`costguard serve`: start to first answer, {database} database", "s", starts, _GOAL_S)
        yield Measured("the same, processor time of all processes until then", "s", cpu[database])
    where = f"after {_PASSES} passes over {_VMS} VMs"
    yield Measured(f"`costguard serve`: idle memory of all three processes {where}", "MB", resident)
    yield Measured("the same, what they share counted once", "MB", shared_out, _GOAL_MB)


def _world() -> World:
    world = World(ManualClock(SystemClock().now() - timedelta(hours=2)))
    for number in range(_VMS):
        world.insert(
            _PROJECT,
            _ZONE,
            {
                "name": f"trainer-{number}",
                "machineType": f"zones/{_ZONE}/machineTypes/a2-highgpu-1g",
                "disks": [{"boot": True, "autoDelete": True, "initializeParams": {"diskSizeGb": "100"}}],
                "networkInterfaces": [{"network": "global/networks/default"}],
                "scheduling": {"onHostMaintenance": "TERMINATE"},
                "labels": {"owner": f"person-{number}"},
            },
        )
    world.advance(timedelta(hours=1))
    return world


_TOKEN = "a-token-for-the-benchmark"


@contextmanager
def _served(database: Path, cloud: str) -> Iterator[tuple[subprocess.Popen[bytes], float, str]]:
    """The daemon, the seconds from its start to its first answer, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = database.with_suffix(".toml")
    settings.write_text(_SETTINGS.format(project=_PROJECT, database=database, port=port, cloud=cloud))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
    environ["COSTGUARD_TOKEN"] = _TOKEN
    # As the installed script does it, whether or not the script's folder is on the path.
    command = [sys.executable, "-c", "from costguard.cli.app import main; main()", "serve", "--config", str(settings)]
    begun = time.perf_counter()
    with (
        database.with_suffix(".log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environ) as process,
    ):
        url = f"http://127.0.0.1:{port}"
        try:
            _first_answer(process, url)
            yield process, time.perf_counter() - begun, url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def _first_answer(process: subprocess.Popen[bytes], url: str) -> None:
    for _ in range(3000):
        with suppress(URLError, ConnectionError), urlopen(f"{url}/healthz", timeout=10) as answer:
            assert answer.status == 200
            return
        assert process.poll() is None, "the daemon ended"
        Event().wait(0.01)
    raise AssertionError("the daemon did not answer")


def _wait_for_passes(url: str) -> None:
    """Waits until that many passes were finished; ten seconds lie between two."""
    seen: set[str] = set()
    while len(seen) < _PASSES:
        if last := httpx2.get(f"{url}/readyz", headers={"Authorization": f"Bearer {_TOKEN}"}).json()["last_pass_at"]:
            seen.add(last)
        Event().wait(0.5)


def _memory_mb(pid: int, kind: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(f"{kind}:")).split()[1]) / 1024


def _cpu_s(pid: int) -> float:
    """User and system time so far (man 5 proc)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
