"""Ten thousand VMs whose agents report every 30 s, and two hundred open dashboards, on one `costguard serve`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

from sqlalchemy import func, insert, select
from tests.benchmarks.databases import fresh
from tests.benchmarks.load_client import Load, Seen
from tests.benchmarks.measure import Measured
from tests.benchmarks.readers import Guard, people, processor_s, served_guard
from tests.benchmarks.served import PROJECT, served_fleet
from tests.gce.fleet_bodies import full_instance
from tests.jobs.job_rows import RECIPE, SPEC

from costguard.access import signing
from costguard.clock import SystemClock
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.jobs.reports.agent_events import KEY_NAME, AgentTokens
from costguard.jobs.rows import job_rows
from costguard.model.attempt import attempt_name
from costguard.model.job import Job, JobState
from costguard.model.money import Money

AGENTS, DASHBOARDS = 10_000, 200
_EVERY_S, _SECONDS = 30.0, 600.0
_GOAL_REPORT_S, _GOAL_PAGE_S, _GOAL_MB = 1.0, 1.0, 800.0
_STOPPED = 4  # every fourth VM of the fleet is stopped: see `full_instance`
_JOBS_SETTINGS = """
[jobs]
guard_url = "https://guard.example"
"""
# What people leave open, and how often the page asks again.
_PAGES = (
    *[("/", 5.0)] * 8,
    *[("/jobs", 5.0)] * 6,
    *[("/jobs/j{number}", 5.0)] * 12,
    *[("/vm/{project}/{gce_id}", 5.0)] * 4,
    ("/?preset=t4", 5.0),
    ("/?sort=age", 5.0),
    ("/jobs?owner=person-{person}%40lab.example", 5.0),
    ("/health", 5.0),
    ("/events", 5.0),
    ("/budgets", 5.0),
    ("/presets", 5.0),
    *[("/spend", 60.0)] * 3,
)


def load(folder: Path, agents: int = AGENTS, seconds: float = _SECONDS) -> Iterator[Measured]:
    """Measures the load on both databases; `LOAD_SECONDS` and `LOAD_ON` ("SQLite") of the environment shorten it."""
    seconds = float(os.environ.get("LOAD_SECONDS", seconds))
    with fresh(folder, "load") as addresses:
        for name, url in addresses.items():
            if os.environ.get("LOAD_ON", name) == name:
                yield from under_load(folder / f"load-{name}.db", name, url, agents, DASHBOARDS, seconds)


def under_load(
    files: Path, name: str, url: str, agents: int, dashboards: int, seconds: float, every_s: float = _EVERY_S
) -> Iterator[Measured]:
    with closing(Database.open(url)) as database:
        reporting = _fill(database, agents)
    crowd = Load(port=0, agents=reporting, every_s=every_s, dashboards=[], seconds=seconds)
    crowd["dashboards"] = [
        (who, *_page(number, agents)) for number, who in zip(range(dashboards), people(url), strict=False)
    ]
    with served_fleet(_fleet(agents)) as cloud, served_guard(files, url, cloud, _JOBS_SETTINGS) as guard:
        guard.wait_for_passes(3)
        serving, watching, before = guard.served_s(), processor_s(guard.process.pid), guard.resident_mb()
        seen, memory = _against(guard, crowd | {"port": guard.port}, files)
        serving, watching = guard.served_s() - serving, processor_s(guard.process.pid) - watching
    with closing(Database.open(url)) as database:
        stored = _check_stored(database, agents, name)
    who = f"{name}, {agents:,} agents, {dashboards} dashboards, {seen['took']:.0f} s"
    count = len(seen["reports"]) + len(seen["pages"])
    yield Measured(
        f"{who}: errors {seen['errors'] or ''} {seen['failed_in'] or ''}".strip(), "", [sum(seen["errors"].values())], 0
    )
    yield Measured(f"{who}: a report, from when it is due", "s", seen["reports"], _GOAL_REPORT_S, _GOAL_REPORT_S)
    yield Measured(f"{who}: a page", "s", seen["pages"], _GOAL_PAGE_S, _GOAL_PAGE_S)
    yield Measured(f"{who}: the health check", "s", seen["health"])
    yield Measured(f"{who}: reports a second", "", [len(seen["reports"]) / seen["took"]])
    yield Measured(f"{who}: pages a second", "", [len(seen["pages"]) / seen["took"]])
    cost = f"{who}: processor time of serving, an answer (in all {serving / seen['took']:.2f} of a core)"
    yield Measured(cost, "ms", [1000 * serving / count])
    yield Measured(f"{who}: processor of watching", "cores", [watching / seen["took"]])
    yield Measured(f"{who}: processor of the generator", "cores", [seen["cpu"] / seen["took"]])
    yield Measured(f"{who}: the generator behind its plan, at most", "s", [seen["late"]])
    yield Measured(f"{who}: memory of all processes before", "MB", [before])
    yield Measured(f"{who}: the same meanwhile, at most", "MB", [max(memory)], _GOAL_MB)
    half = memory[len(memory) // 2 :]
    yield Measured(f"{who}: the same, growth from the middle to the end", "MB", [max(half[-5:]) - max(half[:5])])
    yield Measured(f"{who}: attempts whose last report is stored", "", [stored])


def _against(guard: Guard, crowd: Load, files: Path) -> tuple[Seen, list[float]]:
    """Returns what callers saw, and the memory of the guard's processes every two seconds."""
    command = [sys.executable, "-m", "tests.benchmarks.load_client"]
    memory = [guard.resident_mb()]
    with (
        files.with_suffix(".seen").open("w+") as written,  # more than a pipe holds
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=written, text=True) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(json.dumps(crowd))
        process.stdin.close()
        while process.poll() is None:
            memory.append(guard.resident_mb())
            Event().wait(2)
        written.seek(0)
        seen: Seen = json.load(written)
    return seen, memory


def _fleet(agents: int) -> int:
    """Returns the number of VMs there are, so that as many run."""
    return agents * _STOPPED // (_STOPPED - 1) + _STOPPED


def _running(agents: int) -> list[int]:
    return [number for number in range(_fleet(agents)) if number % _STOPPED][:agents]


def _page(number: int, agents: int) -> tuple[str, float]:
    address, every_s = _PAGES[number % len(_PAGES)]
    vm = _running(agents)[number * 37 % agents]
    gce_id = full_instance(vm)["id"]
    return address.format(number=vm, person=number % 60, project=PROJECT, gce_id=gce_id), every_s


def _fill(database: Database, agents: int) -> list[tuple[str, str]]:
    """A job with a running attempt for each running VM. Its agents' names and tokens."""
    now = SystemClock().now()
    numbers = _running(agents)
    with database.write() as connection:
        for number in numbers:
            job_rows.add(connection, _job(number, now), None, "")
        connection.execute(insert(tables.attempts), [_attempt(number, now) for number in numbers])
        if database.dialect == "postgresql":
            connection.exec_driver_sql("ANALYZE")  # as autovacuum does a minute later
    tokens = AgentTokens(signing.kept(database, KEY_NAME, now))
    names = [attempt_name(f"j{number}", 1) for number in numbers]
    return [(name, tokens.of(name)) for name in names]


def _job(number: int, now: datetime) -> Job:
    owner = f"person-{number % 60}@lab.example"
    spec = replace(SPEC, owner=owner, project=PROJECT, name=f"resnet-{number}", checkpoint=None, deadline=None)
    began = now - timedelta(hours=5, seconds=number)
    return Job(f"j{number}", replace(spec, ceiling=None), RECIPE, JobState.RUNNING, "Its command runs.", began, "api")


def _attempt(number: int, now: datetime) -> dict[str, Any]:
    body = full_instance(number)
    began = now - timedelta(hours=5, seconds=number)
    return {
        "job_id": f"j{number}",
        "number": 1,
        "name": attempt_name(f"j{number}", 1),
        "project": PROJECT,
        "zone": body["zone"].rsplit("/", 1)[-1],
        "gpu_type": "nvidia-tesla-t4",
        "provisioning_model": body["scheduling"]["provisioningModel"].lower(),
        "request_uuid": str(number),
        "max_run_s": 7 * 86400,
        "rate_nanos": Money.of("0.25").nanos,
        "state": "running",
        "intended_at": began,
        "asked_at": began,
        "made_at": began,
        "gce_id": body["id"],
        "heard_at": now,
        "run": 1,
        "booted_at": began,
        "started_at": began + timedelta(minutes=3),
        "step": 100,
        "step_at": now,
    }


def _check_stored(database: Database, agents: int, name: str) -> int:
    """Counts the attempts that are as their agents reported: running, with figures, output and progress."""
    columns = tables.attempts.c
    query = select(func.count()).where(
        columns.state == "running", columns.step > 1000, columns.accepted_through > 0, columns.output != ""
    )
    with database.read() as connection:
        stored: int = connection.scalar(query) or 0
        open_jobs = connection.scalar(select(func.count()).where(tables.jobs.c.state == JobState.RUNNING.value))
    assert open_jobs == agents, f"{name}: only {open_jobs} jobs of {agents} still run"
    return stored
