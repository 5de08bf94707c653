"""A real server whose connections people take and do not use: it goes on answering, and says so in few words."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.cli.test_serve import COSTGUARD, settings
from tests.scenario.fleet import body
from tests.waiting import PATIENCE_S, until

from costguard.web.connections import ConnectionLimits
from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

_DESCRIPTORS = 160
_ATTACKERS = 400
_HALF = b"GET / HTTP/1.1\r\nHost: guard.example\r\nX-Slow: "


def test_half_sent_requests_stop_neither_the_health_check_nor_fill_the_log(tmp_path: Path) -> None:
    """400 clients that never end their headers, 160 descriptors: /healthz answers at once, the log stays short."""
    world = World(ScaledClock(), projects=["acme-training"])
    world.insert("acme-training", "us-central1-a", body("trainer", "us-central1-a", "a2-highgpu-1g", labels={}))
    with running(world) as cloud, _served(tmp_path, cloud) as url, ExitStack() as attackers:
        host, port = url.removeprefix("http://").split(":")
        _answers(url)
        for _ in range(_ATTACKERS):
            attacker = attackers.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE_S))
            attacker.sendall(_HALF)
        slowest = max(_answers(url) for _ in range(20))
        assert slowest < 0.8 * ConnectionLimits().head, f"the health check took {slowest:.1f} s, as long as a head may"
        lines = (tmp_path / "serve.log").read_text().splitlines()
        closings = [line for line in lines if "connections_closed" in line]
        assert len(closings) == 1, lines[:20]
        assert "Traceback" not in "".join(lines)
        assert len("".join(lines)) < 20_000


def _answers(url: str) -> float:
    """Returns how long the health check took, on a connection of its own."""
    begun = time.monotonic()
    with urlopen(f"{url}/healthz", timeout=PATIENCE_S) as answer:
        assert json.load(answer)["status"] == "alive"
    return time.monotonic() - begun


@contextmanager
def _served(folder: Path, cloud: str) -> Iterator[str]:
    """`costguard serve` with few descriptors, and its address."""
    settings(folder, cloud)
    log = folder / "serve.log"

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))

    environ = {**os.environ, "COSTGUARD_CONFIG": str(folder / "costguard.toml")}
    with log.open("wb") as written:
        process = subprocess.Popen(
            [str(COSTGUARD), "serve"], env=environ, stdout=written, stderr=written, preexec_fn=few
        )
        try:
            until(lambda: re.search(r"http://[0-9.]+:\d+", log.read_text()) is not None)
            address = re.search(r"http://[0-9.]+:\d+", log.read_text())
            assert address is not None
            yield address[0]
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
