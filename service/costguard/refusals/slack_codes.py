"""Slack's words for what it refuses, each with what mends it.

From https://docs.slack.dev/reference/methods/chat.postMessage#errors and its siblings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from costguard.refusals.explanation import RefusalKind

_NEW_TOKEN = "Install the app to the workspace again, give Costguard its new bot token, and restart it."  # noqa: S105
_ASK_ADMIN = "Ask an admin of the workspace to allow the app there."
TOKEN: Mapping[str, str] = {
    "not_authed": "Give Costguard the app's bot token (xoxb-...).",
    "invalid_auth": "Check Costguard's Slack token: it must be the app's bot token (xoxb-...), whole.",
    "account_inactive": _NEW_TOKEN,
    "token_revoked": _NEW_TOKEN,
    "invalid_refresh_token": _NEW_TOKEN,
    "invalid_token": _NEW_TOKEN,  # this and those below as incoming webhooks answer
    "no_active_hooks": _NEW_TOKEN,
    "no_service": _NEW_TOKEN,
    "team_disabled": _NEW_TOKEN,
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
INVITE = "Invite the app in that channel: /invite @costguard"
_LEFT = "They cannot receive messages: name another owner or contact in the settings, or restore their account."
CHANNEL: Mapping[str, str] = {
    "channel_not_found": f"Check the channel in the settings. If it is private, {INVITE[0].lower()}{INVITE[1:]}",
    "not_in_channel": INVITE,
    "channel_is_archived": "Unarchive that channel, or name another one in the settings.",
    "posting_to_general_channel_denied": "Let apps post in that channel, or name another one in the settings.",
    "action_prohibited": "Let apps post in that channel, or name another one in the settings.",
    "is_archived": "Unarchive that channel, or name another one in the settings; to try again does not help.",
    "restricted_action": f"Let apps post in that channel, or name another one. {INVITE}",
    "restricted_action_read_only_channel": "Let the app post in that channel, or name another one in the settings.",
    "restricted_action_thread_only_channel": "Let the app post in that channel, or name another one in the settings.",
    "restricted_action_non_threadable_channel": "Allow threads in that channel, or name another one in the settings.",
    "messages_tab_disabled": "Turn the Messages tab on, under App Home in the app's settings.",
    "user_disabled": _LEFT,
    "user_not_found": _LEFT,
    "user_not_visible": _LEFT,
    "cannot_dm_bot": _LEFT,
}
LIMITED = ("ratelimited", "rate_limited", "message_limit_exceeded")
UNCERTAIN = ("internal_error", "fatal_error", "request_timeout", "service_unavailable")
SCOPE = "missing_scope"
# What is wrong with the call itself, beginning so.
_CALL = re.compile(
    r"(?:invalid|missing|too|msg|no_text|block|bad|cant|deprecated|json|not_a|unsupported|unknown_method)_?"
)

_IN_ANSWER = re.compile(r"""(?<![\w])["']?[Ee]rror["']?\s{0,9}[:=]\s{0,9}["']?([a-z][a-z0-9_]{2,60})\b""")
_NOT_OK = re.compile(r"""(?<![\w])["']?ok["']?\s{0,9}[:=]\s{0,9}(?:false|False)\b""", re.IGNORECASE)
_SLACK = re.compile(r"slack|An API error occurred", re.IGNORECASE)
_KNOWN = frozenset({*TOKEN, *CHANNEL, *LIMITED, SCOPE, "invalid_form_data", "invalid_arguments", "msg_too_long"})
_ANY_CODE = re.compile(rf"(?<![\w.])(?:{'|'.join(sorted(_KNOWN, key=len, reverse=True))})(?![\w])")


def code_in(text: str) -> str:
    """Slack's code in an answer of Slack's; "" where the text is another's.

    An answer of Slack's has `ok: false`; a client's text says Slack, or "An API error occurred" as Slack's own does.
    """
    is_whole = text.strip() in _KNOWN
    refused = _NOT_OK.search(text)
    if refused is not None and (match := _IN_ANSWER.search(text, refused.start()) or _IN_ANSWER.search(text)):
        return match[1]
    if is_whole or _SLACK.search(text):
        match = _ANY_CODE.search(text)
        return match[0] if match is not None else ""
    return ""


def kind_of_code(code: str) -> RefusalKind:
    """The kind of error that a code of Slack's stands for."""
    if code == SCOPE:
        return RefusalKind.SLACK_SCOPE
    if code in TOKEN:
        return RefusalKind.SLACK_TOKEN
    if code in CHANNEL:
        return RefusalKind.SLACK_CHANNEL
    if code in LIMITED:
        return RefusalKind.RATE_LIMITED
    if code.endswith("_not_found"):
        return RefusalKind.NOT_FOUND
    return RefusalKind.REQUEST if _CALL.match(code) else RefusalKind.UNKNOWN


def of_scope(needed: str, provided: str = "") -> tuple[str, str]:
    """The sentence and the step for a scope that the app lacks. `needed` and `provided` as Slack writes them."""
    scope = needed or "a scope"
    has = f"; it has {provided.replace(',', ', ')}" if provided else ""
    return (
        f"The app lacks {scope} in Slack{has}.",
        f"Add {scope} to the bot token's scopes under OAuth & Permissions (api.slack.com/apps), then install the app "
        "again; deploy/slack-manifest.yaml has them all.",
    )
