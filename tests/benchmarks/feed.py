"""Measures how long after an event its VM is in the ledger, with 111 events a second next to a large fleet.

The guard is `costguard serve` in a process of its own. Events are first entries of inserts, published over REST to
Google's own emulator of Pub/Sub where the machine has it, else to the simulated cloud's. A VM counts as being in the
ledger when another connection to the database reads its row; the time runs from the event, which its entry names.
The VMs are then in the lists of their projects, too, so that passes find what events told.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
from sqlalchemy import func, select
from tests.benchmarks.databases import fresh
from tests.benchmarks.measure import Measured
from tests.benchmarks.new_vms import MADE, TOPIC, NewVm
from tests.benchmarks.organisation_served import project_of, served_organisation
from tests.ports import free_port
from tests.scenario.replicas import Replica, started

from costguard.clock import SystemClock
from costguard.db.tables import instances
from costguard.db.transaction import Database

SUBSCRIPTION = "projects/acme-events/subscriptions/costguard"
EMULATOR = Path("/usr/lib/google-cloud-sdk/platform/pubsub-emulator/lib")
_A_SECOND = 111
_GOAL_S, _GOAL_MB, _GOAL_CORES = 5.0, 400.0, 1.0
_BATCH_S = 0.1
_MOST_AT_ONCE = 500  # Pub/Sub takes 1,000
_FIRST_PASS_S = 3600.0
_PATIENCE_S = 120.0
_SETTINGS = """
[watch]
projects = {projects}
tpu_nodes = "ignore"
[database]
url = "{database}"
[server]
listen = "127.0.0.1:0"
[compute]
endpoint = "{compute}"
[feed]
subscription = "{subscription}"
endpoint = "{pubsub}"
[prices]
enabled = false
[idle]
enabled = false
[owners]
domain = "example.com"
[presets.t4]
limit = "{limit}"
[presets.multi-gpu]
limit = "{limit}"
[log]
format = "json"
"""


def feed(
    folder: Path, projects: int = 0, vms: int = 200, seconds: float = 0, on: Sequence[str] = ("SQLite", "PostgreSQL")
) -> Iterator[Measured]:
    """`projects` with `vms` VMs each, and events for so many seconds; 0: what the environment says."""
    projects = projects or int(os.environ.get("COSTGUARD_FEED_PROJECTS", "500"))
    seconds = seconds or float(os.environ.get("COSTGUARD_FEED_SECONDS", "120"))
    started_on = SystemClock().now().date() - timedelta(days=2)
    with fresh(folder, "feed") as urls, _pubsub(folder) as (name, pubsub):
        for database in on:
            what = f"{name}, {projects * vms:,} VMs in {projects} projects, {database}"
            with served_organisation(projects, vms, started_on=started_on) as compute:
                seen = _measured(folder, projects, vms, seconds, compute, pubsub, urls[database])
            yield Measured(f"Event to ledger, {_A_SECOND} a second by {what}", "s", seen.late_s, _GOAL_S, _GOAL_S)
            yield Measured(f"Slowest of {len(seen.late_s):,} events, {what}", "s", [max(seen.late_s)])
            yield Measured(f"Events published a second, {what}", "", [seen.rate])
            yield Measured(f"CPU of the process that watches, {what}", "cores", [seen.cores], _GOAL_CORES)
            yield Measured(f"its peak memory, {what}", "MB", [seen.peak_mb], _GOAL_MB)
            yield Measured(f"Load of the computer, {what}", "", [seen.load])


@dataclass
class Seen:
    """Seconds from each event to its row; the others are of the time in which events were published."""

    late_s: list[float] = field(default_factory=list)
    rate: float = 0.0
    cores: float = 0.0
    peak_mb: float = 0.0
    load: float = 0.0


def _measured(
    folder: Path, projects: int, vms: int, seconds: float, compute: str, pubsub: str, database_url: str
) -> Seen:
    with httpx2.Client(timeout=60) as client, closing(Database.open(database_url)) as database:
        _new_subscription(client, pubsub)
        guard = started(folder, f"guard-{database.dialect}", _settings(projects, compute, pubsub, database_url))
        try:
            _until(lambda: _has_seen(guard, database, projects * vms), _FIRST_PASS_S)
            return _published(client, compute, pubsub, projects, seconds, guard, database)
        finally:
            guard.end()


def _settings(projects: int, compute: str, pubsub: str, database: str) -> str:
    # VMs of the first hour of their day, one in 24, are over it, and the others not for an hour.
    now = SystemClock().now()
    began = datetime(now.year, now.month, now.day, 8, tzinfo=UTC) - timedelta(days=2)
    limit = now - began - timedelta(minutes=30)
    return _SETTINGS.format(
        projects=json.dumps([project_of(number) for number in range(projects)]),
        database=database,
        compute=compute,
        subscription=SUBSCRIPTION,
        pubsub=pubsub,
        limit=f"{int(limit.total_seconds() // 60)}m",
    )


def _has_seen(guard: Replica, database: Database, expected: int) -> bool:
    assert guard.is_running, guard.log.read_text()[-3000:]
    with database.read() as connection:
        if connection.execute(select(func.count()).select_from(instances)).scalar_one() < expected:
            return False
    return bool(guard.ready().body.get("last_pass_at"))


def _published(
    client: httpx2.Client, compute: str, pubsub: str, projects: int, seconds: float, guard: Replica, database: Database
) -> Seen:
    seen, events = Seen(), dict[str, datetime]()
    stop = threading.Event()
    with database.read() as connection:
        newest = int(connection.execute(select(func.max(instances.c.id))).scalar_one() or 0)
    reader = threading.Thread(target=_read, args=(database, newest, events, seen.late_s, stop))
    reader.start()
    try:
        began, cpu = time.monotonic(), _cpu_s(guard)
        while (passed := time.monotonic() - began) < seconds:
            _publish(client, compute, pubsub, projects, events, int(passed * _A_SECOND) + 1)
            stop.wait(_BATCH_S)
        passed = time.monotonic() - began
        seen.rate, seen.load = len(events) / passed, os.getloadavg()[0]
        _until(lambda: len(seen.late_s) == len(events), _PATIENCE_S)
        seen.cores = (_cpu_s(guard) - cpu) / passed  # all that these events took, also what came late
    finally:
        stop.set()
        reader.join()
    seen.peak_mb = _peak_mb(guard)
    return seen


def _publish(
    client: httpx2.Client, compute: str, pubsub: str, projects: int, events: dict[str, datetime], due: int
) -> None:
    """Makes VMs until there are so many, but some at most, and publishes an entry of each."""
    numbers = range(len(events), min(due, len(events) + _MOST_AT_ONCE))
    vms = [NewVm(number, number % projects, SystemClock().now()) for number in numbers]
    if not vms:
        return
    client.post(f"{compute}{MADE}", json=[one.values for one in vms]).raise_for_status()
    messages = [{"data": base64.b64encode(one.entry()).decode()} for one in vms]
    client.post(f"{pubsub}/v1/{TOPIC}:publish", json={"messages": messages}).raise_for_status()
    events |= {one.gce_id: one.at for one in vms}


def _read(
    database: Database, newest: int, events: dict[str, datetime], late_s: list[float], stop: threading.Event
) -> None:
    """Reads twenty times a second which VMs came into the ledger, and adds how late each was."""
    while not stop.wait(0.05):
        with database.read() as connection:
            query = select(instances.c.id, instances.c.gce_id).where(instances.c.id > newest).order_by(instances.c.id)
            rows = connection.execute(query).all()
        now = SystemClock().now()
        for row in rows:
            if row.gce_id not in events:
                break  # its publisher has not noted it yet: the next turn reads it again
            late_s.append((now - events[row.gce_id]).total_seconds())
            newest = row.id


@contextmanager
def _pubsub(folder: Path) -> Iterator[tuple[str, str]]:
    """Yields the name of a Pub/Sub and its address: Google's own emulator where the machine has it and Java."""
    jars, java, port = sorted(EMULATOR.glob("cloud-pubsub-emulator-*-all.jar")), shutil.which("java"), free_port()
    if jars and java:
        name, words = "Google's emulator", [java, "-jar", str(jars[-1]), "--host=127.0.0.1", f"--port={port}"]
    else:
        name = "the simulated Pub/Sub"
        words = [sys.executable, "-m", "costguard_sandbox", "empty", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with (folder / "pubsub.log").open("w") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            _until(lambda: _answers(url), _PATIENCE_S)
            yield name, url
        finally:
            process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/v1/projects/acme-events/topics").status_code < 500
    except httpx2.TransportError:
        return False


def _new_subscription(client: httpx2.Client, pubsub: str) -> None:
    client.delete(f"{pubsub}/v1/{SUBSCRIPTION}")
    client.put(f"{pubsub}/v1/{TOPIC}", json={})
    made = {"topic": TOPIC, "ackDeadlineSeconds": 60}
    client.put(f"{pubsub}/v1/{SUBSCRIPTION}", json=made).raise_for_status()


def _cpu_s(guard: Replica) -> float:
    fields = Path(f"/proc/{guard.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_mb(guard: Replica) -> float:
    status = Path(f"/proc/{guard.process.pid}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def _until(holds: Callable[[], bool], patience_s: float) -> None:
    ends, pause = time.monotonic() + patience_s, threading.Event()
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"it did not come about in {patience_s:.0f} s")
        pause.wait(0.2)
