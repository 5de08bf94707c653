"""What Slack sends to an app: https://docs.slack.dev/reference/interaction-payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costguard_sandbox.slack.messages import Message
from costguard_sandbox.slack.people import APP_ID, TEAM_DOMAIN, TEAM_ID, Channel, User
from costguard_sandbox.slack.views import View

_VERIFICATION_TOKEN = "deprecated-verification-token"  # noqa: S105  Slack still sends one; nobody should read it


def block_actions(
    user: User,
    channel: Channel,
    message: Message,
    block: Mapping[str, Any],
    element: Mapping[str, Any],
    *,
    value: str | None,
    trigger_id: str,
    response_url: str,
    action_ts: str,
) -> dict[str, Any]:
    """One element of a message was used. An ephemeral message itself is not part of it."""
    container: dict[str, Any] = {
        "type": "message",
        "message_ts": message.ts,
        "channel_id": channel.id,
        "is_ephemeral": bool(message.ephemeral_to),
    }
    if message.thread_ts:
        container["thread_ts"] = message.thread_ts
    payload = {
        "type": "block_actions",
        **_common(user),
        "container": container,
        "trigger_id": trigger_id,
        "channel": {"id": channel.id, "name": "directmessage" if channel.is_im else channel.name},
        "state": {"values": {}},
        "response_url": response_url,
        "actions": [_action(block, element, value, action_ts)],
    }
    if not message.ephemeral_to:
        payload["message"] = message.shown(all_metadata=True)
    return payload


def slash_command(
    user: User, channel: Channel, command: str, text: str, *, trigger_id: str, response_url: str
) -> dict[str, str]:
    """https://docs.slack.dev/interactivity/implementing-slash-commands"""
    return {
        "token": _VERIFICATION_TOKEN,
        "team_id": TEAM_ID,
        "team_domain": TEAM_DOMAIN,
        "channel_id": channel.id,
        "channel_name": "directmessage" if channel.is_im else channel.name,
        "user_id": user.id,
        "user_name": user.name,
        "command": command,
        "text": text,
        "api_app_id": APP_ID,
        "is_enterprise_install": "false",
        "response_url": response_url,
        "trigger_id": trigger_id,
    }


def view_submission(user: User, view: View, values: Mapping[str, Any], *, trigger_id: str) -> dict[str, Any]:
    """https://docs.slack.dev/reference/interaction-payloads/view-interactions-payload"""
    return {
        "type": "view_submission",
        **_common(user),
        "trigger_id": trigger_id,
        "view": view.shown(values),
        "response_urls": [],
    }


def _common(user: User) -> dict[str, Any]:
    return {
        "user": {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team_id},
        "api_app_id": APP_ID,
        "token": _VERIFICATION_TOKEN,
        "team": {"id": TEAM_ID, "domain": TEAM_DOMAIN},
        "enterprise": None,
        "is_enterprise_install": False,
    }


def _action(block: Mapping[str, Any], element: Mapping[str, Any], value: str | None, action_ts: str) -> dict[str, Any]:
    kept = ("type", "action_id", "text", "value", "style", "url", "placeholder", "confirm")
    action = {key: element[key] for key in kept if key in element}
    action |= {"block_id": block["block_id"], "action_ts": action_ts}
    if "options" in element:
        chosen = [one for one in element["options"] if one["value"] == value]
        action["selected_option"] = chosen[0] if chosen else None
    elif value is not None:
        action["value"] = value
    return action
