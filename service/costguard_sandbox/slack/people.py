"""Who and what is in the workspace: people, the app's own user, channels and direct messages."""

from __future__ import annotations

import base64
import hashlib
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


def make_id(prefix: str, name: str) -> str:
    """An id that looks like Slack's and is the same in every run."""
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
    team_id: str = TEAM_ID  # another: somebody of another workspace, met in a shared channel
    enterprise_id: str = ""  # the organisation that they belong to
    is_restricted: bool = False  # a guest in several channels...
    is_ultra_restricted: bool = False  # ...or in one
    is_stranger: bool = False
    is_email_confirmed: bool = True

    def shown(self, now: datetime, *, with_email: bool) -> dict[str, Any]:
        """As `users.info` has it; a deleted user's answer lacks the time zone, as Slack's does."""
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
    """A channel, or with `users` a direct message: with one person, or with several."""

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
        """The word by which Slack's scopes call it: channels, groups, im or mpim."""
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
