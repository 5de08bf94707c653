"""Pulls a subscription over REST: several long polls side by side, each of which Pub/Sub answers when messages come.

API: https://docs.cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions. A pull gives at most 100
messages, whatever it asks for (measured on Google's emulator), so several are on their way at once.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer, CloudError
from costguard.gce.session import Deadline, Http
from costguard.model.observation import FeedBacklog, FeedMessage
from costguard.pubsub.backlog import read_backlog
from costguard.pubsub.errors import PUBSUB, in_words

_SCOPES = ("https://www.googleapis.com/auth/pubsub", "https://www.googleapis.com/auth/monitoring.read")
_MOST_OF_A_PULL = 1000  # asked for; 100 come
_MOST_OF_A_REQUEST = 1000  # ids that are acknowledged, or messages that are published, at once
_LONG_POLL_S = 100.0  # Pub/Sub ends a poll without messages by itself before that
_SHORT_CALL_S = 20.0
_LAST_WAIT_S = 1.0
_MEASURING_S = 4.0  # events wait for it
_LONGEST_HOLD_S = 600  # https://docs.cloud.google.com/pubsub/docs/lease-management
_FRACTION = re.compile(r"\.(\d{6})\d+")  # nanoseconds, of which a datetime keeps microseconds

_Pulled = Future[list[FeedMessage]]


class SubscriptionFeed:
    """`subscription` is `projects/P/subscriptions/S`. What is published goes to the topic that it is of.

    Without an endpoint it talks to Google with the machine's default credentials; with one, with none. Long polls run
    in threads of their own, which no end of the process waits for: a message that arrives in one that was left behind
    comes again after the subscription's deadline. One thread at a time pulls; `wait(seconds)` is as `Http` has it.
    """

    def __init__(
        self,
        subscription: str,
        *,
        endpoint: str | None = None,
        pulls: int = 4,
        wait: Callable[[float], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.subscription = subscription
        self._topic = ""
        self._pulls = pulls
        self._monotonic = monotonic
        self._http = Http(endpoint, credentials=None, timeout_s=_LONG_POLL_S, wait=wait, scopes=_SCOPES)
        self._on_their_way: set[_Pulled] = set()

    def close(self) -> None:
        """Ends it, a moment after which polls on their way are left behind: what they get, others get again."""
        self._http.close()
        wait(self._on_their_way, _LAST_WAIT_S)

    def pull(self, wait: timedelta) -> Sequence[FeedMessage]:
        """See Feed. A poll that failed is raised only where no other brought messages: else the next pull may."""
        while len(self._on_their_way) < self._pulls:
            self._on_their_way.add(self._begin())
        done, self._on_their_way = _first_of(self._on_their_way, wait)
        failed = [future for future in done if future.exception() is not None]
        good = [future for future in done if future.exception() is None]
        messages = [message for future in good for message in future.result()]
        if messages or not failed:
            return messages
        failed[0].result()  # raises
        raise AssertionError("a future with an exception has no result")

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        for part in _parts(ack_ids):
            self._ask(self.subscription, "acknowledge", {"ackIds": part}, "Acknowledging messages of")

    def hold(self, ack_ids: Sequence[str], by: timedelta) -> None:
        seconds = min(_LONGEST_HOLD_S, max(0, int(by.total_seconds())))
        for part in _parts(ack_ids):
            body = {"ackIds": part, "ackDeadlineSeconds": seconds}
            self._ask(self.subscription, "modifyAckDeadline", body, "Holding messages of")

    def publish(self, messages: Sequence[tuple[bytes, Mapping[str, str]]]) -> None:
        for part in _parts(messages):
            sent = [{"data": base64.b64encode(data).decode(), "attributes": dict(more)} for data, more in part]
            self._ask(self.topic, "publish", {"messages": sent}, "Publishing to")

    def backlog(self, now: datetime) -> FeedBacklog:
        """Takes monitoring.timeSeries.list in the subscription's project, which the role for reading has."""
        return read_backlog(self._http, self.subscription, now, Deadline(_MEASURING_S, self._monotonic))

    @property
    def topic(self) -> str:
        """The topic that the subscription is of, which is read once. Raises CloudError."""
        if not self._topic:
            answer = self._called(
                lambda: self._http.get_json(
                    _path(self.subscription), {}, **self._context("Reading", self.subscription, _SHORT_CALL_S)
                ),
                self.subscription,
            )
            topic = answer.get("topic")
            if not isinstance(topic, str) or topic.count("/") != 3:
                raise BadAnswer(f"{self.subscription} is of no topic ({topic!r}).", "Make the subscription again.")
            self._topic = topic
        return self._topic

    def _begin(self) -> _Pulled:
        future: _Pulled = Future()

        def poll() -> None:
            try:
                future.set_result(self._poll())
            except BaseException as error:  # whatever it is, the one who pulls gets it
                future.set_exception(error)

        threading.Thread(target=poll, name="pubsub-pull", daemon=True).start()
        return future

    def _poll(self) -> list[FeedMessage]:
        body = {"maxMessages": _MOST_OF_A_PULL}
        answer = self._ask(self.subscription, "pull", body, "Pulling", _LONG_POLL_S, again=False)
        received = answer.get("receivedMessages") or []
        if not isinstance(received, list):
            raise BadAnswer(f"Pulling {self.subscription}: the answer holds no messages.", "Check feed.endpoint.")
        return [message for one in received if (message := read_received(one)) is not None]

    def _ask(
        self,
        resource: str,
        verb: str,
        body: Mapping[str, Any],
        what: str,
        longest_s: float = _SHORT_CALL_S,
        *,
        again: bool = True,
    ) -> dict[str, Any]:
        """Repeats what failed a few times, but for a pull: the next one is as good."""
        ask = self._http.ask_json if again else self._http.post_json
        context = self._context(what, resource, longest_s)
        return self._called(lambda: ask(f"{_path(resource)}:{verb}", body, **context), resource)

    def _context(self, what: str, resource: str, longest_s: float) -> dict[str, Any]:
        _, project, kind, name = resource.split("/")
        deadline = Deadline(longest_s, self._monotonic)
        return {
            "project": project,
            "what": f"{what} {kind.removesuffix('s')} {name}",
            "deadline": deadline,
            "service": PUBSUB,
        }

    def _called(self, call: Callable[[], dict[str, Any]], resource: str) -> dict[str, Any]:
        try:
            return call()
        except CloudError as error:
            raise in_words(error, resource, self._http.account) from error


def read_received(received: Any) -> FeedMessage | None:
    """Reads an element of `receivedMessages`; None for one that has no id to acknowledge it by.

    Both spellings occur, often together: messageId and message_id, publishTime and publish_time.
    """
    ack_id = received.get("ackId") or received.get("ack_id") if isinstance(received, Mapping) else None
    if not isinstance(ack_id, str) or not ack_id:
        return None
    message = received.get("message")
    message = message if isinstance(message, Mapping) else {}
    attributes = message.get("attributes")
    return FeedMessage(
        ack_id,
        _decoded(message.get("data")),
        _moment(message.get("publishTime") or message.get("publish_time")),
        str(message.get("messageId") or message.get("message_id") or ""),
        {str(key): str(value) for key, value in attributes.items()} if isinstance(attributes, Mapping) else {},
    )


def _decoded(data: Any) -> bytes:
    """The bytes of a field of format `byte`; b"" for what is no base64."""
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else b""
    except binascii.Error:
        return b""


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r".\1", text))
    except (TypeError, ValueError):
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else None


def _path(resource: str) -> str:
    return f"/v1/{quote(resource, safe='/:')}"


def _parts(items: Sequence[Any]) -> Iterator[list[Any]]:
    for at in range(0, len(items), _MOST_OF_A_REQUEST):
        yield list(items[at : at + _MOST_OF_A_REQUEST])


def _first_of(futures: set[_Pulled], longest: timedelta) -> tuple[list[_Pulled], set[_Pulled]]:
    """Returns the futures that are done once one is, or the time is up, and the others."""
    done, others = wait(futures, longest.total_seconds(), return_when=FIRST_COMPLETED)
    return list(done), others
