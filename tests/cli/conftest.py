"""A real server on loopback, and the command run against it as a person would."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pytest
from tests.api.conftest import Standstill
from tests.api.rows import NOW
from tests.authenticators import ADMIT_ALL, keyed
from tests.cli.typed import Typist
from tests.jobs.job_service import JobSetup
from tests.serving import serving as serving_app

from costguard.access.rules import Rules, by_name
from costguard.api.app import create_app
from costguard.api.deps import DaemonStatus, Deps
from costguard.db.transaction import Database
from costguard.model.budget import Budget
from costguard.model.preset import Match, Preset
from costguard.model.reminder import Team

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@contextmanager
def serving(
    database: Database,
    token: str | None = None,
    budgets: Sequence[Budget] = (),
    teams: Sequence[Team] = (),
    office: JobSetup | None = None,
) -> Iterator[str]:
    rules = Rules(by_name([Preset("t4", Match(), timedelta(hours=8))]), budgets=tuple(budgets), teams=tuple(teams))
    deps = Deps(
        database=database,
        clock=Standstill(),
        rules=office.rules if office is not None else rules,
        code=office.code if office is not None else None,
        jobs=office.it if office is not None else None,
        sweeps=office.sweeps if office is not None else None,
        schedules=office.schedules if office is not None else None,
        authenticator=ADMIT_ALL if token is None else keyed(token),
        version="1.2.3",
        stale_after=timedelta(minutes=10),
        status=lambda: DaemonStatus(last_pass_at=NOW),
        holder="guard-1:4242",
    )
    with serving_app(create_app(deps)) as address:
        yield address


@pytest.fixture
def url(sqlite_database: Database) -> Iterator[str]:
    with serving(sqlite_database) as address:
        yield address


@pytest.fixture(scope="session")
def typist() -> Iterator[Typist]:
    with Typist() as typing:
        yield typing


@pytest.fixture
def run(url: str, typist: Typist) -> Run:
    """`costguard ARGUMENTS`, not at a terminal."""
    return runner(url, typist)


def runner(url: str, typist: Typist) -> Run:
    def costguard(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
        return typist.type(arguments, {**clean, "COSTGUARD_URL": url, **environ})

    return costguard
