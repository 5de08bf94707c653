"""The addresses to which an app may answer a press or a command later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from costguard_sandbox.slack.blocks import checked
from costguard_sandbox.slack.errors import SlackError
from costguard_sandbox.slack.people import BOT_USER_ID, make_id

if TYPE_CHECKING:
    from costguard_sandbox.slack.workspace import Workspace

MOST_USES = 5
GOOD_FOR = timedelta(minutes=30)


@dataclass(slots=True)
class _Issued:
    user: str
    channel: str
    ts: str
    thread_ts: str
    at: datetime
    uses: int = 0


class ResponseUrls:
    """Each is good for 5 answers within 30 minutes of the world's time
    (https://docs.slack.dev/interactivity/handling-user-interaction)."""

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
        if self._workspace.now - issued.at > GOOD_FOR:
            raise SlackError("expired_url")
        issued.uses += 1
        self.say(given, user=issued.user, channel=issued.channel, ts=issued.ts, thread_ts=issued.thread_ts, via=via)

    def say(
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
