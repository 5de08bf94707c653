"""Receives agents' events: records them with the attempt, and answers whether the command must stop."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from costguard.db.transaction import Database
from costguard.errors import Forbidden
from costguard.events import audit_log
from costguard.jobs import (
    attempts,
    curve_news,
    diagnosis,
    drills,
    figures,
    interruptions,
    job_events,
    job_rows,
    progress_rows,
)
from costguard.jobs.agent_report import AgentEvent, AgentUpdate, apply_events
from costguard.jobs.disk import DiskState, disk_of
from costguard.model.attempt import HUNG, Attempt
from costguard.model.job import Job, SeenCheckpoint
from costguard.model.ports import Clock
from costguard.spend import burning


def record_disk_look(connection: Connection, attempt: Attempt, update: AgentUpdate, now: datetime) -> None:
    """Nothing where no agent looked, nor of a job whose checkpoints lie elsewhere: the guard judges those itself."""
    if update.look is None:
        return
    job = job_rows.read(connection, attempt.job_id)
    if job is None or job.spec.checkpoint is None or not job.spec.checkpoint.is_on_disk:
        return
    before = job_rows.checkpoint(connection, [job.id]).get(job.id)
    job_rows.save_look(connection, job.id, update.look)
    # One that was being written looks torn as well: it counts when it still does at the next look.
    still = set(before.torn if before is not None else ()) & set(update.look.torn)
    certain = set(update.resumed.torn) if update.resumed is not None else still
    audit_log.append(connection, [job_events.torn(job, one, now) for one in sorted(certain)], now)
    if update.resumed is not None and update.started_run:
        _resumed(connection, job, attempt, update, update.resumed, now)


def _resumed(
    connection: Connection, job: Job, attempt: Attempt, update: AgentUpdate, seen: SeenCheckpoint, now: datetime
) -> None:
    """A later run has begun on the same disk: now it is known what the interruption before cost."""
    attempts.resumed(connection, attempt.id, seen.resume_from, seen.step, update.resume_why)
    tried = attempts.of_jobs(connection, [job.id]).get(job.id, [])
    ended = interruptions.of_jobs(connection, [job.id]).get(job.id, [])
    before = [one for one in ended if (one.attempt_id, one.run) < (attempt.id, update.agent.run)]
    # What this run does is not lost.
    ran = [one if one.id != attempt.id else replace(one, agent=replace(one.agent, started_at=None)) for one in tried]
    loss = figures.lost_work(ran, before, seen.written_at)
    if loss is None or not before:
        return
    is_zero = not seen.resume_from
    last = before[-1]
    interruptions.set_lost(connection, last.attempt_id, last.run, loss.span, loss.cost, is_zero)
    if is_zero:
        what = f"from_zero/{update.agent.run}"
        audit_log.append(connection, [job_events.from_zero(job, attempt, loss, now, what)], now)


KEY_NAME = "attempts"  # of the key, among those for signing


class AgentTokens:
    """The same key gives the same tokens, so that a VM's metadata can be made again after a restart of the guard."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, attempt_name: str) -> str:
        return hmac.new(self._key, f"attempt\0{attempt_name}".encode(), hashlib.sha256).hexdigest()

    def speaks_for(self, token: str, attempt_name: str) -> bool:
        """In constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.of(attempt_name).encode())


__all__ = ["AgentEvent", "AgentEvents", "EventsAnswer"]


@dataclass(frozen=True, slots=True)
class EventsAnswer:
    """`cancel`: the command must stop, `why` if not for good. All events up to `accepted_through` are stored."""

    cancel: bool
    accepted_through: int
    why: str = ""  # "hang": it is to run again
    drill: int | None = None  # the number of the drill that the agent is to hold


class AgentEvents:
    """Events that arrive twice are kept once. `wake` is called on news that the next step of a job may wait for."""

    def __init__(self, database: Database, clock: Clock, tokens: AgentTokens, wake: Callable[[], None]) -> None:
        self._database = database
        self._clock = clock
        self._tokens = tokens
        self._wake = wake

    def check(self, attempt_name: str, token: str) -> None:
        """Raises Forbidden for any token but this attempt's own."""
        if not self._tokens.speaks_for(token, attempt_name):
            raise _unknown(attempt_name)

    def hear(
        self, attempt_name: str, token: str, events: Sequence[AgentEvent], sent_at: datetime | None = None
    ) -> EventsAnswer:
        """One small write. `sent_at` is the VM's time of the request; without it that of the latest event.

        Raises Forbidden. An attempt that is over is heard too: its last output explains how it ended.
        """
        self.check(attempt_name, token)
        now = self._clock.now()
        sent_at = sent_at or max((event.at for event in events), default=now)
        with self._database.write() as connection:
            row = attempts.called(connection, attempt_name)
            if row is None:
                raise _unknown(attempt_name)
            attempt, is_job_cancelled = row
            update = apply_events(attempt.agent, attempt.state, events, now, sent_at, is_over=not attempt.is_open)
            state = update.state if attempt.is_open else None
            attempts.hear(connection, attempt.id, update.agent, state)
            if update.started_run and update.agent.started_at is not None:
                began = update.agent.run, update.agent.started_at
                interruptions.set_resumed(connection, attempt.job_id, attempt.id, *began)
            if attempt.is_open:
                _warn_of_disk(connection, attempt, update, now)
                _tell_of_hang(connection, attempt, update, now)
            drill = _drill(connection, attempt, update, now)
            record_disk_look(connection, attempt, update, now)
            progress_rows.add(connection, attempt.job_id, attempt.id, update.points)
            curve_news.record(connection, attempt, update.points, now)
            _record_uploads(connection, attempt, update, now)
            diagnosis.record(connection, attempt, update.activity, update.agent, now)
        stop = is_job_cancelled or attempt.stop_asked_at is not None or not attempt.is_open
        if update.is_news or (update.agent.hang is not None and attempt.agent.hang is None):
            self._wake()
        why = HUNG if attempt.stop_why == HUNG and attempt.is_open and not is_job_cancelled else ""
        return EventsAnswer(stop, update.agent.accepted_through, why, None if stop else drill)


def _drill(connection: Connection, attempt: Attempt, update: AgentUpdate, now: datetime) -> int | None:
    """What the agent of an open attempt says of its drill, and which one it is to hold."""
    if not attempt.is_open:
        return None
    drills.hear(connection, attempt.job_id, attempt.id, update.drills, now)
    return drills.wanted(connection, attempt.job_id, attempt.id)


def _record_uploads(connection: Connection, attempt: Attempt, update: AgentUpdate, now: datetime) -> None:
    """Each once for a run; the agent may report it twice."""
    if (update.flushed is None and not update.upload_trouble) or (
        job := job_rows.read(connection, attempt.job_id)
    ) is None:
        return
    run, flushed = update.agent.run, update.flushed
    events = [job_events.not_uploaded(job, attempt, run, update.upload_trouble, now)] if update.upload_trouble else []
    if flushed is not None:
        events.append(job_events.flushed(job, attempt, run, flushed.saved, flushed.left, now))
    audit_log.append(connection, [one for one in events if not burning.recorded_at(connection, [one.key])], now)


def _warn_of_disk(connection: Connection, attempt: Attempt, update: AgentUpdate, now: datetime) -> None:
    """Written once for each run, however many heartbeats say it."""
    disk = disk_of(update.agent.machine)
    if disk is None or disk.state is DiskState.OK or (job := job_rows.read(connection, attempt.job_id)) is None:
        return
    warning = job_events.disk_low(job, attempt, update.agent.run, disk, now)
    if not burning.recorded_at(connection, [warning.key]):
        audit_log.append(connection, [warning], now)


def _tell_of_hang(connection: Connection, attempt: Attempt, update: AgentUpdate, now: datetime) -> None:
    """Once when it begins, and once when a step ends it."""
    before, hang, run = attempt.agent.hang, update.agent.hang, update.agent.run
    has_ended = update.agent.exit is not None or run != attempt.agent.run
    if (before is None) == (hang is None) or has_ended or (job := job_rows.read(connection, attempt.job_id)) is None:
        return
    if hang is not None:
        events = [job_events.hangs(job, attempt, run, hang, now)]
    else:
        events = [job_events.goes_on(job, attempt, run, before, now)] if before is not None else []
    audit_log.append(connection, events, now)


def _unknown(attempt_name: str) -> Forbidden:
    return Forbidden(
        f"The token does not speak for an attempt {attempt_name[:101]}.",
        "An agent sends the token from its VM's metadata; no other token speaks for an attempt.",
    )
