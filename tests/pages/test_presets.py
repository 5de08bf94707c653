"""The page Presets shows every preset."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient
from tests.api import rows
from tests.api.rows import NOW
from tests.pages.html import page_of, tidy

from costguard.access.rules import Rules, by_name
from costguard.db.transaction import Database
from costguard.model.launch import Recipe
from costguard.model.preset import Match, Preset
from costguard.model.reminder import Enforcement, ReminderRule
from costguard.model.utilisation import IdleRule

HOUR = timedelta(hours=1)
PRESETS = (
    Preset(
        "t4",
        Match({"team": "vision"}, frozenset({"nvidia-tesla-t4"}), 1, 1),
        8 * HOUR,
        "One T4, for debugging",
        IdleRule(500, 500, HOUR),
        ReminderRule(enforcement=Enforcement.STOP),
        Recipe("n1-standard-8", tuple(f"us-central1-{zone}" for zone in "abcdef"), "projects/p/i", 8 * HOUR),
        may_override=("zones", "disk_gib"),
    ),
    Preset("other", Match(), None),
)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)  # what is read from the store is tested there on both
def test_each_preset_says_how_it_is_recognised_launched_and_ended(
    database: Database, client_with: Callable[..., TestClient]
) -> None:
    """The page has their VMs, what they cost, and the month; a preset that the settings lost is still shown."""
    with database.write() as connection:
        rows.prices(connection)
        one = rows.instance(connection, "one", provisioning_model="spot")
        rows.lifetime(connection, one, NOW, provisioning_model="spot")
        rows.instance(connection, "two", status="stopped")
        rows.instance(connection, "three", preset="lost", status="stopped")
        rows.day(connection, (NOW - timedelta(days=1)).date(), gpu_nanos=3 * 10**9)
    page = page_of(client_with(rules=Rules(by_name(PRESETS))), "/presets")
    text = tidy(page.text)
    assert "t4Launch a t4 One T4, for debugging Running 1 1 Spot and 1 not running Cost now $0.165 an hour" in text
    assert "November so far $3.00" in text
    assert "Matches 1 GPU of type T4 with the label team=vision" in text
    assert "Limit 8 h, then a reminder every 4 h" in text
    assert "Unanswered stopped 1 h after reminder 3" in text
    assert "Idle under 5% of every GPU's multiprocessors for 1 h; where DCGM does not measure them, every GPU" in text
    assert "Launched as n1-standard-8, Spot, 100 GiB pd-balanced, for at most 8 h" in text
    assert "2 more, in this order" in text
    assert "Can be overridden zones, disk gib" in text
    assert "other Running 0" in text
    assert "Matches VMs that match no other preset" in text
    assert "lost No longer in the settings" in text
    assert "/launch?preset=t4" in page.addresses
