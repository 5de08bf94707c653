"""Requests signed as Slack signs them: https://docs.slack.dev/authentication/verifying-requests-from-slack."""

from __future__ import annotations

import hashlib
import hmac


def signed_headers(secret: str, body: bytes, timestamp: int) -> dict[str, str]:
    """The two headers by which an app knows that a request is Slack's and fresh."""
    base = b"v0:%d:%b" % (timestamp, body)
    digest = hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": f"v0={digest}"}
