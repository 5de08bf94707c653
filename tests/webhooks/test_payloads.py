"""A webhook's receiver gets the fields and values that the API gives, for each kind of event."""

from __future__ import annotations

import json

from tests.golden import events

from costguard.api.events import EventOut
from costguard.webhooks import signature

TOP = {
    "id": int,
    "kind": str,
    "occurred_at": str,
    "recorded_at": str,
    "project": str,
    "gce_id": str,
    "name": str,
    "actor": str,
    "text": str,
    "data": dict,
    "key": str,
}


def test_webhook_and_api_give_the_same_payload() -> None:
    """The body of every kind of event has the API's fields and values, and the key that tells a repeated delivery."""
    samples = events.samples()
    assert len(samples) > 80
    for kind, stored in samples.items():
        body = json.loads(signature.body(stored.event, stored.id, stored.recorded_at))
        assert {name: type(value) for name, value in body.items()} == TOP, kind
        assert body.pop("key") == stored.event.key
        assert json.loads(EventOut.model_validate(stored).model_dump_json()) == body, kind


def test_amounts_and_moments_are_exact_in_payloads() -> None:
    """Money is whole nano-dollars, and a moment says its offset from UTC: neither is a float in any payload."""
    moments = ("_at", "until", "since")
    for kind, stored in events.samples().items():
        for name, value in stored.event.data.items():
            if name.endswith("nanos"):
                assert value is None or type(value) is int, (kind, name)
            if name.endswith(moments) and value is not None:
                assert str(value).endswith("+00:00"), (kind, name)
