"""Slack's Web API: calls by the SDK's client, and what went wrong with them as Costguard's errors.

The question that matters is whether a failed call may have been done: a message must neither be lost nor sent twice.
What Slack's codes mean, and what mends each, stands in costguard.refusals.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from costguard.errors import (
    ChannelRefused,
    SlackError,
    SlackLimited,
    SlackRefused,
    SlackUnavailable,
    SlackUncertain,
)
from costguard.refusals.explanation import RefusalKind
from costguard.refusals.slack_codes import CHANNEL, LIMITED, TOKEN, UNCERTAIN, kind_of_code, of_scope

_BACK_OFF = 30.0  # seconds, where Slack does not say how long
_LONGEST_BACK_OFF = 3600.0
_NETWORK = (errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN)
_TRIED_AGAIN = "Costguard tries again automatically."


def error_of(wrong: Exception, method: str, channel: str, endpoint: str, *, acts: bool) -> SlackError:
    """`acts`: people would see the call done twice, so a lost answer is SlackUncertain."""
    call = f"{method} in {channel}" if channel else method
    if isinstance(wrong, SlackApiError):
        return _answered(wrong, call, acts=acts)
    reason = wrong.reason if isinstance(wrong, URLError) else wrong
    if isinstance(reason, ssl.SSLCertVerificationError):
        return SlackUnavailable(
            f"Slack's certificate was not accepted for {call}: {reason}.",
            "Check the system's certificates, its clock, and whether a proxy answers in Slack's place.",
        )
    # Only these are certain: the connection was never there. All else may have broken after the call was done.
    if isinstance(reason, socket.gaierror) or (isinstance(reason, OSError) and reason.errno in _NETWORK):
        return SlackUnavailable(
            f"There is no connection to {urlsplit(endpoint).hostname} for {call}: {reason}.",
            f"Check the network, the proxy settings and the endpoint. {_TRIED_AGAIN}",
        )
    return _lost(f"The answer to {call} was lost: {reason or type(reason).__name__}.", acts=acts)


def _lost(message: str, code: str = "", *, acts: bool) -> SlackError:
    if acts:
        return SlackUncertain(message, "Costguard checks whether it was done before it tries again.", code)
    return SlackUnavailable(message, _TRIED_AGAIN, code)


def _answered(wrong: SlackApiError, call: str, *, acts: bool) -> SlackError:
    answer = wrong.response
    status = int(answer.status_code)
    body: Mapping[str, Any] = answer.data if isinstance(answer.data, dict) else {}
    code = str(body.get("error") or "")[:100]
    if status == 429 or code in LIMITED:
        return SlackLimited(f"Slack limits {call}.", _retry_after(answer.headers))
    if status >= 500:
        return _lost(f"Slack answered {call} with {status}.", acts=acts)
    if not code or " " in code:  # the SDK's own words for an answer that is no JSON
        message = f"The answer to {call} did not come from Slack: status {status}."
        if status == 200:
            return _lost(message, acts=acts)
        return SlackUnavailable(message, "Check the endpoint, and whether a proxy answers in Slack's place.")
    return _of_code(code, body, call, acts=acts)


def _of_code(code: str, body: Mapping[str, Any], call: str, *, acts: bool) -> SlackError:
    message = f"Slack refused {call}: {code}."
    if code in UNCERTAIN:
        return _lost(message, code, acts=acts)
    kind = kind_of_code(code)
    if kind is RefusalKind.SLACK_SCOPE:
        needed = str(body.get("needed") or "")
        return SlackRefused(f"Slack refused {call}: the app lacks {needed or 'a scope'}.", of_scope(needed)[1], code)
    if kind is RefusalKind.SLACK_TOKEN:
        return SlackRefused(message, TOKEN[code], code)
    if kind is RefusalKind.SLACK_CHANNEL:
        return ChannelRefused(message, CHANNEL[code], code)
    if code == "team_added_to_org":
        return SlackUnavailable(message, f"The workspace is being moved. {_TRIED_AGAIN}", code)
    return SlackError(f"{message}{_remarks(body)}", "", code)


def _remarks(body: Mapping[str, Any]) -> str:
    """Slack's remarks about the arguments."""
    more = body.get("response_metadata")
    messages = more.get("messages") if isinstance(more, dict) else None
    remarks = [str(one)[:200] for one in messages[:3]] if isinstance(messages, list) else []
    return "".join(f" {remark}." for remark in remarks)


def _retry_after(headers: Mapping[str, str]) -> float:
    text = {key.lower(): value for key, value in headers.items()}.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        return _BACK_OFF
    return min(max(seconds, 1.0), _LONGEST_BACK_OFF) if seconds == seconds else _BACK_OFF


ENDPOINT = "https://slack.com/api/"
TIMEOUT_SECONDS = 10
_PAGE = 200
_MOST_PAGES = 2_000
# What the SDK and the standard library raise for answers that are late, torn or strange;
# AttributeError is the SDK's for JSON that is no object.
_WRONG = (SlackClientError, OSError, HTTPException, ValueError, LookupError, AttributeError, RecursionError)


class WebApi:
    """Safe to use from several threads. Every call is one request: the SDK's retries could post a message twice."""

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
            raise error_of(wrong, method, channel, self._client.base_url, acts=acts) from wrong
        body = answer.data if isinstance(answer.data, dict) else {}
        return body, {key.lower(): value for key, value in answer.headers.items()}

    def pages(self, method: str, key: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
        """The objects under `key`, over all pages. Raises SlackUnavailable for an answer without a list of them."""
        cursor = ""
        for _ in range(_MOST_PAGES):
            more: dict[str, Any] = {"cursor": cursor} if cursor else {}
            body = self.call(method, limit=_PAGE, **arguments, **more)
            if not isinstance(members := body.get(key), list):
                raise without(method, key)
            yield from (one for one in members if isinstance(one, dict))
            before, cursor = cursor, str(object_of(body, "response_metadata").get("next_cursor") or "")
            if not cursor or cursor == before:
                return
        raise SlackUnavailable(f"Slack's list by {method} has no end; it was left after {_MOST_PAGES:,} pages.", "")

    def object(self, method: str, key: str, **arguments: Any) -> Mapping[str, Any]:
        """The object under `key`. Raises SlackUnavailable for an answer without one: it says nothing either way."""
        part = self.call(method, **arguments).get(key)
        if not isinstance(part, dict):
            raise without(method, key)
        return part


def object_of(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of an answer that may be missing; what is no object is missing."""
    part = body.get(key)
    return part if isinstance(part, dict) else {}


def without(method: str, key: str) -> SlackUnavailable:
    """The error of an answer that lacks what Slack always sends: a proxy may have made it."""
    return SlackUnavailable(f"The answer to {method} did not come from Slack: it has no {key}.", _TRIED_AGAIN)
