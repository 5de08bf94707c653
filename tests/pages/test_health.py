"""The page of health: one plain verdict, and for all that is red what to do next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert, update
from tests.api import rows
from tests.api.rows import NOW
from tests.api.scraped import feed_rows
from tests.api.test_errors import LockedDatabase
from tests.pages.html import Page, tidy

from costguard.api.deps import DaemonStatus
from costguard.db import lease
from costguard.db.tables import archives, feed_wire
from costguard.db.transaction import Database
from costguard.doctor.finding import SetupReport, Topic, needs, ok, unknown
from costguard.messages.slack_health import OutboxTrouble
from costguard.model.delivery.webhook import WebhookState

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
    """Makes a database. Particulars of a database are tested with its own queries."""
    return sqlite_database


def read(client: TestClient) -> str:
    answer = client.get("/health")
    assert answer.status_code == 200, answer.text
    page = Page(answer.text)
    assert page.mistakes == []
    return tidy(page.text)


def test_it_says_whether_all_is_well(database: Database, client_with: Callable[..., TestClient]) -> None:
    """The page goes from nothing at all, over something that is missing, to nothing that is."""
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


def test_events_and_listings_are_shown(database: Database, client_with: Callable[..., TestClient]) -> None:
    """The page says how to get events, then how they come, what they cost and save, and who watches."""
    with database.write() as connection:
        rows.project(connection)
        rows.project(connection, "other", last_complete_at=NOW - timedelta(minutes=4))
    before = read(client_with())
    assert "Events not set up VMs are seen by listings alone." in before
    assert "Oldest listing 4 min old" in before
    assert "every pass lists it" not in before
    with database.write() as connection:
        feed_rows(connection)
    text = read(client_with())
    for part in (
        "Events coming The last heartbeat that came back was sent 30 s ago.",
        "Messages unread 7 the oldest for 2 min",
        "half of the 40 events of the last hour within 2 s, 95 % within 5 s",
        "0, 0 of them again; 0 operations came without their entry",
        "$0.01 a month",
        "Requests to lists 2 in the last hour; 28 with every project listed in every pass",
        "guard-1:4242 watches 1 project",
        "1 project is watched by no replica",
        "No event of it ever came, so every pass lists it.",
    ):
        assert part in text
    with database.write() as connection:
        silent = {"heard_at": NOW - timedelta(minutes=5), "error": "Pub/Sub answered 403.", "unread": None}
        connection.execute(update(feed_wire).values(silent))
    silenced = read(client_with())
    assert "Events silent Every project is listed in every pass" in silenced
    assert "Pub/Sub answered 403." in silenced
    assert "Messages unread not known" in silenced


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


def archived(database: Database, file: str, state: str) -> None:
    day = NOW.date() - timedelta(days=400)
    values = {
        "kind": "charges",
        "file": file,
        "state": state,
        "made_at": NOW - HOUR,
        "through_at": NOW - 400 * 24 * HOUR,
    }
    with database.write() as connection:
        counts = {"row_count": 20_000, "byte_count": 3 * 2**20, "sha256": "0" * 64}
        connection.execute(insert(archives).values(**values, **counts, first_day=day, last_day=day))


def test_archives_are_shown_with_what_is_wrong_with_them(
    database: Database, client_with: Callable[..., TestClient], tmp_path: Path
) -> None:
    """The archives are none, complete, interrupted, or lost from the folder; a replica that does not know the folder
    misses none.
    """
    assert "Archives none Everything is in the database. [retention]" in read(client_with(archive=tmp_path))
    archived(database, "runs-1.jsonl.gz", "done")
    (tmp_path / "runs-1.jsonl.gz").touch()
    whole = read(client_with(archive=tmp_path))
    assert "Archives complete 1 file, 3.0 MiB, 20,000 rows up to" in whole
    archived(database, "runs-2.jsonl.gz", "open")
    interrupted = read(client_with(archive=None))
    assert "Archives not finished Rows of 1 file are still in the database as well." in interrupted
    assert "2 files, 6.0 MiB, 40,000 rows" in interrupted
    lost = read(client_with(archive=tmp_path))
    assert "not all there 1 of 2 files is not in the folder, the first runs-2.jsonl.gz." in lost
    assert "2 of 2 files are not in the folder" in read(client_with(archive=tmp_path / "unmounted"))


def test_it_answers_while_the_database_does_not(client_with: Callable[..., TestClient]) -> None:
    """The page is there for exactly that."""
    text = read(client_with(database=LockedDatabase()))
    assert "The database x is locked. Stop the other process." in text
    assert "does not answer" in text


def test_the_set_up_is_shown_with_what_mends_it(database: Database, client_with: Callable[..., TestClient]) -> None:
    """The page shows a need with its command, the unknown with why, and folds away what is well."""
    report = SetupReport(
        NOW,
        [
            ok(Topic.CREDENTIALS, "account", "Costguard is guard@ops.iam.gserviceaccount.com at Google."),
            needs(
                Topic.APIS, "monitoring", "It is off in lab.", "gcloud services enable monitoring --project=lab", "lab"
            ),
            unknown(Topic.QUOTAS, "us-east1", "Quotas of us-east1 in lab: no answer within 6 s.", "lab"),
        ],
    )
    text = read(client_with(setup=lambda: report))
    for part in (
        "1 of 3 checks are ok",
        "needs It is off in lab. gcloud services enable monitoring --project=lab",
        "unknown Quotas of us-east1 in lab: no answer within 6 s.",
        "Costguard is guard@ops.iam.gserviceaccount.com at Google.",
    ):
        assert part in text
    assert "It was not checked here. costguard doctor" in read(client_with())
