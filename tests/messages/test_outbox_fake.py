"""The Slack in memory behaves as the real one does where the outbox depends on it."""

from __future__ import annotations

import pytest
from tests.api.rows import NOW
from tests.fakes import FakeNotifier, HandClock

from costguard.errors import ChannelRefused, SlackError, SlackLimited, SlackRefused, SlackUnavailable, SlackUncertain
from costguard.model.delivery.message import EphemeralContent, Posted

TEXT = EphemeralContent("text")


def test_a_lost_answer_leaves_a_message_that_can_be_found() -> None:
    """The message is found by its key, in its channel, by name or id; not in a thread that it is not in."""
    slack = FakeNotifier(HandClock(NOW))
    slack.lose_answers = 1
    with pytest.raises(SlackUncertain):
        slack.post("#ops", TEXT, "a")
    result = slack.find("#ops", "a", NOW)
    assert result == slack.find("C-ops", "a", NOW)
    assert result is not None
    assert slack.find("#ops", "a", NOW, result.ts + "1") is None
    slack.update(result, TEXT, "a")
    with pytest.raises(SlackError):
        slack.update(Posted("C-ops", "9.9"), TEXT, "a")


def test_what_is_refused_is_not_done() -> None:
    """Down, revoked, closed or limited: nothing stands there afterwards."""
    slack = FakeNotifier(HandClock(NOW))
    slack.closed.add("#closed")
    slack.limited["C-busy"] = NOW.replace(hour=13)
    with pytest.raises(ChannelRefused):
        slack.post("#closed", TEXT, "a")
    with pytest.raises(SlackLimited):
        slack.post("#busy", TEXT, "a")
    slack.revoked = True
    with pytest.raises(SlackRefused):
        slack.post("#ops", TEXT, "a")
    slack.down = True
    with pytest.raises(SlackUnavailable):
        slack.post_ephemeral("#ops", "U1", TEXT)
    assert (slack.posts, slack.ephemerals) == ([], [])
