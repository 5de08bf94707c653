"""The scopes that the manifest asks for are enough, and none of them is too many."""

from __future__ import annotations

import pytest
from tests.slack.conftest import START
from tests.slack.samples import EPHEMERAL, TEST

from costguard.errors import SlackRefused
from costguard.slack.client import SCOPES, SlackNotifier
from costguard_sandbox.slack.access import BOT_TOKEN
from costguard_sandbox.slack.workspace import Workspace

CALLED = [scope for scope in SCOPES if scope != "commands"]  # commands are Slack's call, not ours


@pytest.fixture
def fewest(slack: Workspace) -> Workspace:
    slack.tokens.remove_scopes(*slack.tokens.scopes(BOT_TOKEN))
    slack.tokens.add_scopes(*SCOPES)
    slack.add_channel("leads", private=True)
    return slack


def use_everything(endpoint: str, slack: Workspace) -> None:
    """Every method, in a public and a private channel and in direct messages, as after a restart."""
    ana = slack.user("ana").id
    notifier = SlackNotifier(BOT_TOKEN, endpoint)
    for channel in ("#gpu-costs", "#leads", notifier.open_direct(ana)):
        posted = notifier.post(channel, TEST, channel)
        notifier.update(posted, TEST, channel)
        notifier.post_ephemeral(channel, ana, EPHEMERAL)
        assert SlackNotifier(BOT_TOKEN, endpoint).find(channel, channel, START) == posted
    assert notifier.person_of("ana@example.com") == notifier.person_by_id(ana)


def test_they_are_enough(endpoint: str, fewest: Workspace) -> None:
    """The product works with these scopes alone."""
    use_everything(endpoint, fewest)


@pytest.mark.parametrize("scope", CALLED)
def test_none_is_too_many(scope: str, endpoint: str, fewest: Workspace) -> None:
    """The error names the scope when any one of them is missing."""
    fewest.tokens.remove_scopes(scope)
    with pytest.raises(SlackRefused, match=f"lacks {scope}\\."):
        use_everything(endpoint, fewest)
