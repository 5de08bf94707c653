"""Google and Slack refuse everything for five minutes, just when a reminder or a stop is due."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.scenario.slack_story import HOUR, MINUTE, Story, shown, story
from tests.scenario.test_slack_story_notifications import STOPPING

from costguard_sandbox.gce.vm import Status

SECOND = timedelta(seconds=1)
GOOGLE = [("server_error", {"code": 500}), ("too_many_requests", {"seconds": 30})]
SLACK = [("down", {}), ("rate_limited", {"seconds": 90}), ("error", {"code": "internal_error"})]


def in_trouble(team: Story, google: tuple[str, dict[str, int]] | None, slack: tuple[str, dict[str, object]]) -> None:
    """Makes trouble for five minutes, with a pass each."""
    if google is not None:
        team.world.faults.add(google[0], **google[1])
    team.world.slack.faults.add(slack[0], **slack[1])
    team.later(5 * MINUTE, every=MINUTE)
    team.world.faults.clear()
    team.world.slack.faults.clear()


@pytest.mark.parametrize("google", GOOGLE, ids=lambda one: one[0])
@pytest.mark.parametrize("slack", SLACK, ids=lambda one: one[0])
def test_a_reminder_that_falls_due_meanwhile_is_sent_once(
    sqlite_url: str, google: tuple[str, dict[str, int]], slack: tuple[str, dict[str, object]]
) -> None:
    """The VM stays one run, the project is shown as not read, and the message goes out when both are back."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(7 * HOUR + 57 * MINUTE, every=HOUR)
        in_trouble(team, google, slack)
        assert team.sent() == []
        assert team.events("LifetimeEnded") == []
        failed = [text.partition(" of ")[0] for text in team.events("ReadingFailed")]
        assert sorted(failed) == ["Listing instances", "Listing operations"]
        team.later(5 * MINUTE, every=MINUTE)
        assert "is still running" in shown(team.only())
        assert len(team.events("LifetimeStarted")) == 1


@pytest.mark.parametrize("google", GOOGLE, ids=lambda one: one[0])
def test_a_stop_that_falls_due_meanwhile_is_carried_out_once(
    sqlite_url: str, google: tuple[str, dict[str, int]]
) -> None:
    """Nothing is asked of Google on what was seen before the trouble; afterwards one stop is."""
    with story(sqlite_url, presets={"t4": STOPPING}) as team:
        team.vm()
        team.later(8 * HOUR, every=HOUR)
        team.later(58 * MINUTE, every=10 * MINUTE)
        assert len(team.sent()) == 1
        in_trouble(team, google, ("rate_limited", {"seconds": 30}))
        assert team.status() is Status.RUNNING
        team.later(15 * MINUTE, every=MINUTE)
        assert team.status() is Status.TERMINATED
        stops = [one for one in team.world.operations.of("acme-training") if one.kind == "stop"]
        assert len(stops) == 1


def test_slack_is_not_asked_before_its_retry_after(sqlite_url: str) -> None:
    """A 429 that says 90 seconds is believed: one call meets it, and the message comes after it, once."""
    with story(sqlite_url) as team:
        team.vm()
        team.later(7 * HOUR + 59 * MINUTE, every=HOUR)
        team.world.slack.faults.add("rate_limited", seconds=90, count=1)
        team.later(2 * MINUTE)
        team.later(80 * SECOND, every=20 * SECOND)
        assert team.sent() == []
        team.later(30 * SECOND)
        assert len(team.sent()) == 1
