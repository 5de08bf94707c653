"""Webhook bodies, signatures by https://www.standardwebhooks.com, and waits after a refusal. Pure."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from datetime import datetime, timedelta
from hashlib import sha256

from costguard.model.backoff import Backoff
from costguard.model.delivery.webhook import Webhook, WebhookResponse
from costguard.model.event import Event
from costguard.model.moments import z_text

_BACKOFF = Backoff(timedelta(seconds=1), timedelta(hours=1))
_LONGEST_ASKED = timedelta(days=1)  # a receiver that asks for more is tried again all the same


def message_id(event: Event) -> str:
    """The same for an event in every delivery, so that a receiver can ignore repeats."""
    return f"event_{sha256(event.key.encode()).hexdigest()[:32]}"


def body(event: Event, event_id: int, recorded_at: datetime) -> bytes:
    fields = {
        "id": event_id,
        "kind": event.kind,
        "occurred_at": z_text(event.occurred_at),
        "recorded_at": z_text(recorded_at),
        "project": event.project,
        "gce_id": event.gce_id,
        "name": event.name,
        "actor": event.actor,
        "text": event.text,
        "data": event.data,
        "key": event.key,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def headers(webhook: Webhook, message: str, content: bytes, now: datetime) -> dict[str, str]:
    """Returns headers with one signature a secret: a receiver needs to know one of them."""
    timestamp = str(int(now.timestamp()))
    signed = b".".join((message.encode(), timestamp.encode(), content))
    signatures = [b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in webhook.secrets]
    return {
        "content-type": "application/json",
        "webhook-id": message,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def wait(tries: int, answer: WebhookResponse | None) -> timedelta:
    """Returns the time until the next try after so many failed ones: doubling, and no shorter than the receiver
    requests.
    """
    requested = answer.retry_after if answer is not None and answer.retry_after is not None else timedelta()
    return _BACKOFF.after(tries, at_least=min(requested, _LONGEST_ASKED))


def refusal(answer: WebhookResponse) -> str:
    """The meaning of a refusal, and what to do about it where that is known."""
    said = f' ("{answer.words}")' if answer.words else ""
    head = f"The receiver answered {answer.status}{said}."
    if answer.is_gone:
        return f"{head} It wants no more events: remove the webhook from the settings or correct its url, then restart."
    if 300 <= answer.status < 400:
        return f"{head} Redirects are not followed: set url to where it moved."
    if answer.status in (401, 403):
        return f"{head} Check that it knows the secret that signs."
    return head
