"""Watching, pages and reports have processes of their own: none takes another along, and all end together."""

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
from tests.main.two_processes import PROJECT, TOKEN, ZONE, Served, forked, is_alive, served, words_of
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
REPORT = "/api/v1/attempts/j1-a1/events"
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
    with forked(tmp_path_factory.mktemp("guard"), cloud, every=HOUR, more=ADMIN) as guard:
        until(lambda: guard.has_passed)
        yield guard


@pytest.fixture
def guard(cloud: str, tmp_path: Path) -> Iterator[Served]:
    """Serves a guard for a test that ends it."""
    with forked(tmp_path, cloud) as guard:
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


def test_serving_processes_end_when_the_watching_one_is_killed(guard: Served) -> None:
    """They hold neither the port nor the database longer than seconds, so that a supervisor's restart can listen."""
    web, reports, port = guard.web, reporting(guard), int(guard.url.rpartition(":")[2])
    guard.process.kill()
    guard.process.wait()
    until(lambda: not is_alive(web) and not is_alive(reports))
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


def test_serving_process_gives_way(shared: Served) -> None:
    """The watch comes first for CPU and memory."""
    assert os.getpriority(os.PRIO_PROCESS, shared.web) > os.getpriority(os.PRIO_PROCESS, shared.process.pid)
    assert int(Path(f"/proc/{shared.web}/oom_score_adj").read_text()) >= 500


def test_reports_process_is_started_again_alone(shared: Served) -> None:
    """Reports that come meanwhile are answered, by the new one or by the process for pages, which goes on."""
    guard, web, reports = shared, shared.web, reporting(shared)
    assert int(Path(f"/proc/{reports}/oom_score_adj").read_text()) == int(
        Path(f"/proc/{web}/oom_score_adj").read_text()
    )
    assert guard.get(REPORT, {"events": []})[0] == 401
    earlier = len(guard.events("web_process_ended"))
    os.kill(reports, signal.SIGKILL)
    assert guard.get(REPORT, {"events": []})[0] == 401
    assert guard.get("/healthz")[0] == 200
    assert reporting(guard, but=reports) != reports
    [line] = guard.events("web_process_ended")[earlier:]
    assert (line["serves"], guard.web) == ("reports", web)


def test_frozen_reports_process_holds_up_no_page(shared: Served) -> None:
    """A report waits until it goes on, and is answered then; pages come meanwhile."""
    guard, reports = shared, reporting(shared)
    answers: list[int] = []
    freeze(reports)
    asking = threading.Thread(target=lambda: answers.append(guard.get(REPORT, {"events": []})[0]))
    try:
        asking.start()
        assert "ada@lab.example" in page_of(guard, "ada@lab.example")
        assert answers == []
    finally:
        os.kill(reports, signal.SIGCONT)
        asking.join()
    assert answers == [401]


def reporting(guard: Served, but: int = 0) -> int:
    """The process for reports, once it has counted a report that the one for pages shows."""
    until(lambda: guard.reports not in (0, but))
    before, pause = counted(guard), threading.Event()
    assert guard.get(REPORT, {"events": []})[0] == 401

    def is_counted() -> bool:
        return pause.wait(0.5) or counted(guard) > before

    until(is_counted)
    return guard.reports


def counted(guard: Served) -> float:
    """The reports so far, as `/metrics` of the process for pages has them."""
    begins = 'costguard_http_request_duration_seconds_count{method="POST",route="/api/v1/attempts/{attempt}/events"'
    lines = [line for line in guard.text("/metrics").splitlines() if line.startswith(begins)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def page_of(guard: Served, address: str) -> str:
    """The page Jobs as a person in a browser sees it."""
    with opened(guard) as database:
        sessions = Sessions(database, SystemClock(), timedelta(hours=1))
        _session, cookie = begin_session(database, sessions, address, Via.LINK, Role.OPERATOR)
    headers = {"Cookie": f"{COOKIES[1]}={cookie}", "Accept": "text/html"}
    with urlopen(Request(f"{guard.url}/jobs", headers=headers), timeout=60) as answer:
        return str(answer.read().decode())


def test_commands_show_no_secret_and_all_end_by_sigterm(cloud: str, tmp_path: Path) -> None:
    """The signal goes to the process that was started: the command, which started the others as commands too.

    Their settings reached those over a wire, not by what the list of processes shows.
    """
    with served(tmp_path, cloud) as guard:
        until(lambda: guard.has_passed)
        web, reports = guard.web, reporting(guard)
        assert TOKEN not in Path(f"/proc/{guard.process.pid}/cmdline").read_text()
        for pid in (web, reports):
            assert "costguard.main.web" in words_of(pid)
            for shown in ("cmdline", "environ"):
                assert TOKEN not in Path(f"/proc/{pid}/{shown}").read_text()
        guard.process.send_signal(signal.SIGTERM)
        has_ended(guard, web, 0)
        until(lambda: not is_alive(reports))


def test_reports_share_the_memory_that_pages_imported(cloud: str, tmp_path: Path) -> None:
    """Most of what a serving process holds is imported code, which the forks of a command share until they write."""
    with served(tmp_path, cloud) as guard:
        until(lambda: guard.has_passed and guard.reports != 0)
        for pid in (guard.web, guard.reports):
            fields = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
            assert int(next(field[1] for field in fields if field[0] == "Shared_Dirty:")) > 40 << 10  # KiB
        reports = guard.reports
        os.kill(reports, signal.SIGKILL)
        until(lambda: guard.reports not in (0, reports))
        [line] = guard.events("web_process_ended")
        assert (line["serves"], "SIGKILL" in line["how"]) == ("reports", True)


def test_all_end_by_one_ctrl_c(guard: Served) -> None:
    """Ctrl+C ends all processes, as SIGTERM does, with the exit code of the signal."""
    web = guard.web
    guard.process.send_signal(signal.SIGINT)
    has_ended(guard, web, 128 + signal.SIGINT)


def has_ended(guard: Served, web: int, code: int) -> None:
    """All of its processes, without a complaint; the lease is free for another."""
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
