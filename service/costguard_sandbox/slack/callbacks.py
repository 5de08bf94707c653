"""What people do in the workspace, told to the app: over a socket where one is open, else as signed HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx2
import orjson

from costguard_sandbox.clock import ScaledClock
from costguard_sandbox.slack import payloads
from costguard_sandbox.slack.blocks import interactive
from costguard_sandbox.slack.errors import SlackError
from costguard_sandbox.slack.scopes import SIGNING_SECRET
from costguard_sandbox.slack.signing import signed_headers

if TYPE_CHECKING:
    from costguard_sandbox.slack.workspace import Workspace

ANSWER_SECONDS = 3.0  # https://docs.slack.dev/interactivity/handling-user-interaction#acknowledgment_response


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the app took it. `error` is what Slack shows: operation_timeout, dispatch_failed, or empty."""

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
        """The app's answer: JSON as it is, other text as `text`, nothing as an empty one."""
        if not self.body.strip():
            return {}
        try:
            found = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {"text": self.body.decode("utf-8", "replace")}
        return found if isinstance(found, dict) else {}


def wall_clock() -> datetime:
    """Signatures carry the machine's time, whatever the world's: the receiver compares it with its own."""
    return ScaledClock().now()


class Callbacks:
    """`log` holds every delivery in order. None of its methods may be called with the workspace locked."""

    def __init__(self, workspace: Workspace, now: Callable[[], datetime] = wall_clock) -> None:
        self.request_url = ""
        self.command_url = ""
        self.signing_secret = SIGNING_SECRET
        self.answer_seconds = ANSWER_SECONDS
        self.now = now
        self.log: list[Delivery] = []
        self.warnings: dict[tuple[str, str], str] = {}  # (channel, ts) -> what the last press ended with
        self._workspace = workspace

    def press(
        self, user: str, where: str, ts: str, action_id: str, *, block_id: str = "", value: str | None = None
    ) -> Delivery:
        """Use an element of a message. Raises SlackError where this person sees no such message or element."""
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
            payload = payloads.block_actions(
                person, channel, message, block, element,
                value=value, trigger_id=trigger, response_url=url, action_ts=action_ts,
            )  # fmt: skip
        delivery = self._interactive("block_actions", payload)
        with workspace.lock:
            self.warnings.pop((channel.id, ts), None)
            if not delivery.ok:
                self.warnings[channel.id, ts] = delivery.error
            workspace.changed()
        return delivery

    def command(self, user: str, where: str, text: str = "", *, command: str = "/gpu") -> Delivery:
        """Type a slash command. A failure, or an answer with text, is shown to this person as Slack shows it."""
        workspace = self._workspace
        with workspace.lock:
            person, channel = workspace.user(user), workspace.channel(where)
            trigger = workspace.views.trigger(person.id)
            url = workspace.response_urls.issue(person.id, channel.id)
            payload = payloads.slash_command(person, channel, command, text, trigger_id=trigger, response_url=url)
        target = self.command_url or f"{self.request_url.rpartition('/')[0]}/commands"
        delivery = self._deliver("slash_commands", payload, target if self.request_url or self.command_url else "")
        said = (
            {"text": f"`{command}` failed with the error `{delivery.error}`"} if delivery.error else delivery.answer()
        )
        if said.get("text") or said.get("blocks"):
            workspace.response_urls.say(said, user=person.id, channel=channel.id, via=command)
        return delivery

    def submit(self, user: str, values: Mapping[str, Any]) -> Delivery:
        """Send off the modal before this person's eyes: `values` by block id, then action id, as Slack's state."""
        workspace = self._workspace
        with workspace.lock:
            person = workspace.user(user)
            view = workspace.views.of(person.id)
            if view is None:
                raise SlackError("view_not_found")
            trigger = workspace.views.trigger(person.id)
            payload = payloads.view_submission(person, view, values, trigger_id=trigger)
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
