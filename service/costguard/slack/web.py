"""One call of Slack's Web API: the SDK's client, and Costguard's errors. Safe to use from several threads."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError

from costguard.slack.errors import error_of

ENDPOINT = "https://slack.com/api/"
TIMEOUT_SECONDS = 10
_PAGE = 200
# Whatever the SDK and the standard library raise for an answer that is late, torn or strange;
# AttributeError is the SDK's for JSON that is no object.
_WRONG = (SlackClientError, OSError, HTTPException, ValueError, LookupError, AttributeError)


class WebApi:
    """`method` names are Slack's. Every call is one request: the SDK's own retries could post a message twice."""

    def __init__(self, token: str, endpoint: str = ENDPOINT, timeout_seconds: int = TIMEOUT_SECONDS) -> None:
        quiet = logging.getLogger("costguard.slack.sdk")
        quiet.setLevel(logging.CRITICAL)  # what it would log is raised as well, and at DEBUG it logs what people wrote
        self._client = WebClient(
            token, base_url=endpoint, timeout=timeout_seconds, retry_handlers=[], logger=quiet, headers={}
        )
        # The SDK sends all through HTTPS_PROXY, hosts of NO_PROXY too; without a proxy of its own urllib heeds both.
        self._client.proxy = None

    def call(self, method: str, *, acts: bool = False, **arguments: Any) -> Mapping[str, Any]:
        """Raises SlackError. `acts`: people would see it done twice."""
        return self.answer(method, acts=acts, **arguments)[0]

    def answer(
        self, method: str, *, acts: bool = False, **arguments: Any
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """The body, and the headers with lower-case names."""
        try:
            if "blocks" in arguments:
                answer = self._client.api_call(method, json=arguments)
            else:
                answer = self._client.api_call(method, params=arguments)
        except _WRONG as wrong:
            channel = str(arguments.get("channel", ""))
            raise error_of(wrong, method, channel, acts=acts) from wrong
        body = answer.data if isinstance(answer.data, dict) else {}
        return body, {key.lower(): value for key, value in answer.headers.items()}

    def pages(self, method: str, key: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
        """What stands under `key`, one by one over all pages."""
        cursor = ""
        while True:
            more: dict[str, Any] = {"cursor": cursor} if cursor else {}
            body = self.call(method, limit=_PAGE, **arguments, **more)
            yield from (one for one in body.get(key) or () if isinstance(one, dict))
            before, cursor = cursor, str((body.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor or cursor == before:
                return
