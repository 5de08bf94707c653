"""A lifetime lasts equally long wherever it is shown."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from rich.console import Console
from tests.api.rows import NOW
from tests.builders import at, observation, operation, seen
from tests.fakes import FakeCloud
from tests.pages.html import Page, tidy

from costguard.cli.fleet import show_fleet
from costguard.cli.ledger import show_lifetimes
from costguard.db.transaction import Database
from costguard.ledger import lifetimes
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.pricing import billed_seconds
from costguard.ledger.record import record
from costguard.model.duration import elapsed, span_text
from costguard.model.instance import Status
from costguard.model.money import Priced
from costguard.reminders import stop_rows

VM = "/vm/acme-training/1000"
# 299.2 seconds between them, of which 300 are billed: the clock showed 10:00:00 and 10:05:00.
STARTED, STOPPED, STAMPED = "2026-11-20T10:00:00.900", "2026-11-20T10:05:00.100", "2026-11-20T10:05:49.500"


def _text(client: TestClient, address: str) -> str:
    return tidy(Page(client.get(address).text).text)


def _recorded(database: Database, is_over: bool) -> None:
    status, stamp = (Status.STOPPED, STAMPED) if is_over else (Status.RUNNING, None)
    listed = seen(status, started=STARTED, last_stopped_at=stamp, created_at="2026-11-20T09:59:00")
    stops = (operation("stop", STOPPED, STAMPED),) if is_over else ()
    look = observation(listed, read=NOW.isoformat()[:19], operations=stops)
    record(database, FakeCloud(), look, Belonging((), OwnerRules()), None)


def _printed(show: Any, *given: Any) -> str:
    console = Console(file=io.StringIO(), width=240)
    show(console, *given)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_lifetime_that_ended_shows_one_duration(database: Database, client: TestClient) -> None:
    """The duration in the API, on its page, in the event, in Slack and at the command line is the one that is
    billed.
    """
    _recorded(database, is_over=True)
    answer = client.get("/api/v1/lifetimes").json()
    (life,) = answer["lifetimes"]
    assert life["seconds"] == 300
    page = _text(client, VM)
    assert "20 Nov, 10:00 – 20 Nov, 10:05 5 min" in page
    assert "was stopped by ana@example.com after 5 min." in page
    row = next(line for line in _printed(show_lifetimes, answer, True).splitlines() if "stopped" in line)
    assert " 5 min " in row
    with database.read() as connection:
        vm = lifetimes.load(connection, "acme-training", ["1000"])["1000"]
    assert " after 5 min; " in stop_rows.done(vm, vm.lifetimes[0], Priced())


def test_lifetime_that_runs_shows_one_duration(database: Database, client: TestClient) -> None:
    """The duration is on its page, in the fleet, in the reason why it is left alone, and at the command line."""
    _recorded(database, is_over=False)
    ran = span_text(elapsed_since_start())
    (life,) = client.get("/api/v1/lifetimes").json()["lifetimes"]
    assert life["seconds"] == elapsed_since_start().total_seconds()
    assert f"now {ran}" in _text(client, VM)
    assert ran in _text(client, "/")
    fleet = client.get("/api/v1/instances").json()
    assert ran in _printed(show_fleet, fleet, False)


def elapsed_since_start() -> timedelta:
    return elapsed(at(STARTED), NOW)


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ("10:00:00.900", "10:00:59.100", 59),
        ("10:00:00.100", "10:00:59.900", 59),
        ("10:00:00", "10:00:00", 0),
        ("10:00:01", "10:00:00", 0),
    ],
)
def test_elapsed_time_is_the_billed_one(start: str, end: str, seconds: int) -> None:
    """Whole readings of the clock, and never less than nothing."""
    assert elapsed(at(start), at(end)).total_seconds() == seconds
    assert max(0, billed_seconds(at(start), at(end))) == seconds


def test_spans_are_written_by_their_two_largest_units() -> None:
    """Rounded down, in every place."""
    spans = (0, 40, 90, 300, 3 * 3600 + 720, 48 * 3600, 53 * 3600 + 59)
    assert [span_text(timedelta(seconds=span)) for span in spans] == [
        "0 s",
        "40 s",
        "1 min 30 s",
        "5 min",
        "3 h 12 min",
        "2 d",
        "2 d 5 h",
    ]
