"""SIGTERM ends both processes within ten seconds, whatever hangs."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.main.two_processes import PROJECT, TOKEN, Served, forked, is_alive
from tests.silent_proxy import silent_proxy
from tests.waiting import freeze, until

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

LONGEST_S = 10.0
# The time between the signal and the end is what is promised: a machine that is busy with other tests adds to it.
BUSY_S = 60.0


@pytest.fixture
def world() -> World:
    return World(ScaledClock(), projects=[PROJECT])


@pytest.fixture
def cloud(world: World) -> Iterator[str]:
    with running(world) as url:
        yield url


def test_while_the_database_is_silent(cloud: str, postgres_url: str, tmp_path: Path) -> None:
    """The lease cannot be released, as after a failover, so a line says what was left."""
    with silent_proxy(postgres_url) as (proxy, url), forked(tmp_path, cloud, database=url) as guard:
        until(lambda: guard.has_passed)
        proxy.freeze_all()
        until(lambda: guard.get("/readyz")[0] == 503)
        web = guard.web
        assert ended(guard) == 0
        assert not is_alive(web)


def test_while_google_is_silent_and_clients_hold_on(cloud: str, world: World, tmp_path: Path) -> None:
    """A pass that waits for an answer writes nothing more; an open stream and a request that comes in byte by byte
    are cut off.
    """
    with forked(tmp_path, cloud) as guard:
        until(lambda: guard.has_passed)
        silence = {
            "method": "GET",
            "path": "/aggregated/",
            "when": "before",
            "how": "silence",
            "seconds": 2 * BUSY_S,
            "count": 1,
        }
        world.faults.add("lost_answer", **silence)
        until(lambda: not world.faults.listed())  # it is asked, and waits
        web = guard.web
        with a_stream(guard), half_a_request(guard):
            assert ended(guard) == 0
        assert not is_alive(web)


def test_while_the_serving_process_is_frozen(cloud: str, tmp_path: Path) -> None:
    """It cannot hear that it is to end, so it is killed."""
    with forked(tmp_path, cloud) as guard:
        web = guard.web
        freeze(web)
        assert ended(guard) == 0
        assert not is_alive(web)


def test_second_signal_ends_it_on_the_spot(cloud: str, tmp_path: Path) -> None:
    """Anyone who presses Ctrl-C again does not want to wait."""
    with forked(tmp_path, cloud) as guard:
        web = guard.web
        freeze(web)  # else the end may be too quick for a second one
        guard.process.send_signal(signal.SIGINT)
        until(lambda: waits_for(web, signal.SIGTERM))
        guard.process.send_signal(signal.SIGINT)
        assert guard.process.wait(BUSY_S) == 128 + signal.SIGINT


def waits_for(pid: int, sign: signal.Signals) -> bool:
    """Says whether this signal has been sent to a frozen process (man 5 proc: ShdPnd)."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd"))
    return bool(int(pending.split()[1], 16) >> (sign - 1) & 1)


def ended(guard: Served) -> int:
    """The exit code of the guard after SIGTERM."""
    began = time.monotonic()
    guard.process.send_signal(signal.SIGTERM)
    try:
        code = guard.process.wait(BUSY_S)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"it still runs after {BUSY_S} s:\n{guard.log.read_text()[-3000:]}") from None
    print(f"ended after {time.monotonic() - began:.1f} s, of at most {LONGEST_S}")
    return code


@contextmanager
def a_stream(guard: Served) -> Iterator[None]:
    connection = HTTPConnection(guard.url.removeprefix("http://"), timeout=60)
    connection.request("GET", "/api/v1/events/stream", headers={"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 200
    yield
    connection.close()


@contextmanager
def half_a_request(guard: Served) -> Iterator[None]:
    host, _, port = guard.url.removeprefix("http://").rpartition(":")
    body = json.dumps({"by": "ana@example.com"})
    with socket.create_connection((host, int(port)), timeout=60) as client:
        head = (
            f"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n"
        )
        client.sendall(f"{head}\r\n{body[:3]}".encode())
        yield
