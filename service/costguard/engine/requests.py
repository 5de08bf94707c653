"""What people ask for in Slack: checked, stored, and left to the next pass; and the lists of VMs they ask about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, tzinfo

import structlog
from sqlalchemy import Connection

from costguard.engine.cards import when, zone_of
from costguard.engine.ports import Clock, Notifier
from costguard.errors import CostguardError, SlackError
from costguard.model.fact import Fact
from costguard.model.message import Button, ListContent, VmCard, WhisperContent
from costguard.model.person import Acquaintance
from costguard.model.press import Command, Press
from costguard.model.reminder import About, Asked, Request, Role, Subject
from costguard.policy import access
from costguard.policy.narrate import ended_text
from costguard.policy.rules import Rules
from costguard.policy.teams import team_of
from costguard.store import facts, fleet, messages, people, requests, spans, watched
from costguard.store.messages import NewMessage
from costguard.store.transaction import Database
from costguard.store.watched import WatchedRow

log = structlog.get_logger(__name__)

Cards = Callable[[Connection, Sequence[Subject], datetime], list[tuple[VmCard, tuple[Button, ...], str]]]

PATIENCE = timedelta(seconds=2)  # Slack waits for 3 s
_KNOWN_FOR = timedelta(days=7)
_SHOWN = 15  # VMs of a list: each is composed while Slack waits, and one message holds no more
_OVERSEERS = frozenset({Role.OPERATOR, Role.ADMIN})
HELP = (
    "/gpu lists your VMs, with buttons to stop or keep them.\n"
    "/gpu all lists every VM that you may act on, as an operator or an admin.\n"
    "/gpu help says this."
)
_WISH = {
    Asked.STOP: "to stop {name}",
    Asked.SUSPEND: "to suspend {name}",
    Asked.KEEP: "to keep {name}",
    Asked.CLAIM: "for {name} to be theirs",
    Asked.DISOWN: "for {name} not to be theirs any more",
}


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
        self._takers = ThreadPoolExecutor(4, "press")
        self._askers = ThreadPoolExecutor(2, "who-pressed")  # apart: Slack may be slow, the database must not wait

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
        words = command.text.lower().split()
        if words not in ([], ["mine"], ["all"]):
            unknown = "" if words == ["help"] else f"There is no /gpu {command.text}.\n"
            return WhisperContent(unknown + HELP)
        address = self._address_in_time(command.user_id)
        if isinstance(address, WhisperContent):
            return address
        now = self._clock.now()
        with self._database.read() as connection:
            there = watched.read(connection)
            own = [row for row in there if row.owner.lower() == address]
            if words == ["all"]:
                found = [row for row in there if self._refusal(Asked.STOP, address, row) is None]
                if len(found) == len(own) and access.role_of(address, self._rules.access) not in _OVERSEERS:
                    return WhisperContent("/gpu all is for operators and admins; /gpu lists your own VMs.")
                title = f"All VMs that you may act on: {_counted(found)}"
            else:
                found, title = own, f"Your VMs: {_counted(own)}"
            if not found:
                return WhisperContent(f"{title}. Costguard knows you as {address}.")
            shown = sorted(found, key=_longest_running_first)[:_SHOWN]
            made = self._cards(connection, [_subject(row) for row in shown], now)
        return ListContent(title, tuple(made), more=len(found) - len(shown))

    def _take(self, press: Press) -> None:
        known = self._met(press.user_id)
        if known is not None:
            self._settle(press, known)
        else:
            asking = self._askers.submit(self._take_from_stranger, press)
            asking.add_done_callback(lambda done: self._tell_loss(press, done))

    def _take_from_stranger(self, press: Press) -> None:
        try:
            found = self._introduced(press.user_id)
        except SlackError as error:
            log.warning("presser_not_known", user=press.user_id, error=str(error))
            text = "Slack did not say in time who you are, so nothing was done. Press it again in a minute."
            with self._database.write() as connection:
                self._whisper(connection, press, text)
            self._wake()
            return
        self._settle(press, found)

    def _settle(self, press: Press, by: Acquaintance | None) -> None:
        """Store it, or why it was refused; a repeat of the same press changes nothing."""
        now, address = self._clock.now(), by.address if by is not None else ""
        with self._database.write() as connection:
            if any(each.request.key == press.key for each in requests.of_subject(connection, press.subject)):
                return  # delivered once more, and perhaps carried out by now
            row = next(iter(watched.read(connection, [press.subject.instance_id])), None)
            name = row.name if row is not None else _name(connection, press.subject)
            why = _over(connection, press.subject, row, name, zone_of(by, self._rules))
            if why is None and row is not None:
                why = self._refusal(press.asked, address, row)
            if why is not None:
                self._whisper(connection, press, why)
                told = (
                    f"{address or press.user_id} asked {_WISH[press.asked].format(name=name)}, and was refused: {why}"
                )
                facts.append(connection, [_fact(press, "RequestRefused", address, told, row, now)], now)
            else:
                requests.add(connection, _request(press, address, now))
                told = f"{address} asked {_WISH[press.asked].format(name=name)}."
                facts.append(connection, [_fact(press, "RequestMade", address, told, row, now)], now)
        self._wake()

    def _refusal(self, asked: Asked, address: str, row: WatchedRow) -> str | None:
        team = team_of(row.key.project, row.owner, self._rules.teams)
        return access.refusal(asked, address, row.name, row.owner, team, self._rules.access)

    def _whisper(self, connection: Connection, press: Press, text: str) -> None:
        new = NewMessage(
            key=f"whisper/{press.key}",
            kind="whisper",
            address=press.user_id,
            data={"text": text, "channel": press.channel, "thread_ts": press.thread_ts},
        )
        messages.intend(connection, new, self._clock.now())

    def _address_in_time(self, user_id: str) -> str | WhisperContent:
        """Their address, in lower case, or why there is none."""
        known = self._met(user_id)
        if known is not None:
            return known.address
        try:
            found = self._askers.submit(self._introduced, user_id).result(self._patience)
        except (TimeoutError, SlackError) as error:
            log.warning("asker_not_known", user=user_id, error=str(error) or "no answer in time")
            return WhisperContent("Slack did not say in time who you are. Type it again in a minute.")
        if found is None:
            return WhisperContent("Slack tells no e-mail address of yours, so Costguard cannot know your VMs.")
        return found.address

    def _met(self, user_id: str) -> Acquaintance | None:
        """Whom Slack named not too long ago: addresses change, and what their owner may do goes with them."""
        with self._database.read() as connection:
            known = people.by_user_id(connection, user_id)
        return known if known is not None and self._clock.now() - known.looked_up_at < _KNOWN_FOR else None

    def _introduced(self, user_id: str) -> Acquaintance | None:
        """Who Slack says this is, from now on remembered; None without an address. Raises SlackError."""
        person = self._notifier.person_by_id(user_id)
        if person is None or not person.address:
            return None
        found = Acquaintance(person.address.lower(), person, self._clock.now())
        with self._database.write() as connection:
            people.save(connection, found)
        return found

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


def _subject(row: WatchedRow) -> Subject:
    about = About.RUN if row.started_at is not None else About.REST
    return Subject(about, row.instance_id, row.lifetime_id)


def _over(connection: Connection, subject: Subject, row: WatchedRow | None, name: str, zone: tzinfo) -> str | None:
    """What became of the subject, where nothing can be asked about it any more."""
    if row is not None and _subject(row) == subject:
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
    found = fleet.known(connection, [subject.instance_id])
    return found[0].name if found else ""


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


def _fact(press: Press, kind: str, address: str, text: str, row: WatchedRow | None, now: datetime) -> Fact:
    return Fact(
        key=f"{kind}/{press.key}",
        kind=kind,
        occurred_at=now,
        text=text,
        project=row.key.project if row is not None else "",
        gce_id=row.key.gce_id if row is not None else "",
        name=row.name if row is not None else "",
        actor=address or press.user_id,
        data={"asked": press.asked.value, "subject": str(press.subject), "hours": press.hours, "via": "slack"},
    )


def _counted(rows: Sequence[WatchedRow]) -> str:
    """`2 run, 1 is at rest`."""
    running = sum(row.started_at is not None for row in rows)
    resting = len(rows) - running
    parts = [f"{running} run{'s' if running == 1 else ''}"] if running else []
    parts += [f"{resting} {'is' if resting == 1 else 'are'} at rest"] if resting else []
    return ", ".join(parts) or "none is there"


def _longest_running_first(row: WatchedRow) -> tuple[bool, datetime]:
    return row.started_at is None, row.started_at or row.rests_since or datetime.max.replace(tzinfo=UTC)
