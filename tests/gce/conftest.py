"""Fixtures that the tests of the Compute Engine adapter share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gce.remembering import RememberingCloud
from tests.gce.server import Answer, Asked, Server, serving

from costguard.gce.client import ComputeCloud

START = datetime(2026, 11, 20, 12, tzinfo=UTC)


@dataclass
class Ticking:
    """A clock that is a second later at every look, so that the order of looks can be read."""

    at: datetime = START

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@dataclass
class Waits:
    """Notes the waits that were asked for, and makes none."""

    seconds: list[float] = field(default_factory=list)
    stopped: bool = False

    def __call__(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return self.stopped


@dataclass
class Setup:
    cloud: ComputeCloud
    server: Server
    waits: Waits


Connect = Callable[..., Setup]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Serve an answerer and give a client that asks it, whose looks show all VMs; all of it ends with the test."""
    with ExitStack() as stack:

        def start(answer: Callable[[Asked], Answer], **options: Any) -> Setup:
            server = stack.enter_context(serving(answer))
            waits = options.pop("wait", None) or Waits()
            cloud = RememberingCloud(server.url, Ticking(), wait=waits, **options)
            stack.callback(cloud.close)
            return Setup(cloud, server, waits)

        yield start
