"""The app itself: auth.test, views.open, apps.connections.open."""

from __future__ import annotations

from typing import Any

from costguard_sandbox.slack.errors import SlackError, invalid_arguments
from costguard_sandbox.slack.methods.call import Call
from costguard_sandbox.slack.people import APP_ID, BOT_ID, BOT_NAME, BOT_USER_ID, TEAM_DOMAIN, TEAM_ID, TEAM_NAME


def auth_test(call: Call) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/auth.test: the scopes stand in the header x-oauth-scopes."""
    shown = {"url": f"https://{TEAM_DOMAIN}.slack.com/", "team": TEAM_NAME, "team_id": TEAM_ID}
    if call.workspace.enterprise_id:
        shown["enterprise_id"] = call.workspace.enterprise_id
    if call.token.startswith("xapp-"):
        return {**shown, "app_name": BOT_NAME, "app_id": APP_ID}
    return {**shown, "user": BOT_NAME, "user_id": BOT_USER_ID, "bot_id": BOT_ID, "is_enterprise_install": False}


def views_open(call: Call) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/views.open: within 3 seconds of the press, once."""
    view = call.json("view", "invalid_arguments")
    if not isinstance(view, dict):
        raise invalid_arguments("missing required field: view")
    return {"view": call.workspace.views.open(call.required("trigger_id"), view).shown()}


def connections_open(call: Call) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/apps.connections.open: with an app-level token only."""
    if not call.token.startswith("xapp-"):
        raise SlackError("not_allowed_token_type")
    call.need("connections:write")
    ticket = call.workspace.sockets.ticket()
    return {"url": f"ws{call.base_url.removeprefix('http')}/slack/socket?ticket={ticket}&app_id={APP_ID}"}
