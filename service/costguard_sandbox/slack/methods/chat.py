"""Writing: chat.postMessage, chat.postEphemeral, chat.update, chat.delete."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import orjson

from costguard_sandbox.slack.access import SlackError
from costguard_sandbox.slack.blocks import checked
from costguard_sandbox.slack.methods.call import SlackCall
from costguard_sandbox.slack.model import BOT_USER_ID, Channel, Message

MOST_TEXT = 40_000  # Slack truncates above 40,000 and refuses much longer texts; here the limit is exact
_MOST_METADATA = 16_000
_TS = re.compile(r"\d{10}\.\d{6}")


def post_message(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/chat.postMessage"""
    call.need("chat:write")
    channel = _place(call)
    text, blocks = _content(call)
    metadata = _metadata(call) or {}
    thread_ts = _thread(call, channel)
    call.workspace.limits.post(channel.id, call.workspace.now)
    message = call.workspace.write(
        channel.id,
        BOT_USER_ID,
        text,
        via=call.method,
        blocks=blocks or [],
        metadata=metadata,
        thread_ts=thread_ts,
        broadcast=bool(thread_ts and call.flag("reply_broadcast")),
        client_msg_id=call.text("client_msg_id"),
        unfurl_links=call.flag("unfurl_links", None),
        unfurl_media=call.flag("unfurl_media", None),
    )
    return {"channel": channel.id, "ts": message.ts, "message": message.shown(all_metadata=True)}


def post_ephemeral(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/chat.postEphemeral"""
    call.need("chat:write")
    channel = _place(call, names=False)
    user = call.workspace.users.get(call.required("user"))
    if user is None or user.deleted or user.id not in channel.members:
        raise SlackError("user_not_in_channel")
    text, blocks = _content(call)
    message = call.workspace.write(
        channel.id,
        BOT_USER_ID,
        text,
        via=call.method,
        blocks=blocks or [],
        thread_ts=_thread(call, channel),
        ephemeral_to=user.id,
    )
    return {"message_ts": message.ts}


def update(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/chat.update

    Text without blocks removes the blocks; blocks alone keep the text. Only a change of text
    marks the message as edited. Metadata stays unless given; an empty object removes it.
    """
    call.need("chat:write")
    message = _own(call, "cant_update_message")
    window = call.workspace.edit_window
    if window is not None and call.workspace.now - datetime.fromtimestamp(float(message.ts), UTC) > window:
        raise SlackError("edit_window_closed")
    text, blocks = _content(call, message)
    metadata = _metadata(call)
    call.workspace.rewrite(
        message,
        by=BOT_USER_ID,
        via=call.method,
        text=text,
        blocks=blocks or [],
        metadata=message.metadata if metadata is None else metadata,
        edited=not blocks,
    )
    shown = message.shown(all_metadata=True)
    return {"channel": message.channel, "ts": message.ts, "text": text, "message": shown}


def delete(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/chat.delete"""
    call.need("chat:write")
    message = _own(call, "cant_delete_message")
    call.workspace.delete(message)
    return {"channel": message.channel, "ts": message.ts}


def _own(call: SlackCall, otherwise: str) -> Message:
    channel = call.channel()
    message = call.workspace.message(channel.id, call.required("ts"))
    if message.ephemeral_to:
        raise SlackError("message_not_found")
    if not message.is_from_app:
        raise SlackError(otherwise)
    if channel.archived:
        raise SlackError("is_archived")
    return message


def _place(call: SlackCall, *, names: bool = True) -> Channel:
    """A channel by id or, with `names`, by name or by the id of a user for direct messages."""
    workspace, where = call.workspace, call.text("channel")
    if not where:
        raise SlackError("channel_not_found")
    if names and where in workspace.users and not workspace.users[where].is_bot:
        if workspace.users[where].deleted:
            raise SlackError("channel_not_found")
        return workspace.direct(where)
    channel = workspace.channel(where) if names else call.channel()
    joined = BOT_USER_ID in channel.members
    if channel.private and not joined:
        raise SlackError("channel_not_found")
    if channel.archived:
        raise SlackError("is_archived")
    if not joined and "chat:write.public" not in workspace.tokens.scopes(call.token):
        raise SlackError("not_in_channel")
    return channel


def _content(call: SlackCall, before: Message | None = None) -> tuple[str, list[dict[str, Any]] | None]:
    """(text, blocks); None for blocks that stay unchanged."""
    given = call.json("blocks", "invalid_blocks_format")
    blocks = checked(given) if given is not None else None
    text = call.text("text") or call.text("markdown_text")
    if len(text) > MOST_TEXT:
        raise SlackError("msg_too_long")
    if before is not None:
        if "text" in call.values:
            return text, blocks or []
        if blocks is None:
            raise SlackError("no_text")
        return before.text, blocks
    if not text and not blocks:
        raise SlackError("no_text")
    return text, blocks


def _thread(call: SlackCall, channel: Channel) -> str:
    """The thread to reply in."""
    thread_ts = call.text("thread_ts")
    if thread_ts and not _TS.fullmatch(thread_ts):
        raise SlackError("invalid_thread_ts")
    if thread_ts:
        try:
            call.workspace.message(channel.id, thread_ts)
        except SlackError:
            raise SlackError("thread_not_found") from None
    return thread_ts


def _metadata(call: SlackCall) -> dict[str, Any] | None:
    """https://docs.slack.dev/messaging/message-metadata"""
    given = call.json("metadata", "invalid_metadata_format")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise SlackError("invalid_metadata_format")
    if not given:
        return {}
    if not isinstance(given.get("event_type"), str) or not isinstance(given.get("event_payload"), dict):
        raise SlackError("invalid_metadata_format")
    if len(orjson.dumps(given)) > _MOST_METADATA:
        raise SlackError("metadata_too_large")
    return {"event_type": given["event_type"], "event_payload": given["event_payload"]}
