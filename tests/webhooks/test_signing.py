"""Webhooks are sent, and signed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.webhooks.receiver import is_signed
from tests.webhooks.webhook_setup import T0, event, webhook

from costguard.model.delivery.webhook import WebhookResponse
from costguard.model.event_kinds import EVENT_KINDS
from costguard.settings.webhooks import decoded
from costguard.webhooks import signature as policy

OTHER = "whsec_" + "S" * 32
HOUSE = Path(policy.__file__).parents[1]
_RECORDERS = (
    "access",
    "bill",
    "daemon",
    "db",
    "events",
    "jobs",
    "ledger",
    "messages",
    "reminders",
    "schedules",
    "spend",
    "stages",
    "sweeps",
    "trackers",
    "webhooks",
)
_COLUMNS = {
    "export_row.py",
    "export_file.py",
    "focus.py",
    "day_rows.py",
    "charges_of.py",
    "day_file.py",
}  # of FOCUS, named alike
_KIND = re.compile(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)+)[":]')
_NAME = re.compile(r"^(?:class )?([A-Z]\w+)(?:[(:]| =)", re.MULTILINE)


def test_signatures_are_those_of_the_standard() -> None:
    """The standard's own example comes out as it is printed there."""
    moment = datetime.fromtimestamp(1614265330, UTC)
    made = policy.headers(webhook(), "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', moment)
    assert made["webhook-timestamp"] == "1614265330"
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_either_secret_opens_what_two_have_signed() -> None:
    """The receiver may know the old secret or the new one while it is changed; no other will do."""
    body = policy.body(event("a"), 1, T0)
    made = policy.headers(webhook(secrets=(*webhook().secrets, *decoded(OTHER))), "event_1", body, T0)
    assert is_signed(made, body)
    assert is_signed(made, body, OTHER)
    assert not is_signed(made, body, "whsec_" + "T" * 32)
    assert not is_signed(made, body + b" ")
    assert not is_signed({**made, "webhook-id": "event_2"}, body)


def test_waits_grow_and_respect_what_is_asked_for() -> None:
    """The waits go from a second to an hour, twice as long each time; no sooner than the receiver says, but a day later
    at most.
    """
    seconds = [policy.wait(tries, None).total_seconds() for tries in range(1, 15)]
    assert seconds == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]
    assert policy.wait(10**9, None) == timedelta(hours=1)
    assert policy.wait(1, WebhookResponse(503, retry_after=timedelta(minutes=5))) == timedelta(minutes=5)
    assert policy.wait(12, WebhookResponse(503, retry_after=timedelta(minutes=5))) == timedelta(seconds=2048)
    assert policy.wait(1, WebhookResponse(429, retry_after=timedelta(weeks=99))) == timedelta(days=1)


def test_every_kind_of_event_can_be_asked_for() -> None:
    """The list that settings are checked by has all kinds that the code records, and no others."""
    sources = {file: file.read_text("utf-8") for file in HOUSE.rglob("*.py")}
    recorders = [
        text
        for file, text in sources.items()
        if file.relative_to(HOUSE).parts[0] in _RECORDERS and file.name not in _COLUMNS
    ]
    texts = {result[1] for text in recorders for result in _KIND.finditer(text)}
    names = {result[1] for text in sources.values() for result in _NAME.finditer(text)}
    assert texts - EVENT_KINDS - names == {"WebhookTest"}, "add the others to model/event_kinds.py"
    assert texts >= EVENT_KINDS, "nothing records these any more"
