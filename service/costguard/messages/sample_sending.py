"""Sends a sample of each kind of message to one person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol, TypeAlias

from costguard.doctor.finding import Finding, Topic, needs, ok
from costguard.errors import SlackError, SlackLimited
from costguard.messages import pacing, samples
from costguard.model import moments
from costguard.model.delivery.message import Content, EphemeralContent, ListContent, Posted
from costguard.model.delivery.person import Person
from costguard.model.ports import Notifier

Pause: TypeAlias = Callable[[float], object]  # takes seconds
_MOST_WAITS = 5  # for one message


class SampleNotifier(Notifier, Protocol):
    """Slack, where the answer to a command can be posted as well."""

    def post(self, channel: str, content: Content | ListContent, key: str, thread_ts: str = "") -> Posted: ...


def send(notifier: SampleNotifier, address: str, now: datetime, time_zone: str, pause: Pause) -> Iterator[Finding]:
    """Sends them at once, also in quiet hours, as direct messages. `time_zone` is of people for whom Slack has none."""
    try:
        person = notifier.person_of(address)
        if person is None:
            words = f"No one in the Slack workspace has the address {address}."
            yield needs(Topic.SLACK, "person", words, "Give --as the address of your Slack account.")
            return
        zone = moments.zone_of(person.time_zone, time_zone)
        every = samples.samples(person, now, zone)
        direct = _DirectMessages(notifier, person, f"sample/{now.isoformat()}", pause)
        direct.send(samples.introduction(len(every)))
        for sample in every:
            direct.send(sample.content, is_reply=sample.is_reply)
            yield ok(Topic.SLACK, sample.what, f"Sent to {address}: {sample.what}.")
    except SlackError as wrong:
        yield needs(Topic.SLACK, "message", wrong.message, wrong.what_next)


class _DirectMessages:
    """Sends to one person, no faster than Slack takes messages in a channel."""

    def __init__(self, notifier: SampleNotifier, person: Person, key: str, pause: Pause) -> None:
        self._notifier, self._person, self._key, self._pause = notifier, person, key, pause
        self._channel = notifier.open_direct(person.user_id)
        self._count, self._newest = 0, ""  # `_newest`: the ts of the newest message outside a thread

    def send(self, content: Content | ListContent, *, is_reply: bool = False) -> None:
        """Waits as long as Slack asks, and tries again. A reply goes into the thread of the message before."""
        if self._count:
            self._pause(pacing.BETWEEN.total_seconds())
        self._count += 1
        for _ in range(_MOST_WAITS):
            try:
                self._post(content, self._newest if is_reply else "")
                return
            except SlackLimited as limited:
                self._pause(limited.retry_after)
        self._post(content, self._newest if is_reply else "")

    def _post(self, content: Content | ListContent, thread_ts: str) -> None:
        if isinstance(content, EphemeralContent):
            self._notifier.post_ephemeral(self._channel, self._person.user_id, content)
            return
        posted = self._notifier.post(self._channel, content, f"{self._key}/{self._count}", thread_ts)
        self._newest = thread_ts or posted.ts
