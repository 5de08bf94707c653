"""Creates, quotes, pauses, resumes and ends schedules. All is recorded; the daemon's next turn acts on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from sqlalchemy import Connection

from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.errors import Conflict, Forbidden, Missing, Unavailable
from costguard.events import audit_log
from costguard.jobs.submit import intake, submission
from costguard.jobs.submit.assess import Assessor
from costguard.jobs.submit.quote import JobQuote
from costguard.jobs.submit.submission import JobRefusal, without_credentials
from costguard.jobs.submit.submit import JobService
from costguard.model.access import Authority, Via
from costguard.model.money import Money
from costguard.model.ports import Clock
from costguard.schedules import recurrence as recurrences
from costguard.schedules import runs, schedule_events, schedule_rows
from costguard.schedules.recurrence import WrongRecurrence, due_times, next_due, times_between
from costguard.schedules.runs import ScheduleOrder, submission_at, waits
from costguard.schedules.schedule import Recurrence, RunOutcome, Schedule, ScheduleRun, ScheduleState
from costguard.schedules.schedule_rows import Template

MOST_SCHEDULES = 100  # of an owner, that have not ended
A_MONTH = timedelta(days=30)
_SHOWN = 5  # due times in a quote


@dataclass(frozen=True, slots=True)
class ScheduleQuote:
    """The next due times, the number of runs in 30 days, and the quote of one run; None: no time can be read."""

    recurrence: Recurrence | None
    next_due: tuple[datetime, ...]
    runs_a_month: int
    job: JobQuote
    refusals: tuple[JobRefusal, ...]
    warnings: tuple[str, ...]

    @property
    def cost_a_month(self) -> Money | None:
        """Returns the cost of these runs at the cheapest offer; None: it is not known."""
        offer = self.job.cheapest
        if offer is None or offer.cost is None:
            return None
        return offer.cost.times(self.runs_a_month)


@dataclass(frozen=True, slots=True)
class _Reading:
    """An order as it was read: its first run, and its problems. `recurrence` is None where its times cannot be read."""

    recurrence: Recurrence | None
    next_due: tuple[datetime, ...]
    first: submission.Submission
    refusals: tuple[JobRefusal, ...]
    warnings: tuple[str, ...]


class ScheduleService:
    """Creates and changes schedules. `new_id` makes ids such as c7k2m9q4; `wake` asks for a turn."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        rules: Rules,
        assessor: Assessor,
        jobs: JobService,
        new_id: Callable[[], str],
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._assessor = assessor
        self._jobs = jobs
        self._new_id = new_id
        self._wake = wake

    def create(
        self, order: ScheduleOrder, idempotency_key: str | None, via: str, authority: Authority | None = None
    ) -> tuple[Schedule, bool]:
        """The schedule, and whether it is new. Raises Invalid, or Conflict where the key came with something else.

        Its job is checked as it would be launched for the first due time.
        """
        digest = intake.digest_of(asdict(order))
        if idempotency_key is not None:
            with self._database.read() as connection:
                earlier = _of_key(connection, idempotency_key, digest)
            if earlier is not None:
                return earlier, False
        schedule_id, now = self._new_id(), self._clock.now()
        read = self._read(order, schedule_id, now)
        case = self._assessor.assess(read.first, authority)
        of_job = (JobRefusal(f"job.{one.where}", one.message) for one in case.refusals)
        refusals = (*read.refusals, *_passing(authority), *of_job)
        if refusals or read.recurrence is None:
            raise intake.refused("schedule", refusals, "Nothing was stored.")
        spec = case.spec
        schedule = Schedule(
            id=schedule_id,
            name=order.name,
            owner=spec.owner,
            project=spec.project,
            preset=spec.preset,
            recurrence=read.recurrence,
            overlaps=order.overlaps,
            late=order.late,
            state=ScheduleState.ACTIVE,
            reason=waits(read.next_due[0]),
            next_due=read.next_due[0],
            created_at=now,
            via=via,
        )
        template = Template(without_credentials(order.template), authority)
        with self._database.write() as connection:
            # Another request with this key may have come in meanwhile.
            earlier = _of_key(connection, idempotency_key, digest) if idempotency_key is not None else None
            if earlier is not None:
                return earlier, False
            if schedule_rows.count_live(connection, schedule.owner) >= MOST_SCHEDULES:
                message = f"{schedule.owner} has {MOST_SCHEDULES} schedules already, which is the most."
                raise Conflict(message, "End one first: costguard schedule list", kind="too-many-schedules")
            schedule_rows.add(connection, schedule, template, idempotency_key, digest)
            event = schedule_events.created(schedule, (*read.warnings, *case.warnings))
            audit_log.append(connection, [event], now)
        self._wake()
        return schedule, True

    def quote(self, order: ScheduleOrder, hours: timedelta, authority: Authority | None = None) -> ScheduleQuote:
        """Quotes one run as it would start now, with the due times. Nothing is stored."""
        now = self._clock.now()
        read = self._read(order, "c0000000", now)
        job = self._jobs.quote(read.first, hours, authority)
        count = 0
        if read.recurrence is not None:
            count = sum(1 for _ in times_between(read.recurrence, now, now + A_MONTH))
        return ScheduleQuote(read.recurrence, read.next_due, count, job, read.refusals, read.warnings)

    def pause(self, schedule_id: str, by: Actor) -> tuple[Schedule, bool]:
        """The schedule, and whether this request is the first. Raises Missing, Forbidden, or Conflict.

        Runs that were launched go on, and one that is being launched is.
        """
        return self._change(schedule_id, by, "pause", ScheduleState.PAUSED)

    def resume(self, schedule_id: str, by: Actor) -> tuple[Schedule, bool]:
        """The same for a schedule that is paused: it goes on with the next due time. Raises as `pause` does."""
        return self._change(schedule_id, by, "resume", ScheduleState.ACTIVE)

    def end(self, schedule_id: str, by: Actor) -> tuple[Schedule, bool]:
        """The same for good. Raises as `pause` does."""
        return self._change(schedule_id, by, "end", ScheduleState.ENDED)

    def run_now(self, schedule_id: str, by: Actor, idempotency_key: str | None = None) -> ScheduleRun:
        """Asks for a run outside of the schedule's times, also while it is paused. Raises as `pause` does.

        A repeat under its key, or within the minute, is answered with the same run.
        """
        now = self._clock.now()
        with self._database.write() as connection:
            schedule = self._theirs(connection, schedule_id, by, "run")
            if idempotency_key is not None and (same := schedule_rows.run_of_key(connection, idempotency_key)):
                if same.schedule_id != schedule_id:
                    raise Conflict(intake.TAKEN, "Use a new key for a new run.", kind="key-taken")
                return same
            if schedule.state.is_over:
                raise _ended(schedule)
            due_at = now.replace(second=0, microsecond=0)  # {date} and {time} tell it from other runs
            if (earlier := schedule_rows.run_at(connection, schedule_id, due_at)) is not None:
                return earlier
            if not schedule.overlaps and (still := schedule_rows.open_runs(connection, [schedule_id])):
                which = next(iter(still[schedule_id]), "") or "one that is being launched"
                message = f"A run of schedule {schedule.title} is open: {which}."
                raise Conflict(message, "Wait until it has ended, or cancel it.", kind="run-open")
            reason = f"{by.address} asked for it; its job is being submitted."
            run = ScheduleRun(schedule_id, due_at, RunOutcome.LAUNCHING, reason, asked_by=by.address)
            schedule_rows.add_runs(connection, [run], idempotency_key)
        self._wake()
        return run

    def _read(self, order: ScheduleOrder, schedule_id: str, now: datetime) -> _Reading:
        refusals = list(runs.problems(order))
        title = order.name or schedule_id
        try:
            recurrence = recurrences.recurrence(order.every, order.at, order.cron, order.time_zone)
        except WrongRecurrence as wrong:
            refusals.append(JobRefusal(wrong.part, str(wrong)))
            first = submission_at(order.template, schedule_id, title, Recurrence("", "UTC"), now)
            return _Reading(None, (), first, tuple(refusals), ())
        times = tuple(islice(due_times(recurrence, now), _SHOWN))
        made = [submission_at(order.template, schedule_id, title, recurrence, due) for due in times]
        first, warned = made[0], tuple(runs.warnings(order, made))
        # What is checked is a job that starts now.
        within = order.template.spec.deadline_in
        deadline = first.spec.deadline if within is None else now + within
        first = replace(first, spec=replace(first.spec, deadline=deadline))
        return _Reading(recurrence, times, without_credentials(first), tuple(refusals), warned)

    def _change(self, schedule_id: str, by: Actor, verb: str, state: ScheduleState) -> tuple[Schedule, bool]:
        now = self._clock.now()
        with self._database.write() as connection:
            schedule = self._theirs(connection, schedule_id, by, verb)
            if schedule.state is state:
                return schedule, False
            if schedule.state.is_over:
                raise _ended(schedule)
            following = next_due(schedule.recurrence, now) if state is ScheduleState.ACTIVE else None
            reason = waits(following) if following is not None else f"{by.address} {_DONE[verb]} it."
            schedule_rows.set_state(connection, schedule_id, state, reason, following, by.address)
            audit_log.append(connection, [schedule_events.changed(schedule, state, by.address, now)], now)
            return schedule_rows.read(connection, schedule_id) or schedule, True

    def _theirs(self, connection: Connection, schedule_id: str, by: Actor, verb: str) -> Schedule:
        schedule = schedule_rows.read(connection, schedule_id)
        if schedule is None:
            raise Missing(f"There is no schedule {schedule_id!r}.", "GET /api/v1/schedules lists all of them.")
        refusal = submission.cancel_refusal(
            by.address, schedule.owner, schedule.project, self._rules, by.authority, verb
        )
        if refusal:
            raise Forbidden(refusal, "Ask one of them.", kind="not-yours")
        return schedule


_DONE = {"pause": "paused", "resume": "resumed", "end": "ended"}


def _passing(authority: Authority | None) -> Iterator[JobRefusal]:
    """Refuses rights that end with a session, which a schedule would keep for ever."""
    if authority is not None and authority.via is Via.LINK and authority.is_granted:
        message = (
            "A one-time link lets you launch while its session lasts, and a schedule goes on: make a token, or ask"
        )
        yield JobRefusal("job.owner", f"{message} an admin for a role under [access].")


def _ended(schedule: Schedule) -> Conflict:
    return Conflict(f"Schedule {schedule.title} has ended.", "Create a new one.", kind="schedule-over")


def _of_key(connection: Connection, key: str, digest: str) -> Schedule | None:
    """The schedule that came with this key; None where the key is new. Raises Conflict."""
    earlier = schedule_rows.of_key(connection, key)
    if earlier is None:
        return None
    schedule, stored_digest = earlier
    intake.check_same(stored_digest, digest, "schedule")
    return schedule


def available_schedules(schedules: ScheduleService | None) -> ScheduleService:
    """Raises Unavailable where this server takes no schedules."""
    if schedules is None:
        raise Unavailable("This server takes no schedules.", "Ask the one that was started with `costguard serve`.")
    return schedules
