"""Receives agents' events: records them with the attempt, and answers whether the command must stop."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.db.transaction import Database
from costguard.errors import Forbidden
from costguard.events import audit_log
from costguard.jobs.decide.checkpoints import work_at_risk
from costguard.jobs.decide.checkpoints.disk import DiskState, disk_of
from costguard.jobs.decide.recovery import resume
from costguard.jobs.reports import diagnosis
from costguard.jobs.reports.agent_report import AgentEvent, AgentUpdate, apply_events
from costguard.jobs.reports.checkpoints import save_interval
from costguard.jobs.reports.gang import gang_words
from costguard.jobs.reports.gang.gang_words import GoAhead, RoundWord
from costguard.jobs.reports.progress import curve_news
from costguard.jobs.rows import agent_rows, attempts, job_events, job_rows, takeover_rows
from costguard.jobs.rows.profile import profile_rows
from costguard.jobs.rows.profile.profile_rows import NewProfileWindow
from costguard.jobs.rows.recovery import drills, interruptions
from costguard.model.attempt import HUNG, STANDING_BY, Attempt
from costguard.model.job import EarlyEnd, Job, SeenCheckpoint
from costguard.model.ports import Clock
from costguard.model.reported.drill import Drill
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
    if update.look.unrecognised:
        what = job_events.unrecognised(job, attempt, update.agent.run, update.look.unrecognised, now)
        audit_log.append(connection, [what], now)
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
    loss = work_at_risk.lost_work(ran, before, seen.written_at)
    if loss is None or not before:
        return
    is_zero = not seen.resume_from
    last = before[-1]
    interruptions.set_lost(connection, last.attempt_id, last.run, loss.span, loss.cost, is_zero)
    if is_zero:
        saved = resume.has_saved(tried, seen, job_rows.checkpoint(connection, [job.id]).get(job.id))
        what = f"from_zero/{update.agent.run}"
        audit_log.append(connection, [job_events.from_zero(job, attempt, loss, now, saved, what)], now)


KEY_NAME = "attempts"  # of the key, among those for signing


class AgentTokens:
    """The same key gives the same tokens, so that a VM's metadata can be made again after a restart of the guard."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, attempt_name: str) -> str:
        return hmac.new(self._key, f"attempt\0{attempt_name}".encode(), hashlib.sha256).hexdigest()

    def secret_of(self, job_id: str, number: int) -> str:
        """Returns what the VMs of a gang prove to each other with that they are of this round. It is stored nowhere."""
        return hmac.new(self._key, f"gang\0{job_id}\0{number}".encode(), hashlib.sha256).hexdigest()

    def speaks_for(self, token: str, attempt_name: str) -> bool:
        """Compares a token with the attempt's, in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.of(attempt_name).encode())


__all__ = ["AgentEvent", "AgentEvents", "AgentReport", "EventsAnswer"]


@dataclass(frozen=True, slots=True)
class EventsAnswer:
    """`cancel`: the command must stop, `why` if not for good. All events up to `accepted_through` are stored."""

    cancel: bool
    accepted_through: int
    why: str = ""  # "hang": it is to run again; "flat": what it saved is its result
    drill: int | None = None  # the number of the drill that the agent is to hold
    go: GoAhead | None = None  # for a VM that stands by
    regroup: RoundWord | None = None  # the round that a gang's VM is to get ready for
    save: RoundWord | None = None  # the round in which its command is to save, once: another VM is about to go
    save_every_s: float | None = None  # how often the command is to be asked for a save, where the agent wants to know


@dataclass(frozen=True, slots=True)
class AgentReport:
    """A request of an agent. `sent_at` is by the VM's clock; None: not said."""

    attempt_name: str
    events: tuple[AgentEvent, ...]
    sent_at: datetime | None = None


class AgentEvents:
    """Events that arrive twice are kept once. `wake` is called on news that the next step of a job may wait for.

    `reported` is called with the open jobs whose agents reported, and when, after that was stored.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        tokens: AgentTokens,
        wake: Callable[[], None],
        reported: Callable[[Collection[str], datetime], None] | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._tokens = tokens
        self._wake = wake
        self._reported = reported

    def check(self, attempt_name: str, token: str) -> None:
        """Raises Forbidden for any token but this attempt's own."""
        if not self._tokens.speaks_for(token, attempt_name):
            raise _unknown(attempt_name)

    def hear(
        self, attempt_name: str, token: str, events: Sequence[AgentEvent], sent_at: datetime | None = None
    ) -> EventsAnswer:
        """Records a single report: see `hear_all`. Raises Forbidden."""
        self.check(attempt_name, token)
        answer = self.hear_all([AgentReport(attempt_name, tuple(events), sent_at)])[0]
        if isinstance(answer, Forbidden):
            raise answer
        return answer

    def hear_all(self, reports: Sequence[AgentReport]) -> list[EventsAnswer | Forbidden]:
        """Reports of agents whose tokens were checked, in one transaction: all of them are stored, or none.

        An attempt that is over is heard too: its last output explains how it ended. Forbidden: it does not exist.
        """
        now = self._clock.now()
        answers: list[EventsAnswer | Forbidden] = []
        is_news = False
        open_jobs: set[str] = set()
        with self._database.write() as connection:
            for some in _of_different_attempts(reports):
                hearing = _Hearing(connection, some, now, self._tokens.secret_of)
                answers += hearing.answers()
                is_news = is_news or hearing.is_news
                open_jobs |= hearing.open_jobs
        if self._reported is not None and open_jobs:
            self._reported(open_jobs, now)
        if is_news:
            self._wake()
        return answers


def _of_different_attempts(reports: Sequence[AgentReport]) -> list[list[AgentReport]]:
    """Splits reports, in their order, so that the changes of one report are read for the next one of its attempt."""
    parts: list[list[AgentReport]] = [[]]
    names: set[str] = set()
    for report in reports:
        if report.attempt_name in names:
            parts.append([])
            names = set()
        names.add(report.attempt_name)
        parts[-1].append(report)
    return parts


@dataclass(frozen=True, slots=True)
class _Heard:
    """A report, applied to its attempt as it was before."""

    attempt: Attempt
    is_job_cancelled: bool
    early: EarlyEnd | None  # why Costguard ends its job before its command is done
    update: AgentUpdate

    @property
    def is_first(self) -> bool:
        """Says whether it speaks for all VMs of its job."""
        return (self.attempt.node if self.update.rank is None else self.update.rank) == 0

    @property
    def is_ready(self) -> bool:
        """Says whether its VM now stands by, and nobody knew that yet."""
        if self.attempt.formation:
            return self.update.agent.ready_round > self.attempt.agent.ready_round
        is_new = self.attempt.stands_by and self.attempt.ready_at is None
        return is_new and self.update.agent.phase == STANDING_BY

    @property
    def is_news(self) -> bool:
        began_to_hang = self.update.agent.hang is not None and self.attempt.agent.hang is None
        return self.update.is_news or began_to_hang or self.is_ready


class _Hearing:
    """Reports of different attempts: their rows are read together and written together."""

    def __init__(
        self, connection: Connection, reports: Sequence[AgentReport], now: datetime, secret_of: gang_words.SecretOf
    ) -> None:
        self._connection, self._reports, self._now, self._secret_of = connection, reports, now, secret_of
        called = attempts.all_called(connection, {report.attempt_name for report in reports})
        self._heard = {
            report.attempt_name: _Heard(
                *called[report.attempt_name], _applied(called[report.attempt_name][0], report, now)
            )
            for report in reports
            if report.attempt_name in called
        }
        agent_rows.hear_all(connection, [_change(one) for one in self._heard.values()])

    @property
    def is_news(self) -> bool:
        return any(one.is_news for one in self._heard.values())

    @property
    def open_jobs(self) -> set[str]:
        """Jobs with an attempt that is open and was heard."""
        return {one.attempt.job_id for one in self._heard.values() if one.attempt.is_open}

    def answers(self) -> list[EventsAnswer | Forbidden]:
        """Records what follows from each report, and answers it."""
        attempts_heard = self._heard.values()
        for one in attempts_heard:
            _record(self._connection, one.attempt, one.update, self._now)
            if one.is_ready:
                takeover_rows.ready(self._connection, one.attempt.id, self._now)
        first = [one for one in attempts_heard if one.is_first]  # of a gang, it prints the curve of all
        curve_news.record(self._connection, [(one.attempt, one.update.points) for one in first], self._now)
        windows = ((one.attempt, window) for one in first for window in one.update.profile)
        profile_rows.add(self._connection, [NewProfileWindow(one.job_id, one.id, window) for one, window in windows])
        minutes = [diagnosis.MinuteReport(one.attempt, one.update.activity, one.update.agent) for one in attempts_heard]
        diagnosis.record(self._connection, minutes, self._now)
        gangs = {one.attempt.name: one.attempt.job_id for one in attempts_heard if one.attempt.formation}
        words = gang_words.words(self._connection, gangs, self._secret_of)
        wanted = drills.open_of(self._connection, self.open_jobs)
        answers: list[EventsAnswer | Forbidden] = []
        for report in self._reports:
            mine = self._heard.get(report.attempt_name)
            if mine is None:
                answers.append(_unknown(report.attempt_name))
            else:
                said = words.get(mine.attempt.name)
                go = _go_ahead(self._connection, mine) if said is None else said.go
                answer = _answer(mine, wanted.get(mine.attempt.job_id), go)
                if said is not None and not answer.cancel:
                    answer = replace(answer, regroup=said.regroup, save=said.save)
                answers.append(replace(answer, save_every_s=_save_every_s(self._connection, mine, self._now)))
        return answers


def _applied(attempt: Attempt, report: AgentReport, now: datetime) -> AgentUpdate:
    """`sent_at` is the VM's time of the request; without it that of the latest event."""
    sent_at = report.sent_at or max((event.at for event in report.events), default=now)
    return apply_events(attempt.agent, attempt.state, report.events, now, sent_at, is_over=not attempt.is_open)


def _change(one: _Heard) -> agent_rows.AgentChange:
    state = one.update.state if one.attempt.is_open else None
    return agent_rows.AgentChange(one.attempt.id, one.attempt.agent, one.update.agent, state)


def _record(connection: Connection, attempt: Attempt, update: AgentUpdate, now: datetime) -> None:
    if update.started_run and update.agent.started_at is not None:
        began = update.agent.run, update.agent.started_at
        interruptions.set_resumed(connection, attempt.job_id, attempt.id, *began)
    if attempt.is_open:
        _warn_of_disk(connection, attempt, update, now)
        _tell_of_hang(connection, attempt, update, now)
        drills.hear(connection, attempt.job_id, attempt.id, update.drills, now)
    record_disk_look(connection, attempt, update, now)
    _record_uploads(connection, attempt, update, now)


def _answer(one: _Heard, drill: Drill | None, go: GoAhead | None) -> EventsAnswer:
    """`drill` is the one of its job that is not over; one that stands by holds none."""
    attempt, is_open = one.attempt, one.attempt.is_open
    stop = one.is_job_cancelled or attempt.stop_asked_at is not None or not is_open
    why = HUNG if attempt.stop_why == HUNG and is_open and not one.is_job_cancelled else ""
    if one.early is EarlyEnd.FLAT and is_open:
        why = EarlyEnd.FLAT.value
    is_its = drill is not None and drill.attempt_id in (None, attempt.id) and is_open and not stop
    is_its = is_its and not attempt.stands_by
    number = drill.number if is_its and drill else None
    return EventsAnswer(stop, one.update.agent.accepted_through, why, number, None if stop else go)


def _go_ahead(connection: Connection, one: _Heard) -> GoAhead | None:
    """Returns the go-ahead, with every answer until its command runs."""
    attempt = one.attempt
    has_begun = one.update.agent.started_at is not None
    if attempt.released_at is None or has_begun or not attempt.is_open:
        return None
    if (job := job_rows.read(connection, attempt.job_id)) is None:
        return None
    return GoAhead(attempt.resume_from, attempt.resume_step, resume.arguments(job, attempt))


def _save_every_s(connection: Connection, one: _Heard, now: datetime) -> float | None:
    if one.update.interval_asked is None or not one.attempt.is_open:
        return None
    interval = save_interval.interval_for(connection, now, one.attempt, one.update.interval_asked.save)
    return None if interval is None else interval / timedelta(seconds=1)


def _record_uploads(connection: Connection, attempt: Attempt, update: AgentUpdate, now: datetime) -> None:
    """Each once for a run; the agent may report it twice."""
    is_news = update.flushed is not None or update.upload_trouble or update.unrecognised
    if not is_news or (job := job_rows.read(connection, attempt.job_id)) is None:
        return
    run, flushed = update.agent.run, update.flushed
    events = [job_events.not_uploaded(job, attempt, run, update.upload_trouble, now)] if update.upload_trouble else []
    if update.unrecognised:
        events.append(job_events.unrecognised(job, attempt, run, update.unrecognised, now))
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
