"""conversations.* and users.*"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from costguard_sandbox.slack.access import SlackError
from costguard_sandbox.slack.methods.call import SlackCall
from costguard_sandbox.slack.model import BOT_USER_ID, Channel, Message, User

_TS = re.compile(r"\d{1,10}(\.\d{1,6})?")
_KINDS = {"public_channel": "channels", "private_channel": "groups", "im": "im", "mpim": "mpim"}
_MOST = 999
T = TypeVar("T")


def open_(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/conversations.open"""
    call.need("im:write", "mpim:write")
    workspace = call.workspace
    if call.text("channel"):
        channel = call.channel()
        return {"no_op": True, "already_open": True, "channel": {"id": channel.id}}
    names = [one for one in call.text("users").split(",") if one]
    if not names:
        raise SlackError("users_list_not_supplied")
    if len(names) > 8:
        raise SlackError("too_many_users")
    for one in names:
        user = workspace.users.get(one)
        if user is None or user.is_bot:
            raise SlackError("user_not_found")
        if user.deleted:
            raise SlackError("user_disabled")
    before = len(workspace.channels)
    channel = workspace.direct(*names)
    shown = channel.shown() if call.flag("return_im") else {"id": channel.id}
    existing = {} if len(workspace.channels) > before else {"no_op": True, "already_open": True}
    return {**existing, "channel": shown}


def history(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/conversations.history: newest first, replies left out."""
    channel, within = _readable(call), _bounds(call)
    messages = [
        one
        for one in call.workspace.messages(channel.id)
        if one.deleted_at is None and (not one.is_reply or one.broadcast) and within(one)
    ]
    return _page(call, messages[::-1])


def replies(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/conversations.replies: oldest first, the parent on every page."""
    channel, within = _readable(call), _bounds(call)
    try:
        parent = call.workspace.message(channel.id, call.required("ts"))
    except SlackError:
        raise SlackError("thread_not_found") from None
    if parent.is_reply:
        parent = call.workspace.message(channel.id, parent.thread_ts)
    page = _page(call, [one for one in parent.live_replies if within(one)])
    page["messages"].insert(0, parent.shown(all_metadata=bool(call.flag("include_all_metadata"))))
    return page


def info(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/conversations.info"""
    return {"channel": call.channel(scope="read").shown()}


def list_(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/conversations.list"""
    kinds = [one.strip() for one in call.text("types", "public_channel").split(",")]
    if not set(kinds) <= set(_KINDS):
        raise SlackError("invalid_types")
    for kind in kinds:
        call.need(f"{_KINDS[kind]}:read")
    wanted = {_KINDS[kind] for kind in kinds}
    channels = [
        channel
        for channel in call.workspace.channels.values()
        if channel.kind in wanted
        and (not channel.private or BOT_USER_ID in channel.members)
        and not (channel.archived and call.flag("exclude_archived"))
    ]
    shown, cursor, _ = paged(call, channels, 1000)
    return {"channels": [one.shown() for one in shown], "response_metadata": {"next_cursor": cursor}}


def join(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/conversations.join: public channels only."""
    call.need("channels:join")
    channel = call.channel()
    if channel.private:
        raise SlackError("method_not_supported_for_channel_type")
    if channel.archived:
        raise SlackError("is_archived")
    answer: dict[str, Any] = {}
    if BOT_USER_ID in channel.members:
        answer = {"warning": "already_in_channel", "response_metadata": {"warnings": ["already_in_channel"]}}
    channel.members.add(BOT_USER_ID)
    return {"channel": channel.shown(), **answer}


def paged(
    call: SlackCall, items: Sequence[T], most: int = _MOST, bound: int | None = None
) -> tuple[Sequence[T], str, bool]:
    """Returns a page, the cursor of the next (empty at the end), and whether there is more.

    At most `bound` are on it.
    """
    limit = call.number("limit", 100, most)
    if bound is not None:
        limit = min(limit, bound)
    start = _position(call.text("cursor"))
    more = start + limit < len(items)
    cursor = base64.b64encode(f"next:{start + limit}".encode()).decode() if more else ""
    return items[start : start + limit], cursor, more


def _page(call: SlackCall, messages: list[Message]) -> dict[str, Any]:
    shown, cursor, more = paged(call, messages, bound=call.workspace.limits.most_history)
    all_metadata = bool(call.flag("include_all_metadata"))
    answer: dict[str, Any] = {
        "messages": [one.shown(all_metadata=all_metadata) for one in shown],
        "has_more": more,
        "pin_count": 0,
    }
    if more:
        answer["response_metadata"] = {"next_cursor": cursor}
    return answer


def _readable(call: SlackCall) -> Channel:
    channel = call.channel(scope="history")
    if BOT_USER_ID not in channel.members:
        raise SlackError("not_in_channel")
    return channel


def _bounds(call: SlackCall) -> Callable[[Message], bool]:
    """Returns a filter for messages between oldest and latest, which are excluded unless inclusive."""
    margin = 0 if call.flag("inclusive") else 1
    oldest, latest = _micros(call, "oldest"), _micros(call, "latest")
    first = 0 if oldest is None else oldest + margin
    last = None if latest is None else latest - margin

    def within(message: Message) -> bool:
        own = int(message.ts.replace(".", ""))
        return own >= first and (last is None or own <= last)

    return within


def _micros(call: SlackCall, key: str) -> int | None:
    given = call.text(key)
    if not given:
        return None
    if not _TS.fullmatch(given):
        raise SlackError(f"invalid_ts_{key}")
    seconds, _, micros = given.partition(".")
    return int(seconds) * 1_000_000 + int(micros.ljust(6, "0"))


def _position(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        word, _, number = base64.b64decode(cursor, validate=True).decode().partition(":")
    except ValueError:
        raise SlackError("invalid_cursor") from None
    if word != "next" or not number.isdecimal():
        raise SlackError("invalid_cursor")
    return int(number)


def lookup_by_email(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/users.lookupByEmail: people who left are not found."""
    call.need("users:read.email")
    email = call.required("email").lower()
    for user in call.workspace.users.values():
        if user.email.lower() == email and not user.deleted and not user.is_bot:
            return {"user": _user_shown(call, user)}
    raise SlackError("users_not_found")


def user_info(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/users.info: people who left are found, marked as deleted."""
    call.need("users:read")
    user = call.workspace.users.get(call.required("user"))
    if user is None:
        raise SlackError("user_not_found")
    return {"user": _user_shown(call, user)}


def users_list(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/users.list"""
    call.need("users:read")
    shown, cursor, _ = paged(call, list(call.workspace.users.values()), 1000)
    members = [_user_shown(call, user) for user in shown]
    now = int(call.workspace.now.timestamp())
    return {"members": members, "cache_ts": now, "response_metadata": {"next_cursor": cursor}}


def _user_shown(call: SlackCall, user: User) -> dict[str, Any]:
    may = "users:read.email" in call.workspace.tokens.scopes(call.token)
    return user.shown(call.workspace.now, with_email=may)
