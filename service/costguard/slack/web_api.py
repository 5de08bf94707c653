"""Slack's Web API: calls by the SDK's client, and what went wrong with them as Costguard's errors.

The question that matters is whether a failed call may have been done: a message must neither be lost nor sent twice.
Slack's codes are those of https://docs.slack.dev/reference/methods/chat.postMessage#errors and its siblings.
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

_NEW_TOKEN = "Install the app to the workspace again, give Costguard its new bot token, and restart it."  # noqa: S105
_ASK_ADMIN = "Ask an admin of the workspace to allow the app there."
_REFUSED: Mapping[str, str] = {
    "not_authed": "Give Costguard the app's bot token (xoxb-...).",
    "invalid_auth": "Check Costguard's Slack token: it must be the app's bot token (xoxb-...), whole.",
    "account_inactive": _NEW_TOKEN,
    "token_revoked": _NEW_TOKEN,
    "token_expired": "Turn token rotation off in the app's settings, install it again, and set the new bot token.",
    "not_allowed_token_type": "Use the app's bot token (xoxb-...), and its app-level token (xapp-...) for the socket.",
    "no_permission": _ASK_ADMIN,
    "org_login_required": _ASK_ADMIN,
    "ekm_access_denied": _ASK_ADMIN,
    "enterprise_is_restricted": _ASK_ADMIN,
    "team_access_not_granted": _ASK_ADMIN,
    "access_denied": _ASK_ADMIN,
    "accesslimited": _ASK_ADMIN,
    "two_factor_setup_required": _ASK_ADMIN,
}
_INVITE = "Invite the app in that channel: /invite @costguard"
_LEFT = "They cannot receive messages: name another owner or contact in the settings, or restore their account."
_CHANNEL: Mapping[str, str] = {
    "channel_not_found": f"Check the channel in the settings. If it is private, {_INVITE[0].lower()}{_INVITE[1:]}",
    "not_in_channel": _INVITE,
    "is_archived": "Unarchive that channel, or name another one in the settings.",
    "restricted_action": f"Let apps post in that channel, or name another one. {_INVITE}",
    "restricted_action_read_only_channel": "Let the app post in that channel, or name another one in the settings.",
    "restricted_action_thread_only_channel": "Let the app post in that channel, or name another one in the settings.",
    "restricted_action_non_threadable_channel": "Allow threads in that channel, or name another one in the settings.",
    "messages_tab_disabled": "Turn the Messages tab on, under App Home in the app's settings.",
    "user_disabled": _LEFT,
    "user_not_found": _LEFT,
    "user_not_visible": _LEFT,
    "cannot_dm_bot": _LEFT,
}
_UNCERTAIN = ("internal_error", "fatal_error", "request_timeout", "service_unavailable")
_LIMITED = ("ratelimited", "rate_limited", "message_limit_exceeded")
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
    if status == 429 or code in _LIMITED:
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
    if code in _UNCERTAIN:
        return _lost(message, code, acts=acts)
    if code == "missing_scope":
        needed = str(body.get("needed") or "a scope")
        return SlackRefused(
            f"Slack refused {call}: the app lacks {needed}.",
            f"Add {needed} to the bot token's scopes under OAuth & Permissions, then install the app again; "
            "deploy/slack-manifest.yaml has them all.",
            code,
        )
    if code in _REFUSED:
        return SlackRefused(message, _REFUSED[code], code)
    if code in _CHANNEL:
        return ChannelRefused(message, _CHANNEL[code], code)
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
# What the SDK and the standard library raise for answers that are late, torn or strange;
# AttributeError is the SDK's for JSON that is no object.
_WRONG = (SlackClientError, OSError, HTTPException, ValueError, LookupError, AttributeError)


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
        """The objects under `key`, over all pages."""
        cursor = ""
        while True:
            more: dict[str, Any] = {"cursor": cursor} if cursor else {}
            body = self.call(method, limit=_PAGE, **arguments, **more)
            yield from (one for one in body.get(key) or () if isinstance(one, dict))
            before, cursor = cursor, str((body.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor or cursor == before:
                return
