"""Trackers as the settings name them: reports make points, and the daemon's task logs them on threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.settings.reading import read
from tests.trackers.mlflow_server import MlflowFront
from tests.trackers.test_points import TrackedWorld, tracked_world
from tests.waiting import until

from costguard.db import lease
from costguard.jobs.reports.agent_events import AgentEvent, AgentReport
from costguard.main.job_services import job_services
from costguard.main.trackers import trackers
from costguard.settings import Settings

TOKEN = "a-token-of-mlflow"


@pytest.fixture
def tracked(sqlite_url: str, server: MlflowFront) -> Iterator[TrackedWorld]:
    with tracked_world(sqlite_url, server) as here:
        yield here


def settings_of(tmp_path: Path, url: str) -> Settings:
    text = f'[watch]\nprojects = ["ml-training"]\n[trackers.mlflow]\nurl = "{url}"\n'
    return read(tmp_path, text, COSTGUARD_MLFLOW_TOKEN=TOKEN)


def test_the_daemons_task_logs_what_waits(tracked: TrackedWorld, server: MlflowFront, tmp_path: Path) -> None:
    """It starts a thread and returns at once; the token of the environment goes to the tracker."""
    here = tracked.world
    tracked.beat(tracked.launch(1), 1)
    held = lease.acquire(here.database, "daemon", "one", timedelta(hours=1))
    assert held is not None
    with trackers(settings_of(tmp_path, server.url), here.database, here.clock) as made:
        made.run(held, threading.Event())
        until(lambda: tracked.points() == 0)
    assert len(tracked.costs()) == 2
    assert set(server.authorization) == {f"Bearer {TOKEN}"}


def test_a_report_to_the_server_makes_a_point(tracked: TrackedWorld, server: MlflowFront, tmp_path: Path) -> None:
    """The process is built as the one that serves."""
    here, settings = tracked.world, settings_of(tmp_path, server.url)
    name = tracked.launch(1)
    here.clock.advance(timedelta(seconds=30))
    services = job_services(settings, settings.rules(), here.database, here.clock, 1.0, lambda: None, lambda: None)
    events = (AgentEvent(100, "heartbeat", here.clock.now(), {"run": 1, "is_running": True, "step": 7}),)
    before = tracked.points()
    services.agent_events.hear_all([AgentReport(name, events)])
    assert tracked.points() == before + 1
    assert tracked.stored().step == 7
