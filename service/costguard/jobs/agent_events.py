"""Listening to agents: what they tell is kept with their attempt, and answered with whether the command is to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.db.transaction import Database
from costguard.errors import AttemptUnknown
from costguard.events import facts
from costguard.jobs import attempts, interruptions, job_rows, launch_words, on_disk
from costguard.jobs.agent_tokens import Tokens
from costguard.jobs.disk import DiskState, disk_of
from costguard.jobs.hearing import Event, Told, listen
from costguard.model.attempt import Attempt
from costguard.model.ports import Clock
from costguard.spend import burning

__all__ = ["Event", "HeardAnswer", "Hearing"]


@dataclass(frozen=True, slots=True)
class HeardAnswer:
    """`cancel`: the command gets its notice. All events up to `accepted_through` are safe."""

    cancel: bool
    accepted_through: int


class Hearing:
    """What is told twice is kept once. `wake` is called when there is news that the next step of a job may wait for."""

    def __init__(self, database: Database, clock: Clock, tokens: Tokens, wake: Callable[[], None]) -> None:
        self._database = database
        self._clock = clock
        self._tokens = tokens
        self._wake = wake

    def check(self, attempt_name: str, token: str) -> None:
        """Raises AttemptUnknown for any token but this attempt's own."""
        if not self._tokens.speaks_for(token, attempt_name):
            raise AttemptUnknown(attempt_name)

    def hear(
        self, attempt_name: str, token: str, events: Sequence[Event], sent_at: datetime | None = None
    ) -> HeardAnswer:
        """One small write. `sent_at` is the VM's time of the request; without it that of the latest event.

        Raises AttemptUnknown. An attempt that is over is heard too: its last output explains how it ended.
        """
        self.check(attempt_name, token)
        now = self._clock.now()
        sent_at = sent_at or max((event.at for event in events), default=now)
        with self._database.write() as connection:
            found = attempts.called(connection, attempt_name)
            if found is None:
                raise AttemptUnknown(attempt_name)
            attempt, is_job_cancelled = found
            told = listen(attempt.heard, attempt.state, events, now, sent_at, is_over=not attempt.is_open)
            state = told.state if attempt.is_open else None
            attempts.hear(connection, attempt.id, told.heard, state)
            if told.started_run and told.heard.started_at is not None:
                began = told.heard.run, told.heard.started_at
                interruptions.set_resumed(connection, attempt.job_id, attempt.id, *began)
            if attempt.is_open:
                _warn_of_disk(connection, attempt, told, now)
            on_disk.take_in(connection, attempt, told, now)
        stop = is_job_cancelled or attempt.stop_asked_at is not None or not attempt.is_open
        if told.is_news:
            self._wake()
        return HeardAnswer(stop, told.heard.accepted_through)


def _warn_of_disk(connection: Connection, attempt: Attempt, told: Told, now: datetime) -> None:
    """Written once for each run, however many heartbeats say it."""
    disk = disk_of(told.heard.machine)
    if disk is None or disk.state is DiskState.OK or (job := job_rows.read(connection, attempt.job_id)) is None:
        return
    warning = launch_words.disk_low(job, attempt, told.heard.run, disk, now)
    if not burning.told(connection, [warning.key]):
        facts.append(connection, [warning], now)
