"""The page of health: one plain verdict, and for all that is red what to do next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.api.test_errors import LockedDatabase
from tests.pages.html import Page, tidy

from costguard.api.deps import DaemonStatus
from costguard.db import lease
from costguard.db.transaction import Database
from costguard.messages.slack_health import OutboxTrouble
from costguard.model.webhook import WebhookState

HOUR = timedelta(hours=1)
MISSING = (
    "Listing VMs of project lab: Compute Engine answered 403. Grant the role of deploy/iam-role.yaml, or"
    " roles/compute.viewer, on project lab to guard@ops.iam.gserviceaccount.com."
)
API_OFF = "Zone a: it is off. Run `gcloud services enable compute.googleapis.com --project lab`."
HOOKS = (
    WebhookState("pager", 12, NOW - HOUR, "It answered 500.", None),
    WebhookState("lake", 0, None, "", NOW),
)


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    """What is particular to a database is tested with its own queries."""
    return sqlite_database


def read(client: TestClient) -> str:
    answer = client.get("/health")
    assert answer.status_code == 200, answer.text
    page = Page(answer.text)
    assert page.mistakes == []
    return tidy(page.text)


def test_it_says_whether_all_is_well(database: Database, client_with: Callable[..., TestClient]) -> None:
    """From nothing at all, over something that is missing, to nothing that is."""
    silent = DaemonStatus()
    text = read(client_with(status=lambda: silent))
    for part in (
        "Do not rely on the figures on these pages.", "It has never been held. Start costguard serve",
        "No project has been read yet.",
        "Last pass here none yet", "No reminders are sent.", "Nothing can be priced", "SQLite,",
    ):  # fmt: skip
        assert part in text
    lease.acquire(database, "daemon", "guard-1:4242", HOUR)
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
    good = read(client_with(outbox_trouble=lambda: OutboxTrouble()))
    for part in (
        "Everything is working. 1 project is completely read",
        "held by guard-1:4242, this replica",
        "completely read Last complete read",
        "working",
    ):
        assert part in good


def test_what_is_red_says_what_to_do(database: Database, client_with: Callable[..., TestClient]) -> None:
    """A missing permission by the command that gives it; what waits is shown with since when."""
    lease.acquire(database, "daemon", "guard-1:4242", HOUR)
    unread = [
        {"scope": "instances", "code": "permission", "reason": MISSING},
        {"scope": "us-central1-a", "code": "permission", "reason": API_OFF},
        {"scope": "us-east1-b", "code": "unreachable", "reason": "It did not answer."},
    ]
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, unread=unread, last_complete_at=NOW - HOUR)
    slack = OutboxTrouble("Slack refuses the token: make a new one.", {"#ml": "is archived"}, 4, NOW - HOUR)
    text = read(
        client_with(
            outbox_trouble=lambda: slack,
            slack_refused=lambda: {"bad_signature": 3},
            webhook_states=lambda _: HOOKS,
            status=lambda: DaemonStatus(last_pass_at=NOW, last_error="No credentials."),
        )
    )
    for part in (
        "Costguard works, but something needs attention.", "things need attention",
        "gcloud projects add-iam-policy-binding lab --member=serviceAccount:guard@ops.iam.gserviceaccount.com"
        " --role=projects/lab/roles/costguard",
        "gcloud services enable compute.googleapis.com --project lab",
        "out of date", "Slack refuses the token: make a new one.", "#ml: is archived",
        "4 the oldest since", "3 bad signature", "pager not accepting events It answered 500. 12 events are waiting",
        "lake working, last event accepted",
        "failed No credentials.",
    ):  # fmt: skip
        assert part in text


def test_it_answers_while_the_database_does_not(client_with: Callable[..., TestClient]) -> None:
    """That is what the page is for."""
    text = read(client_with(database=LockedDatabase()))
    assert "The database x is locked. Stop the other process." in text
    assert "does not answer" in text
