"""/healthz and /readyz."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert, update
from tests.api import rows
from tests.api.conftest import Standstill
from tests.api.rows import NOW
from tests.api.scraped import feed_rows
from tests.api.test_errors import LockedDatabase
from tests.authenticators import authenticator_of, make_principal

from costguard.access.tokens import NewToken, TokenService
from costguard.api.deps import DaemonStatus
from costguard.daemon.health import OneQuestion
from costguard.daemon.watch_report import month_cost
from costguard.db import lease, project_leases
from costguard.db.tables import feed_projects, feed_wire
from costguard.db.transaction import Database
from costguard.errors import DatabaseUnreachable
from costguard.ledger import unknown_vms
from costguard.ledger.unknown_vms import UnknownVm
from costguard.messages.slack_health import OutboxTrouble
from costguard.model.access import Permission, Role
from costguard.model.instance import InstanceKey, Status

HOUR = timedelta(hours=1)


def _watched(database: Database, **project: Any) -> None:
    lease.acquire(database, "daemon", "guard-1:4242", HOUR)
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, **project)


def test_alive_asks_nobody(client_with: Callable[..., TestClient]) -> None:
    """/healthz answers while the database does not."""
    assert client_with(database=LockedDatabase()).get("/healthz").json() == {"status": "alive"}


def test_ready(database: Database, client: TestClient) -> None:
    """The service is ready with a lease held, a fresh look and prices, and names who acts."""
    _watched(database)
    answer = client.get("/readyz")
    body = answer.json()
    assert (answer.status_code, body["status"], body["reasons"], body["warnings"]) == (200, "ready", [], [])
    assert (body["leases"][0]["holder"], body["leases"][0]["is_held"]) == ("guard-1:4242", True)
    assert body["projects"][0]["age_seconds"] == 0


def test_each_project_says_which_replica_watches_it(database: Database, client: TestClient) -> None:
    """It says since when, too, by the database's clock; one whose lease ran out is watched by nobody."""
    _watched(database)

    def shard(ends_in: timedelta) -> tuple[str | None, bool]:
        with database.write() as connection:
            now = lease.database_time(connection)
            project_leases.claim(connection, "guard-2:17", ["lab"], 1, now + ends_in, now)
        project = client.get("/readyz").json()["projects"][0]
        return project["holder"], project["held_since"] is not None

    assert shard(HOUR) == ("guard-2:17", True)
    assert shard(-HOUR) == (None, False)


def test_vms_that_a_restored_ledger_does_not_know_are_warned_of(database: Database, client: TestClient) -> None:
    """They bill and work, and nobody but a person knows for whom."""
    _watched(database)
    key = InstanceKey("lab", "71")
    vm = UnknownVm(key, "cg-j9-1", "us-central1-a", "j9", 1, "", Status.RUNNING, "job j9 is lost", NOW)
    with database.write() as connection:
        unknown_vms.save(connection, [vm])
    body = client.get("/readyz").json()
    assert body["status"] == "degraded"
    (warning,) = body["warnings"]
    assert "cg-j9-1 bears this installation's labels" in warning
    assert "costguard db unknown" in warning


def test_events_and_listings_are_told_of(database: Database, client: TestClient) -> None:
    """The details say whether events come, what they cost, and what listings take with and without them."""
    _watched(database)
    with database.write() as connection:
        feed_rows(connection)
    body = client.get("/readyz").json()
    assert (body["status"], body["feed"]["is_alive"], body["feed"]["messages_unread"]) == ("ready", True, 7)
    assert (body["feed"]["late_half_seconds"], body["feed"]["late_most_seconds"]) == (2, 5)
    assert Decimal(body["feed"]["month_cost"]) == month_cost(40, 120_000, 1).dollars
    listings = body["listings"]
    assert (listings["requests_per_hour"], listings["requests_per_hour_in_every_pass"]) == (2, 28)
    assert (listings["holders"], listings["unheld"]) == ({"guard-1:4242": 1}, 0)
    assert body["projects"][0]["doubt"] == "unproven"


def test_silent_subscription_degrades(database: Database, client: TestClient) -> None:
    """Nothing is lost, but VMs of seconds may be; what Pub/Sub answered is in the warning."""
    _watched(database)
    with database.write() as connection:
        feed_rows(connection)
        silent = {"heard_at": NOW - timedelta(minutes=5), "error": "Pub/Sub answered 403."}
        connection.execute(update(feed_wire).values(silent))
    body = client.get("/readyz").json()
    assert (body["status"], body["feed"]["is_alive"]) == ("degraded", False)
    (warning,) = body["warnings"]
    assert warning.startswith("No events come through subscription costguard-events")
    assert warning.endswith("Pub/Sub answered 403.")


def test_listing_at_its_turn_is_not_stale(database: Database, client: TestClient) -> None:
    """Fourteen minutes after a listing the figures are fresh while events come, and out of date without them."""
    _watched(database, last_complete_at=NOW - timedelta(minutes=14))
    with database.write() as connection:
        feed_rows(connection)
        connection.execute(
            insert(feed_projects).values(
                project="lab", first_heard_at=NOW, heard_at=NOW, entries=1, doubled=0, missed=0
            )
        )
    assert client.get("/readyz").json()["projects"][0]["is_stale"] is False
    assert client.get("/api/v1/projects").json()["projects"][0]["is_stale"] is False
    with database.write() as connection:
        connection.execute(update(feed_wire).values(heard_at=NOW - timedelta(minutes=5)))
    assert client.get("/readyz").json()["projects"][0]["is_stale"] is True
    assert client.get("/api/v1/projects").json()["projects"][0]["is_stale"] is True


def test_the_database_says_who_acts(database: Database, client_with: Callable[..., TestClient]) -> None:
    """`is_acting`: this replica holds the lease and it has not expired; what the process believes does not count."""
    _watched(database)
    ours, other = client_with(), client_with(holder="guard-2:4242")
    assert (ours.get("/readyz").json()["is_acting"], other.get("/readyz").json()["is_acting"]) == (True, False)
    held = lease.acquire(database, "daemon", "guard-1:4242", HOUR)
    assert held is not None
    lease.release(database, held)
    assert ours.get("/readyz").json()["is_acting"] is False


def test_guard_that_cannot_get_the_lease_says_what_is_in_its_way(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """A process frozen in mid-write locks SQLite for all: the lease runs out, and /readyz names the lock."""
    _watched(database)
    held = lease.acquire(database, "daemon", "guard-1:4242", HOUR)
    assert held is not None
    lease.release(database, held)
    locked = DaemonStatus(last_error="The SQLite database is locked by another process.")
    answer = client_with(status=lambda: locked).get("/readyz")
    assert answer.status_code == 503
    assert "The daemon cannot work: The SQLite database is locked" in answer.json()["reasons"][0]


@pytest.mark.parametrize("shown", ["", "a wrong one", "only metrics"])
def test_strangers_are_told_the_verdict_only(
    sqlite_database: Database, client_with: Callable[..., TestClient], shown: str
) -> None:
    """The verdict is for no token, or one that is invalid or may not read; ready or not, and never a version."""
    authenticator = authenticator_of(sqlite_database, Standstill(), master="the master's token")
    by = make_principal(Role.ADMIN, "root@lab.example")
    _, narrow = TokenService(sqlite_database, Standstill()).make(NewToken("m", frozenset({Permission.METRICS})), by)
    headers = {"Authorization": f"Bearer {narrow if shown == 'only metrics' else shown}"} if shown else {}
    client = client_with(database=sqlite_database, authenticator=authenticator)
    answer = client.get("/readyz", headers=headers)
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready"})
    _watched(sqlite_database)
    answer = client.get("/readyz", headers=headers)
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    assert client.get("/healthz", headers=headers).json() == {"status": "alive"}
    readiness = client.get("/readyz", headers={"Authorization": "Bearer the master's token"}).json()
    assert (readiness["status"], readiness["version"], len(readiness["projects"])) == ("ready", "1.2.3", 1)
    authenticator.close()


def test_a_database_that_cannot_say_who_asks_makes_a_stranger(client_with: Callable[..., TestClient]) -> None:
    """/readyz answers 503 with the verdict, not 500, and in time; the master token is known without it."""
    locked = LockedDatabase()
    authenticator = authenticator_of(locked, Standstill(), master="the master's token")  # type: ignore[arg-type]  # it raises at once
    client = client_with(database=locked, authenticator=authenticator)
    for token, has_reasons in (("cgt_unknown", False), ("the master's token", True)):
        answer = client.get("/readyz", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["status"], "reasons" in answer.json()) == (
            503,
            "not ready",
            has_reasons,
        )
    authenticator.close()


class SilentDatabase:
    """Does not answer until it is let go."""

    name = "The database"

    def __init__(self) -> None:
        self.asked = 0
        self.go_on = threading.Event()

    def read(self) -> AbstractContextManager[object]:
        self.asked += 1
        self.go_on.wait()
        raise DatabaseUnreachable("The database fell silent.", "Look at it.")


def test_silent_database_is_not_ready_and_holds_nobody(client_with: Callable[..., TestClient]) -> None:
    """503, nobody acts, and why; however many ask meanwhile, one question is open."""
    silent = SilentDatabase()
    client = client_with(database=silent, vital_signs=OneQuestion(timedelta(milliseconds=200)))
    answers = [client.get("/readyz") for _ in range(20)]
    silent.go_on.set()
    assert {(answer.status_code, answer.json()["is_acting"]) for answer in answers} == {(503, False)}
    assert "has not answered" in answers[0].json()["reasons"][0]
    assert silent.asked == 1


def test_not_ready_gives_every_reason(client: TestClient) -> None:
    """Before the first pass it is 503, with a reason for each thing that is missing."""
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"], len(answer.json()["reasons"])) == (503, "not ready", 3)


def test_an_expired_lease_is_not_ready(database: Database, client: TestClient) -> None:
    """The answer is 503 when the holder of the lease is gone: nobody watches."""
    _watched(database)
    held = lease.acquire(database, "daemon", "guard-1:4242", HOUR)
    assert held is not None
    lease.release(database, held)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "lease" in answer.json()["reasons"][0]


def test_a_database_that_does_not_answer_is_not_ready(client_with: Callable[..., TestClient]) -> None:
    """503 with what the store says, never a 500."""
    answer = client_with(database=LockedDatabase()).get("/readyz")
    assert (answer.status_code, answer.json()["reasons"]) == (
        503,
        ["The database x is locked. Stop the other process."],
    )


def test_one_project_that_is_lost_only_degrades(database: Database, client_with: Callable[..., TestClient]) -> None:
    """A stale project, an unread part and a failed pass are warnings: the rest still answers."""
    unread = [{"scope": "instances", "code": "permission", "reason": "The role is missing."}]
    _watched(database, unread=unread, last_complete_at=NOW - HOUR)
    failed = DaemonStatus(last_pass_at=NOW, last_error="No credentials.")
    answer = client_with(status=lambda: failed).get("/readyz")
    assert (answer.status_code, answer.json()["status"], len(answer.json()["warnings"])) == (200, "degraded", 3)


def test_slacks_trouble_only_degrades(database: Database, client_with: Callable[..., TestClient]) -> None:
    """The reason, the channel, the backlog and its age are shown; never 503, as everything else works."""
    _watched(database)
    trouble = OutboxTrouble("The token is revoked.", {"#gpus": "It is archived."}, 3, NOW - HOUR)
    answer = client_with(outbox_trouble=lambda: trouble, socket_trouble=lambda: "There is no connection.").get(
        "/readyz"
    )
    body = answer.json()
    assert (answer.status_code, body["status"]) == (200, "degraded")
    assert body["warnings"] == [
        "Slack: The token is revoked.",
        "Slack: #gpus: It is archived.",
        "Slack: There is no connection.",
        "3 messages wait for Slack, the oldest since 11:00 UTC.",
    ]
    assert (body["slack_waiting"], body["slack_waiting_since"]) == (3, "2026-11-20T11:00:00Z")


def test_messages_that_are_on_their_way_are_no_trouble(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """Slack takes one a second in a channel, so that some always wait for a moment."""
    _watched(database)
    trouble = OutboxTrouble(waiting=3, waiting_since=NOW - timedelta(minutes=1))
    body = client_with(outbox_trouble=lambda: trouble).get("/readyz").json()
    assert (body["status"], body["slack_waiting"]) == ("ready", 3)
