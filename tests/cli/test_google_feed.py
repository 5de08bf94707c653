"""`costguard google-feed`: what it prints makes the feed, by Google's own rules, and nothing is run."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from typer.testing import CliRunner

from costguard.cli.app import app
from costguard.doctor.feed_setup import FILTER

ORGANIZATION = ("--organization", "123456789012", "--project", "acme-operations")
ACCOUNT = "costguard@acme-operations.iam.gserviceaccount.com"


def printed(*words: str) -> list[str]:
    done = CliRunner().invoke(app, ["google-feed", *words, "--account", ACCOUNT])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_the_commands_make_topic_subscription_sink_and_rights_in_this_order() -> None:
    """Each resource comes before what names it; the sink's own identity may publish once the sink is there."""
    lines = printed(*ORGANIZATION)
    made = [re.match(r"gcloud (\w+ ?\w* ?[\w-]*)", line) for line in lines]
    assert [match[1].strip() for match in made if match] == [
        "services enable pubsub",
        "pubsub topics create",
        "pubsub subscriptions create",
        "logging sinks create",
        "pubsub topics add-iam-policy-binding",
        "pubsub topics add-iam-policy-binding",
        "pubsub subscriptions add-iam-policy-binding",
        "pubsub subscriptions add-iam-policy-binding",
    ]
    assert "format='value(writerIdentity)')\"" in lines[4]
    assert "--role=roles/pubsub.publisher" in lines[4]
    assert sum(f"--member=serviceAccount:{ACCOUNT}" in line for line in lines) == 3


def test_the_sink_takes_the_projects_below_and_never_keeps_entries_from_them() -> None:
    """--include-children copies; --intercept-children would take entries away from the projects' own logs."""
    (sink,) = [line for line in printed(*ORGANIZATION) if "sinks create" in line]
    words = shlex.split(sink)
    assert "--include-children" in words
    assert "--organization=123456789012" in words
    assert "pubsub.googleapis.com/projects/acme-operations/topics/costguard-events" in words
    assert f"--log-filter={FILTER}" in words
    assert "intercept" not in sink
    assert "data_access" not in sink


def test_messages_are_kept_for_a_week_and_the_subscription_never_expires() -> None:
    """Unread messages stay 7 days; a subscription that nobody pulls for 31 days would be gone."""
    (line,) = [line for line in printed(*ORGANIZATION) if "subscriptions create" in line]
    assert {"--ack-deadline=60", "--message-retention-duration=7d", "--expiration-period=never"} <= set(line.split())


def test_programs_get_the_setting_with_the_commands() -> None:
    """`--json` says what [feed] subscription is to be."""
    lines = "\n".join(printed(*ORGANIZATION, "--json"))
    made = json.loads(lines)
    assert made["subscription"] == "projects/acme-operations/subscriptions/costguard-events"
    assert len(made["commands"]) == 8


@pytest.mark.parametrize("words", [("--project", "p"), (*ORGANIZATION, "--folder", "1")])
def test_either_an_organisation_or_a_folder_is_named(words: tuple[str, ...]) -> None:
    """Neither and both are refused, with what to give."""
    done = CliRunner().invoke(app, ["google-feed", *words, "--account", ACCOUNT])
    assert done.exit_code == 2
    assert "Give either --organization or --folder." in done.output


def test_a_folders_sink_is_made_in_the_folder() -> None:
    """A part of an organisation is watched by the sink of its folder."""
    (sink,) = [line for line in printed("--folder", "345", "--project", "p1") if "sinks create" in line]
    assert "--folder=345" in shlex.split(sink)
