"""Slack as a Notifier: messages, accounts and channels by the Web API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from costguard.errors import ChannelRefused, SlackError, SlackUncertain
from costguard.model.delivery.message import Content, ListContent, Posted
from costguard.model.delivery.person import Membership, Person
from costguard.slack.render import render
from costguard.slack.web_api import ENDPOINT, TIMEOUT_SECONDS, WebApi, object_of, without


@dataclass(frozen=True, slots=True)
class Workspace:
    """The app's own workspace, by auth.test. `enterprise_id` is "" outside Enterprise organisations."""

    team_id: str
    enterprise_id: str = ""


def membership_of(user: Mapping[str, Any], ours: Workspace) -> Membership:
    """The membership of `user`, a user object of Slack's, in our workspace or organisation.

    Slack leaves `is_email_confirmed` out of some answers; only an explicit false counts as unconfirmed. Those who
    were invited and never signed in have not confirmed theirs either.
    """
    if user.get("is_stranger") or not _is_of(user, ours):
        return Membership.EXTERNAL
    if user.get("is_restricted") or user.get("is_ultra_restricted"):
        return Membership.GUEST
    if user.get("is_email_confirmed") is False or user.get("is_invited_user"):
        return Membership.UNCONFIRMED
    return Membership.MEMBER


def _is_of(user: Mapping[str, Any], ours: Workspace) -> bool:
    if ours.team_id and user.get("team_id") == ours.team_id:
        return True
    enterprise = object_of(user, "enterprise_user").get("enterprise_id")
    return bool(ours.enterprise_id) and enterprise == ours.enterprise_id


EVENT_TYPE = "costguard_message"
# The fewest that what is called here needs; deploy/slack-manifest.yaml asks for the same.
SCOPES: Mapping[str, str] = {
    "chat:write": "to send messages and to change its own",
    "commands": "to answer /gpu",
    "users:read": "to know people's names and time zones",
    "users:read.email": "to find a VM's owner by their address",
    "im:write": "to open direct messages with owners",
    "im:history": "to find its own direct message when Slack's answer was lost",
    "channels:history": "to find its own message in a public channel when Slack's answer was lost",
    "groups:history": "to find its own message in a private channel when Slack's answer was lost",
    "channels:read": "to find a public channel by its name",
    "groups:read": "to find a private channel by its name",
}
_SKEW = timedelta(minutes=5)  # between our clock and Slack's, whose time a message bears


class SlackNotifier:
    """Implements Notifier. Safe to use from several threads."""

    def __init__(self, token: str, endpoint: str = ENDPOINT, timeout_seconds: int = TIMEOUT_SECONDS) -> None:
        self._web = WebApi(token, endpoint, timeout_seconds)
        self._ours: Workspace | None = None  # None: auth.test was not asked yet
        self._ids: dict[str, str] = {}  # of channels, by `#name`
        self._searched: dict[str, dict[str, str]] = {}  # how far searches came that Slack ended early, by key

    def post(self, channel: str, content: Content | ListContent, key: str, thread_ts: str = "") -> Posted:
        """SlackUncertain: it may have been posted; `find` tells."""
        answer = self._web.call(
            "chat.postMessage",
            acts=True,
            channel=channel,
            unfurl_links=False,
            unfurl_media=False,
            **_body(content, key),
            **_thread(thread_ts),
        )
        place, ts = str(answer.get("channel") or ""), str(answer.get("ts") or "")
        if not place or not ts:
            raise SlackUncertain(
                f"Slack's answer to chat.postMessage in {channel} does not say where the message is.",
                "Costguard looks for it before it tries again.",
            )
        if channel.startswith("#"):
            self._ids[channel] = place
        return Posted(place, ts)

    def update(self, at: Posted, content: Content, key: str) -> None:
        """Replaces a message's content; harmless when repeated. The key stays with it."""
        self._web.call("chat.update", acts=True, channel=at.channel, ts=at.ts, **_body(content, key))

    def post_ephemeral(self, channel: str, user_id: str, content: Content, thread_ts: str = "") -> None:
        """Shows an ephemeral message to this person alone."""
        self._web.call(
            "chat.postEphemeral",
            acts=True,
            channel=self.channel_id(channel),
            user=user_id,
            **_body(content),
            **_thread(thread_ts),
        )

    def find(self, channel: str, key: str, since: datetime, thread_ts: str = "") -> Posted | None:
        """The message with this key among those since then, in the channel or in the thread.

        Where Slack ends the search early (SlackLimited), the next one for this key goes on from there: apps that are
        distributed outside the Marketplace read 15 messages a minute
        (https://docs.slack.dev/reference/methods/conversations.history), and from the start again none would end.
        """
        place = self.channel_id(channel)
        oldest = f"{max(0.0, (since.astimezone(UTC) - _SKEW).timestamp()):.6f}"
        # A channel is read from its newest message back, a thread from its oldest on.
        method, edge = ("conversations.replies", "oldest") if thread_ts else ("conversations.history", "latest")
        where = {"oldest": oldest, **({"ts": thread_ts} if thread_ts else {}), **self._searched.get(key, {})}
        messages = self._web.pages(
            method, "messages", channel=place, include_all_metadata=True, inclusive=True, **where
        )
        try:
            for message in messages:
                if _key_of(message) == key:
                    self._searched.pop(key, None)
                    return Posted(place, str(message["ts"]))
                if message.get("ts") not in (None, thread_ts):  # a thread's parent stands on every page
                    self._searched[key] = {edge: str(message["ts"])}
        except SlackError as wrong:
            if wrong.code != "thread_not_found":
                raise
        self._searched.pop(key, None)
        return None

    def person_of(self, address: str) -> Person | None:
        """The member who has this address; None where there is none, also for guests and for those who left."""
        if not address.strip():
            return None
        person = self._person("users.lookupByEmail", address, {"email": address.strip()})
        return person if person is not None and person.membership is Membership.MEMBER else None

    def person_by_id(self, user_id: str) -> Person | None:
        """Looks up a person with their membership; None for no account, for people who left, and for apps.

        The address is "" where Slack does not give it.
        """
        return self._person("users.info", "", {"user": user_id}) if user_id else None

    def open_direct(self, user_id: str) -> str:
        """The id of the app's direct messages with this person, always the same."""
        return str(self._web.object("conversations.open", "channel", users=user_id).get("id") or "")

    def channel_id(self, channel: str) -> str:
        """The id of `#name`, as most methods take ids alone. Raises ChannelRefused for a channel it cannot see."""
        if not channel.startswith("#"):
            return channel
        if channel not in self._ids:
            kinds = "public_channel,private_channel"
            for one in self._web.pages("conversations.list", "channels", types=kinds, exclude_archived=True):
                self._ids[f"#{one.get('name')}"] = str(one.get("id"))
        if channel not in self._ids:
            raise ChannelRefused(
                f"There is no channel {channel} that the app can see.",
                "Check its name in the settings. If it is private, invite the app there: /invite @costguard",
                "channel_not_found",
            )
        return self._ids[channel]

    def _person(self, method: str, address: str, who: dict[str, Any]) -> Person | None:
        try:
            user = self._web.object(method, "user", **who)
        except SlackError as wrong:
            if wrong.code in ("users_not_found", "user_not_found", "user_not_visible"):
                return None
            raise
        # Slackbot is no bot by its own account.
        if user.get("deleted") or user.get("is_bot") or user.get("id") in (None, "", "USLACKBOT"):
            return None
        profile = object_of(user, "profile")
        name = profile.get("display_name") or profile.get("real_name") or user.get("real_name") or user.get("name")
        email = address or str(profile.get("email") or "")
        return Person(
            user_id=str(user["id"]),
            address=email.strip().lower(),
            name=str(name or ""),
            time_zone=str(user.get("tz") or ""),
            team_id=str(user.get("team_id") or ""),
            membership=membership_of(user, self._workspace()),
        )

    def _workspace(self) -> Workspace:
        """The workspace that the app is installed in, which never changes for a token."""
        if self._ours is None:
            identity = self._web.call("auth.test")
            if not identity.get("team_id"):
                raise without("auth.test", "team_id")
            self._ours = Workspace(str(identity.get("team_id") or ""), str(identity.get("enterprise_id") or ""))
        return self._ours


def _body(content: Content | ListContent, key: str = "") -> dict[str, Any]:
    shown = render(content)
    # Without these Slack would make mentions and links of bare words in the text by itself, when it updates.
    body: dict[str, Any] = {"text": shown.text, "blocks": shown.blocks, "parse": "none", "link_names": False}
    if key:
        body["metadata"] = {"event_type": EVENT_TYPE, "event_payload": {"key": key}}
    return body


def _thread(thread_ts: str) -> dict[str, str]:
    return {"thread_ts": thread_ts} if thread_ts else {}


def _key_of(message: Mapping[str, Any]) -> str | None:
    metadata = object_of(message, "metadata")
    if metadata.get("event_type") != EVENT_TYPE:
        return None
    return str(object_of(metadata, "event_payload").get("key"))
