"""Calls to Slack fail over real connections: whether a call may have been done is never guessed."""

from __future__ import annotations

import socket
from contextlib import suppress
from datetime import timedelta

import pytest
from tests.slack.conftest import START
from tests.slack.samples import EPHEMERAL, FIRST, TEST
from tests.slack.test_client import KEY
from tests.waiting import until

from costguard.errors import (
    ChannelRefused,
    SlackError,
    SlackLimited,
    SlackRefused,
    SlackUnavailable,
    SlackUncertain,
)
from costguard.slack.client import SlackNotifier
from costguard_sandbox.slack.access import BOT_TOKEN
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World


@pytest.mark.parametrize("kind", ["down", "broken", "lost_answer", "lost_answer_error"])
def test_a_post_without_an_answer_is_uncertain(kind: str, notifier: SlackNotifier, slack: Workspace) -> None:
    """It is asked once, and told as uncertain; find then tells whether the message stands there."""
    slack.faults.add(kind, method="chat.postMessage", count=1)
    with pytest.raises(SlackUncertain):
        notifier.post("#gpu-costs", FIRST, KEY)
    assert slack.calls["chat.postMessage"] == 1
    result = notifier.find("#gpu-costs", KEY, START)
    assert ([result.ts] if result else []) == [message.ts for message in slack.messages("gpu-costs")]
    assert (result is not None) == kind.startswith("lost_answer")


@pytest.mark.parametrize("what", ["html", "empty", "cut"])
@pytest.mark.parametrize("kind", ["garbage", "lost_answer_garbage"])
def test_a_200_that_is_not_slacks_is_uncertain(kind: str, what: str, notifier: SlackNotifier, slack: Workspace) -> None:
    """A proxy's page, `{}` and broken JSON tell nothing; find does."""
    slack.faults.add(kind, what=what, count=1)
    with pytest.raises(SlackUncertain):
        notifier.post("#gpu-costs", FIRST, KEY)
    assert (notifier.find("#gpu-costs", KEY, START) is not None) == kind.startswith("lost_answer")


@pytest.mark.parametrize("kind", ["timeout", "lost_answer_timeout"])
def test_a_post_that_takes_too_long_is_uncertain(kind: str, endpoint: str, slack: Workspace) -> None:
    """Slack may go on with what it was asked long after nobody listens any more."""
    slack.faults.add(kind, method="chat.postMessage", count=1, seconds=1.5)
    with pytest.raises(SlackUncertain):
        SlackNotifier(BOT_TOKEN, endpoint, timeout_seconds=1).post("#gpu-costs", FIRST, KEY)
    expected = 1 if kind.startswith("lost_answer") else 0
    until(lambda: len(slack.messages("gpu-costs")) == expected)


def test_updates_and_ephemeral_messages_are_uncertain_too(notifier: SlackNotifier, slack: Workspace) -> None:
    """A call that people would see done twice is never reported as certainly not done."""
    posted = notifier.post("#gpu-costs", FIRST, KEY)
    slack.faults.add("lost_answer", method="chat.update|chat.postEphemeral")
    with pytest.raises(SlackUncertain):
        notifier.update(posted, TEST, KEY)
    with pytest.raises(SlackUncertain):
        notifier.post_ephemeral(posted.channel, slack.user("ana").id, EPHEMERAL)


@pytest.mark.parametrize("kind", ["down", "broken", "lost_answer", "error"])
def test_questions_are_merely_unanswered(kind: str, notifier: SlackNotifier, slack: Workspace) -> None:
    """A call that changes nothing that people see can be repeated, whatever became of it."""
    ana = slack.user("ana").id
    slack.faults.add(kind)
    with pytest.raises(SlackUnavailable):
        notifier.find("C0ANY", KEY, START)
    with pytest.raises(SlackUnavailable):
        notifier.person_of("ana@example.com")
    with pytest.raises(SlackUnavailable):
        notifier.person_by_id(ana)
    with pytest.raises(SlackUnavailable):
        notifier.open_direct(ana)


def test_nobody_listens(notifier: SlackNotifier) -> None:
    """A connection that was refused is certain: nothing was done."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening: nobody else gets the port
        deaf = SlackNotifier(BOT_TOKEN, f"http://127.0.0.1:{taken.getsockname()[1]}/api/")
        with pytest.raises(SlackUnavailable, match="no connection"):
            deaf.post("#gpu-costs", FIRST, KEY)


def test_a_proxy_is_for_its_own_scheme(endpoint: str, slack: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK alone would send everything through HTTPS_PROXY, what is asked over plain HTTP and loopback too."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert SlackNotifier(BOT_TOKEN, endpoint).post("#gpu-costs", FIRST, KEY)


@pytest.mark.parametrize("code", ["internal_error", "fatal_error", "request_timeout", "service_unavailable"])
def test_slack_says_that_it_broke(code: str, notifier: SlackNotifier, slack: Workspace) -> None:
    """Slack's own errors may come after the message was written."""
    slack.faults.add("error", code=code)
    with pytest.raises(SlackUncertain) as caught:
        notifier.post("#gpu-costs", FIRST, KEY)
    assert caught.value.code == code


def test_too_fast(notifier: SlackNotifier, slack: Workspace) -> None:
    """The second message within a second is refused, with Slack's word on how long to wait, and not sent again."""
    notifier.post("#gpu-costs", FIRST, KEY)
    with pytest.raises(SlackLimited) as caught:
        notifier.post("#gpu-costs", FIRST, "next")
    assert caught.value.retry_after == 1
    slack.faults.add("rate_limited", seconds=37)
    with pytest.raises(SlackLimited) as caught:
        notifier.person_of("ana@example.com")
    assert caught.value.retry_after == 37
    slack.faults.clear()
    slack.faults.add("error", code="ratelimited")
    with pytest.raises(SlackLimited) as caught:
        notifier.open_direct("U0ANY")
    assert caught.value.retry_after > 1


@pytest.mark.parametrize("reason", ["token_revoked", "account_inactive", "token_expired", "invalid_auth", "not_authed"])
def test_a_token_that_is_no_longer_good(reason: str, notifier: SlackNotifier, slack: Workspace) -> None:
    """Nothing can be sent until a person mends it, and the error says how."""
    slack.tokens.invalidate(reason)
    with pytest.raises(SlackRefused, match="token") as caught:
        notifier.post("#gpu-costs", FIRST, KEY)
    assert (caught.value.code, bool(caught.value.what_next)) == (reason, True)


def test_a_missing_scope_is_named(notifier: SlackNotifier, slack: Workspace) -> None:
    """The person reads which scope to add, and where."""
    slack.tokens.remove_scopes("users:read.email")
    with pytest.raises(SlackRefused, match=r"Add users:read\.email .* OAuth & Permissions") as caught:
        notifier.person_of("ana@example.com")
    assert caught.value.code == "missing_scope"


def test_channels_that_cannot_be_written_to(notifier: SlackNotifier, slack: Workspace) -> None:
    """Each says what to do about this channel; others go on working."""
    slack.tokens.remove_scopes("chat:write.public")
    slack.add_channel("alone", with_app=False)
    slack.add_channel("old")
    slack.archive("old")
    expected = {
        "#alone": ("not_in_channel", "/invite @costguard"),
        "#old": ("is_archived", "Unarchive"),
        "#never": ("channel_not_found", "Check the channel"),
    }
    for channel, (code, advice) in expected.items():
        with pytest.raises(ChannelRefused, match=advice) as caught:
            notifier.post(channel, FIRST, KEY)
        assert caught.value.code == code
    slack.faults.add("error", code="restricted_action", channel="#ml-team")
    with pytest.raises(ChannelRefused, match="/invite @costguard"):
        notifier.post("#ml-team", FIRST, KEY)
    assert notifier.post("#gpu-costs", FIRST, KEY)


def test_other_refusals_keep_their_code(notifier: SlackNotifier, slack: Workspace) -> None:
    """A refusal of a kind of its own is certain, and tells what Slack minds."""
    with pytest.raises(SlackError, match="thread_not_found") as caught:
        notifier.post("#gpu-costs", FIRST, KEY, thread_ts="1700000000.000000")
    assert (type(caught.value), caught.value.code) == (SlackError, "thread_not_found")
    with pytest.raises(SlackError) as caught:
        notifier.post_ephemeral("#gpu-costs", "U0NOBODY", EPHEMERAL)
    assert (type(caught.value), caught.value.code) == (SlackError, "user_not_in_channel")


def _channel(slack: Workspace) -> str:
    return next(channel.id for channel in slack.channels.values() if channel.name == "gpu-costs")


@pytest.mark.parametrize("in_thread", [False, True], ids=["channel", "thread"])
def test_a_search_that_slack_ends_early_goes_on_where_it_came_to(
    notifier: SlackNotifier, slack: Workspace, world: World, in_thread: bool
) -> None:
    """Outside the Marketplace an app reads 15 messages a minute: the search takes minutes, and it ends.

    https://docs.slack.dev/reference/methods/conversations.history
    """
    channel, since = _channel(slack), world.clock.now()
    thread = notifier.post(channel, FIRST, "the thread").ts if in_thread else ""
    keys = [f"message {number}" for number in range(40)]
    for key in keys:
        world.advance(timedelta(seconds=2))
        notifier.post(channel, FIRST, key, thread)
    slack.limits.outside_marketplace(True)
    farthest = keys[-1] if in_thread else keys[0]

    def minutes(key: str) -> int:
        for minute in range(10):
            world.advance(timedelta(minutes=1))
            with suppress(SlackLimited):
                result = notifier.find(channel, key, since, thread)
                assert (result is not None) == (key in keys)
                return minute
        raise AssertionError("the search comes to no end")

    assert minutes(farthest) in (2, 3)
    assert minutes("nowhere") in (2, 3)


def test_a_message_whose_time_for_edits_is_over_says_so(
    notifier: SlackNotifier, slack: Workspace, world: World
) -> None:
    """The code that Slack gives where a workspace forbids edits after a while."""
    posted = notifier.post(_channel(slack), FIRST, "a")
    slack.edit_window = timedelta(minutes=5)
    notifier.update(posted, FIRST, "a")
    world.advance(timedelta(minutes=6))
    with pytest.raises(SlackError) as refused:
        notifier.update(posted, FIRST, "a")
    assert refused.value.code == "edit_window_closed"
