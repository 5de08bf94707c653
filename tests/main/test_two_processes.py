"""The watching and the serving run in processes of their own: neither takes the other along, and both end together."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from sqlalchemy import Row, select
from tests.authenticators import begin_session
from tests.main.two_processes import PROJECT, TOKEN, ZONE, Served, children_of, is_alive, served
from tests.scenario.fleet import body
from tests.waiting import freeze, until

from costguard.access.sessions import Sessions
from costguard.clock import SystemClock
from costguard.daemon.lease_keeper import LEASE, LEASE_TTL
from costguard.db import lease as leases
from costguard.db.tables import leases as stored_leases
from costguard.db.transaction import Database
from costguard.model.access import Role, Via
from costguard.web.authentication import COOKIES
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import Status
from costguard_sandbox.server import running
from costguard_sandbox.world import World

ADMIN = '[access]\nadmins = ["ana@example.com"]'
HOUR = "1h"  # between passes: what happens sooner was asked for


@pytest.fixture(scope="module")
def world() -> World:
    """Makes a world with one VM that has run for most of an hour."""
    now = SystemClock().now()
    clock = ManualClock(now - timedelta(hours=1))
    made = World(clock, projects=[PROJECT])
    made.insert(PROJECT, ZONE, body("trainer", ZONE, "a2-highgpu-1g", labels={"owner": "ana"}), "ana@example.com")
    clock.move_to(now - timedelta(minutes=5))
    return made


@pytest.fixture(scope="module")
def cloud(world: World) -> Iterator[str]:
    with running(world) as url:
        yield url


@pytest.fixture(scope="module")
def shared(cloud: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serves a guard for tests that leave it at work, whichever of its other processes they kill.

    Its passes are an hour apart.
    """
    with served(tmp_path_factory.mktemp("guard"), cloud, every=HOUR, more=ADMIN) as guard:
        until(lambda: guard.has_passed)
        yield guard


@pytest.fixture
def guard(cloud: str, tmp_path: Path) -> Iterator[Served]:
    """Serves a guard for a test that ends it."""
    with served(tmp_path, cloud) as guard:
        until(lambda: guard.has_passed)
        yield guard


def test_killed_serving_process_is_started_again_while_the_watch_goes_on(shared: Served) -> None:
    """The kernel kills so when memory runs out: one line says so, the port stays, and the lease never changes hands."""
    guard = shared
    before, first, earlier = held(guard), guard.web, len(guard.events("web_process_ended"))
    os.kill(first, signal.SIGKILL)
    until(lambda: guard.web not in (0, first) and guard.get("/healthz")[0] == 200)
    [line] = guard.events("web_process_ended")[earlier:]
    assert "SIGKILL" in line["how"]
    assert guard.process.poll() is None
    assert (held(guard).holder, held(guard).epoch) == (before.holder, before.epoch)
    until(lambda: guard.get("/readyz")[1]["last_pass_at"] is not None)  # the new one knows what the watch has done


def test_serving_process_ends_when_the_watching_one_is_killed(guard: Served) -> None:
    """It holds neither the port nor the database any longer than seconds, so that a supervisor's restart can listen."""
    web, port = guard.web, int(guard.url.rpartition(":")[2])
    guard.process.kill()
    guard.process.wait()
    until(lambda: not is_alive(web))
    with socket.socket() as another:
        another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        another.bind(("127.0.0.1", port))
        another.listen()


def test_guard_is_not_ready_while_its_watching_process_is_frozen(shared: Served) -> None:
    """The lease runs out, and its silence is named. The page of health gives the same reason."""
    guard = shared
    freeze(guard.process.pid)
    try:
        until(lambda: guard.get("/readyz")[0] == 503)
        body = guard.get("/readyz")[1]
        assert body["is_acting"] is False
        reason = "The process that watches has said nothing for"
        until(lambda: any(reason in shown for shown in guard.get("/readyz")[1]["reasons"]))  # after its lease ran out
        assert reason in guard.text("/health")
        assert guard.get("/healthz")[0] == 200
    finally:
        os.kill(guard.process.pid, signal.SIGCONT)
    until(lambda: guard.get("/readyz")[0] == 200)


def test_request_to_the_serving_process_is_executed_by_the_watching_one_at_once(shared: Served, world: World) -> None:
    """The wake crosses the wire: the next pass by itself is an hour away."""
    [vm] = shared.get("/api/v1/instances")[1]["instances"]
    path = f"/api/v1/instances/{PROJECT}/{vm['gce_id']}/stop"
    status, answer = shared.get(path, {"by": "ana@example.com"})
    assert status in (200, 202), answer

    def is_stopped() -> bool:
        world.advance(timedelta(seconds=0.1))  # a call of Google's takes time
        return world.instance(PROJECT, "trainer").status in (Status.STOPPING, Status.TERMINATED)

    until(is_stopped)


def test_metrics_are_of_both_processes(shared: Served) -> None:
    """Requests are counted where they are answered, passes where they are made; each process shows its own memory."""

    def counted() -> bool:
        return 'costguard_pass_duration_seconds_count{outcome="done"} 0.0' not in shared.text("/metrics")

    until(counted)
    scraped = shared.text("/metrics")
    assert 'costguard_http_request_duration_seconds_count{method="GET",route="/readyz"' in scraped
    for name in ("process_resident_memory_bytes", "costguard_watch_process_resident_memory_bytes"):
        assert f"\n{name} " in scraped


def test_no_secret_is_in_the_list_of_processes(shared: Served) -> None:
    """The settings reach the serving process over its wire."""
    for pid in (shared.process.pid, shared.web):
        assert TOKEN not in Path(f"/proc/{pid}/cmdline").read_text()
    assert TOKEN not in Path(f"/proc/{shared.web}/environ").read_text()


def test_serving_process_gives_way(shared: Served) -> None:
    """The watch comes first for CPU and memory."""
    assert os.getpriority(os.PRIO_PROCESS, shared.web) > os.getpriority(os.PRIO_PROCESS, shared.process.pid)
    assert int(Path(f"/proc/{shared.web}/oom_score_adj").read_text()) >= 500


def test_many_pages_are_made_by_a_third_process(shared: Served) -> None:
    """The process is replaced when killed, and pages come meanwhile; it ends with the serving process, however that
    ends.
    """
    guard, web = shared, shared.web
    first = third_process(guard)
    assert os.getpriority(os.PRIO_PROCESS, first) > os.getpriority(os.PRIO_PROCESS, web)
    assert TOKEN not in Path(f"/proc/{first}/cmdline").read_text()
    assert int(Path(f"/proc/{first}/oom_score_adj").read_text()) > 500
    page = page_of(guard, "ada@lab.example")
    assert "ada@lab.example" in page  # the name was filled in by the serving process
    assert "csrfz" not in page

    os.kill(first, signal.SIGKILL)
    assert guard.get("/api/v1/instances?sort=age")[0] in (200, 503)  # the end may not have been noticed yet
    until(lambda: not is_alive(first))
    assert guard.get("/api/v1/instances?sort=-age")[0] in (200, 422)
    second = third_process(guard, but=first)
    [ended] = guard.events("renderer_ended")
    assert ended["exit_code"] == -signal.SIGKILL
    assert guard.web == web

    freeze(second)
    os.kill(web, signal.SIGKILL)
    until(lambda: not is_alive(second))
    until(lambda: guard.web not in (0, web) and guard.get("/healthz")[0] == 200)  # as the next test needs it


def page_of(guard: Served, address: str) -> str:
    """The page Jobs as a person in a browser sees it."""
    with opened(guard) as database:
        sessions = Sessions(database, SystemClock(), timedelta(hours=1))
        _session, cookie = begin_session(database, sessions, address, Via.LINK, Role.OPERATOR)
    headers = {"Cookie": f"{COOKIES[1]}={cookie}", "Accept": "text/html"}
    with urlopen(Request(f"{guard.url}/jobs", headers=headers), timeout=60) as answer:
        return str(answer.read().decode())


def third_process(guard: Served, but: int = 0) -> int:
    """Brought about by many pages, each another one; it renders."""
    pause = threading.Event()
    for number in range(1000):
        assert guard.get(f"/api/v1/jobs?owner=person-{but}-{number}%40lab.example")[0] in (200, 503)
        pause.wait(0.15)
        others = [child for child in children_of(guard.web) if child != but]
        if number % 10 == 0 and others and "costguard_rendering_process_open_fds" in guard.text("/metrics"):
            return others[0]
    raise AssertionError("there is none")


def test_all_three_end_by_sigterm(guard: Served) -> None:
    """The signal goes to the process that was started.

    Before, while that one is frozen, pages of the third process name it, too.
    """
    web, third, pause = guard.web, third_process(guard), threading.Event()
    freeze(guard.process.pid)
    try:
        until(lambda: pause.wait(1) or "The process that watches has said nothing for" in guard.text("/health"))
    finally:
        os.kill(guard.process.pid, signal.SIGCONT)
    guard.process.send_signal(signal.SIGTERM)
    has_ended(guard, web, 0)
    until(lambda: not is_alive(third))


def test_both_end_by_one_ctrl_c(guard: Served) -> None:
    """Ctrl+C ends both processes, as SIGTERM does, with the exit code of the signal."""
    web = guard.web
    guard.process.send_signal(signal.SIGINT)
    has_ended(guard, web, 128 + signal.SIGINT)


def has_ended(guard: Served, web: int, code: int) -> None:
    """Both of its processes, without a complaint; the lease is free for another."""
    assert guard.process.wait(60) == code
    assert not is_alive(web)
    assert "Traceback" not in guard.log.read_text()
    assert guard.events("web_process_ended") == []
    with opened(guard) as database:
        assert leases.acquire(database, LEASE, "another", LEASE_TTL) is not None


def opened(guard: Served) -> closing[Database]:
    return closing(Database.open(f"sqlite:///{guard.log.parent}/costguard.db"))


def held(guard: Served) -> Row[Any]:
    with opened(guard) as database, database.read() as connection:
        return connection.execute(select(stored_leases)).one()
