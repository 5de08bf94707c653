"""Members of our workspace are known by user objects as Slack gives them."""

from __future__ import annotations

from typing import Any

import pytest

from costguard.model.delivery.person import Membership
from costguard.slack.client import Workspace, membership_of

# An answer of users.info from 2022, as a public project recorded it in its source; names, address and pictures are
# replaced. Guests, people met through Slack Connect and Enterprise users differ from it in the fields that
# docs.slack.dev/reference/objects/user-object names.
RECORDED: dict[str, Any] = {
    "color": "9f69e7",
    "deleted": False,
    "id": "U03H0JJQXJB",
    "is_admin": True,
    "is_app_user": False,
    "is_bot": False,
    "is_email_confirmed": True,
    "is_owner": True,
    "is_primary_owner": True,
    "is_restricted": False,
    "is_ultra_restricted": False,
    "name": "ana",
    "profile": {"email": "ana@example.com", "team": "T03HC8QGDRB", "real_name": "Ana", "display_name": ""},
    "real_name": "Ana",
    "team_id": "T03HC8QGDRB",
    "tz": "America/New_York",
    "tz_label": "Eastern Daylight Time",
    "tz_offset": -14400,
    "updated": 1653872095,
    "who_can_share_contact_card": "EVERYONE",
}
OURS = Workspace("T03HC8QGDRB")
IN_ORGANISATION = Workspace("T03HC8QGDRB", "E0ORG")


@pytest.mark.parametrize(
    ("changed", "membership"),
    [
        ({}, Membership.MEMBER),
        ({"is_restricted": True}, Membership.GUEST),
        ({"is_restricted": True, "is_ultra_restricted": True}, Membership.GUEST),
        ({"is_ultra_restricted": True}, Membership.GUEST),
        ({"is_stranger": True}, Membership.EXTERNAL),
        ({"team_id": "T0OTHER"}, Membership.EXTERNAL),
        ({"team_id": "T0OTHER", "is_restricted": True}, Membership.EXTERNAL),
        ({"team_id": None}, Membership.EXTERNAL),
        ({"is_email_confirmed": False}, Membership.UNCONFIRMED),
        ({"is_invited_user": True}, Membership.UNCONFIRMED),
    ],
)
def test_only_full_confirmed_members_count(changed: dict[str, Any], membership: Membership) -> None:
    """Guests, people of other workspaces and unconfirmed addresses are each recognised by the field that says so."""
    assert membership_of({**RECORDED, **changed}, OURS) is membership


def test_an_answer_without_the_confirmation_is_believed() -> None:
    """Slack leaves `is_email_confirmed` out of some answers (singer-io/tap-slack#21): only a false speaks against."""
    user = {name: value for name, value in RECORDED.items() if name != "is_email_confirmed"}
    assert membership_of(user, OURS) is Membership.MEMBER


@pytest.mark.parametrize(
    ("user", "ours", "membership"),
    [
        ({"team_id": "T0SISTER", "enterprise_user": {"enterprise_id": "E0ORG"}}, IN_ORGANISATION, Membership.MEMBER),
        ({"team_id": "T0SISTER", "enterprise_user": {"enterprise_id": "E0ELSE"}}, IN_ORGANISATION, Membership.EXTERNAL),
        ({"team_id": "T0SISTER", "enterprise_user": {"enterprise_id": "E0ORG"}}, OURS, Membership.EXTERNAL),
        ({"team_id": "T0SISTER", "enterprise_user": {"enterprise_id": ""}}, OURS, Membership.EXTERNAL),
        ({"team_id": "T0SISTER"}, IN_ORGANISATION, Membership.EXTERNAL),
        ({"team_id": ""}, Workspace(""), Membership.EXTERNAL),
    ],
)
def test_an_organisation_has_several_workspaces(user: dict[str, Any], ours: Workspace, membership: Membership) -> None:
    """A sister workspace of our own organisation is ours; nothing matches by both ids being empty."""
    assert membership_of({**RECORDED, **user}, ours) is membership
