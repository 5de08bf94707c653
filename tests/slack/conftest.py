"""A simulated workspace served over HTTP, its clock moved by hand, and the notifier on the real SDK."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from costguard.slack.client import SlackNotifier
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import BOT_TOKEN
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World

START = datetime(2026, 9, 23, 12, 0, tzinfo=UTC)


@pytest.fixture
def world() -> World:
    return World(ManualClock(START))


@pytest.fixture
def endpoint(world: World) -> Iterator[str]:
    with running(world) as url:
        yield f"{url}/slack/api/"


@pytest.fixture
def slack(world: World) -> Workspace:
    world.slack.interactions.answer_seconds = 60  # real ones, which a busy machine may need
    return world.slack


@pytest.fixture
def notifier(endpoint: str) -> SlackNotifier:
    return SlackNotifier(BOT_TOKEN, endpoint)
