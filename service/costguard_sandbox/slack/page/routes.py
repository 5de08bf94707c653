"""The page /slack, on which a person reads and writes; it loads nothing from other servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from costguard_sandbox.slack.access import SlackError
from costguard_sandbox.slack.control import BadRequest, json_route
from costguard_sandbox.slack.page.view import message_page, panes
from costguard_sandbox.slack.workspace import Workspace

_STATIC = Path(__file__).with_name("static")
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'"
_MEDIA = {".css": "text/css", ".js": "text/javascript"}
_HEADERS = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff"}


def routes(workspace: Workspace) -> list[BaseRoute]:
    # From memory: a file that is open when its browser leaves would be closed by the garbage collector alone.
    shell = (_STATIC / "page.html").read_text(encoding="utf-8")
    files = {path.name: path.read_bytes() for path in _STATIC.iterdir() if path.suffix in _MEDIA}

    async def page(_request: Request) -> Response:
        return HTMLResponse(shell, headers=_HEADERS)

    async def static(request: Request) -> Response:
        name = str(request.path_params["name"])
        if name not in files:
            return PlainTextResponse(f"There is no such file: {name}", 404)
        return Response(files[name], media_type=_MEDIA[Path(name).suffix])

    async def state(request: Request) -> Response:
        """The panes as HTML; without them when nothing has changed since `version`."""
        query = request.query_params
        workspace.base_url = str(request.base_url).rstrip("/")
        minute = int(workspace.now.timestamp()) // 60
        version = f"{workspace.changes}.{minute}"
        if query.get("version") == version:
            return JSONResponse({"version": version})
        shown = panes(workspace, query.get("viewer", ""), query.get("channel", ""), query.get("thread", ""))
        return JSONResponse({"version": version, **asdict(shown)})

    async def message(request: Request) -> Response:
        """`?viewer=ana&channel=gpu-costs&ts=...`: one message alone, as this person sees it."""
        query = request.query_params
        try:
            shown = message_page(workspace, *(query.get(key, "") for key in ("viewer", "channel", "ts")))
        except (KeyError, SlackError) as wrong:
            return PlainTextResponse(f"There is no such message: {wrong}", 404)
        return HTMLResponse(shown, headers=_HEADERS)

    return [
        Route("/slack", page),
        Route("/slack/message", message),
        Route("/slack/state", state),
        json_route("/slack/write", workspace, _write, "POST"),
        json_route("/slack/submit", workspace, _submit, "POST"),
        json_route("/slack/close", workspace, _close, "POST"),
        Route("/slack/static/{name}", static),
    ]


def _write(workspace: Workspace, _method: str, body: Mapping[str, Any]) -> Any:
    """Sends the text that a person types: a slash command, or a message."""
    user, channel, text = (str(body.get(key, "")) for key in ("user", "channel", "text"))
    if text.startswith("/"):
        command, _, rest = text.partition(" ")
        delivery = workspace.interactions.command(user, channel, rest.strip(), command=command)
        return {"ok": delivery.ok, "error": delivery.error}
    place = workspace.channel(channel)
    if not text.strip() or place.archived:
        raise BadRequest("an archived channel takes no message" if place.archived else "an empty message")
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    workspace.write(channel, workspace.user(user).id, escaped, via="person", thread_ts=str(body.get("thread", "")))
    return {"ok": True, "error": ""}


def _submit(workspace: Workspace, _method: str, body: Mapping[str, Any]) -> Any:
    values = body.get("values")
    if not isinstance(values, dict):
        raise BadRequest("values must be an object")
    delivery = workspace.interactions.submit(str(body.get("user", "")), values)
    return {"ok": delivery.ok, "error": delivery.error}


def _close(workspace: Workspace, _method: str, body: Mapping[str, Any]) -> Any:
    workspace.views.close(workspace.user(str(body.get("user", ""))).id)
    return {"ok": True}
