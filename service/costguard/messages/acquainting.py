"""Slack is asked who people are beside the passes, so that a slow Slack keeps no pass waiting."""

from __future__ import annotations

import threading
from collections.abc import Collection

import structlog

from costguard.access import people
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import SlackError, SlackLimited, SlackRefused, SlackUnavailable
from costguard.events import facts
from costguard.messages.addressing import is_stale, looked_up
from costguard.messages.sending_facts import people_unknown
from costguard.model.person import Acquaintance
from costguard.model.ports import Clock, Notifier

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
