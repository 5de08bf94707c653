"""Who counts as a member: https://docs.slack.dev/reference/objects/user-object. Pure.

Shared channels show an app people of other companies, with addresses that those companies' Slack vouches for, and
guests are people of other companies within one's own workspace. `is_stranger` alone does not tell them apart: it is
false for people of another workspace who share a channel with the app.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costguard.model.person import Standing


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where the app is installed, as auth.test names it. `enterprise_id` is "" outside Enterprise organisations."""

    team_id: str
    enterprise_id: str = ""


def standing_of(user: Mapping[str, Any], ours: Workspace) -> Standing:
    """What `user`, a user object of Slack's, is in our workspace or organisation.

    Slack leaves `is_email_confirmed` out of some answers; only an explicit false counts as unconfirmed. Those who
    were invited and never signed in have not confirmed theirs either.
    """
    if user.get("is_stranger") or not _is_of(user, ours):
        return Standing.EXTERNAL
    if user.get("is_restricted") or user.get("is_ultra_restricted"):
        return Standing.GUEST
    if user.get("is_email_confirmed") is False or user.get("is_invited_user"):
        return Standing.UNCONFIRMED
    return Standing.MEMBER


def _is_of(user: Mapping[str, Any], ours: Workspace) -> bool:
    if ours.team_id and user.get("team_id") == ours.team_id:
        return True
    enterprise = (user.get("enterprise_user") or {}).get("enterprise_id")
    return bool(ours.enterprise_id) and enterprise == ours.enterprise_id
