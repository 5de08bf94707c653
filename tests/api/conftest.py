"""An API over a fresh database of either kind, at a moment that stands still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.authenticators import ADMIT_ALL

from costguard.access.rules import Rules, by_name
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.db.transaction import Database
from costguard.model.budget import Budget, Period, Scope
from costguard.model.money import Money
from costguard.model.preset import Match, Preset

PRESETS = (
    Preset("t4", Match(gpu_types=frozenset({"nvidia-tesla-t4"})), timedelta(hours=8), "debugging"),
    Preset("other", Match(), None),
)


class Standstill:
    """A clock that always says the same."""

    def now(self) -> datetime:
        return NOW


@pytest.fixture
def deps(database: Database) -> Deps:
    return deps_of(database)


def deps_of(database: Database) -> Deps:
    return Deps(
        database=database,
        clock=Standstill(),
        rules=Rules(by_name(PRESETS), budgets=(Budget("all", Scope(), Money.of("5000"), Period.MONTH),)),
        authenticator=ADMIT_ALL,
        version="1.2.3",
        stale_after=timedelta(minutes=10),
        status=lambda: DaemonStatus(last_pass_at=NOW),
        holder="guard-1:4242",
    )


@pytest.fixture
def client(deps: Deps) -> TestClient:
    return TestClient(create_app(deps))


@pytest.fixture
def client_with(deps: Deps) -> Callable[..., TestClient]:
    """A client of an API that differs in some dependency."""
    return lambda **changed: TestClient(create_app(replace(deps, **changed)), raise_server_exceptions=False)
