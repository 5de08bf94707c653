"""Button clicks and `/gpu` in Slack: checked, stored as requests, and left to the next pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta, tzinfo
from typing import TypeAlias

import structlog
from sqlalchemy import Connection

from costguard.access import roles
from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.errors import CostguardError, SlackError
from costguard.events import audit_log
from costguard.jobs.submit import wishes
from costguard.ledger import fleet_rows, generation
from costguard.ledger.charged import spans
from costguard.ledger.narrate import ended_text
from costguard.messages import gpu_command
from costguard.messages.cards import zone_of
from costguard.messages.gpu_command import Cards
from costguard.messages.recipients import SlackMembers
from costguard.model.delivery.interaction import SAMPLE_JOB, ButtonClick, JobChoice, JobClick, SlashCommand
from costguard.model.delivery.message import EphemeralContent, ListContent
from costguard.model.delivery.person import AccountLookup
from costguard.model.event import event_key, new_event
from costguard.model.generation import Generation
from costguard.model.moments import moment_text
from costguard.model.ports import Clock, Notifier
from costguard.model.reminder import SAMPLE_REST, SAMPLE_RUN, Request, Subject, SubjectKind
from costguard.reminders import message_rows, request_rows, watched_rows
from costguard.reminders import requests as vm_requests
from costguard.reminders.message_rows import NewMessage
from costguard.reminders.watched_rows import WatchedRow
from costguard.spend import burning

log = structlog.get_logger(__name__)

Click: TypeAlias = ButtonClick | JobClick
PATIENCE = timedelta(seconds=2)  # Slack waits for 3 s


_JOB_WISH = {
    JobChoice.STOP_AFTER: "to stop after its next checkpoint job",
    JobChoice.NEVER_MIND: "for no hint about job",
}
_OF_A_SAMPLE = "This was a button of a sample, so nothing was done. Your click reached Costguard: buttons work."


class InteractionHandler:
    """Handles clicks and commands from any thread, and answers within `patience`.

    A person's account is known from earlier, or looked up in Slack after the click was acknowledged: the
    acknowledgement waits for no call.
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
        self._members = SlackMembers(database, clock, notifier)
        self._storing = ThreadPoolExecutor(4, "click")
        self._looking_up = ThreadPoolExecutor(2, "clicker")  # apart: a slow Slack must not hold up known people
        self._unstored: set[Future[None]] = set()

    def wait_until_stored(self) -> None:
        """Returns once every click that was acknowledged is stored, or lost."""
        while self._unstored:
            wait(list(self._unstored))

    def close(self) -> None:
        """Finishes what was accepted."""
        self._storing.shutdown()
        self._looking_up.shutdown()

    def click(self, click: Click) -> None:
        """Stores the request, or an ephemeral refusal. Raises StoreError when the database fails in time.

        While another writer keeps the database for longer, this returns and the request is stored after it.
        """
        stored = self._begin(self._storing, self._take, click)
        try:
            stored.result(self._patience)
        except TimeoutError:
            stored.add_done_callback(lambda done: self._report_loss(click, done))

    def command(self, command: SlashCommand) -> ListContent | EphemeralContent:
        """The ephemeral answer. Raises StoreError."""
        text = gpu_command.fixed_answer(command.text)
        if text is not None:
            return text
        member: AccountLookup | str | None = self._members.known(command.user_id, command.team_id)
        if member is None:
            try:
                member = self._looking_up.submit(self._members.look_up, command.user_id).result(self._patience)
            except (TimeoutError, SlackError) as error:
                log.warning("caller_not_known", user=command.user_id, error=str(error) or "no answer in time")
                return EphemeralContent("Slack did not tell Costguard who you are in time. Try again in a minute.")
        if refusal := self._refusal(member):
            return EphemeralContent(refusal)
        assert isinstance(member, AccountLookup)
        with self._database.read() as connection:
            return gpu_command.vm_list(
                connection, self._rules, self._cards, member.address, command.text, self._clock.now()
            )

    def _refusal(self, member: AccountLookup | str) -> str:
        """Explains why this person may do nothing in Slack: they are no member, or have no role; "" otherwise."""
        return (
            member
            if isinstance(member, str)
            else roles.without_role(member.address, self._rules.access, self._rules.teams)
        )

    def _take(self, click: Click) -> None:
        member = self._members.known(click.user_id, click.team_id)
        if member is not None:
            self._store(click, member)
        else:
            lookup = self._begin(self._looking_up, self._look_up_and_store, click)
            lookup.add_done_callback(lambda done: self._report_loss(click, done))

    def _begin(self, pool: ThreadPoolExecutor, work: Callable[[Click], None], click: Click) -> Future[None]:
        future = pool.submit(work, click)
        self._unstored.add(future)
        future.add_done_callback(self._unstored.discard)
        return future

    def _look_up_and_store(self, click: Click) -> None:
        try:
            member = self._members.look_up(click.user_id)
        except SlackError as error:
            log.warning("clicker_not_known", user=click.user_id, error=str(error))
            text = (
                "Slack did not tell Costguard who you are in time, so nothing was done. "
                "Click the button again in a minute."
            )
            with self._database.write() as connection:
                _reply(connection, click, text, self._clock.now())
            self._wake()
        else:
            self._store(click, member)

    def _store(self, click: Click, member: AccountLookup | str) -> None:
        """Stores the request, or why it was refused; a repeat of the same click changes nothing."""
        now = self._clock.now()
        account = None if isinstance(member, str) else member
        address = account.address if account is not None else ""
        if _is_of_a_sample(click):
            with self._database.write() as connection:
                _reply(connection, click, self._refusal(member) or _OF_A_SAMPLE, now)
            self._wake()
            return
        if isinstance(click, JobClick):
            self._decide(click, address, self._refusal(member), now)
            return
        with self._database.write() as connection:
            if any(stored.request.key == click.key for stored in request_rows.of_subject(connection, click.subject)):
                return  # delivered once more, and perhaps carried out by now
            row = next(iter(watched_rows.read(connection, [click.subject.instance_id])), None)
            name = row.name if row is not None else _name(connection, click.subject)
            reason = (
                self._refusal(member)
                or _older_than_restore(generation.read(connection), click.message_ts)
                or _outdated(connection, click.subject, row, name, zone_of(account, self._rules))
            )
            if reason is None and row is not None:
                ownership = vm_requests.ownership_of(connection, row)
                reason = vm_requests.refusal(self._rules, click.kind, Actor(address), row, ownership, now)
            vm_requests.store(connection, _request(click, address, now), row, name, reason)
            if reason is not None:
                _reply(connection, click, reason, now)
        self._wake()

    def _decide(self, click: JobClick, address: str, refusal: str, now: datetime) -> None:
        """Carries out a person's choice about a job, in the transaction that notes the click as taken."""
        choose = wishes.never_mind if click.choice is JobChoice.NEVER_MIND else wishes.cancel_after_checkpoint
        with self._database.write() as connection:
            if burning.recorded_at(
                connection, [event_key("RequestMade", click.key), event_key("RequestRefused", click.key)]
            ):
                return  # delivered once more
            if not refusal:
                try:
                    choose(connection, self._rules, click.job, Actor(address), now)
                except CostguardError as error:
                    refusal = f"{error.message} {error.what_next}".strip()
            if refusal:
                _reply(connection, click, refusal, now)
            kind, wish = "RequestRefused" if refusal else "RequestMade", _JOB_WISH[click.choice]
            text = f"{address or click.user_id} asked {wish} {click.job}"
            text = f"{text}, and was refused: {refusal}" if refusal else f"{text}."
            data = {"asked": click.choice.value, "job": click.job, "via": "slack"}
            event = new_event(kind, now, text, click.key, actor=address or click.user_id, data=data)
            audit_log.append(connection, [event], now)
        self._wake()

    def _report_loss(self, click: Click, done: Future[None]) -> None:
        """An acknowledged click could not be stored after all: the person must know, if Slack can reach them."""
        error = done.exception()
        if error is None:
            return
        log.error("click_lost", click=click.key, error=str(error), exc_info=not isinstance(error, CostguardError))
        text = "Your click could not be saved, so nothing was done. Click the button again in a minute."
        try:
            self._notifier.post_ephemeral(click.channel, click.user_id, EphemeralContent(text), click.thread_ts)
        except SlackError as trouble:
            log.error("click_loss_not_reported", click=click.key, error=str(trouble))


def _is_of_a_sample(click: Click) -> bool:
    if isinstance(click, JobClick):
        return click.job == SAMPLE_JOB
    return click.subject in (SAMPLE_RUN, SAMPLE_REST)


def _older_than_restore(current: Generation, message_ts: str) -> str | None:
    """A restore loses what came after the backup, so an older message may show another VM's row ids."""
    if current.began_at is None or int(message_ts.partition(".")[0]) >= current.began_at.timestamp():
        return None
    return (
        "This message is older than the last restore of Costguard's database, so nothing was done. "
        "Type /gpu for current buttons."
    )


def _outdated(connection: Connection, subject: Subject, row: WatchedRow | None, name: str, zone: tzinfo) -> str | None:
    """Describes the fate of the message's subject, where there is nothing left to request; None while it stands."""
    if row is not None and vm_requests.subject_of(row) == subject:
        return None
    if not name:
        return "Costguard does not know this VM: the message is older than its database."
    if row is None:
        return f"{name} no longer exists, so there is nothing left to do."
    if subject.kind is SubjectKind.REST:
        return f"{name} was started again since this message. Type /gpu to see it as it is now."
    for run in spans.lifetimes_of(connection, subject.instance_id):
        life = run.span
        if run.id == subject.lifetime_id and life.ended_at is not None and life.end_reason is not None:
            by = f" by {life.ended_by}" if life.ended_by not in ("", "system") else ""
            again = "; it was started again since then" if row.started_at is not None else ""
            return f"{name} {ended_text(life.end_reason)}{by} on {moment_text(life.ended_at, zone)}{again}."
    return f"This message about {name} is out of date. Type /gpu to see it as it is now."


def _name(connection: Connection, subject: Subject) -> str:
    rows = fleet_rows.known(connection, [subject.instance_id])
    return rows[0].name if rows else ""


def _reply(connection: Connection, click: Click, text: str, now: datetime) -> None:
    new = NewMessage(
        key=f"ephemeral/{click.key}",
        kind="ephemeral",
        address=click.user_id,
        data={"text": text, "channel": click.channel, "thread_ts": click.thread_ts},
    )
    message_rows.intend(connection, new, now)


def _request(click: ButtonClick, address: str, now: datetime) -> Request:
    return Request(
        key=click.key,
        kind=click.kind,
        subject=click.subject,
        by=address,
        user_id=click.user_id,
        via="slack",
        at=now,
        hours=click.hours,
        due_at=click.due_at,
    )
