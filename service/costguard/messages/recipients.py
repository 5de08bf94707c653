"""Slack is asked who people are beside the passes, so that a slow Slack keeps no pass waiting."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import structlog

from costguard.access import people
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import SlackError, SlackLimited, SlackRefused, SlackUnavailable
from costguard.events import facts
from costguard.messages.slack_health import people_unknown
from costguard.model.person import Acquaintance, Standing
from costguard.model.ports import Clock, Notifier

KNOWN_FOR = timedelta(days=1)  # how long an address need not be looked up again
MISSED_FOR = timedelta(hours=1)  # and one that nobody had


def is_stale(known: Acquaintance | None, now: datetime) -> bool:
    return known is None or now - known.looked_up_at >= (MISSED_FOR if known.person is None else KNOWN_FOR)


def looked_up(notifier: Notifier, address: str, before: Acquaintance | None, now: datetime) -> Acquaintance:
    """As Slack says now. Raises SlackError; the place of direct messages is kept with its person."""
    person = notifier.person_of(address)
    channel = before.direct_channel if before is not None and before.person == person else ""
    return Acquaintance(address.lower(), person, now, channel)


class Addressing:
    """People become direct messages, or the fallback channel where Slack knows nobody by their address."""

    def __init__(self, database: Database, notifier: Notifier, clock: Clock, fallback_channel: str) -> None:
        self._database = database
        self._notifier = notifier
        self._clock = clock
        self._fallback_channel = fallback_channel

    def known_channel(self, address: str) -> str:
        """As far as it is known without asking Slack; else the address itself."""
        if not _is_person(address):
            return address
        known = self._known(address)
        return known.direct_channel if known is not None and known.direct_channel else address

    def channel(self, address: str, fence: Lease | None) -> str:
        """The channel's id or name. Raises SlackError."""
        if not _is_person(address):
            return address
        known = self._known(address)
        if "@" not in address and known is None:  # somebody who was never looked up, and needs no more than a place
            return self._notifier.open_direct(address)
        if "@" in address and (known is None or is_stale(known, self._clock.now())):
            known = looked_up(self._notifier, address, known, self._clock.now())
            with self._database.write(fence) as connection:
                people.save(connection, known)
        if known is None or known.person is None:
            return self._fallback_channel
        if known.direct_channel:
            return known.direct_channel
        channel = self._notifier.open_direct(known.person.user_id)
        with self._database.write(fence) as connection:
            people.set_direct_channel(connection, known.address, channel)
        return channel

    def _known(self, address: str) -> Acquaintance | None:
        with self._database.read() as connection:
            if "@" not in address:
                return people.by_user_id(connection, address)
            return people.of_addresses(connection, [address]).get(address.lower())


def _is_person(address: str) -> bool:
    """An e-mail address or a user's id, not a channel's name or id."""
    return "@" in address or address.startswith(("U", "W"))


MEMBER_FOR = timedelta(hours=1)

_UNKNOWN = (
    "Slack gives Costguard no e-mail address of yours, so nothing was done. "
    "Add one to your Slack profile, or sign in to Costguard's pages."
)
_REFUSED: Mapping[Standing, str] = {
    Standing.GUEST: "You are a guest in this Slack workspace, and Costguard acts for its full members only: nothing "
    "was done. Ask a full member, or sign in to Costguard's pages.",
    Standing.EXTERNAL: "You belong to another Slack workspace than Costguard does, so nothing was done. "
    "Ask somebody of the workspace that Costguard is installed in.",
    Standing.UNCONFIRMED: "Your e-mail address is not confirmed in Slack, so Costguard cannot know who you are: "
    "nothing was done. Confirm it in your Slack account settings, then try again.",
}


class Introductions:
    def __init__(self, database: Database, clock: Clock, notifier: Notifier) -> None:
        self._database = database
        self._clock = clock
        self._notifier = notifier

    def met(self, user_id: str, team_id: str) -> Acquaintance | None:
        """A member whom Slack named within the hour, in that workspace; None: Slack has to be asked.

        People leave, become guests and change their addresses, and what they may do goes with that.
        """
        with self._database.read() as connection:
            known = people.by_user_id(connection, user_id)
        if known is None or known.person is None or known.person.team_id != team_id:
            return None
        return known if self._clock.now() - known.looked_up_at < MEMBER_FOR else None

    def ask(self, user_id: str) -> Acquaintance | str:
        """The member that Slack says this is, remembered from now on; else why it is none. Raises SlackError."""
        person = self._notifier.person_by_id(user_id)
        if person is not None and person.standing is not Standing.MEMBER:
            return _REFUSED[person.standing]
        if person is None or not person.address:
            return _UNKNOWN
        found = Acquaintance(person.address.lower(), person, self._clock.now())
        with self._database.write() as connection:
            people.save(connection, found)
        return found


log = structlog.get_logger(__name__)

_MOST_CALLS = 10  # in one turn: messages wait meanwhile


class Acquainting:
    """A pass names whom it may have to tell something soon, and decides with who is known; another thread asks.

    Slack being away only delays that, but nobody who is unknown can be reminded meanwhile.
    """

    def __init__(self, database: Database, notifier: Notifier, clock: Clock) -> None:
        self._database = database
        self._notifier = notifier
        self._clock = clock
        self._lock = threading.Lock()
        self._named: set[str] | None = None  # None: nobody has named anyone since the last turn
        self.trouble = ""  # what keeps Slack from saying who they are

    def name(self, addresses: Collection[str]) -> None:
        """In lower case. They take the place of those who were named before."""
        with self._lock:
            self._named = set(addresses)

    def look_up(self, fence: Lease | None = None, stop: threading.Event | None = None) -> bool:
        """Ask Slack about some of those named. Whether a pass may decide now what it could not before.

        Raises LeaseLost, and StoreError where the database fails; what Slack refuses waits for the next pass.
        """
        with self._lock:
            named, self._named = self._named, None
        if named is None:
            return False
        now = self._clock.now()
        with self._database.read() as connection:
            known = people.of_addresses(connection, named)
        missing = sorted(address for address in named if is_stale(known.get(address), now))
        is_news, trouble = False, ""
        for address in missing[:_MOST_CALLS]:
            if stop is not None and stop.is_set():
                return is_news
            before = known.get(address)
            try:
                found = self._ask(address, before)
            except SlackError as error:
                log.warning("person_not_looked_up", address=address, error=str(error))
                if not isinstance(error, SlackLimited):
                    trouble = self._tell(error, fence)
                break
            with self._database.write(fence) as connection:
                people.save(connection, found)
            is_news = is_news or before is None or before.person != found.person
        else:
            self._go_on_with(missing[_MOST_CALLS:])
        self.trouble = trouble
        return is_news

    def _ask(self, address: str, before: Acquaintance | None) -> Acquaintance:
        try:
            return looked_up(self._notifier, address, before, self._clock.now())
        except (SlackLimited, SlackRefused, SlackUnavailable):
            raise
        except SlackError as error:  # what Slack minds about one address must not hide the others
            log.warning("address_refused", address=address, error=str(error))
            return Acquaintance(address, None, self._clock.now())

    def _tell(self, error: SlackError, fence: Lease | None) -> str:
        now = self._clock.now()
        with self._database.write(fence) as connection:
            facts.append(connection, [people_unknown(error, now)], now)
        return str(error)

    def _go_on_with(self, rest: Collection[str]) -> None:
        """At the next turn, unless a pass has named others since."""
        with self._lock:
            if self._named is None and rest:
                self._named = set(rest)
