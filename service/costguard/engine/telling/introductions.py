"""Who is behind a Slack id: remembered from earlier, or asked of Slack."""

from __future__ import annotations

from datetime import timedelta

from costguard.engine.ports import Clock, Notifier
from costguard.model.person import Acquaintance
from costguard.store import people
from costguard.store.transaction import Database

KNOWN_FOR = timedelta(days=7)


class Introductions:
    def __init__(self, database: Database, clock: Clock, notifier: Notifier) -> None:
        self._database = database
        self._clock = clock
        self._notifier = notifier

    def met(self, user_id: str) -> Acquaintance | None:
        """Whom Slack named not too long ago: addresses change, and what their owner may do goes with them."""
        with self._database.read() as connection:
            known = people.by_user_id(connection, user_id)
        return known if known is not None and self._clock.now() - known.looked_up_at < KNOWN_FOR else None

    def ask(self, user_id: str) -> Acquaintance | None:
        """Who Slack says this is, from now on remembered; None without an address. Raises SlackError."""
        person = self._notifier.person_by_id(user_id)
        if person is None or not person.address:
            return None
        found = Acquaintance(person.address.lower(), person, self._clock.now())
        with self._database.write() as connection:
            people.save(connection, found)
        return found
