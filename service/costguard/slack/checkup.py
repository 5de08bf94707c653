"""Tries what Costguard needs in Slack: token, scopes, channels, people, and how clicks arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from costguard.doctor.finding import Finding, Topic, needs, ok, unknown
from costguard.errors import ChannelRefused, SlackError, SlackRefused
from costguard.model.delivery.message import NotificationContent
from costguard.model.moments import clock_text
from costguard.refusals.slack_codes import INVITE
from costguard.slack.client import SCOPES, SlackNotifier
from costguard.slack.web_api import ENDPOINT, WebApi

MOST_SKEW_SECONDS = 60  # Slack's requests are refused when they are 300 seconds old
_TIMEOUT_S = 5
_TEST = NotificationContent(
    icon="test",
    title="Costguard is connected",
    text="This is a test message, sent to check that Costguard can write here. There is nothing to do.",
)
_CHANGED = NotificationContent(
    icon="test",
    title="Costguard is connected",
    text="This is a test message. Costguard wrote it, and then changed it. There is nothing to do.",
)
_POST = "costguard doctor --post"


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration. Clicks arrive over Socket Mode with an app-level token, else as signed requests.

    `accepted_at`: when Slack last took a message in `channels[0]`; None where the database knows of none.
    """

    bot_token: str
    endpoint: str = ENDPOINT
    channels: Sequence[str] = ()
    address: str = ""  # that Slack should know
    signing_secret: str = ""
    app_token: str = ""
    accepted_at: datetime | None = None


def check_up(setup: Setup, now: datetime, post_to: str = "") -> list[Finding]:
    """Tries everything; posts nothing unless `post_to` names a channel for a test message."""
    web = WebApi(setup.bot_token, setup.endpoint, _TIMEOUT_S)
    notifier = SlackNotifier(setup.bot_token, setup.endpoint, _TIMEOUT_S)
    try:
        body, headers = web.answer("auth.test")
    except SlackError as wrong:
        return [_bad(wrong, "token")]
    if body.get("ok") is not True:
        return [unknown(Topic.SLACK, "token", "The answer to auth.test did not come from Slack.")]
    findings = [_identity(body), *_scopes(headers), *_clock(headers, now)]
    for channel in dict.fromkeys(setup.channels):
        findings += _channel(web, notifier, channel)
    if setup.address:
        findings += _person(notifier, setup.address)
    findings += _way_back(setup)
    findings += _written(setup, notifier, now, post_to)
    named = {one.name for one in findings if not one.is_ok}
    # What a scope that is named already keeps from being asked has no line of its own.
    return [one for one in findings if one.name != _LACKS_SCOPE or not any(name.startswith("scope ") for name in named)]


_LACKS_SCOPE = "missing_scope"


def _bad(wrong: SlackError, name: str) -> Finding:
    """A refusal of Slack's own is needed to be mended; where it did not answer, nothing is known."""
    if wrong.code == "missing_scope":
        return needs(Topic.SLACK, _LACKS_SCOPE, wrong.message, wrong.what_next)
    if isinstance(wrong, SlackRefused | ChannelRefused):
        return needs(Topic.SLACK, name, wrong.message, wrong.what_next)
    return unknown(Topic.SLACK, name, str(wrong))


def _identity(body: Mapping[str, object]) -> Finding:
    if not body.get("bot_id"):
        words = "The Slack token is not an app's bot token."
        return needs(Topic.SLACK, "token", words, "Use the one that begins with xoxb-.")
    return ok(Topic.SLACK, "token", f"The app is {body.get('user')} in the workspace {body.get('team')}.")


def _scopes(headers: Mapping[str, str]) -> Iterator[Finding]:
    held = {scope.strip() for scope in headers.get("x-oauth-scopes", "").split(",")} - {""}
    if not held:
        yield unknown(Topic.SLACK, "scopes", "Slack's answer does not say which scopes the app has.")
        return
    missing = [scope for scope in SCOPES if scope not in held]
    for scope in missing:
        add = f"Add {scope} under OAuth & Permissions of the app at https://api.slack.com/apps, then install it again."
        yield needs(
            Topic.SLACK, f"scope {scope}", f"The app lacks the scope {scope}, which it needs {SCOPES[scope]}.", add
        )
    if not missing:
        more = sorted(held - set(SCOPES))
        beyond = f" It also has scopes that it does not need: {', '.join(more)}." if more else ""
        yield ok(Topic.SLACK, "scopes", f"The app has all {len(SCOPES)} scopes that it needs.{beyond}")


def _clock(headers: Mapping[str, str], now: datetime) -> Iterator[Finding]:
    try:
        theirs = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        yield unknown(Topic.SLACK, "clock", "Slack's answer has no date to compare this computer's clock with.")
        return
    skew = round((now - theirs).total_seconds())
    if abs(skew) <= MOST_SKEW_SECONDS:
        yield ok(Topic.SLACK, "clock", "This computer's clock agrees with Slack's.")
        return
    ahead = "ahead of" if skew > 0 else "behind"
    yield needs(
        Topic.SLACK,
        "clock",
        f"This computer's clock is {abs(skew)} s {ahead} Slack's; from 300 s on, every button click is refused.",
        "sudo timedatectl set-ntp true",
    )


def _channel(web: WebApi, notifier: SlackNotifier, channel: str) -> Iterator[Finding]:
    name = f"channel {channel}"
    try:
        place = notifier.channel_id(channel)
        info = web.call("conversations.info", channel=place).get("channel")
    except SlackError as wrong:
        yield _bad(wrong, name)
        return
    if not isinstance(info, dict) or not ("is_member" in info or info.get("is_im")):
        yield unknown(Topic.SLACK, name, f"Slack's answer does not say whether the app is in {channel}.")
    elif info.get("is_archived"):
        words = "Unarchive it, or name another channel in the settings."
        yield needs(Topic.SLACK, name, f"{channel} is archived.", words)
    elif not info.get("is_member") and not info.get("is_im"):
        yield needs(Topic.SLACK, name, f"The app is not in {channel}.", INVITE)
    else:
        yield ok(Topic.SLACK, name, f"The app is in {channel}.")


def _person(notifier: SlackNotifier, address: str) -> Iterator[Finding]:
    name = f"person {address}"
    try:
        person = notifier.person_of(address)
        if person is None:
            yield needs(
                Topic.SLACK,
                name,
                f"No one in the Slack workspace has the address {address}.",
                "Check the address. Owners without a Slack account are reminded in the channel.",
            )
            return
        notifier.open_direct(person.user_id)
    except SlackError as wrong:
        yield _bad(wrong, name)
        return
    zone = f", in {person.time_zone}" if person.time_zone else ""
    yield ok(Topic.SLACK, name, f"{address} is {person.name}{zone}, and can receive direct messages.")


def _way_back(setup: Setup) -> Iterator[Finding]:
    """Checks how clicks and commands arrive."""
    if setup.app_token:
        try:
            WebApi(setup.app_token, setup.endpoint, _TIMEOUT_S).call("apps.connections.open")
        except SlackError as wrong:
            yield _bad(wrong, "clicks")
            return
        yield ok(Topic.SLACK, "clicks", "Button clicks can arrive over Socket Mode: the app-level token is valid.")
    elif setup.signing_secret.strip():
        yield ok(
            Topic.SLACK,
            "clicks",
            "Button clicks arrive as signed requests: a signing secret is set. Click a button to see whether Slack "
            "reaches this server.",
        )
    else:
        yield needs(
            Topic.SLACK,
            "clicks",
            "Button clicks and commands cannot arrive: there is neither a signing secret nor an app-level token.",
            "Give Costguard the app's signing secret, or turn Socket Mode on and give it an app-level token (xapp-).",
        )


def _written(setup: Setup, notifier: SlackNotifier, now: datetime, post_to: str) -> Iterator[Finding]:
    """Judges whether messages are taken: by one that is posted and edited on request, or one that was taken lately."""
    if post_to:
        key = f"test/{now.isoformat()}"
        try:
            place = notifier.post(post_to, _TEST, key)
            notifier.update(place, _CHANGED, key)
        except SlackError as wrong:
            yield _bad(wrong, "message")
            return
        yield ok(Topic.SLACK, "message", f"A test message was sent to {post_to}, and edited.")
    elif setup.accepted_at is not None:
        at = clock_text(setup.accepted_at, now)
        yield ok(Topic.SLACK, "message", f"Slack last took a message of Costguard's at {at}.")
    elif setup.channels:
        words = f"Whether a message can be posted and edited in {setup.channels[0]} was not tried."
        yield unknown(Topic.SLACK, "message", words, command=_POST)
