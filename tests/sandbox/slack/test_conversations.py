"""conversations.* and users.*: finding places, people and what was written."""

from __future__ import annotations

from datetime import timedelta

import pytest
from slack_sdk import WebClient
from tests.sandbox.slack.refusals import refused

from costguard_sandbox.slack.model import BOT_USER_ID
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World

METADATA = {"event_type": "reminder", "event_payload": {"key": "lifetime-7/2"}}


@pytest.fixture
def channel(world: World, client: WebClient, slack: Workspace) -> str:
    """#gpu-costs with messages 0 to 6, one a minute, and two replies to the first."""
    for number in range(7):
        client.chat_postMessage(channel="gpu-costs", text=str(number), metadata=METADATA)
        world.advance(timedelta(minutes=1))
    first = slack.messages("gpu-costs")[0].ts
    for text in ("a", "b"):
        client.chat_postMessage(channel="gpu-costs", text=text, thread_ts=first)
        world.advance(timedelta(minutes=1))
    return slack.channel("gpu-costs").id


def test_history_is_newest_first_page_by_page(client: WebClient, channel: str) -> None:
    """The client's own iteration over cursors meets every message once, newest first, without replies."""
    pages = [
        ("".join(message["text"] for message in page["messages"]), page["has_more"])
        for page in client.conversations_history(channel=channel, limit=3)
    ]
    assert pages == [("654", True), ("321", True), ("0", False)]


def test_history_between_two_moments(client: WebClient, slack: Workspace, channel: str) -> None:
    """oldest and latest leave their own moments out unless inclusive."""
    stamps = [message.ts for message in slack.messages(channel)]

    def texts(*, inclusive: bool) -> str:
        page = client.conversations_history(
            channel=channel, oldest=stamps[2], latest=stamps[4], inclusive=inclusive, limit=10
        )
        return "".join(message["text"] for message in page["messages"])

    assert texts(inclusive=False) == "3"
    assert texts(inclusive=True) == "432"


def test_metadata_only_when_asked_for(client: WebClient, channel: str) -> None:
    """The event type alone is included without include_all_metadata."""
    short = client.conversations_history(channel=channel, limit=1)["messages"][0]
    full = client.conversations_history(channel=channel, limit=1, include_all_metadata=True)["messages"][0]
    assert short["metadata"] == {"event_type": "reminder"}
    assert full["metadata"] == METADATA


def test_a_thread_is_read_oldest_first(client: WebClient, slack: Workspace, channel: str) -> None:
    """conversations.replies begins every page with the parent, which counts its replies."""
    parent, *_, reply = (message.ts for message in slack.messages(channel))
    pages = [
        [message["text"] for message in page["messages"]]
        for page in client.conversations_replies(channel=channel, ts=parent, limit=1)
    ]
    assert pages == [["0", "a"], ["0", "b"]]
    seen = client.conversations_replies(channel=channel, ts=reply)["messages"]
    assert [message["text"] for message in seen] == ["0", "a", "b"]
    assert (seen[0]["reply_count"], seen[0]["latest_reply"], seen[1]["thread_ts"]) == (2, reply, parent)
    assert refused(lambda: client.conversations_replies(channel=channel, ts="1700000000.000000")) == "thread_not_found"


def test_bad_bounds_and_cursors(client: WebClient, channel: str) -> None:
    """Cursors and times that Slack would not take are refused in its words."""
    assert refused(lambda: client.conversations_history(channel=channel, cursor="beyond")) == "invalid_cursor"
    assert refused(lambda: client.conversations_history(channel=channel, oldest="noon")) == "invalid_ts_oldest"
    assert refused(lambda: client.conversations_history(channel=channel, limit=5000)) == "invalid_limit"


def test_history_needs_membership(client: WebClient, slack: Workspace) -> None:
    """A channel without the app cannot be read until it joined; a private one is not there at all."""
    open_, secret = (
        slack.add_channel("open", with_app=False).id,
        slack.add_channel("s", private=True, with_app=False).id,
    )
    assert refused(lambda: client.conversations_history(channel=open_)) == "not_in_channel"
    assert client.conversations_join(channel=open_)["channel"]["is_member"]
    assert client.conversations_history(channel=open_)["messages"] == []
    assert client.conversations_join(channel=open_)["warning"] == "already_in_channel"
    assert refused(lambda: client.conversations_info(channel=secret)) == "channel_not_found"


def test_direct_messages_are_opened_once(client: WebClient, slack: Workspace) -> None:
    """conversations.open gives the same channel every time, and says when it was there before."""
    ana = slack.user("ana").id
    first = client.conversations_open(users=[ana])
    second = client.conversations_open(users=ana, return_im=True)
    assert first["channel"]["id"] == second["channel"]["id"]
    assert (first.get("already_open"), second.get("already_open")) == (None, True)
    assert second["channel"]["user"] == ana
    slack.add_user("gone", deleted=True)
    assert refused(lambda: client.conversations_open(users=slack.user("gone").id)) == "user_disabled"
    assert refused(lambda: client.conversations_open(users="U0NOBODY")) == "user_not_found"


def test_several_people_share_one_conversation(client: WebClient, slack: Workspace) -> None:
    """conversations.open with several people gives a group, whatever their order."""
    ana, ben = slack.user("ana").id, slack.user("ben").id
    assert (
        client.conversations_open(users=[ana, ben])["channel"] == client.conversations_open(users=[ben, ana])["channel"]
    )


def test_channels_are_listed_by_kind(client: WebClient, slack: Workspace) -> None:
    """conversations.list has the kinds asked for and can leave out the archived."""
    slack.add_channel("leads", private=True)
    slack.add_channel("hidden", private=True, with_app=False)
    slack.archive("ml-team")
    listed = client.conversations_list(types="public_channel,private_channel", exclude_archived=True)["channels"]
    assert [channel["name"] for channel in listed] == ["gpu-costs", "leads"]
    assert [len(page["channels"]) for page in client.conversations_list(limit=1)] == [1, 1]
    assert refused(lambda: client.conversations_list(types="rooms")) == "invalid_types"


def test_people_are_found_by_address(client: WebClient, slack: Workspace) -> None:
    """users.lookupByEmail finds present members, with their time zone as of now."""
    user = client.users_lookupByEmail(email="Emi@example.com")["user"]
    assert (user["name"], user["tz"], user["tz_offset"]) == ("emi", "Asia/Tokyo", 9 * 3600)
    slack.add_user("gone", deleted=True)
    assert refused(lambda: client.users_lookupByEmail(email="gone@example.com")) == "users_not_found"
    assert refused(lambda: client.users_lookupByEmail(email="nobody@example.com")) == "users_not_found"


def test_people_who_left_are_marked(client: WebClient, slack: Workspace) -> None:
    """users.info tells who left and who is an app; users.list has everybody."""
    gone = slack.add_user("gone", deleted=True)
    shown = client.users_info(user=gone.id)["user"]
    assert shown["deleted"]
    assert "tz" not in shown
    assert client.users_info(user=BOT_USER_ID)["user"]["is_bot"]
    assert len(client.users_list()["members"]) == len(slack.users)
    assert refused(lambda: client.users_info(user="U0NOBODY")) == "user_not_found"


def test_addresses_need_their_own_scope(client: WebClient, slack: Workspace) -> None:
    """People are shown without their address without users:read.email, and cannot be found by it."""
    slack.tokens.remove_scopes("users:read.email")
    assert "email" not in client.users_info(user=slack.user("ana").id)["user"]["profile"]
    assert refused(lambda: client.users_lookupByEmail(email="ana@example.com")) == "missing_scope"
