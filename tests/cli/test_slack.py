"""`costguard slack test`, as a person types it, against a simulated workspace."""

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
def slack_test(typist: Typist) -> Run:
    """`costguard slack test --config PATH ARGUMENTS`."""
    secrets = {"COSTGUARD_SLACK_TOKEN": BOT_TOKEN, "COSTGUARD_SLACK_SIGNING_SECRET": SIGNING_SECRET}

    def slack_test(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return typist.type(["slack", "test", "--config", str(path), *arguments], {**os.environ, **secrets})

    return slack_test


def test_all_is_well(settings: Path, world: World, slack_test: Run) -> None:
    """Where nothing is missing every line says so, the exit code is 0, and nothing was written."""
    done = slack_test(settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT" not in done.stdout
    assert "#gpu-costs" in done.stdout
    assert world.slack.messages("gpu-costs") == []


def test_a_message_on_request(settings: Path, world: World, slack_test: Run) -> None:
    """People see one message, and only where it was asked for."""
    assert slack_test(settings, "--message").returncode == 0
    (message,) = world.slack.messages("gpu-costs")
    assert "Costguard is connected" in message.versions[-1].text


def test_what_is_missing(settings: Path, world: World, slack_test: Run) -> None:
    """An archived channel is named, with what to do, and the exit code is 1; as JSON too."""
    world.slack.archive("gpu-costs")
    done = slack_test(settings, "--json")
    assert done.returncode == 1
    wrong = [finding for finding in json.loads(done.stdout)["findings"] if not finding["ok"]]
    assert len(wrong) == 1
    assert "#gpu-costs" in wrong[0]["finding"]
    assert wrong[0]["next"]


def test_without_slack_in_the_settings(tmp_path: Path, slack_test: Run) -> None:
    """It says what to write into the settings file."""
    path = tmp_path / "costguard.toml"
    path.write_text('[watch]\nprojects = ["acme-training"]\n')
    done = slack_test(path)
    assert done.returncode == 1
    assert "[slack]" in done.stderr


def test_samples_go_to_a_person_whom_slack_knows(settings: Path, world: World, slack_test: Run) -> None:
    """An unknown address is named, and nothing was written; without any address the command says how to give one."""
    done = slack_test(settings, "--send", "--as", "nobody@example.com")
    assert done.returncode == 1
    assert "NOT  No one in the Slack workspace has the address nobody@example.com." in done.stdout
    settings.write_text(settings.read_text().replace('contact = "ana@example.com"', ""))
    done = slack_test(settings, "--send")
    assert (done.returncode, "--as" in done.stderr) == (2, True)
    assert world.slack.messages("gpu-costs", ephemeral=True) == []
