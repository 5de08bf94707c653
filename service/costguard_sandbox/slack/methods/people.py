"""People: users.*."""

from __future__ import annotations

from typing import Any

from costguard_sandbox.slack.errors import SlackError
from costguard_sandbox.slack.methods.call import Call
from costguard_sandbox.slack.methods.conversations import paged
from costguard_sandbox.slack.people import User


def lookup_by_email(call: Call) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/users.lookupByEmail: people who left are not found."""
    call.need("users:read.email")
    email = call.required("email").lower()
    for user in call.workspace.users.values():
        if user.email.lower() == email and not user.deleted and not user.is_bot:
            return {"user": _shown(call, user)}
    raise SlackError("users_not_found")


def info(call: Call) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/users.info: people who left are found, marked as deleted."""
    call.need("users:read")
    user = call.workspace.users.get(call.required("user"))
    if user is None:
        raise SlackError("user_not_found")
    return {"user": _shown(call, user)}


def list_(call: Call) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/users.list"""
    call.need("users:read")
    shown, cursor, _ = paged(call, list(call.workspace.users.values()), 1000)
    members = [_shown(call, user) for user in shown]
    now = int(call.workspace.now.timestamp())
    return {"members": members, "cache_ts": now, "response_metadata": {"next_cursor": cursor}}


def _shown(call: Call, user: User) -> dict[str, Any]:
    may = "users:read.email" in call.workspace.tokens.scopes(call.token)
    return user.shown(call.workspace.now, with_email=may)
