"""The pages over a fresh database of either kind, at a moment that stands still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.authenticators import ADMIT_ALL, FixedAuthenticator
from tests.jobs.job_service import JobSetup

from costguard.access.rules import Rules, by_name
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.db.transaction import Database
from costguard.model.preset import Match, Preset
from costguard.pages.app import add_pages

PRESETS = (
    Preset("t4", Match(gpu_types=frozenset({"nvidia-tesla-t4"})), timedelta(hours=8)),
    Preset("multi-gpu", Match(gpu_count_min=2), timedelta(hours=24)),
    Preset("other", Match(), None),
)


class Standstill:
    """A clock that always says the same."""

    def now(self) -> datetime:
        return NOW


@pytest.fixture
def deps(database: Database) -> Deps:
    return Deps(
        database=database,
        clock=Standstill(),
        rules=Rules(by_name(PRESETS)),
        authenticator=ADMIT_ALL,
        version="1.2.3",
        stale_after=timedelta(minutes=10),
        status=lambda: DaemonStatus(last_pass_at=NOW),
        holder="guard-1:4242",
    )


def pages(deps: Deps) -> TestClient:
    app = create_app(deps)
    add_pages(app, deps)
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def client(deps: Deps) -> TestClient:
    return pages(deps)


@pytest.fixture
def client_with(deps: Deps) -> Callable[..., TestClient]:
    """A client of pages that differ in some dependency."""
    return lambda **changed: pages(replace(deps, **changed))


@pytest.fixture
def client_of(client_with: Callable[..., TestClient], database: Database) -> Callable[[FixedAuthenticator], TestClient]:
    """A browser behind a authenticator, over a database with an office for jobs, which shows redirects."""

    def made(authenticator: FixedAuthenticator) -> TestClient:
        office = JobSetup(database)
        client = client_with(
            rules=office.rules,
            jobs=office.it,
            sweeps=office.sweeps,
            schedules=office.schedules,
            authenticator=authenticator,
        )
        client.follow_redirects = False
        return client

    return made
