"""The check-up says what is missing, and what to do about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest

from costguard.doctor.finding import CheckState, Finding
from costguard.slack.checkup import Setup, check_up
from costguard.slack.client import SCOPES
from costguard.slack.web_api import WebApi
from costguard_sandbox.slack.access import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET
from costguard_sandbox.slack.workspace import Workspace


@pytest.fixture
def setup(endpoint: str) -> Setup:
    return Setup(BOT_TOKEN, endpoint, ("#gpu-costs", "#ml-team"), "ana@example.com", SIGNING_SECRET)


@pytest.fixture
def now(endpoint: str) -> datetime:
    """The moment that the workspace's answers bear."""
    return parsedate_to_datetime(WebApi(BOT_TOKEN, endpoint).answer("auth.test")[1]["date"]).astimezone(UTC)


def missing(findings: list[Finding]) -> list[Finding]:
    """Picks what is needed; that no message was tried is unknown."""
    return [finding for finding in findings if not finding.is_ok and finding.name != "message"]


def test_all_is_well(setup: Setup, now: datetime, slack: Workspace) -> None:
    """Where nothing is missing every finding is good, and nothing was written anywhere."""
    findings = check_up(setup, now)
    assert missing(findings) == []
    assert len(findings) == 8
    assert slack.record == []


def test_the_fewest_scopes_suffice(setup: Setup, now: datetime, slack: Workspace) -> None:
    """The scopes of the manifest and no other give no problem, and nothing is said of more."""
    slack.tokens.remove_scopes(*slack.tokens.scopes(BOT_TOKEN))
    slack.tokens.add_scopes(*SCOPES)
    findings = check_up(setup, now, post_to="#gpu-costs")
    assert missing(findings) == []
    assert not any("more than it needs" in finding.sentence for finding in findings)


@pytest.mark.parametrize("scope", SCOPES)
def test_each_missing_scope_is_named(scope: str, setup: Setup, now: datetime, slack: Workspace) -> None:
    """A scope that is not held is named, with what it is for and where to add it."""
    slack.tokens.remove_scopes(scope)
    (finding,) = missing(check_up(setup, now))
    assert scope in finding.sentence
    assert SCOPES[scope] in finding.sentence
    assert "OAuth & Permissions" in finding.command


def test_a_bad_token_ends_it(setup: Setup, now: datetime, slack: Workspace) -> None:
    """The rest cannot be found out with a token that is no good."""
    slack.tokens.invalidate("token_revoked")
    (finding,) = check_up(setup, now)
    assert finding.state is CheckState.NEEDS
    assert "new bot token" in finding.command


def test_no_connection_ends_it(now: datetime) -> None:
    """A missing server is reported as such."""
    (finding,) = check_up(Setup(BOT_TOKEN, "http://127.0.0.1:1/api/"), now)
    assert finding.state is CheckState.UNKNOWN
    assert "no connection" in finding.sentence


def test_a_token_of_another_kind(endpoint: str, now: datetime) -> None:
    """The app-level token in place of the bot token is recognised."""
    findings = check_up(Setup(APP_TOKEN, endpoint), now)
    assert findings[0].state is CheckState.NEEDS
    assert findings[0].sentence == "The Slack token is not an app's bot token."
    assert findings[0].command == "Use the one that begins with xoxb-."


def test_channels(endpoint: str, now: datetime, slack: Workspace) -> None:
    """Each unusable channel is reported with its own remedy, and the others are fine."""
    slack.add_channel("alone", with_app=False)
    slack.add_channel("old")
    slack.archive("old")
    ids = [slack.channel(name).id for name in ("alone", "old")]
    findings = check_up(Setup(BOT_TOKEN, endpoint, ("#gpu-costs", "#never", *ids), "", SIGNING_SECRET), now)
    reported = [(finding.sentence, finding.command) for finding in missing(findings)]
    assert reported == [
        (
            "There is no channel #never that the app can see.",
            "Check its name in the settings. If it is private, invite the app there: /invite @costguard",
        ),
        (f"The app is not in {ids[0]}.", "Invite the app in that channel: /invite @costguard"),
        (f"{ids[1]} is archived.", "Unarchive it, or name another channel in the settings."),
    ]


def test_somebody_unknown(endpoint: str, now: datetime) -> None:
    """An address unknown to Slack is reported, with what happens to such owners."""
    (finding,) = missing(check_up(Setup(BOT_TOKEN, endpoint, (), "zoe@example.com", SIGNING_SECRET), now))
    assert finding.sentence == "No one in the Slack workspace has the address zoe@example.com."
    assert "reminded in the channel" in finding.command


def test_the_way_back(endpoint: str, now: datetime) -> None:
    """Presses come in over a socket with a good app-level token, as signed requests with a secret, else not at all."""
    assert missing(check_up(Setup(BOT_TOKEN, endpoint, app_token=APP_TOKEN), now)) == []
    assert missing(check_up(Setup(BOT_TOKEN, endpoint, signing_secret=SIGNING_SECRET), now)) == []
    (neither,) = missing(check_up(Setup(BOT_TOKEN, endpoint), now))
    assert "signing secret" in neither.command
    (wrong,) = missing(check_up(Setup(BOT_TOKEN, endpoint, app_token=BOT_TOKEN), now))
    assert "xapp-" in wrong.command


@pytest.mark.parametrize(("skew", "words"), [(400, "400 s ahead of"), (-400, "400 s behind")])
def test_a_clock_that_is_wrong(skew: int, words: str, setup: Setup, now: datetime) -> None:
    """A wrong clock would refuse every click: the report says by how much."""
    (finding,) = missing(check_up(setup, now + timedelta(seconds=skew)))
    # The server's second may turn between the question and the answer.
    assert words in finding.sentence or words.replace("400", "399") in finding.sentence or "401" in finding.sentence


def test_a_test_message_when_asked_for(setup: Setup, now: datetime, slack: Workspace) -> None:
    """The message is written once, where it was requested, and not otherwise."""
    findings = check_up(setup, now, post_to="#ml-team")
    assert findings[-1].is_ok
    assert findings[-1].sentence == "A test message was sent to #ml-team, and edited."
    assert {message.channel for message, _ in slack.record} == {slack.channel("ml-team").id}
    assert len(slack.messages("ml-team")[0].versions) == 2
    (finding,) = [one for one in check_up(setup, now, post_to="#never") if not one.is_ok]
    assert "#never" in finding.sentence
