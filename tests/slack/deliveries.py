"""Makes Slack's deliveries, for tests of how they are taken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from slack_sdk.signature import SignatureVerifier

from costguard.model.reminder import RequestKind, Subject, SubjectKind
from costguard.slack.payloads import pack

SECRET = "5a4db0x5a4db0x5a4db0x5a4db0x5a4d"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DUE = datetime(2026, 11, 20, 10, 0, 0, 123456, tzinfo=UTC)
SUBJECT = Subject(SubjectKind.RUN, 12, 7)
VALUE = pack(SUBJECT, RequestKind.KEEP, 4, DUE)


def press(**changed: Any) -> dict[str, Any]:
    """`block_actions` of one button in a channel's message; `value` and `action` change the button."""
    action = {
        "type": "button",
        "action_id": "keep:4",
        "block_id": "b",
        "text": {"type": "plain_text", "text": "Keep 4 h"},
        "value": changed.pop("value", VALUE),
        "action_ts": "1795176000.000100",
        **changed.pop("action", {}),
    }
    return {
        "type": "block_actions",
        "user": {"id": "U0ANA", "username": "ana", "name": "ana", "team_id": "T0TEAM"},
        "api_app_id": "A0APP",
        "token": "deprecated",
        "team": {"id": "T0TEAM", "domain": "lab"},
        "enterprise": None,
        "is_enterprise_install": False,
        "container": {
            "type": "message",
            "message_ts": "1795170000.000200",
            "channel_id": "C0GPU",
            "is_ephemeral": False,
        },
        "trigger_id": "1.2.abc",
        "channel": {"id": "C0GPU", "name": "gpu-costs"},
        "state": {"values": {}},
        "response_url": "https://hooks.slack.example/actions/1",
        "actions": [action],
        **changed,
    }


def command(**changed: str) -> dict[str, str]:
    return {
        "token": "deprecated",
        "team_id": "T0TEAM",
        "team_domain": "lab",
        "channel_id": "C0GPU",
        "channel_name": "gpu-costs",
        "user_id": "U0ANA",
        "user_name": "ana",
        "command": "/gpu",
        "text": "",
        "api_app_id": "A0APP",
        "is_enterprise_install": "false",
        "response_url": "https://hooks.slack.example/commands/1",
        "trigger_id": "13.T0TEAM.abc",
        **changed,
    }


def form(payload: Mapping[str, Any]) -> bytes:
    """An interaction's body."""
    return urlencode({"payload": json.dumps(payload)}).encode()


def command_form(**changed: str) -> bytes:
    return urlencode(command(**changed)).encode()


def signed(body: bytes, at: datetime = NOW, secret: str = SECRET, **changed: str) -> dict[str, str]:
    """Headers as Slack sends them; `changed` names have `_` for `-`."""
    timestamp = str(int(at.timestamp()))
    signature = SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body)
    assert signature is not None
    return {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": timestamp,
        "x-slack-signature": signature,
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
