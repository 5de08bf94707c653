"""People as Slack knows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Person:
    """Someone with an account in the workspace. `time_zone` is an IANA name, or "" where Slack does not tell."""

    user_id: str
    address: str
    name: str
    time_zone: str = ""


@dataclass(frozen=True, slots=True)
class Acquaintance:
    """What was found when an address was looked up. `person` is None where nobody active has that address."""

    address: str
    person: Person | None
    looked_up_at: datetime
    direct_channel: str = ""  # the id of the app's direct messages with them; "" until opened
