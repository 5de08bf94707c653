"""`costguard doctor` says when owners could not press anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.slack.conftest import START

from costguard.main.messaging import slack_checkup
from costguard.settings.load import validate


@pytest.mark.parametrize(
    ("access", "owners", "is_ok"),
    [
        ({}, {}, False),
        ({}, {"domain": "example.com"}, False),
        ({"admins": ["dana@example.com"]}, {"domain": "example.com"}, False),
        ({"admins": ["dana@example.com"]}, {}, True),
        ({"viewers": ["@example.com"]}, {"domain": "example.com"}, True),
        ({"operators": ["@example.com"]}, {"domain": "example.com"}, True),
    ],
)
def test_owners_without_a_role_are_noticed(
    endpoint: str, access: dict[str, Any], owners: dict[str, Any], is_ok: bool
) -> None:
    """The finding names the line that gives them one; with a role it is fine."""
    wanted = {
        "watch": {"projects": ["acme-training"]},
        "slack": {"channel": "#gpu-costs", "endpoint": endpoint},
        "access": access,
        "owners": owners,
    }
    secrets = {"COSTGUARD_SLACK_TOKEN": "xoxb-sandbox", "COSTGUARD_SLACK_SIGNING_SECRET": "x" * 32}
    settings = validate(wanted, secrets, Path("test"))
    finding = slack_checkup(settings, START, with_message=False)[-1]
    assert finding.is_ok is is_ok
    assert is_ok or "[access]" in finding.command
