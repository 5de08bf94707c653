"""People and their Slack accounts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Membership(StrEnum):
    """The standing of a person in the workspace in which the app is installed. Only members may make requests."""

    MEMBER = "member"
    GUEST = "guest"  # invited to one channel or to some
    EXTERNAL = "external"  # of another workspace or organisation, met through a shared channel
    UNCONFIRMED = "unconfirmed"  # their address may be anyone's


@dataclass(frozen=True, slots=True)
class Person:
    """An active account that Slack shows to the app. `time_zone` is an IANA name, "" where Slack gives none.

    `team_id` is the workspace that Slack names as theirs.
    """

    user_id: str
    address: str
    name: str
    time_zone: str = ""
    team_id: str = ""
    membership: Membership = Membership.MEMBER


@dataclass(frozen=True, slots=True)
class AccountLookup:
    """The result of looking up an address. `person` is None where no active person has that address."""

    address: str
    person: Person | None
    looked_up_at: datetime
    direct_channel: str = ""  # the id of the app's direct messages with them; "" until opened
