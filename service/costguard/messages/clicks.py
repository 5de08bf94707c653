"""Button clicks and `/gpu` in Slack: checked, stored as requests, and left to the next pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
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
from costguard.messages import gpu_command
from costguard.messages.cards import zone_of
from costguard.messages.gpu_command import Cards
from costguard.messages.recipients import SlackMembers
from costguard.model.delivery.interaction import SAMPLE_JOB, ButtonClick, JobChoice, JobClick, SlashCommand
from costguard.model.delivery.message import EphemeralContent, ListContent
from costguard.model.delivery.person import AccountLookup
from costguard.model.event import event_key, new_event
from costguard.model.ports import Clock, Notifier
from costguard.model.reminder import SAMPLE_REST, SAMPLE_RUN, Request
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage
from costguard.reminders.requests import ask_by_message
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
        refusal = self._refusal(member)
        if _is_of_a_sample(click):
            with self._database.write() as connection:
                _reply(connection, click, refusal or _OF_A_SAMPLE, now)
        elif isinstance(click, JobClick):
            self._decide(click, address, refusal, now)
        else:
            new = Request(
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
            sent_at = datetime.fromtimestamp(int(click.message_ts.partition(".")[0]), UTC)
            zone = zone_of(account, self._rules)
            with self._database.write() as connection:
                if reason := ask_by_message(connection, self._rules, new, refusal, sent_at, zone):
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


def _reply(connection: Connection, click: Click, text: str, now: datetime) -> None:
    new = NewMessage(
        key=f"ephemeral/{click.key}",
        kind="ephemeral",
        address=click.user_id,
        data={"text": text, "channel": click.channel, "thread_ts": click.thread_ts},
    )
    message_rows.intend(connection, new, now)
