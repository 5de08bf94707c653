"""[feed]: where events about VMs are pulled from."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from costguard.settings.values import Endpoint, Section, matching

_PROJECT, _NAME = "projects/[a-z0-9.:-]{6,}", "[A-Za-z][A-Za-z0-9._~+%-]{2,254}"

SubscriptionName = Annotated[
    str,
    AfterValidator(
        matching(
            f"{_PROJECT}/subscriptions/{_NAME}",
            "a Pub/Sub subscription, such as projects/acme-operations/subscriptions/costguard-events",
        )
    ),
]


class FeedSection(Section):
    """The subscription of the organisation's audit entries. Without one, VMs are seen by listings alone."""

    subscription: SubscriptionName | None = None
    pulls: Annotated[int, Field(ge=1, le=16)] = 4
    endpoint: Endpoint | None = None  # None: Google's, with credentials
