"""chat.*: what the real client gets for writing, rewriting and deleting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, ButtonElement, HeaderBlock, SectionBlock
from slack_sdk.models.metadata import Metadata
from tests.sandbox.slack.refusals import refused

from costguard_sandbox.slack.model import BOT_USER_ID
from costguard_sandbox.slack.workspace import Workspace
from costguard_sandbox.world import World

BLOCKS = [
    HeaderBlock(text="VM trainer-7 is still running"),
    SectionBlock(text="It has cost *$31.20* so far."),
    ActionsBlock(elements=[ButtonElement(text="Stop now", action_id="stop", value="7", style="danger")]),
]


def test_a_message_comes_back_as_stored(client: WebClient, slack: Workspace) -> None:
    """chat.postMessage answers with the message as Slack keeps it: with ids for blocks and the metadata."""
    channel = slack.channel("gpu-costs").id
    answer = client.chat_postMessage(
        channel=channel,
        text="VM trainer-7 is still running",
        blocks=BLOCKS,
        metadata=Metadata(event_type="reminder", event_payload={"key": "lifetime-7/2"}),
        unfurl_links=False,
    )
    message = answer["message"]
    assert (answer["channel"], message["user"], message["ts"]) == (channel, BOT_USER_ID, answer["ts"])
    assert message["metadata"]["event_payload"] == {"key": "lifetime-7/2"}
    assert [block["block_id"] for block in message["blocks"]] == ["b00", "b01", "b02"]
    (stored,) = slack.messages("#gpu-costs")
    assert stored.metadata == message["metadata"]
    assert stored.unfurl_links is False


@pytest.mark.parametrize("where", ["#gpu-costs", "gpu-costs"])
def test_a_channel_can_be_given_by_name(client: WebClient, slack: Workspace, where: str) -> None:
    """chat.postMessage takes a channel's name, with or without the sign."""
    assert client.chat_postMessage(channel=where, text="hello")["channel"] == slack.channel("gpu-costs").id


def test_a_user_id_opens_direct_messages(client: WebClient, slack: Workspace) -> None:
    """chat.postMessage to a user's id lands in the direct messages with them."""
    ana = slack.user("ana")
    answer = client.chat_postMessage(channel=ana.id, text="hello")
    assert answer["channel"] == slack.direct("ana").id


def test_ts_is_unique_and_grows_while_the_clock_stands_still(client: WebClient, slack: Workspace) -> None:
    """Two messages of one channel never share a ts, even at one moment of the world's time."""
    slack.limits.enforced = False
    stamps = [client.chat_postMessage(channel="gpu-costs", text="hello")["ts"] for _ in range(5)]
    assert stamps == sorted(set(stamps))
    assert stamps[0] == "1790164800.000000"


def test_one_message_a_second_and_channel(world: World, client: WebClient, slack: Workspace) -> None:
    """The second message within a second is refused with 429 and Retry-After, and is not stored."""
    client.chat_postMessage(channel="gpu-costs", text="first")
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="gpu-costs", text="second")
    assert caught.value.response.status_code == 429
    assert caught.value.response["error"] == "ratelimited"
    assert caught.value.response.headers["Retry-After"] == "1"
    client.chat_postMessage(channel="ml-team", text="elsewhere")
    world.advance(timedelta(seconds=1))
    client.chat_postMessage(channel="gpu-costs", text="second")
    assert [message.text for message in slack.messages("gpu-costs")] == ["first", "second"]
    assert slack.limits.refusals == {"chat.postMessage": 1}
    assert slack.calls["chat.postMessage"] == 4


def test_a_thread_gathers_its_replies(client: WebClient, slack: Workspace, world: World) -> None:
    """A reply to a reply joins the thread of the first message."""
    parent = client.chat_postMessage(channel="gpu-costs", text="parent")["ts"]
    world.advance(timedelta(seconds=1))
    reply = client.chat_postMessage(channel="gpu-costs", text="reply", thread_ts=parent)
    world.advance(timedelta(seconds=1))
    second = client.chat_postMessage(channel="gpu-costs", text="another", thread_ts=reply["ts"])
    assert second["message"]["thread_ts"] == parent
    assert [one.text for one in slack.messages("gpu-costs", thread=parent)] == ["parent", "reply", "another"]


def test_text_alone_replaces_blocks(client: WebClient, slack: Workspace) -> None:
    """chat.update with text and no blocks removes the blocks and marks the message as edited; metadata stays."""
    metadata = {"event_type": "reminder", "event_payload": {"key": "1"}}
    sent = client.chat_postMessage(channel="gpu-costs", text="a", blocks=BLOCKS, metadata=metadata)
    updated = client.chat_update(channel=sent["channel"], ts=sent["ts"], text="It was stopped.")
    assert updated["text"] == "It was stopped."
    assert "blocks" not in updated["message"]
    assert "edited" in updated["message"]
    (message,) = slack.messages("gpu-costs")
    assert message.metadata == metadata
    assert [version.via for version in message.versions] == ["chat.postMessage", "chat.update"]


def test_blocks_replace_blocks_unmarked(client: WebClient, slack: Workspace) -> None:
    """chat.update with blocks keeps the text and shows no mark of the edit; empty metadata removes it."""
    metadata = {"event_type": "reminder", "event_payload": {"key": "1"}}
    sent = client.chat_postMessage(channel="gpu-costs", text="a", blocks=BLOCKS, metadata=metadata)
    change = {"channel": sent["channel"], "ts": sent["ts"], "blocks": [BLOCKS[0].to_dict()], "metadata": {}}
    updated = client.api_call("chat.update", json=change)
    assert len(updated["message"]["blocks"]) == 1
    assert "edited" not in updated["message"]
    assert slack.messages("gpu-costs")[0].text == "a"
    assert not slack.messages("gpu-costs")[0].metadata


def test_only_own_messages_change(client: WebClient, slack: Workspace) -> None:
    """A person's message can neither be updated nor deleted by the app, and one that never was cannot be found."""
    channel = slack.channel("gpu-costs").id
    theirs = slack.write("gpu-costs", slack.user("ben").id, "mine", via="person")
    assert refused(lambda: client.chat_update(channel=channel, ts=theirs.ts, text="x")) == "cant_update_message"
    assert refused(lambda: client.chat_delete(channel=channel, ts=theirs.ts)) == "cant_delete_message"
    assert refused(lambda: client.chat_update(channel=channel, ts="1.000000", text="x")) == "message_not_found"


def test_a_deleted_message_is_gone_but_recorded(client: WebClient, slack: Workspace) -> None:
    """The message can no longer be updated after chat.delete; the record still has it."""
    sent = client.chat_postMessage(channel="gpu-costs", text="a")
    channel, ts = sent["channel"], sent["ts"]
    client.chat_delete(channel=channel, ts=ts)
    assert refused(lambda: client.chat_update(channel=channel, ts=ts, text="x")) == "message_not_found"
    assert [message.deleted_at is not None for message in slack.messages("gpu-costs")] == [True]


def test_ephemeral_messages_are_for_one_person(client: WebClient, slack: Workspace) -> None:
    """chat.postEphemeral reaches one member, and no history has it."""
    channel, ben = slack.channel("gpu-costs").id, slack.user("ben").id
    answer = client.chat_postEphemeral(channel=channel, user=ben, text="Only the owner may press this.")
    assert client.conversations_history(channel=channel)["messages"] == []
    (seen,) = slack.messages("gpu-costs", ephemeral=True)
    assert (seen.ts, seen.ephemeral_to) == (answer["message_ts"], ben)
    stranger = slack.add_user("zoe", deleted=True).id
    assert refused(lambda: client.chat_postEphemeral(channel=channel, user=stranger, text="x")) == "user_not_in_channel"


def test_channels_that_cannot_be_written_to(client: WebClient, slack: Workspace) -> None:
    """Archived, unknown, private and strange channels are each refused in Slack's word."""
    slack.archive("ml-team")
    slack.add_channel("secret", private=True, with_app=False)
    slack.add_channel("open", with_app=False)
    assert refused(lambda: client.chat_postMessage(channel="ml-team", text="x")) == "is_archived"
    assert refused(lambda: client.chat_postMessage(channel="C0NOWHERE", text="x")) == "channel_not_found"
    assert refused(lambda: client.chat_postMessage(channel="secret", text="x")) == "channel_not_found"
    assert client.chat_postMessage(channel="open", text="x")["ok"]
    slack.tokens.remove_scopes("chat:write.public")
    assert refused(lambda: client.chat_postMessage(channel="open", text="x")) == "not_in_channel"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"text": ""}, "no_text"),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"text": "x", "thread_ts": "yesterday"}, "invalid_thread_ts"),
        ({"text": "x", "thread_ts": "1700000000.000001"}, "thread_not_found"),
        ({"text": "x", "blocks": "{not json"}, "invalid_blocks_format"),
        ({"text": "x", "blocks": {"type": "section"}}, "invalid_blocks_format"),
        ({"text": "x", "metadata": {"event_type": "reminder"}}, "invalid_metadata_format"),
        ({"text": "x", "metadata": {"event_type": "r", "event_payload": {"k": "x" * 16_000}}}, "metadata_too_large"),
    ],
)
def test_content_that_is_refused(client: WebClient, slack: Workspace, given: dict[str, Any], code: str) -> None:
    """The refusal is in Slack's word, and nothing is stored or counted as a message."""
    assert refused(lambda: client.api_call("chat.postMessage", json={"channel": "gpu-costs", **given})) == code
    assert slack.messages("gpu-costs") == []
    assert client.chat_postMessage(channel="gpu-costs", text="at once")["ok"]


def test_a_form_is_read_as_json_is(client: WebClient, slack: Workspace) -> None:
    """Blocks and metadata may come as JSON in a form's fields."""
    fields = {"channel": "gpu-costs", "text": "x", "blocks": '[{"type": "divider"}]', "reply_broadcast": "false"}
    answer = client.api_call("chat.postMessage", params=fields)
    assert answer["message"]["blocks"] == [{"type": "divider", "block_id": "b00"}]
