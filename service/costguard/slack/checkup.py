"""`costguard slack test`: tries every permission that Costguard needs in Slack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from costguard.errors import SlackError
from costguard.model.message import NotificationContent
from costguard.refusals.slack_codes import INVITE
from costguard.slack.client import SCOPES, SlackNotifier
from costguard.slack.web_api import ENDPOINT, WebApi

MOST_SKEW_SECONDS = 60  # Slack's requests are refused when they are 300 seconds old
_TEST = NotificationContent(
    icon="test",
    title="Costguard is connected",
    text="This is a test message, sent to check that Costguard can write here. There is nothing to do.",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check in a sentence; `what_next` where it failed."""

    is_ok: bool
    sentence: str
    what_next: str = ""


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration. Clicks arrive over Socket Mode with an app-level token, else as signed requests."""

    bot_token: str
    endpoint: str = ENDPOINT
    channels: Sequence[str] = ()
    address: str = ""  # that Slack should know
    signing_secret: str = ""
    app_token: str = ""


def check_up(setup: Setup, now: datetime, post_to: str = "") -> list[Finding]:
    """Tries everything; posts nothing unless `post_to` names a channel for a test message."""
    web = WebApi(setup.bot_token, setup.endpoint)
    notifier = SlackNotifier(setup.bot_token, setup.endpoint)
    try:
        body, headers = web.answer("auth.test")
    except SlackError as wrong:
        return [_bad(wrong)]
    findings = [_identity(body), *_scopes(headers), *_clock(headers, now)]
    findings += [_channel(web, notifier, channel) for channel in dict.fromkeys(setup.channels)]
    if setup.address:
        findings.append(_person(notifier, setup.address))
    findings.append(_way_back(setup))
    if post_to:
        findings.append(_posted(notifier, post_to, now))
    return findings


def _bad(wrong: SlackError) -> Finding:
    return Finding(False, wrong.message, wrong.what_next)


def _identity(body: Mapping[str, object]) -> Finding:
    if not body.get("bot_id"):
        return Finding(False, "The Slack token is not an app's bot token.", "Use the one that begins with xoxb-.")
    return Finding(True, f"The app is {body.get('user')} in the workspace {body.get('team')}.")


def _scopes(headers: Mapping[str, str]) -> Iterator[Finding]:
    held = {scope.strip() for scope in headers.get("x-oauth-scopes", "").split(",")} - {""}
    missing = [scope for scope in SCOPES if scope not in held]
    for scope in missing:
        add = f"Add {scope} under OAuth & Permissions, then install the app again."
        yield Finding(False, f"The app lacks the scope {scope}, which it needs {SCOPES[scope]}.", add)
    if not missing:
        more = sorted(held - set(SCOPES))
        beyond = f" It also has scopes that it does not need: {', '.join(more)}." if more else ""
        yield Finding(True, f"The app has all {len(SCOPES)} scopes that it needs.{beyond}")


def _clock(headers: Mapping[str, str], now: datetime) -> Iterator[Finding]:
    try:
        theirs = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return
    skew = round((now - theirs).total_seconds())
    if abs(skew) <= MOST_SKEW_SECONDS:
        yield Finding(True, "This computer's clock agrees with Slack's.")
        return
    ahead = "ahead of" if skew > 0 else "behind"
    yield Finding(
        False,
        f"This computer's clock is {abs(skew)} s {ahead} Slack's; from 300 s on, every button click is refused.",
        "Synchronise the clock with NTP.",
    )


def _channel(web: WebApi, notifier: SlackNotifier, channel: str) -> Finding:
    try:
        place = notifier.channel_id(channel)
        info = web.call("conversations.info", channel=place).get("channel") or {}
    except SlackError as wrong:
        return _bad(wrong)
    if info.get("is_archived"):
        return Finding(False, f"{channel} is archived.", "Unarchive it, or name another channel in the settings.")
    if not info.get("is_member") and not info.get("is_im"):
        return Finding(False, f"The app is not in {channel}.", INVITE)
    return Finding(True, f"The app is in {channel}.")


def _person(notifier: SlackNotifier, address: str) -> Finding:
    try:
        person = notifier.person_of(address)
        if person is None:
            return Finding(
                False,
                f"No one in the Slack workspace has the address {address}.",
                "Check the address. Owners without a Slack account are reminded in the channel.",
            )
        notifier.open_direct(person.user_id)
    except SlackError as wrong:
        return _bad(wrong)
    zone = f", in {person.time_zone}" if person.time_zone else ""
    return Finding(True, f"{address} is {person.name}{zone}, and can receive direct messages.")


def _way_back(setup: Setup) -> Finding:
    """Checks how clicks and commands arrive."""
    if setup.app_token:
        try:
            WebApi(setup.app_token, setup.endpoint).call("apps.connections.open")
        except SlackError as wrong:
            return _bad(wrong)
        return Finding(True, "Button clicks can arrive over Socket Mode: the app-level token is valid.")
    if setup.signing_secret.strip():
        return Finding(
            True,
            "Button clicks arrive as signed requests: a signing secret is set. Click a button to see whether Slack "
            "reaches this server.",
        )
    return Finding(
        False,
        "Button clicks and commands cannot arrive: there is neither a signing secret nor an app-level token.",
        "Give Costguard the app's signing secret, or turn Socket Mode on and give it an app-level token (xapp-...).",
    )


def _posted(notifier: SlackNotifier, channel: str, now: datetime) -> Finding:
    try:
        notifier.post(channel, _TEST, f"test/{now.isoformat()}")
    except SlackError as wrong:
        return _bad(wrong)
    return Finding(True, f"A test message was sent to {channel}.")
