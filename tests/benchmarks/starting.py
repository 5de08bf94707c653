"""The daemon as a command: from its start to its first answer, and its memory at rest."""

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

from costguard.clock import SystemClock
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

_STARTS = 3
_GOAL_S = 2.0
_GOAL_MB = 150.0
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
    first, again, memory = [], [], []
    with running(_world()) as cloud:
        for number in range(_STARTS):
            with _served(folder / f"start-{number}.db", cloud) as (_process, seconds, _url):
                first.append(seconds)
            with _served(folder / f"start-{number}.db", cloud) as (process, seconds, url):
                again.append(seconds)
                if number == _STARTS - 1:
                    _wait_for_passes(url)
                    memory.append(_resident_mb(process.pid))
    yield Measured("`costguard serve`: start to first answer, new database", "s", first, _GOAL_S)
    yield Measured("`costguard serve`: start to first answer, existing database", "s", again, _GOAL_S)
    yield Measured(f"`costguard serve`: memory at rest after {_PASSES} passes over {_VMS} VMs", "MB", memory, _GOAL_MB)


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
    """Until that many passes were finished; ten seconds lie between two."""
    seen: set[str] = set()
    while len(seen) < _PASSES:
        if last := httpx2.get(f"{url}/readyz", headers={"Authorization": f"Bearer {_TOKEN}"}).json()["last_pass_at"]:
            seen.add(last)
        Event().wait(0.5)


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
