"""GET /api/v1/commitments, and what the command and the page make of it."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from rich.console import Console
from sqlalchemy import update
from tests.api import rows
from tests.api.rows import NOW
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


def test_before_a_month_is_known_nothing_is_advised(client: TestClient) -> None:
    """The reason says how many days there are."""
    answer = client.get("/api/v1/commitments").json()
    assert answer["advice"] == []
    assert "0 full days" in answer["too_short"]
    assert client.get("/api/v1/commitments?days=7").status_code == 422
