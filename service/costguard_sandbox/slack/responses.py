"""Answers of an app to an interaction: modals opened with a trigger, and response URLs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from costguard_sandbox.slack.access import SlackError, invalid_blocks
from costguard_sandbox.slack.blocks import check_text, checked
from costguard_sandbox.slack.model import APP_ID, BOT_ID, BOT_USER_ID, TEAM_ID, make_id

if TYPE_CHECKING:
    from costguard_sandbox.slack.workspace import Workspace

TRIGGER_SECONDS = 3.0
_TITLE = 24


MOST_USES = 5
VALID_FOR = timedelta(minutes=30)


@dataclass(slots=True)
class View:
    """An open modal. `errors` are the texts under its inputs, by block id."""

    id: str
    user: str
    content: Mapping[str, Any]
    errors: Mapping[str, str] = field(default_factory=dict)

    def shown(self, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        given = self.content
        return {
            "id": self.id,
            "team_id": TEAM_ID,
            "app_id": APP_ID,
            "bot_id": BOT_ID,
            "type": "modal",
            "title": given["title"],
            "submit": given.get("submit"),
            "close": given.get("close"),
            "blocks": given["blocks"],
            "callback_id": given.get("callback_id", ""),
            "private_metadata": given.get("private_metadata", ""),
            "external_id": given.get("external_id", ""),
            "clear_on_close": given.get("clear_on_close", False),
            "notify_on_close": given.get("notify_on_close", False),
            "root_view_id": self.id,
            "previous_view_id": None,
            "hash": f"1.{self.id}",
            "state": {"values": dict(values or {})},
        }


class Views:
    """The open modals, one per person. As in Slack, a trigger is valid for 3 seconds of real time and for one modal."""

    def __init__(
        self, number: Callable[[], int], changed: Callable[[], None], stopwatch: Callable[[], float] = time.monotonic
    ) -> None:
        self._number = number
        self._changed = changed
        self._stopwatch = stopwatch
        self._triggers: dict[str, tuple[str, float]] = {}
        self._used: set[str] = set()
        self._open: dict[str, View] = {}

    def trigger(self, user: str) -> str:
        """A new trigger for this person's click or command."""
        number = self._number()
        trigger = f"{number}.{TEAM_ID}.{make_id('', f'trigger/{number}').lower()}"
        self._triggers[trigger] = (user, self._stopwatch())
        return trigger

    def open(self, trigger: str, content: Mapping[str, Any]) -> View:
        """Raises SlackError invalid_trigger_id, exchanged_trigger_id, expired_trigger_id or invalid_arguments."""
        if trigger in self._used:
            raise SlackError("exchanged_trigger_id")
        if trigger not in self._triggers:
            raise SlackError("invalid_trigger_id")
        user, since = self._triggers[trigger]
        if self._stopwatch() - since > TRIGGER_SECONDS:
            raise SlackError("expired_trigger_id")
        view = View(make_id("V", trigger), user, checked_view(content))
        del self._triggers[trigger]
        self._used.add(trigger)
        self._open[user] = view
        self._changed()
        return view

    def of(self, user: str) -> View | None:
        return self._open.get(user)

    def close(self, user: str) -> View | None:
        self._changed()
        return self._open.pop(user, None)

    def replace(self, view: View, content: Mapping[str, Any]) -> None:
        view.content, view.errors = checked_view(content), {}
        self._changed()

    def refuse(self, view: View, errors: Mapping[str, str]) -> None:
        view.errors = dict(errors)
        self._changed()


def checked_view(content: Mapping[str, Any]) -> dict[str, Any]:
    """https://docs.slack.dev/reference/views/modal-views. Raises SlackError invalid_arguments."""
    problems: list[str] = []
    if content.get("type") != "modal":
        problems.append("must be one of: modal [json-pointer:/view/type]")
    problems += check_text(content.get("title"), "/view/title", _TITLE, plain=True)
    for key in ("submit", "close"):
        if key in content:
            problems += check_text(content[key], f"/view/{key}", _TITLE, plain=True)
    if len(str(content.get("private_metadata", ""))) > 3000:
        problems.append("must be less than 3001 characters [json-pointer:/view/private_metadata]")
    blocks = content.get("blocks")
    if not isinstance(blocks, list):
        problems.append("missing required field: blocks [json-pointer:/view]")
    elif any(isinstance(one, dict) and one.get("type") == "input" for one in blocks) and "submit" not in content:
        problems.append("`submit` must be provided when using input blocks [json-pointer:/view]")
    if problems:
        raise invalid_blocks(problems, "invalid_arguments")
    return {**content, "blocks": checked(blocks, modal=True)}


@dataclass(slots=True)
class _Issued:
    """The message and person that a response URL answers."""

    user: str
    channel: str
    ts: str
    thread_ts: str
    at: datetime
    uses: int = 0


class ResponseUrls:
    """Each is valid for 5 answers within 30 minutes (https://docs.slack.dev/interactivity/handling-user-interaction)."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._issued: dict[str, _Issued] = {}

    def issue(self, user: str, channel: str, ts: str = "", thread_ts: str = "") -> str:
        key = make_id("", f"response/{self._workspace.number()}")
        self._issued[key] = _Issued(user, channel, ts, thread_ts, self._workspace.now)
        return f"{self._workspace.base_url}/slack/response/{key}"

    def answer(self, key: str, given: Mapping[str, Any], *, via: str = "response_url") -> None:
        """Raises SlackError used_url, expired_url, or what is wrong with the message."""
        issued = self._issued.get(key)
        if issued is None:
            raise SlackError("no_such_url")
        if issued.uses >= MOST_USES:
            raise SlackError("used_url")
        if self._workspace.now - issued.at > VALID_FOR:
            raise SlackError("expired_url")
        issued.uses += 1
        self.write(given, user=issued.user, channel=issued.channel, ts=issued.ts, thread_ts=issued.thread_ts, via=via)

    def write(
        self, given: Mapping[str, Any], *, user: str, channel: str, ts: str = "", thread_ts: str = "", via: str
    ) -> None:
        """Replace or delete the message that was acted on, or write a new one: ephemeral unless `in_channel`."""
        workspace = self._workspace
        text = str(given.get("text") or "")
        blocks = checked(given["blocks"]) if given.get("blocks") else []
        if ts and given.get("delete_original"):
            workspace.delete(workspace.message(channel, ts))
            return
        if not text and not blocks:
            raise SlackError("no_text")
        if ts and given.get("replace_original"):
            message = workspace.message(channel, ts)
            metadata = message.metadata
            workspace.rewrite(
                message, by=BOT_USER_ID, via=via, text=text, blocks=blocks, metadata=metadata, edited=False
            )
            return
        private = given.get("response_type") != "in_channel"
        workspace.write(
            channel,
            BOT_USER_ID,
            text,
            via=via,
            blocks=blocks,
            thread_ts=str(given.get("thread_ts") or thread_ts),
            ephemeral_to=user if private else "",
        )
