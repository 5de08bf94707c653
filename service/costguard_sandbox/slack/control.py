"""The sandbox's own routes for Slack: settings, faults, messages; and response URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from costguard_sandbox.faults import BadFault
from costguard_sandbox.slack.access import APP_TOKEN, BOT_TOKEN, SlackError
from costguard_sandbox.slack.web_api import MAX_BODY
from costguard_sandbox.slack.workspace import Workspace

Handler = Callable[[Workspace, str, Mapping[str, Any]], Any]


def routes(workspace: Workspace) -> list[Route]:
    return [
        Route("/slack/response/{key}", _response_url(workspace), methods=["POST"]),
        json_route("/sandbox/slack/settings", workspace, _settings, "GET", "POST"),
        json_route("/sandbox/slack/faults", workspace, _faults, "GET", "POST", "DELETE"),
        json_route("/sandbox/slack/people", workspace, _people, "GET", "POST"),
        json_route("/sandbox/slack/channels", workspace, _channels, "GET", "POST"),
        json_route("/sandbox/slack/messages", workspace, _messages, "GET"),
        json_route("/sandbox/slack/click", workspace, _click, "POST"),
        json_route("/sandbox/slack/command", workspace, _command, "POST"),
    ]


def json_route(path: str, workspace: Workspace, handler: Handler, *methods: str) -> Route:
    """A JSON route, which may wait for the app's answer; an invalid request is answered with 400 and a sentence."""

    async def endpoint(request: Request) -> Response:
        workspace.base_url = str(request.base_url).rstrip("/")
        raw = await request.body()
        try:
            body = orjson.loads(raw) if raw else {}
            if not isinstance(body, dict):
                raise BadRequest("the body must be a JSON object")
            answer = await run_in_threadpool(handler, workspace, request.method, {**request.query_params, **body})
        except (BadRequest, BadFault, KeyError, SlackError, orjson.JSONDecodeError) as wrong:
            return _json({"error": str(wrong)}, 400)
        return _json(answer)

    return Route(path, endpoint, methods=list(methods))


class BadRequest(ValueError):
    """An invalid request to the sandbox's own routes; the text says why."""


def _settings(workspace: Workspace, method: str, body: Mapping[str, Any]) -> Any:
    """POST sets any of request_url, command_url, signing_secret, answer_seconds, limits and outside_marketplace (true
    or false), and edit_window_minutes (a number, or null for ever)."""
    interactions = workspace.interactions
    if method == "POST":
        for key, value in body.items():
            if key in ("request_url", "command_url", "signing_secret") and isinstance(value, str):
                setattr(interactions, key, value)
            elif key == "answer_seconds" and isinstance(value, int | float) and 0 < value <= 60:
                interactions.answer_seconds = float(value)
            elif key == "limits" and isinstance(value, bool):
                workspace.limits.enforced = value
            elif key == "outside_marketplace" and isinstance(value, bool):
                workspace.limits.outside_marketplace(value)
            elif key == "edit_window_minutes" and (value is None or isinstance(value, int)):
                workspace.edit_window = None if value is None else timedelta(minutes=value)
            else:
                raise BadRequest(f"{key!r} cannot be set to {value!r}")
    return {
        "bot_token": BOT_TOKEN,
        "app_token": APP_TOKEN,
        "signing_secret": interactions.signing_secret,
        "request_url": interactions.request_url,
        "command_url": interactions.command_url,
        "answer_seconds": interactions.answer_seconds,
        "limits": workspace.limits.enforced,
        "outside_marketplace": workspace.limits.most_history is not None,
        "edit_window_minutes": None if workspace.edit_window is None else workspace.edit_window // timedelta(minutes=1),
        "sockets": workspace.sockets.connected,
    }


def _faults(workspace: Workspace, method: str, body: Mapping[str, Any]) -> Any:
    """POST {"kind": ...}: a SlackFault, or a state: token_revoked, archived, missing_scope. DELETE ends all."""
    tokens = workspace.tokens
    if method == "DELETE":
        tokens.reset()
        for channel in workspace.channels.values():
            channel.archived = False
        return {"cleared": workspace.faults.clear(body.get("kind"))}
    if method == "POST":
        values = dict(body)
        kind = str(values.pop("kind", ""))
        if kind in ("token_revoked", "account_inactive", "token_expired"):
            tokens.invalidate(kind)
        elif kind == "archived":
            workspace.archive(str(values.get("channel", "")))
        elif kind == "missing_scope":
            tokens.remove_scopes(str(values.get("scope", "")))
        else:
            return workspace.faults.add(kind, **values).shown()
    return {"faults": [fault.shown() for fault in workspace.faults.listed()], "scopes": tokens.scopes(BOT_TOKEN)}


def _people(workspace: Workspace, method: str, body: Mapping[str, Any]) -> Any:
    if method == "POST":
        person = {key: body[key] for key in ("name", "email", "tz", "deleted", "real_name", "is_admin") if key in body}
        if not person.get("name"):
            raise BadRequest("a person needs a name")
        workspace.add_user(**person)
    return {"people": [user.shown(workspace.now, with_email=True) for user in workspace.users.values()]}


def _channels(workspace: Workspace, method: str, body: Mapping[str, Any]) -> Any:
    if method == "POST":
        if not body.get("name"):
            raise BadRequest("a channel needs a name")
        workspace.add_channel(
            str(body["name"]), private=body.get("private") is True, with_app=body.get("with_app") is not False
        )
    return {"channels": [channel.shown() for channel in workspace.channels.values()]}


def _messages(workspace: Workspace, _method: str, body: Mapping[str, Any]) -> Any:
    """Every version of every message in the order written, of one `channel` or of all; counts of calls and refusals."""
    only = workspace.channel(str(body["channel"])).id if "channel" in body else ""
    written = [
        {
            "channel": message.channel,
            "ts": message.ts,
            "thread_ts": message.thread_ts,
            "ephemeral_to": message.ephemeral_to,
            "deleted": message.deleted_at is not None,
            "at": version.at.isoformat(timespec="milliseconds"),
            "by": version.by,
            "via": version.via,
            "text": version.text,
            "blocks": list(version.blocks),
            "metadata": dict(version.metadata),
        }
        for message, version in list(workspace.record)
        if only in ("", message.channel)
    ]
    return {"written": written, "calls": dict(workspace.calls), "refusals": dict(workspace.limits.refusals)}


def _click(workspace: Workspace, _method: str, body: Mapping[str, Any]) -> Any:
    delivery = workspace.interactions.click(
        str(body.get("user", "")),
        str(body.get("channel", "")),
        str(body.get("ts", "")),
        str(body.get("action_id", "")),
        block_id=str(body.get("block_id", "")),
        value=body.get("value"),
    )
    return {"ok": delivery.ok, "error": delivery.error, "status": delivery.status}


def _command(workspace: Workspace, _method: str, body: Mapping[str, Any]) -> Any:
    delivery = workspace.interactions.command(
        str(body.get("user", "")),
        str(body.get("channel", "")),
        str(body.get("text", "")),
        command=str(body.get("command", "/gpu")),
    )
    return {"ok": delivery.ok, "error": delivery.error, "status": delivery.status}


def _response_url(workspace: Workspace) -> Any:
    async def endpoint(request: Request) -> Response:
        raw = await request.body()
        try:
            given = orjson.loads(raw[:MAX_BODY])
            if not isinstance(given, dict):
                raise SlackError("invalid_payload")
            workspace.response_urls.answer(request.path_params["key"], given)
        except orjson.JSONDecodeError:
            return PlainTextResponse("invalid_payload", 400)
        except SlackError as refused:
            gone = refused.code in ("used_url", "expired_url", "no_such_url")
            return PlainTextResponse(refused.code, 404 if gone else 400)
        return PlainTextResponse("ok")

    return endpoint


def _json(answer: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(answer, option=orjson.OPT_INDENT_2), status, media_type="application/json")
