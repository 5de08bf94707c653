"""Everything of Slack's that the sandbox serves."""

from __future__ import annotations

from starlette.routing import BaseRoute

from costguard_sandbox.slack import control, web_api
from costguard_sandbox.slack.page import routes as page
from costguard_sandbox.slack.workspace import Workspace


def slack_routes(workspace: Workspace) -> list[BaseRoute]:
    """The Web API under /slack/api, Socket Mode, response URLs, the page /slack, and /sandbox/slack."""
    return [
        *web_api.routes(workspace),
        *control.routes(workspace),
        workspace.sockets.route(),
        *page.routes(workspace),
    ]
