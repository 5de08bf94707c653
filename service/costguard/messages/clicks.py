"""What people ask for in Slack: checked, stored, and left to the next pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta, tzinfo

import structlog
from sqlalchemy import Connection

from costguard.access import requests, roles
from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.errors import CostguardError, SlackError
from costguard.ledger import fleet_rows, generation, spans
from costguard.ledger.narrate import ended_text
from costguard.messages import gpu_command
from costguard.messages.cards import when, zone_of
from costguard.messages.gpu_command import Cards
from costguard.messages.recipients import Introductions
from costguard.model.generation import Generation
from costguard.model.message import ListContent, WhisperContent
from costguard.model.person import Acquaintance
from costguard.model.ports import Clock, Notifier
from costguard.model.press import Command, Press
from costguard.model.reminder import About, Request, Subject
from costguard.reminders import message_rows, watched_rows
from costguard.reminders import requests as asking
from costguard.reminders.message_rows import NewMessage
from costguard.reminders.watched_rows import WatchedRow

log = structlog.get_logger(__name__)

PATIENCE = timedelta(seconds=2)  # Slack waits for 3 s


class Desk:
    """Takes presses and commands from any thread. What it does for somebody is answered within `patience`.

    Who pressed is known from earlier, or Slack is asked after the press was answered: an answer waits for no call.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        rules: Rules,
        notifier: Notifier,
        cards: Cards,
        wake: Callable[[], None],
        patience: timedelta = PATIENCE,
    ) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._notifier = notifier
        self._cards = cards
        self._wake = wake
        self._patience = patience.total_seconds()
        self._people = Introductions(database, clock, notifier)
        self._takers = ThreadPoolExecutor(4, "press")
        self._askers = ThreadPoolExecutor(2, "who-pressed")  # apart: a slow Slack must not hold up whom we know

    def close(self) -> None:
        """Finish what was taken in."""
        self._takers.shutdown()
        self._askers.shutdown()

    def press(self, press: Press) -> None:
        """Stored, or refused in private. Raises StoreError when the database says no in time.

        While another writer keeps the database for longer, this returns and the press is stored after it.
        """
        taken = self._takers.submit(self._take, press)
        try:
            taken.result(self._patience)
        except TimeoutError:
            taken.add_done_callback(lambda done: self._tell_loss(press, done))

    def command(self, command: Command) -> ListContent | WhisperContent:
        """What to show to this person alone. Raises StoreError."""
        said = gpu_command.answer_at_once(command.text)
        if said is not None:
            return said
        by: Acquaintance | str | None = self._people.met(command.user_id, command.team_id)
        if by is None:
            try:
                by = self._askers.submit(self._people.ask, command.user_id).result(self._patience)
            except (TimeoutError, SlackError) as error:
                log.warning("asker_not_known", user=command.user_id, error=str(error) or "no answer in time")
                return WhisperContent("Slack did not say in time who you are. Type it again in a minute.")
        if isinstance(by, str):
            return WhisperContent(by)
        if no_role := roles.without_role(by.address, self._rules.access, self._rules.teams):
            return WhisperContent(no_role)
        with self._database.read() as connection:
            return gpu_command.listing(
                connection, self._rules, self._cards, by.address, command.text, self._clock.now()
            )

    def _take(self, press: Press) -> None:
        by = self._people.met(press.user_id, press.team_id)
        if by is not None:
            self._settle(press, by)
        else:
            asking = self._askers.submit(self._take_from_stranger, press)
            asking.add_done_callback(lambda done: self._tell_loss(press, done))

    def _take_from_stranger(self, press: Press) -> None:
        try:
            by = self._people.ask(press.user_id)
        except SlackError as error:
            log.warning("presser_not_known", user=press.user_id, error=str(error))
            text = "Slack did not say in time who you are, so nothing was done. Press it again in a minute."
            with self._database.write() as connection:
                _whisper(connection, press, text, self._clock.now())
            self._wake()
        else:
            self._settle(press, by)

    def _settle(self, press: Press, by: Acquaintance | str) -> None:
        """Store it, or why it was refused; a repeat of the same press changes nothing. `by` in words: why nobody."""
        now = self._clock.now()
        member = None if isinstance(by, str) else by
        address = member.address if member is not None else ""
        not_theirs = by if isinstance(by, str) else roles.without_role(address, self._rules.access, self._rules.teams)
        with self._database.write() as connection:
            if any(each.request.key == press.key for each in requests.of_subject(connection, press.subject)):
                return  # delivered once more, and perhaps carried out by now
            row = next(iter(watched_rows.read(connection, [press.subject.instance_id])), None)
            name = row.name if row is not None else _name(connection, press.subject)
            why = (
                not_theirs
                or _from_before(generation.read(connection), press.message_ts)
                or _over(connection, press.subject, row, name, zone_of(member, self._rules))
            )
            if why is None and row is not None:
                owned = asking.ownership_of(connection, row)
                why = asking.refusal(self._rules, press.asked, Actor(address), row, owned, now)
            asking.store(connection, _request(press, address, now), row, name, why)
            if why is not None:
                _whisper(connection, press, why, now)
        self._wake()

    def _tell_loss(self, press: Press, done: Future[None]) -> None:
        """A press that was answered could not be stored after all: the person must hear of it, if Slack lets them."""
        error = done.exception()
        if error is None:
            return
        log.error("press_lost", press=press.key, error=str(error), exc_info=not isinstance(error, CostguardError))
        text = "What you pressed could not be stored, so nothing was done. Press it again in a minute."
        try:
            self._notifier.whisper(press.channel, press.user_id, WhisperContent(text), press.thread_ts)
        except SlackError as trouble:
            log.error("press_loss_not_told", press=press.key, error=str(trouble))


def _from_before(life: Generation, message_ts: str) -> str | None:
    """Where a restore lost what came after a backup, an older message may be about another VM than it seems."""
    if life.began_at is None or int(message_ts.partition(".")[0]) >= life.began_at.timestamp():
        return None
    return "This message is from before Costguard's database was restored, so nothing was done. /gpu has buttons anew."


def _over(connection: Connection, subject: Subject, row: WatchedRow | None, name: str, zone: tzinfo) -> str | None:
    """What became of the subject, where nothing can be asked about it any more."""
    if row is not None and asking.subject_of(row) == subject:
        return None
    if not name:
        return "Costguard does not know this VM: the message is from before its database was made."
    if row is None:
        return f"{name} is gone, so there is nothing left to do."
    if subject.about is About.REST:
        return f"{name} was started again since this message. /gpu shows what is there now."
    for each in spans.lifetimes_of(connection, subject.instance_id):
        life = each.lifetime
        if each.id == subject.lifetime_id and life.ended_at is not None and life.end_reason is not None:
            by = f" by {life.ended_by}" if life.ended_by not in ("", "system") else ""
            again = "; it was started again since then" if row.started_at is not None else ""
            return f"{name} {ended_text(life.end_reason)}{by} at {when(life.ended_at, zone)}{again}."
    return f"What this message asked about {name} is over. /gpu shows what is there now."


def _name(connection: Connection, subject: Subject) -> str:
    found = fleet_rows.known(connection, [subject.instance_id])
    return found[0].name if found else ""


def _whisper(connection: Connection, press: Press, text: str, now: datetime) -> None:
    new = NewMessage(
        key=f"whisper/{press.key}",
        kind="whisper",
        address=press.user_id,
        data={"text": text, "channel": press.channel, "thread_ts": press.thread_ts},
    )
    message_rows.intend(connection, new, now)


def _request(press: Press, address: str, now: datetime) -> Request:
    return Request(
        key=press.key,
        asked=press.asked,
        subject=press.subject,
        by=address,
        user_id=press.user_id,
        via="slack",
        at=now,
        hours=press.hours,
        due_at=press.due_at,
    )
