"""A workspace served over HTTP, its clock moved by hand, and the real client of Slack's SDK."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from slack_sdk import WebClient

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
def url(world: World) -> Iterator[str]:
    with running(world) as url:
        yield url


@pytest.fixture
def slack(world: World) -> Workspace:
    """It waits longer for the app than Slack's 3 s, which a busy computer may need."""
    world.slack.interactions.answer_seconds = 60
    return world.slack


@pytest.fixture
def client(url: str) -> WebClient:
    """Makes a client without the SDK's own retries, so that every call is one request."""
    return WebClient(BOT_TOKEN, base_url=f"{url}/slack/api/", timeout=30, retry_handlers=[])
