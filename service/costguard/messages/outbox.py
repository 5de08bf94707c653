"""The outbox: sends each message once, in its channel's order, no faster than Slack accepts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from sqlalchemy import Connection

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import (
    ChannelRefused,
    SlackError,
    SlackLimited,
    SlackRefused,
    SlackUnavailable,
    SlackUncertain,
)
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.ledger import fleet_rows
from costguard.messages import outbox_rows
from costguard.messages.outbox_rows import StoredMessage
from costguard.messages.pacing import BACKOFF, Pacing
from costguard.messages.recipients import ChannelResolver
from costguard.messages.slack_health import resumed, troubled
from costguard.model.delivery.message import Content, Posted
from costguard.model.event import Event, new_event
from costguard.model.ports import Clock, Notifier

log = structlog.get_logger(__name__)

SETTLE_AFTER = timedelta(seconds=30)  # a call has ended by then, one way or another
_CLOCKS_DIFFER = timedelta(minutes=2)  # Slack's and ours
_MOST_CALLS = 50  # in one run: the next run takes the rest
_MOST_READ = 50  # of one address
_FROZEN_S = 5.0  # after its claim: later another process may settle it
_TRIES = 5  # of a message that Slack calls wrong
_LOOK_EVERY = timedelta(seconds=10)  # for messages that show an outdated state
_AGAIN = timedelta(minutes=1)
# A workspace may forbid to edit messages after a while (https://docs.slack.dev/reference/methods/chat.update).
_FIXED = "edit_window_closed"
_GONE = frozenset({"message_not_found", "thread_not_found", "cant_update_message"})


@dataclass(frozen=True, slots=True)
class Composed:
    """The content now. `shown` names the state that it shows; a final one is never edited."""

    content: Content
    shown: str
    is_final: bool


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The message is no longer true and is not sent."""

    why: str


class Compose(Protocol):
    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn: ...


Changed = Callable[[Connection, Sequence[StoredMessage], datetime], list[StoredMessage]]


class Outbox:
    """Sends intended messages, settles doubtful ones, and edits outdated ones. One thread at a time uses it.

    `changed` finds messages that show an outdated state. `count` receives the kind of each message and the result of
    a try: "accepted", "refused", "in_doubt", or "failed", which is final.
    """

    def __init__(
        self,
        database: Database,
        notifier: Notifier,
        compose: Compose,
        clock: Clock,
        fallback_channel: str,
        changed: Changed = lambda _connection, _messages, _now: [],
        monotonic: Callable[[], float] = time.monotonic,
        count: Callable[[str, str], None] = lambda _kind, _outcome: None,
    ) -> None:
        self._database = database
        self._notifier = notifier
        self._compose = compose
        self._clock = clock
        self._changed = changed
        self._monotonic = monotonic
        self._count = count
        self._addressing = ChannelResolver(database, notifier, clock, fallback_channel)
        self._pacing = Pacing()
        self._looked_at: datetime | None = None
        self._to_edit: list[StoredMessage] = []
        self._has_edits = False  # that wait for their channel

    @property
    def refusals(self) -> tuple[str, Mapping[str, str]]:
        """Returns the reasons why Slack accepts nothing, and why it accepts nothing for a channel.

        Reads no database.
        """
        return self._pacing.trouble, self._pacing.channel_troubles

    def deliver(self, fence: Lease | None = None, stop: threading.Event | None = None) -> timedelta | None:
        """Sends what may go now. Returns how long until there may be more; None: nothing waits.

        Raises LeaseLost, and StoreError where the database fails; what Slack refuses waits.
        """
        calls = 0
        with self._database.read() as connection:
            due = outbox_rows.waiting(connection, self._clock.now(), _MOST_READ)
        # A person waits for an ephemeral reply right now: it must not queue behind a channel's reminders.
        for message in sorted(due, key=lambda message: message.kind != "ephemeral"):
            if self._is_over(calls, stop):
                break
            calls += self._isolated(self._send if message.status == "intended" else self._settle, message, fence)
        self._look()
        while self._to_edit and not self._is_over(calls, stop):
            message = self._to_edit.pop(0)
            calls += self._isolated(self._edit, message, fence)
        return self._rest(calls)

    def _is_over(self, calls: int, stop: threading.Event | None) -> bool:
        return (
            calls >= _MOST_CALLS
            or (stop is not None and stop.is_set())
            or self._pacing.workspace_wait(self._clock.now()) > timedelta()
        )

    def _rest(self, calls: int) -> timedelta | None:
        now = self._clock.now()
        with self._database.read() as connection:
            first, later = outbox_rows.next_tries(connection, now)
        waits = [timedelta(seconds=1)] if self._to_edit or self._has_edits else []
        if later is not None:
            waits.append(later - now)
        if first is not None and first <= now:
            waits.append(timedelta() if calls >= _MOST_CALLS else self._pacing.shortest_wait(now))
        return max(min(waits), self._pacing.workspace_wait(now)) if waits else None

    def _isolated(
        self, do: Callable[[StoredMessage, Lease | None], bool], message: StoredMessage, fence: Lease | None
    ) -> bool:
        """Says whether Slack was called. One message's failure must not hold up the others."""
        with Isolated("message_not_sent", key=message.key) as failure:
            return do(message, fence)
        # Once claimed it may be in Slack already: then it is settled, and not sent again.
        with self._database.write(fence) as connection:
            outbox_rows.postpone(connection, message.id, self._clock.now() + _AGAIN, str(failure.error))
        return True

    # Sending.

    def _send(self, message: StoredMessage, fence: Lease | None) -> bool:
        now = self._clock.now()
        if self._pacing.wait(self._addressing.known_channel(_address(message)), now) > timedelta():
            return False
        with self._database.read() as connection:
            composed = self._compose(connection, message, now)
        if isinstance(composed, Withdrawn):
            with self._database.write(fence) as connection:
                outbox_rows.withdraw(connection, message.id, composed.why)
            return False
        try:
            channel = self._addressing.channel(_address(message), fence)
        except SlackError as error:
            return self._refused(message, message.address, error, fence)
        if self._pacing.wait(channel, now) > timedelta():
            return False
        with self._database.write(fence) as connection:
            root = outbox_rows.root_of(connection, message.thread, message.address, channel) if message.thread else None
            thread_ts = root.ts if root is not None else str(message.data.get("thread_ts", ""))
            now, claimed_s = self._clock.now(), self._monotonic()
            if not outbox_rows.begin(connection, message.id, channel, thread_ts, now, now + SETTLE_AFTER):
                return False
        self._pacing.sent(channel, now)
        try:
            if self._stood_still(claimed_s, fence):
                return False  # settled like any other doubt
            if _is_ephemeral(message):
                user_id = message.address
                self._notifier.post_ephemeral(channel, user_id, composed.content, thread_ts)
                posted = Posted(channel, "")
            else:
                posted = self._notifier.post(channel, composed.content, message.key, thread_ts)
                self._pacing.is_named(channel, posted.channel)
        except SlackUncertain as error:
            return self._doubt(message, channel, error, fence)
        except SlackError as error:
            if error.code in _GONE and root is not None:
                with self._database.write(fence) as connection:
                    outbox_rows.lose(connection, root.id)
            return self._refused(message, channel, error, fence)
        is_live = message.can_change and not composed.is_final
        self._accept(message, posted, composed.shown, is_live, fence, channel)
        return True

    def _accept(
        self, message: StoredMessage, posted: Posted, shown: str, is_live: bool, fence: Lease | None, answered: str = ""
    ) -> None:
        """`answered` is the channel in which Slack confirmed the call; "" without a confirmation."""
        now = self._clock.now()
        with self._database.write(fence) as connection:
            outbox_rows.accept(connection, message.id, posted, shown, is_live, now)
            over = self._resumed(answered, now) if answered else []
            audit_log.append(connection, [*sent(connection, message, now), *over], now)
        self._count(message.kind, "accepted")

    def _doubt(self, message: StoredMessage, channel: str, error: SlackUncertain, fence: Lease | None) -> bool:
        if _is_ephemeral(message):  # Slack cannot tell, and it is not worth repeating
            self._accept(message, Posted(channel, ""), "", is_live=False, fence=fence)
            return True
        now = self._clock.now()
        with self._database.write(fence) as connection:
            outbox_rows.doubt(connection, message.id, now + SETTLE_AFTER, str(error))
        self._count(message.kind, "in_doubt")
        log.warning("message_in_doubt", key=message.key, error=str(error))
        return True

    def _settle(self, message: StoredMessage, fence: Lease | None) -> bool:
        """Asks Slack whether a message was sent whose outcome is unknown."""
        now = self._clock.now()
        if self._pacing.wait(message.channel, now) > timedelta():
            return False
        if _is_ephemeral(message):
            self._accept(message, Posted(message.channel, ""), "", is_live=False, fence=fence)
            return False
        self._pacing.sent(message.channel, now)
        since = (message.sending_at or message.intended_at) - _CLOCKS_DIFFER
        try:
            posted = self._notifier.find(message.channel, message.key, since, message.thread_ts)
        except SlackError as error:
            if error.code not in _GONE:
                # Reading may be limited to once a minute where writing is not: then the channel's messages go on.
                if not isinstance(error, SlackLimited):
                    self._note(message.channel, error, fence)
                with self._database.write(fence) as connection:
                    outbox_rows.doubt(connection, message.id, now + self._wait_after(message, error), str(error))
                return True
            posted = None  # the thread is gone, and what stood in it
        if posted is None:
            self._put_back(message, timedelta(), "", fence)
        else:
            # What it shows is unknown: it is shown again.
            self._accept(message, posted, "", message.can_change, fence, message.channel)
        return True

    # Editing.

    def _look(self) -> None:
        now, self._has_edits = self._clock.now(), False
        if self._to_edit or (self._looked_at is not None and timedelta() <= now - self._looked_at < _LOOK_EVERY):
            return
        with self._database.read() as connection:
            live = outbox_rows.live(connection)
            self._to_edit = self._changed(connection, live, now) if live else []
        self._looked_at = now

    def _edit(self, message: StoredMessage, fence: Lease | None) -> bool:
        now = self._clock.now()
        wait = self._pacing.wait(message.channel, now)
        if wait > _LOOK_EVERY:
            return False  # the channel refuses all for now, and the next look finds it again
        if wait > timedelta():
            self._looked_at, self._has_edits = None, True  # it is found again
            return False
        composed_s = self._monotonic()
        with self._database.read() as connection:
            composed = self._compose(connection, message, now)
        if isinstance(composed, Withdrawn):
            with self._database.write(fence) as connection:
                outbox_rows.show(connection, message.id, message.shown, is_live=False)
            return False
        if self._stood_still(composed_s, fence):
            return False  # another process may show something newer by now; the next look tells
        self._pacing.sent(message.channel, now)
        try:
            self._notifier.update(message.place, composed.content, message.key)
        except SlackError as error:
            if error.code in _GONE:
                with self._database.write(fence) as connection:
                    outbox_rows.lose(connection, message.id)
                return True
            if error.code == _FIXED:  # it stays as it is; its buttons are checked when they are clicked
                with self._database.write(fence) as connection:
                    outbox_rows.show(connection, message.id, message.shown, is_live=False)
                return True
            self._note(message.channel, error, fence)
            return True
        with self._database.write(fence) as connection:
            outbox_rows.show(connection, message.id, composed.shown, is_live=not composed.is_final)
            audit_log.append(connection, self._resumed(message.channel, now), now)
        return True

    def _stood_still(self, since_s: float, fence: Lease | None) -> bool:
        return self._monotonic() - since_s > _FROZEN_S or not (fence is None or fence.is_certain)

    # When Slack does not take it.

    def _refused(self, message: StoredMessage, channel: str, error: SlackError, fence: Lease | None) -> bool:
        self._note(channel, error, fence)
        is_its_fault = not isinstance(
            error, SlackLimited | SlackUnavailable | SlackUncertain | SlackRefused | ChannelRefused
        )
        if is_its_fault and error.code not in _GONE and message.attempts + 1 >= _TRIES:
            self._count(message.kind, "failed")
            log.error("message_given_up", key=message.key, error=str(error))
            with self._database.write(fence) as connection:
                outbox_rows.fail(connection, message.id, str(error))
            return True
        self._count(message.kind, "refused")
        attempts = None if is_its_fault else message.attempts
        self._put_back(message, self._wait_after(message, error), str(error), fence, attempts)
        return True

    def _wait_after(self, message: StoredMessage, error: SlackError) -> timedelta:
        if isinstance(error, SlackLimited):
            return timedelta(seconds=error.retry_after)
        if error.code in _GONE:
            return timedelta()
        return BACKOFF.after(message.attempts + 1)

    def _note(self, channel: str, error: SlackError, fence: Lease | None) -> None:
        now = self._clock.now()
        if new := self._pacing.refused(channel, error, now):
            log.error("slack_trouble", scope=new, error=str(error))
            with self._database.write(fence) as connection:
                audit_log.append(connection, [troubled(new, error, now)], now)

    def _resumed(self, channel: str, now: datetime) -> list[Event]:
        return [resumed(scope, now) for scope in self._pacing.accepted(channel)]

    def _put_back(
        self, message: StoredMessage, wait: timedelta, error: str, fence: Lease | None, attempts: int | None = None
    ) -> None:
        with self._database.write(fence) as connection:
            outbox_rows.put_back(connection, message.id, self._clock.now() + wait, error, attempts)


def _address(message: StoredMessage) -> str:
    """An ephemeral reply goes to the channel of the click, else to the person's direct messages."""
    return str(message.data.get("channel") or "") or message.address


def _is_ephemeral(message: StoredMessage) -> bool:
    """Says whether it is ephemeral in a channel. As a direct message it is an ordinary message, which stays."""
    return message.kind == "ephemeral" and bool(message.data.get("channel"))


def sent(connection: Connection, message: StoredMessage, now: datetime) -> list[Event]:
    """Makes the event of a reminder that was sent: other messages report events that are recorded already."""
    if message.kind != "reminder" or message.instance_id is None:
        return []
    vm = next(iter(fleet_rows.known(connection, [message.instance_id])), None)
    if vm is None:
        return []
    reason = message.data.get("reason")
    return [
        new_event(
            "ReminderSent",
            now,
            f"Reminder {message.stage + 1} about {vm.name} was sent to {message.address}: {reason}.",
            message.key,
            vm=vm.key,
            name=vm.name,
            data={"message": message.key, "stage": message.stage, "target": message.target, "to": message.address},
        )
    ]
