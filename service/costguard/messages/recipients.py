"""Recipients: the Slack accounts behind e-mail addresses and user ids, and the channels that reach them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import structlog

from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import SlackError, SlackLimited, SlackRefused, SlackUnavailable
from costguard.events import audit_log
from costguard.messages.slack_health import people_unknown
from costguard.model.delivery.person import AccountLookup, Membership
from costguard.model.ports import Clock, Notifier
from costguard.reminders import slack_accounts

log = structlog.get_logger(__name__)

_KNOWN_FOR = timedelta(days=1)  # before an address is looked up again
_MISSED_FOR = timedelta(hours=1)  # the same for an address without an account
_MEMBER_FOR = timedelta(hours=1)  # the same for a person who clicks
_MOST_CALLS = 10  # in one turn: messages wait meanwhile

_NO_ADDRESS = (
    "Slack does not share your e-mail address with Costguard, so nothing was done. "
    "Add one to your Slack profile, or sign in to Costguard's dashboard."
)
_NO_MEMBER: Mapping[Membership, str] = {
    Membership.GUEST: "You are a guest in this Slack workspace, and Costguard takes requests from full members only, "
    "so nothing was done. Ask a full member, or sign in to Costguard's dashboard.",
    Membership.EXTERNAL: "You belong to another Slack workspace than Costguard does, so nothing was done. "
    "Ask someone in the workspace that Costguard is installed in.",
    Membership.UNCONFIRMED: "Your e-mail address is not confirmed in Slack, so Costguard cannot tell who you are, and "
    "nothing was done. Confirm it in your Slack account settings, then try again.",
}


class ChannelResolver:
    """Finds the channel for an address: direct messages for people, the fallback for addresses without an account."""

    def __init__(self, database: Database, notifier: Notifier, clock: Clock, fallback_channel: str) -> None:
        self._database = database
        self._notifier = notifier
        self._clock = clock
        self._fallback_channel = fallback_channel

    def known_channel(self, address: str) -> str:
        """The channel as far as it is known without a call to Slack; else the address itself."""
        if not _is_person(address):
            return address
        lookup = self._stored(address)
        return lookup.direct_channel if lookup is not None and lookup.direct_channel else address

    def channel(self, address: str, fence: Lease | None) -> str:
        """The channel's id or name. Raises SlackError."""
        if not _is_person(address):
            return address
        lookup = self._stored(address)
        if "@" not in address and lookup is None:  # a user id that was never looked up: its channel is enough
            return self._notifier.open_direct(address)
        if "@" in address and (lookup is None or _is_stale(lookup, self._clock.now())):
            lookup = _look_up(self._notifier, address, lookup, self._clock.now())
            with self._database.write(fence) as connection:
                slack_accounts.save(connection, lookup)
        if lookup is None or lookup.person is None:
            return self._fallback_channel
        if lookup.direct_channel:
            return lookup.direct_channel
        channel = self._notifier.open_direct(lookup.person.user_id)
        with self._database.write(fence) as connection:
            slack_accounts.set_direct_channel(connection, lookup.address, channel)
        return channel

    def _stored(self, address: str) -> AccountLookup | None:
        with self._database.read() as connection:
            if "@" not in address:
                return slack_accounts.by_user_id(connection, address)
            return slack_accounts.of_addresses(connection, [address]).get(address.lower())


class SlackMembers:
    """Finds the member behind a Slack user id."""

    def __init__(self, database: Database, clock: Clock, notifier: Notifier) -> None:
        self._database = database
        self._clock = clock
        self._notifier = notifier

    def known(self, user_id: str, team_id: str) -> AccountLookup | None:
        """A member of that workspace who was looked up within the hour; None: Slack has to be asked.

        People leave, become guests and change their addresses, and their rights change with that.
        """
        with self._database.read() as connection:
            lookup = slack_accounts.by_user_id(connection, user_id)
        if lookup is None or lookup.person is None or lookup.person.team_id != team_id:
            return None
        return lookup if self._clock.now() - lookup.looked_up_at < _MEMBER_FOR else None

    def look_up(self, user_id: str) -> AccountLookup | str:
        """Slack's answer, stored; a refusal in words where this is no member. Raises SlackError."""
        person = self._notifier.person_by_id(user_id)
        if person is not None and person.membership is not Membership.MEMBER:
            return _NO_MEMBER[person.membership]
        if person is None or not person.address:
            return _NO_ADDRESS
        lookup = AccountLookup(person.address.lower(), person, self._clock.now())
        with self._database.write() as connection:
            slack_accounts.save(connection, lookup)
        return lookup


class AccountLookups:
    """Looks up the addresses that a pass needs, on another thread, so that a slow Slack delays no pass.

    The pass decides with what is known. An owner who was not looked up yet is not reminded.
    """

    def __init__(self, database: Database, notifier: Notifier, clock: Clock) -> None:
        self._database = database
        self._notifier = notifier
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: set[str] | None = None  # None: no pass has asked since the last turn
        self.trouble = ""  # why lookups fail

    def enqueue(self, addresses: Collection[str]) -> None:
        """Replaces the queue by these addresses, in lower case."""
        with self._lock:
            self._queue = set(addresses)

    def run(self, fence: Lease | None = None, stop: threading.Event | None = None) -> bool:
        """Looks up some of the queue. Whether a pass may now decide what it could not before.

        Raises LeaseLost, and StoreError where the database fails; what Slack refuses waits for the next pass.
        """
        with self._lock:
            addresses, self._queue = self._queue, None
        if addresses is None:
            return False
        now = self._clock.now()
        with self._database.read() as connection:
            lookups = slack_accounts.of_addresses(connection, addresses)
        missing = sorted(address for address in addresses if _is_stale(lookups.get(address), now))
        is_news, trouble = False, ""
        for address in missing[:_MOST_CALLS]:
            if stop is not None and stop.is_set():
                return is_news
            before = lookups.get(address)
            try:
                lookup = self._look_up(address, before)
            except SlackError as error:
                log.warning("person_not_looked_up", address=address, error=str(error))
                if not isinstance(error, SlackLimited):
                    trouble = self._record(error, fence)
                break
            with self._database.write(fence) as connection:
                slack_accounts.save(connection, lookup)
            is_news = is_news or before is None or before.person != lookup.person
        else:
            self._requeue(missing[_MOST_CALLS:])
        self.trouble = trouble
        return is_news

    def _look_up(self, address: str, before: AccountLookup | None) -> AccountLookup:
        try:
            return _look_up(self._notifier, address, before, self._clock.now())
        except (SlackLimited, SlackRefused, SlackUnavailable):
            raise
        except SlackError as error:  # an error about one address must not hide the others
            log.warning("address_refused", address=address, error=str(error))
            return AccountLookup(address, None, self._clock.now())

    def _record(self, error: SlackError, fence: Lease | None) -> str:
        now = self._clock.now()
        with self._database.write(fence) as connection:
            audit_log.append(connection, [people_unknown(error, now)], now)
        return str(error)

    def _requeue(self, rest: Collection[str]) -> None:
        """Queues the rest for the next turn, unless a pass has queued others since."""
        with self._lock:
            if self._queue is None and rest:
                self._queue = set(rest)


def _is_stale(lookup: AccountLookup | None, now: datetime) -> bool:
    return lookup is None or now - lookup.looked_up_at >= (_MISSED_FOR if lookup.person is None else _KNOWN_FOR)


def _look_up(notifier: Notifier, address: str, before: AccountLookup | None, now: datetime) -> AccountLookup:
    """Slack's answer now. Raises SlackError; the direct channel is kept with its person."""
    person = notifier.person_of(address)
    channel = before.direct_channel if before is not None and before.person == person else ""
    return AccountLookup(address.lower(), person, now, channel)


def _is_person(address: str) -> bool:
    """An e-mail address or a user's id, not a channel's name or id."""
    return "@" in address or address.startswith(("U", "W"))
