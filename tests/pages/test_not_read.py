"""A project whose whole list Google refuses, from the real client to every place where people look."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from rich.console import Console
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.pages.conftest import pages
from tests.pages.html import Page, tidy
from tests.sandbox.vms import body

from costguard.access.rules import Rules
from costguard.api.deps import Deps
from costguard.cli.fleet import show_fleet
from costguard.cli.serve import report_lines
from costguard.daemon.reconcile import PassReport, Reconciler
from costguard.db.transaction import Database
from costguard.gce.client import ComputeCloud
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.mending import command_for, with_command
from costguard.model.observation import Unread
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

COMMAND = (
    "gcloud projects add-iam-policy-binding acme-research --member=serviceAccount:ACCOUNT"
    " --role=projects/acme-research/roles/costguard"
)


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    return sqlite_database


@pytest.fixture
def passes(database: Database) -> Iterator[list[PassReport]]:
    """Makes one pass in which both projects were read, and one in which Google refused the second."""
    world = World(ManualClock(NOW - timedelta(hours=1)), projects=["acme-training", "acme-research"])
    for project in ("acme-training", "acme-research"):
        world.insert(project, "us-central1-a", body(f"vm-of-{project}"))
    world.advance(timedelta(minutes=50))
    clock = HandClock(NOW - timedelta(minutes=10))
    with running(world) as url, closing(ComputeCloud(url, clock, wait=lambda _: False)) as cloud:
        guard = Reconciler(
            database, cloud, clock, lambda: ("acme-training", "acme-research"), Rules({}), Belonging((), OwnerRules())
        )
        first = guard.run()
        world.faults.add("forbidden", project="acme-research")
        clock.advance(timedelta(minutes=9))
        yield [first, guard.run()]


@pytest.fixture
def site(passes: list[PassReport], deps: Deps) -> TestClient:
    return pages(replace(deps, rules=Rules({})))


def _text(site: TestClient, address: str) -> str:
    page = Page(site.get(address).text)
    assert page.mistakes == []
    return tidy(page.text)


def test_health_page_says_not_read_with_the_command(site: TestClient) -> None:
    """The page does not say "partly read": nothing of it was."""
    text = _text(site, "/health")
    assert "acme-research not read" in text
    assert "acme-training completely read" in text
    assert "partly read" not in text
    assert COMMAND in text


def test_first_page_says_not_read_with_the_command(site: TestClient) -> None:
    """The VM is shown as it was last seen: it is not gone."""
    text = _text(site, "/")
    assert "Project acme-research cannot be read" in text
    assert "Not read 1 project" in text
    assert COMMAND in text
    assert "vm-of-acme-research" in text


def test_readyz_says_not_read_with_the_command(site: TestClient) -> None:
    """A warning: the other project answers, so this alone does not make it not ready."""
    ready = site.get("/readyz").json()
    assert not any("acme-research" in reason for reason in ready["reasons"])
    (warning,) = ready["warnings"]
    assert warning.startswith("Project acme-research is not read: ")
    assert warning.endswith(f"Run `{COMMAND}`.")
    assert {project["project"]: project["is_unread"] for project in ready["projects"]} == {
        "acme-training": False,
        "acme-research": True,
    }
    assert [(part["scope"], part["command"]) for part in ready["unread"]] == [("project", COMMAND)]


def test_metric_tells_an_unread_project_from_one_with_gaps(site: TestClient) -> None:
    """The metric is by project, 1 for the one of which nothing is read."""
    text = site.get("/metrics").text
    assert 'costguard_project_unread{project="acme-research"} 1.0' in text
    assert 'costguard_project_unread{project="acme-training"} 0.0' in text


def test_commands_say_not_read_with_the_command(site: TestClient, passes: list[PassReport]) -> None:
    """`costguard ps` and `costguard pass`."""
    console = Console(file=io.StringIO(), width=400)
    show_fleet(console, site.get("/api/v1/instances").json())
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert "NOT READ: acme-research (as of " in printed
    assert f"  {COMMAND}" in printed
    lines = list(report_lines(passes[-1]))
    assert f"    {COMMAND}" in lines
    assert any(line.startswith("    not read: all of it (permission): ") for line in lines)


@pytest.mark.parametrize(
    ("code", "reason", "command"),
    [
        (
            "permission",
            "Grant it on project p to guard@ops.iam.gserviceaccount.com.",
            "gcloud projects add-iam-policy-binding p --member=serviceAccount:guard@ops.iam.gserviceaccount.com"
            " --role=projects/p/roles/costguard",
        ),
        (
            "permission",
            "Run `gcloud services enable compute.googleapis.com --project p`.",
            "gcloud services enable compute.googleapis.com --project p",
        ),
        ("unreachable", "It did not answer.", ""),
    ],
)
def test_command_that_mends_it(code: str, reason: str, command: str) -> None:
    """The command is for the account that the reason names; one that the reason gives already is not said twice."""
    part = Unread("project", reason, code)
    assert command_for("p", part) == command
    assert with_command("p", part).count("gcloud") == (1 if command else 0)
