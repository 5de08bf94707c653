"""A scrape in which there is something of everything."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeAlias

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Connection, insert
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW, T4
from tests.jobs import job_rows
from tests.reminders import reminder_rows
from tests.within import keep_rates

from costguard.api.app import create_app
from costguard.api.deps import Deps
from costguard.daemon import hourly_counts
from costguard.daemon.feed_watch import Lateness
from costguard.daemon.meters import Meters, WatchMeters
from costguard.daemon.reconcile import PassReport
from costguard.db import lease, project_leases, tables
from costguard.db.lease import database_time
from costguard.db.transaction import Database
from costguard.jobs.rows.recovery import interruptions
from costguard.ledger.charged.charging import Charged
from costguard.ledger.record import Recorded
from costguard.model.access import Via
from costguard.model.attempt import Interruption, Notice, Outcome
from costguard.model.budget import FleetLimit, Scope
from costguard.model.delivery.webhook import WebhookState
from costguard.model.job import JobState
from costguard.model.money import Money
from costguard.model.observation import Unread
from costguard.processes.wire import families_of, metrics_of
from costguard.reminders.watched import FleetPlan

HOUR = timedelta(hours=1)
HOSTILE = 'x"} 1\ncostguard_vms{owner="'
NO_ZONE = Unread("us-east1-b", "us-east1-b could not be read.", "503")
Labels: TypeAlias = frozenset[tuple[str, str]]


@dataclass
class Scrape:
    """A scrape: types by family, and values by name and labels."""

    text: str
    types: dict[str, str] = field(default_factory=dict)
    values: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for family in text_string_to_metric_families(self.text):
            self.types[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.values, key
                self.values[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        """Returns the value of the one series with these labels, or the sum of those that have them among others."""
        values = [value for (family, given), value in self.values.items() if family == name and labels.items() <= given]
        assert values, (name, labels)
        return sum(values)

    def projects(self, name: str) -> set[str]:
        """Returns the projects that series of this name have."""
        return {dict(labels)["project"] for family, labels in self.values if family == name}

    @property
    def labels(self) -> dict[str, set[str]]:
        """The names of the labels of each series."""
        labels_by_name: dict[str, set[str]] = {}
        for name, labels in self.values:
            labels_by_name.setdefault(name, set()).update(label for label, _ in labels)
        return labels_by_name


def feed_rows(connection: Connection) -> None:
    """Events come; 40 messages of 3,000 bytes, 2 requests made where 28 would have been, in the last whole hour."""
    subscription = "projects/ops/subscriptions/costguard-events"
    moments = {"sent_at": NOW, "heard_at": NOW - timedelta(seconds=30), "pulled_at": NOW, "message_at": NOW}
    backlog = {"unread": 7, "oldest_unread_at": NOW - timedelta(minutes=2), "measured_at": NOW}
    connection.execute(insert(tables.feed_wire).values(subscription=subscription, **moments, **backlog))
    counts = {
        "feed_messages": 40,
        "feed_bytes": 120_000,
        "event_to_ledger/2": 20,
        "event_to_ledger/5": 20,
        "listing_requests": 2,
        "requests_without_events": 28,
    }
    hourly_counts.add(connection, counts, NOW - HOUR)
    now = database_time(connection)
    project_leases.claim(connection, "guard-1:4242", ["lab"], 1, now + timedelta(seconds=9), now)


def scrape(client: TestClient, accept: str = "") -> Scrape:
    answer = client.get("/metrics", headers={"accept": accept} if accept else {})
    assert answer.status_code == 200, answer.text
    return Scrape(answer.text)


def full(database: Database) -> Deps:
    """A Spot VM, an on-demand one without a price, a stopped one, and everything else that is counted."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, unread=[{"scope": "us-east1-b", "code": "503", "reason": "It could not be read."}])
        given = {"owner": f"{HOSTILE}@lab.example", "labels": {"a": HOSTILE}}
        spot = rows.instance(connection, "spot", provisioning_model="spot", **given)
        life = rows.lifetime(connection, spot, NOW - 2 * HOUR, provisioning_model="spot")
        rows.storage(connection, spot, NOW - 100 * HOUR)
        odd = rows.instance(connection, HOSTILE, **{**T4, "gpu_type": "nvidia-odd"})
        rows.lifetime(connection, odd, NOW - HOUR, gpu_type="nvidia-odd")
        rows.instance(connection, "rests", status="stopped", preset="other")
        rows.day(connection, NOW.date() - timedelta(days=1), gpu_nanos=7_000_000_000)
        rows.day(connection, NOW.date() - timedelta(days=40), gpu_nanos=99_000_000_000)
        feed_rows(connection)
        keep_rates(connection, NOW)
        reminder_rows.message(connection, "m", status="intended")
        reminder_rows.stop(connection, spot, life, NOW)
        job_rows.added(connection, state=JobState.RUNNING, name=HOSTILE)
        job_rows.added(connection, "j8k2m9q4", state=JobState.FAILED)
        tried = job_rows.attempt(connection)
        for run, minutes in enumerate((2, 4, None)):
            resumed_at = None if minutes is None else NOW + timedelta(minutes=minutes)
            lost = {"lost": timedelta(minutes=3), "lost_cost": Money.of("0.50")} if minutes else {}
            interruptions.add(
                connection,
                Interruption(
                    tried.id,
                    tried.job_id,
                    run,
                    Outcome.PREEMPTED,
                    NOW,
                    NOW,
                    Notice.NOTICE,
                    resumed_at=resumed_at,
                    **lost,  # type: ignore[arg-type]
                ),
            )
    meters, watched = Meters("1.2.3"), WatchMeters()
    watched.message("reminder", "accepted")
    watched.delivery("pager", "refused")
    watched.tracker("mlflow", "failed")
    watched.late(Lateness(3, 1))
    meters.signed_in(Via.OIDC, False)
    recorded = (Recorded("lab", unread=(NO_ZONE,)), Recorded("odd", error="it broke"), Recorded("well"))
    watched.passed(0.3, PassReport(NOW, NOW, recorded, Charged(), FleetPlan()))
    watched.passed(0.2, None)
    hooks = [WebhookState("pager", 3, NOW - HOUR, "It answered 500.", NOW)]
    lease.acquire(database, "daemon", "guard-1:4242", HOUR)
    counted = families_of(watched.registry.collect())  # as they come from the process that watches
    deps = deps_of(database)
    return replace(
        deps,
        rules=replace(deps.rules, fleet_limits=(FleetLimit("gpus", Scope(), gpus=64),)),
        meters=meters,
        other_metrics=lambda: metrics_of(counted),
        webhook_states=lambda _connection: hooks,
    )


def full_scrape(database: Database) -> Scrape:
    with TestClient(create_app(full(database))) as client:
        client.get("/healthz")
        return scrape(client)
