"""Slack's Web API over HTTP, with its faults; and the methods auth.test, views.open and apps.connections.open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from costguard_sandbox.serving import drop_connection
from costguard_sandbox.slack.access import RateLimited, SlackError, invalid_arguments
from costguard_sandbox.slack.faults import GARBAGE, SlackFault
from costguard_sandbox.slack.methods import chat, conversations
from costguard_sandbox.slack.methods.call import SlackCall
from costguard_sandbox.slack.model import APP_ID, BOT_ID, BOT_NAME, BOT_USER_ID, TEAM_DOMAIN, TEAM_ID, TEAM_NAME
from costguard_sandbox.slack.workspace import Workspace

MAX_BODY = 1_000_000
_UNDONE = ("down", "broken", "timeout", "rate_limited", "error", "garbage")


def routes(workspace: Workspace) -> list[Route]:
    async def endpoint(request: Request) -> Response:
        workspace.base_url = str(request.base_url).rstrip("/")
        raw = await request.body()
        method = request.path_params["method"]
        try:
            values = _values(request, raw)
        except SlackError as refused:
            return _json(refused.body())
        token = _token(request, values)
        with workspace.lock:
            workspace.calls[method] += 1
            fault = workspace.faults.met_by(method, str(values.get("channel", "")))
        if fault is not None and fault.kind in _UNDONE:
            return await _refused_by_fault(request, workspace, method, fault)
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        answer = _done(SlackCall(workspace, method, token, values, workspace.base_url))
        if fault is not None and fault.kind.startswith("lost_answer"):
            return await _lost(request, fault)
        return answer

    return [Route("/slack/api/{method}", endpoint, methods=["GET", "POST"])]


def _done(call: SlackCall) -> Response:
    workspace = call.workspace
    headers = {}
    with workspace.lock:
        try:
            function = METHODS.get(call.method)
            if function is None:
                raise SlackError("unknown_method", req_method=call.method)
            workspace.tokens.check(call.token)
            headers["x-oauth-scopes"] = ",".join(workspace.tokens.scopes(call.token))
            workspace.limits.call(call.method, workspace.now)
            return _json({"ok": True, **function(call)}, headers=headers)
        except RateLimited as refused:
            return _rate_limited(refused)
        except SlackError as refused:
            if "needed" in refused.more:
                headers["x-accepted-oauth-scopes"] = refused.more["needed"]
            return _json(refused.body(), headers=headers)


async def _refused_by_fault(request: Request, workspace: Workspace, method: str, fault: SlackFault) -> Response:
    if fault.kind == "down":
        return Response("upstream connect error", status_code=503, media_type="text/plain")
    if fault.kind == "rate_limited":
        workspace.limits.refusals[method] += 1
        return _rate_limited(RateLimited(max(1, round(fault.seconds))))
    if fault.kind == "error":
        return _json({"ok": False, "error": fault.code})
    if fault.kind == "garbage":
        return _garbage(fault)
    if fault.kind == "timeout":
        await asyncio.sleep(fault.seconds)
    return await drop_connection(request)


async def _lost(request: Request, fault: SlackFault) -> Response:
    if fault.kind == "lost_answer_error":
        return Response("Internal Server Error", status_code=500, media_type="text/plain")
    if fault.kind == "lost_answer_garbage":
        return _garbage(fault)
    if fault.kind == "lost_answer_timeout":
        await asyncio.sleep(fault.seconds)
    return await drop_connection(request)


def _garbage(fault: SlackFault) -> Response:
    return Response(GARBAGE[fault.what], media_type="text/html" if fault.what == "html" else "application/json")


def _values(request: Request, raw: bytes) -> dict[str, Any]:
    values: dict[str, Any] = dict(request.query_params)
    if len(raw) > MAX_BODY:
        raise SlackError("request_too_large")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not raw:
        return values
    if kind == "application/json":
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise SlackError("invalid_json") from None
        if not isinstance(body, dict):
            raise SlackError("json_not_object")
        return {**values, **body}
    if kind == "application/x-www-form-urlencoded":
        try:
            return {**values, **dict(parse_qsl(raw.decode(), keep_blank_values=True))}
        except UnicodeDecodeError:
            raise SlackError("invalid_charset") from None
    raise SlackError("invalid_post_type")


def _token(request: Request, values: Mapping[str, Any]) -> str:
    """Reads the token from the header or, as Slack still accepts, from a form."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    return str(values.get("token", ""))


def _rate_limited(refused: RateLimited) -> Response:
    return _json(refused.body(), 429, {"retry-after": str(refused.retry_after)})


def _json(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(body), status, headers=dict(headers or {}), media_type="application/json; charset=utf-8"
    )


def auth_test(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/auth.test: the scopes are in the header x-oauth-scopes."""
    shown = {"url": f"https://{TEAM_DOMAIN}.slack.com/", "team": TEAM_NAME, "team_id": TEAM_ID}
    if call.workspace.enterprise_id:
        shown["enterprise_id"] = call.workspace.enterprise_id
    if call.token.startswith("xapp-"):
        return {**shown, "app_name": BOT_NAME, "app_id": APP_ID}
    return {**shown, "user": BOT_NAME, "user_id": BOT_USER_ID, "bot_id": BOT_ID, "is_enterprise_install": False}


def views_open(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/views.open: within 3 seconds of the click, once."""
    view = call.json("view", "invalid_arguments")
    if not isinstance(view, dict):
        raise invalid_arguments("missing required field: view")
    return {"view": call.workspace.views.open(call.required("trigger_id"), view).shown()}


def connections_open(call: SlackCall) -> dict[str, Any]:
    """https://docs.slack.dev/reference/methods/apps.connections.open: with an app-level token only."""
    if not call.token.startswith("xapp-"):
        raise SlackError("not_allowed_token_type")
    call.need("connections:write")
    ticket = call.workspace.sockets.ticket()
    return {"url": f"ws{call.base_url.removeprefix('http')}/slack/socket?ticket={ticket}&app_id={APP_ID}"}


METHODS: Mapping[str, Callable[[SlackCall], dict[str, Any]]] = {
    "apps.connections.open": connections_open,
    "auth.test": auth_test,
    "chat.delete": chat.delete,
    "chat.postEphemeral": chat.post_ephemeral,
    "chat.postMessage": chat.post_message,
    "chat.update": chat.update,
    "conversations.history": conversations.history,
    "conversations.info": conversations.info,
    "conversations.join": conversations.join,
    "conversations.list": conversations.list_,
    "conversations.open": conversations.open_,
    "conversations.replies": conversations.replies,
    "users.info": conversations.user_info,
    "users.list": conversations.users_list,
    "users.lookupByEmail": conversations.lookup_by_email,
    "views.open": views_open,
}
