"""People, the app's own user, channels and messages, as Slack shows them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

TEAM_ID = "T0COSTGUARD"
TEAM_NAME = "Example Research"
TEAM_DOMAIN = "example-research"
APP_ID = "A0COSTGUARD"
BOT_ID = "B0COSTGUARD"
BOT_USER_ID = "U0COSTGUARD"
BOT_NAME = "costguard"
DEFAULT_PEOPLE = (
    ("ana", "Europe/Madrid"),
    ("ben", "America/New_York"),
    ("chiara", "Europe/Rome"),
    ("cleo", "Europe/Paris"),
    ("dana", "America/Los_Angeles"),
    ("emi", "Asia/Tokyo"),
)
DEFAULT_CHANNELS = ("gpu-costs", "ml-team")


Blocks = Sequence[Mapping[str, Any]]


def make_id(prefix: str, name: str) -> str:
    """An id in Slack's form, the same in every run."""
    digest = hashlib.sha256(f"{prefix}/{name}".encode()).digest()
    return f"{prefix}0{base64.b32encode(digest).decode()[:9]}"


@dataclass(slots=True)
class User:
    id: str
    name: str
    email: str
    tz: str
    real_name: str
    deleted: bool = False
    is_bot: bool = False
    is_admin: bool = False
    team_id: str = TEAM_ID  # another workspace's for people in a shared channel
    enterprise_id: str = ""  # of their organisation
    is_restricted: bool = False  # a guest in several channels...
    is_ultra_restricted: bool = False  # ...or in one
    is_stranger: bool = False
    is_email_confirmed: bool = True

    def shown(self, now: datetime, *, with_email: bool) -> dict[str, Any]:
        """Shows a user as in `users.info`; as in Slack, a deleted user has no time zone."""
        profile: dict[str, Any] = {
            "real_name": self.real_name,
            "real_name_normalized": self.real_name,
            "display_name": self.name,
            "display_name_normalized": self.name,
            "team": self.team_id,
        }
        if with_email and not self.is_bot:
            profile["email"] = self.email
        if self.is_bot:
            profile |= {"api_app_id": APP_ID, "bot_id": BOT_ID}
        user: dict[str, Any] = {
            "id": self.id,
            "team_id": self.team_id,
            "name": self.name,
            "deleted": self.deleted,
            "profile": profile,
            "is_bot": self.is_bot,
            "is_app_user": False,
            "updated": 1700000000,
        }
        if not self.deleted:
            local = now.astimezone(ZoneInfo(self.tz))
            user |= {
                "real_name": self.real_name,
                "tz": self.tz,
                "tz_label": local.tzname() or self.tz,
                "tz_offset": int((local.utcoffset() or timedelta()).total_seconds()),
                "is_admin": self.is_admin,
                "is_owner": False,
                "is_restricted": self.is_restricted or self.is_ultra_restricted,
                "is_ultra_restricted": self.is_ultra_restricted,
                "is_email_confirmed": self.is_email_confirmed,
            }
        if self.is_stranger:
            user["is_stranger"] = True
        if self.enterprise_id:
            user["enterprise_user"] = {
                "id": self.id,
                "enterprise_id": self.enterprise_id,
                "enterprise_name": "Example Organisation",
                "is_admin": False,
                "is_owner": False,
                "teams": [self.team_id],
            }
        return user


@dataclass(slots=True)
class Channel:
    """A channel, or with `users` direct messages with one person or several."""

    id: str
    name: str
    created_at: datetime
    private: bool = False
    archived: bool = False
    users: tuple[str, ...] = ()
    members: set[str] = field(default_factory=set)

    @property
    def is_im(self) -> bool:
        return len(self.users) == 1

    @property
    def is_mpim(self) -> bool:
        return len(self.users) > 1

    @property
    def kind(self) -> str:
        """Returns the kind in the names of Slack's scopes: channels, groups, im or mpim."""
        if self.users:
            return "im" if self.is_im else "mpim"
        return "groups" if self.private else "channels"

    def shown(self) -> dict[str, Any]:
        created = int(self.created_at.timestamp())
        if self.is_im:
            return {
                "id": self.id,
                "created": created,
                "is_im": True,
                "is_org_shared": False,
                "is_archived": self.archived,
                "user": self.users[0],
                "is_user_deleted": False,
            }
        return {
            "id": self.id,
            "name": self.name,
            "name_normalized": self.name,
            "is_channel": not self.private,
            "is_group": self.private and not self.is_mpim,
            "is_im": False,
            "is_mpim": self.is_mpim,
            "is_private": self.private,
            "is_archived": self.archived,
            "is_general": False,
            "is_member": BOT_USER_ID in self.members,
            "created": created,
            "creator": BOT_USER_ID,
            "context_team_id": TEAM_ID,
            "num_members": len(self.members),
            "topic": {"value": "", "creator": "", "last_set": 0},
            "purpose": {"value": "", "creator": "", "last_set": 0},
        }


@dataclass(frozen=True, slots=True)
class Version:
    """A message's content from a moment on. `via` is how it was written: chat.update, response_url, ..."""

    at: datetime
    by: str
    via: str
    text: str
    blocks: Blocks
    metadata: Mapping[str, Any]


@dataclass(slots=True)
class Message:
    """A message with its versions. `ephemeral_to` is the only person who sees it; histories leave it out."""

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
        """Shows a message as in history: without `include_all_metadata` only the metadata's event type."""
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
