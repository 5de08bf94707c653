"""Who is behind a Slack id: remembered from earlier, or asked of Slack."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from costguard.access import people
from costguard.db.transaction import Database
from costguard.model.person import Acquaintance, Standing
from costguard.model.ports import Clock, Notifier

KNOWN_FOR = timedelta(hours=1)

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
        return known if self._clock.now() - known.looked_up_at < KNOWN_FOR else None

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
