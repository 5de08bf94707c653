"""A message, every state it was ever in, and how Slack shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from costguard_sandbox.slack.people import APP_ID, BOT_ID, BOT_NAME, BOT_USER_ID, TEAM_ID

Blocks = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Version:
    """What a message said from a moment on. `via` is what wrote it: chat.update, response_url, ..."""

    at: datetime
    by: str
    via: str
    text: str
    blocks: Blocks
    metadata: Mapping[str, Any]


@dataclass(slots=True)
class Message:
    """`ephemeral_to` names the only person who sees it; such a message is in no history."""

    channel: str
    ts: str
    user: str
    versions: list[Version]
    thread_ts: str = ""
    broadcast: bool = False
    ephemeral_to: str = ""
    client_msg_id: str = ""
    unfurl_links: bool | None = None
    unfurl_media: bool | None = None
    edited_ts: str = ""
    deleted_at: datetime | None = None
    replies: list[Message] = field(default_factory=list)

    @property
    def now(self) -> Version:
        return self.versions[-1]

    @property
    def text(self) -> str:
        return self.now.text

    @property
    def blocks(self) -> Blocks:
        return self.now.blocks

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.now.metadata

    @property
    def is_reply(self) -> bool:
        return bool(self.thread_ts) and self.thread_ts != self.ts

    @property
    def is_from_app(self) -> bool:
        return self.user == BOT_USER_ID

    @property
    def live_replies(self) -> list[Message]:
        return [reply for reply in self.replies if reply.deleted_at is None]

    def shown(self, *, all_metadata: bool) -> dict[str, Any]:
        """As history has it: without `include_all_metadata` only the metadata's event type."""
        shown: dict[str, Any] = {
            "type": "message",
            "user": self.user,
            "ts": self.ts,
            "text": self.text,
            "team": TEAM_ID,
        }
        if self.is_from_app:
            profile = {"id": BOT_ID, "app_id": APP_ID, "name": BOT_NAME, "deleted": False, "team_id": TEAM_ID}
            shown |= {"bot_id": BOT_ID, "app_id": APP_ID, "bot_profile": profile}
        if self.client_msg_id:
            shown["client_msg_id"] = self.client_msg_id
        if self.blocks:
            shown["blocks"] = list(self.blocks)
        if self.edited_ts:
            shown["edited"] = {"user": self.user, "ts": self.edited_ts}
        if self.metadata:
            shown["metadata"] = dict(self.metadata) if all_metadata else {"event_type": self.metadata["event_type"]}
        if self.thread_ts:
            shown["thread_ts"] = self.thread_ts
        if self.broadcast:
            shown["subtype"] = "thread_broadcast"
        if replies := self.live_replies:
            people = list(dict.fromkeys(reply.user for reply in replies))
            shown |= {
                "thread_ts": self.ts,
                "reply_count": len(replies),
                "reply_users_count": len(people),
                "latest_reply": replies[-1].ts,
                "reply_users": people[:5],
                "is_locked": False,
                "subscribed": True,
            }
        return shown
