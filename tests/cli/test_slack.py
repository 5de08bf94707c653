"""The doctor's part of Slack, and `costguard slack samples`, as a person types them, against a simulated workspace."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.typed import Typist

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.server import running
from costguard_sandbox.slack.access import BOT_TOKEN, SIGNING_SECRET
from costguard_sandbox.world import World

SETTINGS = """
[watch]
projects = ["acme-training"]

[slack]
channel = "#gpu-costs"
endpoint = "{url}/slack/api/"

[reminders]
contact = "ana@example.com"

[access]
viewers = ["@example.com"]
"""


@pytest.fixture
def world() -> World:
    return World(ScaledClock())


@pytest.fixture
def settings(world: World, tmp_path: Path) -> Iterator[Path]:
    with running(world) as url:
        path = tmp_path / "costguard.toml"
        path.write_text(SETTINGS.format(url=url))
        yield path


@pytest.fixture
def typed(typist: Typist) -> Run:
    """`costguard ARGUMENTS --config PATH`."""
    secrets = {"COSTGUARD_SLACK_TOKEN": BOT_TOKEN, "COSTGUARD_SLACK_SIGNING_SECRET": SIGNING_SECRET}

    def typed(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return typist.type([*arguments, "--config", str(path)], {**os.environ, **secrets})

    return typed


def test_all_is_well(settings: Path, world: World, typed: Run) -> None:
    """Where nothing is missing no line says so, and nothing was written: that it can be is unknown, and exits 2."""
    done = typed(settings, "doctor", "--only", "slack")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "needs:" not in done.stdout
    assert "The app is in #gpu-costs." in done.stdout
    assert world.slack.messages("gpu-costs") == []


def test_a_message_on_request(settings: Path, world: World, typed: Run) -> None:
    """People see one message, edited, and only where it was asked for; then all is known, and exits 0."""
    done = typed(settings, "doctor", "--only", "slack", "--post")
    assert done.returncode == 0, done.stdout + done.stderr
    (message,) = world.slack.messages("gpu-costs")
    assert "Costguard is connected" in message.versions[-1].text
    assert len(message.versions) == 2


def test_what_is_missing(settings: Path, world: World, typed: Run) -> None:
    """An archived channel is named, with what to do, and the exit code is 1; as JSON too."""
    world.slack.archive("gpu-costs")
    done = typed(settings, "doctor", "--only", "slack", "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    (wrong,) = [finding for finding in answer["findings"] if finding["state"] == "needs"]
    assert (answer["state"], wrong["name"]) == ("needs", "channel #gpu-costs")
    assert wrong["command"]


def test_without_slack_in_the_settings(tmp_path: Path, typed: Run) -> None:
    """It says what to write into the settings file."""
    path = tmp_path / "costguard.toml"
    path.write_text('[watch]\nprojects = ["acme-training"]\n[reminders]\ncontact = "ana@example.com"\n')
    done = typed(path, "slack", "samples")
    assert done.returncode == 1
    assert "[slack]" in done.stderr


def test_samples_go_to_a_person_whom_slack_knows(settings: Path, world: World, typed: Run) -> None:
    """An unknown address is named, and nothing was written; without any address the command says how to give one."""
    done = typed(settings, "slack", "samples", "--as", "nobody@example.com")
    assert done.returncode == 1
    assert "needs:   No one in the Slack workspace has the address nobody@example.com." in done.stdout
    settings.write_text(settings.read_text().replace('contact = "ana@example.com"', ""))
    done = typed(settings, "slack", "samples")
    assert (done.returncode, "--as" in done.stderr) == (2, True)
    assert world.slack.messages("gpu-costs", ephemeral=True) == []
