"""One message as a page of its own, to be linked to and to be photographed."""

from __future__ import annotations

from costguard_sandbox.slack.page.html import Html, el, join
from costguard_sandbox.slack.page.view import message_shown, reader_of
from costguard_sandbox.slack.workspace import Workspace


def alone(workspace: Workspace, viewer: str, where: str, ts: str) -> Html:
    """As this person sees it. Raises KeyError for a stranger, and SlackError where they see no such message."""
    with workspace.lock:
        user = workspace.user(viewer)
        place, message = workspace.seen_by(user, where, ts)
        shown = message_shown(workspace, place, message, reader_of(workspace, user), in_thread=True)
    return join(
        Html("<!doctype html>"),
        el(
            "html",
            el(
                "head",
                el("meta", charset="utf-8"),
                el("meta", name="viewport", content="width=device-width, initial-scale=1"),
                el("meta", name="color-scheme", content="light dark"),
                el("title", "A message in the simulated Slack"),
                el("link", rel="stylesheet", href="/slack/static/style.css"),
            ),
            el("body", shown, cls="alone"),
            lang="en",
        ),
    )
