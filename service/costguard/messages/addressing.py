"""Where a message goes: from an address to a place in Slack."""

from __future__ import annotations

from datetime import datetime, timedelta

from costguard.access import people
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.model.person import Acquaintance
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
