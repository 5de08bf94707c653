"""Actions of people in the workspace, sent to the app: over an open socket, or as signed HTTP.

Payloads: https://docs.slack.dev/reference/interaction-payloads. Signatures:
https://docs.slack.dev/authentication/verifying-requests-from-slack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import httpx2
import orjson

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.slack.access import SIGNING_SECRET, SlackError
from costguard_sandbox.slack.blocks import interactive

if TYPE_CHECKING:
    from costguard_sandbox.slack.workspace import Workspace
import hashlib
import hmac

from costguard_sandbox.slack.model import APP_ID, TEAM_DOMAIN, TEAM_ID, Channel, Message, User
from costguard_sandbox.slack.responses import View

_VERIFICATION_TOKEN = "deprecated-verification-token"  # noqa: S105  Slack still sends it


ANSWER_SECONDS = 3.0  # https://docs.slack.dev/interactivity/handling-user-interaction#acknowledgment_response


class InteractionIds(NamedTuple):
    """The marks by which an app refers to one interaction; `action_ts` is its time in Unix seconds."""

    trigger_id: str
    response_url: str
    action_ts: str


def block_actions(
    user: User,
    channel: Channel,
    message: Message,
    block: Mapping[str, Any],
    element: Mapping[str, Any],
    value: str | None,
    ids: InteractionIds,
) -> dict[str, Any]:
    """Makes the payload of an element of a message that was used. An ephemeral message is not included."""
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
        "trigger_id": ids.trigger_id,
        "channel": {"id": channel.id, "name": "directmessage" if channel.is_im else channel.name},
        "state": {"values": {}},
        "response_url": ids.response_url,
        "actions": [_action(block, element, value, ids.action_ts)],
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


def signed_headers(secret: str, body: bytes, timestamp: int) -> dict[str, str]:
    """The two headers that prove that a request is Slack's and recent."""
    base = b"v0:%d:%b" % (timestamp, body)
    digest = hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": f"v0={digest}"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery. `error` is what Slack shows: operation_timeout, dispatch_failed, or nothing."""

    kind: str
    payload: Mapping[str, Any]
    over: str
    status: int | None = None
    body: bytes = b""
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error

    def answer(self) -> dict[str, Any]:
        """The app's answer: JSON as it is, other text as `text`."""
        if not self.body.strip():
            return {}
        try:
            content = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {"text": self.body.decode("utf-8", "replace")}
        return content if isinstance(content, dict) else {}


def wall_clock() -> datetime:
    """The real time, for signatures: the receiver compares it with its own clock."""
    return ScaledClock().now()


class Interactions:
    """`log` holds every delivery in order. Do not call its methods with the workspace locked."""

    def __init__(self, workspace: Workspace, now: Callable[[], datetime] = wall_clock) -> None:
        self.request_url = ""
        self.command_url = ""
        self.signing_secret = SIGNING_SECRET
        self.answer_seconds = ANSWER_SECONDS
        self.now = now
        self.log: list[Delivery] = []
        self.warnings: dict[tuple[str, str], str] = {}  # (channel, ts) -> the error of the last click
        self._workspace = workspace

    def click(
        self, user: str, where: str, ts: str, action_id: str, *, block_id: str = "", value: str | None = None
    ) -> Delivery:
        """Click an element of a message. Raises SlackError where this person sees no such message or element."""
        workspace = self._workspace
        with workspace.lock:
            person = workspace.user(user)
            channel, message = workspace.seen_by(person, where, ts)
            for block, element in interactive(message.blocks):
                if element["action_id"] == action_id and block_id in ("", block["block_id"]):
                    break
            else:
                raise SlackError("action_not_found")
            trigger = workspace.views.trigger(person.id)
            url = workspace.response_urls.issue(person.id, channel.id, message.ts, message.thread_ts)
            action_ts = f"{self.now().timestamp():.6f}"
            ids = InteractionIds(trigger, url, action_ts)
            payload = block_actions(person, channel, message, block, element, value, ids)
        delivery = self._interactive("block_actions", payload)
        with workspace.lock:
            self.warnings.pop((channel.id, ts), None)
            if not delivery.ok:
                self.warnings[channel.id, ts] = delivery.error
            workspace.changed()
        return delivery

    def command(self, user: str, where: str, text: str = "", *, command: str = "/gpu") -> Delivery:
        """Send a slash command. Its error, or the text of its answer, is shown to this person."""
        workspace = self._workspace
        with workspace.lock:
            person, channel = workspace.user(user), workspace.channel(where)
            trigger = workspace.views.trigger(person.id)
            url = workspace.response_urls.issue(person.id, channel.id)
            payload = slash_command(person, channel, command, text, trigger_id=trigger, response_url=url)
        target = self.command_url or f"{self.request_url.rpartition('/')[0]}/commands"
        delivery = self._deliver("slash_commands", payload, target if self.request_url or self.command_url else "")
        shown = (
            {"text": f"`{command}` failed with the error `{delivery.error}`"} if delivery.error else delivery.answer()
        )
        if shown.get("text") or shown.get("blocks"):
            workspace.response_urls.write(shown, user=person.id, channel=channel.id, via=command)
        return delivery

    def submit(self, user: str, values: Mapping[str, Any]) -> Delivery:
        """Submit this person's open modal: `values` by block id, then action id, as in Slack's state."""
        workspace = self._workspace
        with workspace.lock:
            person = workspace.user(user)
            view = workspace.views.of(person.id)
            if view is None:
                raise SlackError("view_not_found")
            trigger = workspace.views.trigger(person.id)
            payload = view_submission(person, view, values, trigger_id=trigger)
        delivery = self._interactive("view_submission", payload)
        answer = delivery.answer()
        if delivery.error:
            workspace.views.refuse(view, {"": f"We had some trouble connecting ({delivery.error}). Try again?"})
        elif answer.get("response_action") == "errors":
            workspace.views.refuse(view, answer.get("errors", {}))
        elif answer.get("response_action") == "update":
            workspace.views.replace(view, answer.get("view", {}))
        else:
            workspace.views.close(person.id)
        return delivery

    def _interactive(self, kind: str, payload: Mapping[str, Any]) -> Delivery:
        return self._deliver(kind, payload, self.request_url)

    def _deliver(self, kind: str, payload: Mapping[str, Any], url: str) -> Delivery:
        sockets = self._workspace.sockets
        if sockets.connected:
            envelope = "slash_commands" if kind == "slash_commands" else "interactive"
            answer = sockets.send(envelope, payload, self.answer_seconds)
            error = "operation_timeout" if answer is None else ""
            delivery = Delivery(kind, payload, "socket", None, orjson.dumps(answer) if answer else b"", error)
        else:
            delivery = self._post(kind, payload, url)
        self.log.append(delivery)
        return delivery

    def _post(self, kind: str, payload: Mapping[str, Any], url: str) -> Delivery:
        form = payload if kind == "slash_commands" else {"payload": orjson.dumps(payload).decode()}
        body = urlencode(form).encode()
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            **signed_headers(self.signing_secret, body, int(self.now().timestamp())),
        }
        if not url:
            return Delivery(kind, payload, "http", error="dispatch_failed")
        try:
            with httpx2.Client(timeout=self.answer_seconds, trust_env=False) as client:
                answer = client.post(url, content=body, headers=headers)
        except httpx2.TimeoutException:
            return Delivery(kind, payload, "http", error="operation_timeout")
        except httpx2.HTTPError:
            return Delivery(kind, payload, "http", error="dispatch_failed")
        error = "" if answer.is_success else "dispatch_failed"
        return Delivery(kind, payload, "http", answer.status_code, answer.content, error)
