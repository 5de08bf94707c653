"""Prometheus scrapes the API's figures as metrics, in few series."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from starlette.types import Message, Receive, Scope, Send
from tests.api import rows
from tests.api.conftest import deps_of
from tests.api.rows import NOW
from tests.api.scraped import HOUR, full, full_scrape, scrape
from tests.authenticators import FixedAuthenticator, make_principal
from tests.loops import run

from costguard.api.app import create_app
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.model.access import Permission
from costguard.web.meters import TimingMiddleware


@pytest.fixture
def client(sqlite_database: Database) -> TestClient:
    return TestClient(create_app(full(sqlite_database)))


def test_money_is_what_all_others_are_told(client: TestClient) -> None:
    """Burn rate, spend and budgets are those of the API, and what has no price is counted next to them."""
    scraped = scrape(client)
    totals = client.get("/api/v1/instances").json()["totals"]
    assert scraped.value("costguard_burn_rate_dollars_per_hour") == pytest.approx(float(totals["rate_per_hour"]))
    assert scraped.value("costguard_vms_unpriced") == totals["unpriced"] == 1
    assert scraped.value("costguard_vms") == 3
    assert scraped.value("costguard_vms", preset="other", status="stopped", provisioning_model="standard") == 1
    month = {"from": "2026-11-01", "to": "2026-11-20", "group_by": "day"}
    days = client.get("/api/v1/spend", params=month).json()
    amounts = {row["group"]["day"]: Decimal(row["total"]) for row in days["rows"]}
    assert scraped.value("costguard_spend_month_dollars") == pytest.approx(float(sum(amounts.values())))
    assert scraped.value("costguard_spend_today_dollars") == pytest.approx(float(amounts["2026-11-20"]))
    [budget] = client.get("/api/v1/budgets").json()["budgets"]
    assert scraped.value("costguard_budget_spent_dollars", budget="all") == pytest.approx(float(budget["spent"]))
    assert scraped.value("costguard_budget_limit_dollars", budget="all", period="month") == 5000
    assert scraped.value("costguard_budget_spent_ratio") == scraped.value("costguard_budget_spent_dollars") / 5000


@pytest.mark.parametrize("days_watched", [2, 10])
def test_a_forecast_has_a_metric_once_it_can_be_said(sqlite_database: Database, days_watched: int) -> None:
    """No alert fires on a figure that pages do not show: it is absent while it is too early to say."""
    deps = full(sqlite_database)
    with sqlite_database.write() as connection:
        connection.execute(update(tables.projects).values(first_seen_at=NOW - timedelta(days=days_watched)))
    client = TestClient(create_app(deps))
    [budget] = client.get("/api/v1/budgets").json()["budgets"]
    assert budget["forecast"]["is_grounded"] == (days_watched == 10)
    assert ("costguard_budget_forecast_dollars{" in scrape(client).text) == (days_watched == 10)


def test_what_happened_is_counted(client: TestClient) -> None:
    """Looks, jobs, stops, interruptions and how soon they were over, messages and webhooks."""
    scraped = scrape(client)
    assert scraped.value("costguard_unread_scopes", project="lab") == 1
    assert scraped.value("costguard_last_complete_look_timestamp_seconds", project="lab") == NOW.timestamp()
    assert scraped.value("costguard_jobs", state="running") == 1
    assert scraped.value("costguard_jobs") == 1
    assert scraped.value("costguard_stops_total") == 1
    assert scraped.value("costguard_interruptions_total", outcome="preempted") == 3
    assert scraped.value("costguard_recoveries_total", outcome="preempted") == 2
    assert scraped.value("costguard_work_lost_dollars_total") == 1
    assert scraped.value("costguard_work_lost_seconds_total") == 360
    spans = [
        scraped.value("costguard_recovery_duration_seconds_bucket", le=le) for le in ("60.0", "120.0", "300.0", "+Inf")
    ]
    assert spans == [0, 1, 2, 2]
    assert scraped.value("costguard_recovery_duration_seconds_sum") == 360
    assert scraped.value("costguard_messages_waiting", kind="reminder") == 1
    assert scraped.value("costguard_messages_total", kind="reminder", outcome="accepted") == 1
    assert scraped.value("costguard_webhook_deliveries_total", webhook="pager", outcome="refused") == 1
    assert [
        scraped.value("costguard_sign_ins_total", via=method, outcome="refused") for method in ("oidc", "link")
    ] == [1, 0]
    assert (scraped.value("costguard_webhook_waiting"), scraped.value("costguard_webhook_lag_seconds")) == (3, 3600)
    assert [
        scraped.value("costguard_listing_failures_total", project=project) for project in ("lab", "odd", "well")
    ] == [
        1,
        1,
        0,
    ]
    assert [
        scraped.value("costguard_pass_duration_seconds_count", outcome=outcome) for outcome in ("done", "failed")
    ] == [1, 1]
    assert scraped.value("costguard_build_info", version="1.2.3") == 1
    assert scraped.value("costguard_lease_held") == 1


def test_events_are_counted_as_they_are_recorded(client: TestClient, sqlite_database: Database) -> None:
    """The counters rise from the first scrape on, by any process; each kind is there from the beginning, so no rise is
    missed.
    """
    with sqlite_database.write() as connection:
        rows.event(connection, "before", NOW)
    counted = []
    for number in range(3):
        counted.append(scrape(client).value("costguard_events_total", kind="LifetimeStarted"))
        with sqlite_database.write() as connection:
            rows.event(connection, f"{number}", NOW)
            rows.event(connection, f"{number} again", NOW - HOUR)
    assert counted == [0, 2, 4]
    assert scrape(client).value("costguard_events_total", kind="JobFailed") == 0


def test_names_are_those_that_prometheus_expects(sqlite_database: Database) -> None:
    """Every family has a unit or a plain noun, says what it is, and counts in `_total`; nothing appears twice."""
    scraped = full_scrape(sqlite_database)
    for name, kind in scraped.types.items():
        assert re.fullmatch(r"(costguard|process)_[a-z_]+[a-z]", name), name
        assert re.search(rf"^# HELP {name}(_total)? [A-Z].*\.$", scraped.text, re.MULTILINE), name
        assert kind in ("counter", "gauge", "histogram"), name
    assert not [name for name, _ in scraped.values if name.endswith("_created")]


def test_nobody_who_uses_a_vm_can_make_series(sqlite_database: Database) -> None:
    """Names of VMs, owners, jobs and labels are in no label, however they are written."""
    scraped = full_scrape(sqlite_database)
    assert not any(word in scraped.text for word in ("owner", "x\\", "lab.example", "j7k2m9q4"))
    allowed = {
        "budget",
        "kind",
        "le",
        "method",
        "outcome",
        "period",
        "preset",
        "project",
        "provisioning_model",
        "route",
    }
    allowed |= {"rule", "state", "status", "tracker", "version", "via", "webhook"}
    allowed |= {"holder", "limit", "mode", "quantile", "resource", "why"}
    assert set().union(*scraped.labels.values()) == allowed


def test_a_token_for_it_opens_nothing_else(sqlite_database: Database) -> None:
    """The permission metrics is enough for /metrics and for no other route; to read is not enough for it."""
    for permission, expected in ((Permission.METRICS, (200, 403)), (Permission.READ, (403, 200))):
        authenticator = FixedAuthenticator(make_principal(permissions={permission}))
        client = TestClient(create_app(replace(deps_of(sqlite_database), authenticator=authenticator)))
        assert (client.get("/metrics").status_code, client.get("/api/v1/events").status_code) == expected


def test_requests_are_timed_by_their_route(client: TestClient) -> None:
    """The parameters of an address, and unknown routes, make no series of their own; neither do words for a method."""
    for path in ("/api/v1/jobs/a", "/api/v1/jobs/b", "/x/1", "/x/2", "/static/x"):
        client.get(path)
    client.request("BREW", "/api/v1/events")
    scraped = scrape(client)
    count = "costguard_http_request_duration_seconds_count"
    assert scraped.value(count, route="/api/v1/jobs/{job_id}", method="GET", status="4xx") == 2
    assert scraped.value(count, route="none", method="GET", status="4xx") == 2
    assert scraped.value(count, route="/static") == 1
    assert scraped.value(count, method="other") == 1
    assert scrape(client).value(count, route="/metrics", status="2xx") == 1


def test_streams_and_mistakes_are_timed_too() -> None:
    """A stream counts once it has begun, and what breaks without an answer counts as a 5xx."""
    answers: list[tuple[int, float]] = []
    seconds = 0.0

    class Meter:
        def answered(self, route: str, method: str, status: int, seconds: float) -> None:
            answers.append((status, seconds))

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal seconds
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        seconds += 2
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        seconds += 3600

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("a mistake")

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": "/"}
    run(TimingMiddleware(stream, Meter(), lambda: seconds)(scope, receive, send))
    with pytest.raises(KeyError):
        run(TimingMiddleware(broken, Meter(), lambda: seconds)(scope, receive, send))
    assert answers == [(200, 2), (500, 0)]


def test_prometheus_may_ask_for_its_newer_format(client: TestClient) -> None:
    """OpenMetrics where it is asked for, and plain text otherwise; no cache keeps either."""
    plain = client.get("/metrics")
    newer = client.get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert newer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert newer.text.endswith("# EOF\n")
    assert plain.headers["cache-control"] == newer.headers["cache-control"] == "no-store"


def test_five_hundred_projects_have_few_series_and_the_same_sums(sqlite_database: Database) -> None:
    """The dearest hundred are named, and of looks those with troubles; all others are one, called other."""
    names = [f"fleet-{number:03}" for number in range(500)]
    with sqlite_database.write() as connection:
        rows.prices(connection)
        for number, name in enumerate(names):
            refused = {"scope": "project", "code": "forbidden", "reason": "No."}
            late = NOW - timedelta(hours=1) if number == 60 else NOW
            rows.project(connection, name, [refused] if number < 50 else [], last_complete_at=late)
            rows.day(connection, NOW.date() - timedelta(days=1), project=name, gpu_nanos=(number + 1) * 10**9)
    scraped = scrape(TestClient(create_app(deps_of(sqlite_database))))
    dearest = scraped.projects("costguard_spend_month_dollars")
    assert dearest == {*names[400:], "other"}
    assert scraped.value("costguard_spend_month_dollars") == pytest.approx(sum(range(1, 501)))
    assert scraped.value("costguard_spend_month_dollars", project="other") == pytest.approx(sum(range(1, 401)))
    looks = scraped.projects("costguard_project_unread")
    assert looks == {*names[:50], names[60], "other"}
    assert scraped.value("costguard_project_unread") == 50
    assert scraped.value("costguard_project_unread", project="other") == 0
    when = "costguard_last_complete_look_timestamp_seconds"
    assert scraped.value(when, project=names[60]) == (NOW - timedelta(hours=1)).timestamp()
    assert scraped.value(when, project="other") == NOW.timestamp()
