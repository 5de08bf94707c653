"""GET /api/v1/commitments, and what the command and the page make of it."""

from __future__ import annotations

import io
from datetime import timedelta
from decimal import Decimal

import pytest
from fastapi.testclient import TestClient
from rich.console import Console
from sqlalchemy import update
from tests.api import rows
from tests.api.rows import NOW
from tests.bill.exports import NOON, row
from tests.bill.test_commit_hours import close, forget_hours, read
from tests.bill.test_commitments import hour_rows
from tests.pages.conftest import pages
from tests.pages.html import Page

from costguard.api.deps import Deps
from costguard.cli.commitments import show_commitments
from costguard.db import tables
from costguard.db.transaction import Database

DAY = timedelta(days=1)
RATES = {**rows.RATES, ("commitment-1y:gpu:nvidia-tesla-t4", "standard", "h"): 220_000_000}


@pytest.fixture
def fleet(database: Database) -> None:
    """Ten VMs with a T4 each, always on; H100s without a price of a commitment."""
    with database.write() as connection:
        rows.prices(connection, RATES)
        rows.project(connection)
        connection.execute(update(tables.projects).values(first_seen_at=NOW - 200 * DAY))
        for number in range(10):
            rows.lifetime(connection, rows.instance(connection, f"vm{number}"), NOW - 100 * DAY)
        rows.lifetime(connection, rows.instance(connection, "big", **rows.H100), NOW - 100 * DAY, **rows.H100)


@pytest.mark.usefixtures("fleet")
def test_each_commitment_has_its_level_its_saving_and_its_risk(client: TestClient) -> None:
    """Ten T4s at 0.35 for 0.22 an hour; hosts of 0.18 an hour, 28 and 46 % off."""
    answer = client.get("/api/v1/commitments?days=60").json()
    assert (answer["hours"], answer["too_short"]) == (60 * 24, "")
    first, second, third = answer["advice"]
    assert (first["what"], first["level"], first["fee"]) == ("T4 GPU", "10", "2.20")
    assert first["saved"] == "949.00"  # ten times 0.13 x 730
    assert first["after_fall_text"] == "If use falls by 20 %, it still saves $438.00 a month."
    assert (second["what"], second["years"], second["level_text"]) == ("flexible, N1", 3, "$1.80/h")
    assert second["saved"] == "604.44"  # 1.80 x 0.46 x 730
    assert (third["years"], third["discount"], third["saved"]) == (1, "0.28", "367.92")
    assert "H100 80GB GPU in us-central1" in [one["what"] for one in answer["uncovered"]]
    assert answer["unsure"] == ["N1"]
    assert answer["bought"] == {"day": None, "flexible": "0.00", "unnamed": []}


@pytest.mark.usefixtures("fleet")
def test_the_command_and_the_page_say_the_same(client: TestClient, deps: Deps) -> None:
    """The first one's saving and risk in a sentence, and what nothing is said of."""
    console = Console(file=io.StringIO(), width=140)
    show_commitments(console, client.get("/api/v1/commitments").json())
    assert isinstance(console.file, io.StringIO)
    printed = " ".join(console.file.getvalue().split())
    shown = Page(pages(deps).get("/bill").text)
    assert shown.mistakes == []
    for text in (printed, shown.text):
        assert "If use falls by 20 %, it still saves $438.00 a month." in text
        assert "flexible, N1" in text
        assert "$949.00" in text
        assert "H100 80GB GPU in us-central1" in text
        assert "ublic texts disagree whether flexible commitments cover N1" in text


def test_before_a_month_is_known_nothing_is_advised(client: TestClient) -> None:
    """The reason says how many days there are."""
    answer = client.get("/api/v1/commitments").json()
    assert answer["advice"] == []
    assert "0 full days" in answer["too_short"]
    assert client.get("/api/v1/commitments?days=7").status_code == 422


@pytest.fixture
def billed(database: Database) -> None:
    """A day: $80 of use in twelve of its hours, of which a commitment covers 40; and T4s, whose credits cover half."""
    hours = [Decimal(0 if number < 12 else 80) for number in range(24)]
    rows = [one for number, use in enumerate(hours) for one in hour_rows(number, use, is_new=True)]
    t4 = {"id": "T4", "description": "Nvidia Tesla T4 GPU running in Americas"}
    credit = {"type": "COMMITTED_USAGE_DISCOUNT", "name": "c", "id": "c", "amount": "-3"}
    read(database, [*rows, row(9, NOON, sku=t4, cost="6", credits=[credit])])
    close(database)


@pytest.mark.usefixtures("fleet", "billed")
def test_what_is_committed_is_shown_by_the_hour(client: TestClient) -> None:
    """Half of the fee is lost in the twelve idle hours, which no sum of the day shows."""
    cover = client.get("/api/v1/commitments?days=60").json()["cover"]
    assert cover["total"] == {
        "eligible": "966.00",
        "covered": "483.00",
        "share": "0.5",
        "saved": "137.40",  # 12 x 40 x 0.28, and the credit
        "fee": "691.20",
        "offset": "345.60",
        "wasted": "345.60",
        "net": "-208.20",
    }
    assert [one["use"]["wasted"] for one in cover["by_hour_of_day"]] == ["0.00"] * 12 + ["28.80"] * 12
    assert [(one["kind"], one["family"], one["use"]["share"]) for one in cover["places"]] == [
        ("host", "e2", "0.5"),
        ("gpu", "n1", "0.5"),
    ]
    assert [one["name"] for one in cover["fees"]] == ["Compute Flexible CUDs fee - 1 Year"]
    hours = client.get("/api/v1/commitments/hours?days=10").json()["hours"]
    shares = {one["hour"]: one["use"]["share"] for one in hours}
    assert (shares["2026-11-10T12:00:00Z"], shares["2026-11-11T00:00:00Z"]) == ("0.5", "0.5")
    assert shares["2026-11-10T13:00:00Z"] is None


@pytest.mark.usefixtures("fleet", "billed")
def test_advice_says_what_is_covered_already(client: TestClient) -> None:
    """Half of the T4s in the region are; the bill has no use of N1 hosts, so that nothing is known of them."""
    first, second, *_ = client.get("/api/v1/commitments?days=60").json()["advice"]
    assert (first["what"], first["covered"]) == ("T4 GPU", "0.5")
    assert (second["what"], second["covered"]) == ("flexible, N1", None)


@pytest.mark.usefixtures("fleet", "billed")
def test_the_command_and_the_page_show_what_is_covered(client: TestClient, deps: Deps, database: Database) -> None:
    """Both name the days that were read before hours were kept."""
    console = Console(file=io.StringIO(), width=140)
    show_commitments(console, client.get("/api/v1/commitments").json())
    assert isinstance(console.file, io.StringIO)
    printed = " ".join(console.file.getvalue().split())
    shown = Page(pages(deps).get("/bill").text)
    assert shown.mistakes == []
    for text in (printed, shown.text):
        assert "$345.60" in text
        assert "E2 vCPUs and memory" in text
        assert "50%" in text
        assert "12:00" in text
    forget_hours(database)
    console = Console(file=io.StringIO(), width=140)
    show_commitments(console, client.get("/api/v1/commitments").json())
    assert isinstance(console.file, io.StringIO)
    assert "NOT WHOLE: the bill of 2 days from 2026-11-10 to 2026-11-11" in " ".join(console.file.getvalue().split())
    assert "read before its hours were kept" in Page(pages(deps).get("/bill").text).text
