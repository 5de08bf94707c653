"""What the demo sets up: its settings, and the simulated workspace that it joins."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import costguard_sandbox
from costguard.cli import demo_cloud
from costguard.cli.demo_settings import demo_settings
from costguard.errors import SettingsError
from costguard.model.reminder import Enforcement
from costguard.settings import Settings
from costguard.slack.client import SlackNotifier
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

NOW = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
SECRETS = {"COSTGUARD_SLACK_TOKEN": "xoxb-1", "COSTGUARD_SLACK_SIGNING_SECRET": "5" * 32}
SCENARIO = Path(costguard_sandbox.__file__).with_name("scenarios") / "demo.toml"


@pytest.fixture
def world() -> World:
    return World(ManualClock(NOW), projects=["acme-training", "acme-research"])


@pytest.fixture
def cloud(world: World) -> Iterator[str]:
    with running(world) as url:
        yield url


def settings(*projects: str, listen: str = "127.0.0.1:8765", **environ: str) -> Settings:
    given = demo_settings(listen, "http://127.0.0.1:9", Path("/tmp"), [*projects], NOW, {**SECRETS, **environ})
    assert given.slack is not None
    return given


def test_the_demo_tells_a_whole_story_in_its_settings() -> None:
    """Nobody's night keeps reminders back, the forgotten T4 is stopped in earnest, others are only asked about."""
    given = settings("acme-training", "acme-research")
    presets = {preset.name: preset.reminders for preset in given.preset_list()}
    assert presets["t4"].enforcement is Enforcement.STOP
    assert {presets[name].enforcement for name in presets if name != "t4"} == {Enforcement.REMIND}
    assert not given.enforcement.shadow
    assert given.reminders.quiet.starts == given.reminders.quiet.ends
    assert given.reminders.quiet.days == frozenset()
    daily = given.reminders.digests.daily
    assert daily is not None
    assert (daily.hour, daily.minute) == (1, 10)  # over midnight too


def test_the_demo_takes_any_scenario() -> None:
    """Budgets and teams name only projects that are watched, and links only addresses that are known."""
    assert settings("other-project", listen="127.0.0.1:0").slack is not None
    assert settings("acme-training").budget_list()[0].name == "training-today"


def test_what_is_wrong_is_told_of_the_option() -> None:
    """There is no settings file to mend."""
    with pytest.raises(SettingsError, match="--listen: others could reach"):
        settings("acme-training", listen="0.0.0.0:8765")


def test_the_demo_joins_the_simulated_workspace(cloud: str, world: World) -> None:
    """Its secrets open it, presses come to the guard, and whoever owns a VM of the scenario is somebody there."""
    secrets = demo_cloud.slack_secrets(cloud)
    demo_cloud.send_presses(cloud, "http://127.0.0.1:8765")
    assert world.slack.request_url == "http://127.0.0.1:8765/slack/interactions"
    assert secrets["COSTGUARD_SLACK_SIGNING_SECRET"] == world.slack.callbacks.signing_secret
    notifier = SlackNotifier(secrets["COSTGUARD_SLACK_TOKEN"], f"{cloud}/slack/api/")
    for owner in sorted(owners(tomllib.loads(SCENARIO.read_text()))):
        assert notifier.person_of(f"{owner}@example.com") is not None, owner
    assert notifier.channel_id("#gpu-costs")
    assert notifier.channel_id("#ml-team")


def owners(scenario: dict[str, Any]) -> set[str]:
    made = [event["instance"] for event in scenario["event"] if "instance" in event]
    return {vm["owner"] for vm in [*scenario["instance"], *made] if "owner" in vm}
