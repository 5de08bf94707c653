"""The jobs' turn: read what is new, decide, carry out, until nothing more is due at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from costguard.actions.execute import WORKERS, CallKind, Executor, Note, Step
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import CheckpointError
from costguard.isolation import Isolated
from costguard.jobs.act import gather, job_vms, steps, unknown_vms
from costguard.jobs.act.attempts.delete import DeleteOrphanStep, DeleteStep
from costguard.jobs.act.attempts.insert import InsertStep
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.attempts.vm_step import LaunchContext
from costguard.jobs.act.gang.placement_steps import DeletePolicyStep
from costguard.jobs.act.groups.group_delete import GroupDeleteStep
from costguard.jobs.act.groups.group_insert import GroupInsertStep
from costguard.jobs.act.limits.admission import LaunchBounds
from costguard.jobs.act.pacing import PacedLauncher, said
from costguard.jobs.act.planning import Planning
from costguard.jobs.act.progress_notes import ProgressNotes
from costguard.jobs.decide.actions import JobDecision, LaunchAttempt, LetBegin, LetRoundBegin
from costguard.jobs.decide.attempts.moves import renews
from costguard.jobs.decide.buy.placement import LaunchPlace
from costguard.jobs.decide.gang.past_rounds import resumed_runs
from costguard.jobs.decide.next_step import decide
from costguard.jobs.decide.recovery import resume
from costguard.jobs.decide.recovery.ending import all_silent
from costguard.jobs.decide.recovery.resume import ResumePoint
from costguard.jobs.decide.view import JobContext, JobView
from costguard.jobs.reports.listening import Listening
from costguard.jobs.rows import agenda
from costguard.jobs.rows.agenda import Agenda, LaunchBackoff, News
from costguard.jobs.rows.gang import placement_rows
from costguard.jobs.submit.where.places import PlaceFinder, Shapes, may_launch, recent_scores
from costguard.ledger import generation, projects
from costguard.ledger.accrual import accrual_at
from costguard.model.job import Terms
from costguard.model.ports import Checkpoints, Clock, Launcher

_ROUNDS = 6  # from a reported end to the request for the next VM there are three
_BUDGET_S = 20.0  # for the steps of one round; the rest is left to the next turn, so that news is not kept waiting
_ORPHANS_EVERY = timedelta(seconds=60)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class TurnReport:
    """The result of one turn. `left` is the work that there was no time for: the next turn does it."""

    open: int = 0
    decided: int = 0
    launched: int = 0
    deleted: int = 0
    calls: int = 0
    left: int = 0
    troubles: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TurnServices:
    """Calls of a turn that leave the ledger. Without `checkpoints` none are looked for.

    `begin_generation` is called where VMs show that the database is older than they are.
    """

    launcher: Launcher
    maker: VmMaker
    checkpoints: Checkpoints | None
    shapes: Shapes
    begin_generation: unknown_vms.BeginGeneration


@dataclass(frozen=True, slots=True)
class TurnRules:
    """The rules of a turn: how jobs end, what budgets hold back, and the limits on launches."""

    terms: Terms
    holds: gather.Holds
    bounds: LaunchBounds = field(default_factory=LaunchBounds)


class JobsTurn:
    """Runs turns. One at a time, by the holder of the lease; the caller sees to that.

    What it remembers between turns only saves work: a new one on the same database goes on where this one ended.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        services: TurnServices,
        rules: TurnRules,
        workers: int = WORKERS,
        monotonic: Callable[[], float] = time.monotonic,
        planning: Planning | None = None,
        listening: Listening | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._paced = PacedLauncher(services.launcher, clock)
        self._launch_context = LaunchContext(self._paced, services.maker)
        self._checkpoints = services.checkpoints
        self._terms = rules.terms
        self._holds = rules.holds
        self._bounds = rules.bounds
        self._begin_generation = services.begin_generation
        self._workers = workers
        self._place_finder = PlaceFinder(self._paced, services.shapes, clock)
        self._executor = Executor(
            database, clock, self._paced.paused_until, workers, budget_s=_BUDGET_S, monotonic=monotonic
        )
        self._agenda = Agenda()
        self._launch_backoff = LaunchBackoff()
        self._progress = ProgressNotes()
        self._planning = planning or Planning()
        self._listening = listening or Listening(clock)
        self._looked_for_orphans_at: datetime | None = None
        self._looks: tuple[datetime, ...] | None = None  # of the projects, when VMs were last compared with attempts
        self._whole: set[str] = set()  # projects of which this process has seen every zone

    def run(self, fence: Lease | None = None, stop: threading.Event | None = None) -> TurnReport:
        """Raises LeaseLost when another daemon took over, and StoreError when the database failed."""
        now = self._clock.now()
        self._listening.under(fence)
        self._compare(fence, now)
        with self._database.read() as connection:
            news = agenda.read_news(connection)
            admissible = self._bounds.admission.due(connection, now)
        self._progress.forget(news.marks.keys())
        self._planning.forget(news.marks.keys())
        report = TurnReport(open=len(news.marks))
        more = self._orphans(now)
        due = self._agenda.due(news, now) | (admissible & news.marks.keys())
        for _ in range(_ROUNDS):
            if not (due or more) or (stop is not None and stop.is_set()):
                break
            due = self._round(due, more, news, report, fence, stop)
            more = []
            if report.left:
                break
        if report.calls or report.troubles:
            log.info("jobs", open=report.open, decided=report.decided, launched=report.launched, calls=report.calls)
        return report

    def _round(
        self,
        job_ids: Collection[str],
        more: Sequence[Step],
        news: News,
        report: TurnReport,
        fence: Lease | None,
        stop: threading.Event | None,
    ) -> set[str]:
        """Decides and acts once; returns the jobs to decide on again at once."""
        now = self._clock.now()
        with self._database.read() as connection:
            accrual, life = accrual_at(connection, now), generation.read(connection)
            unread, ceilings = projects.unread(projects.read_all(connection)), self._bounds.ceilings
            views, unreadable = gather.views(connection, accrual, job_ids, unread, self._holds, now, ceilings)
            planned = self._planning.wanted(views, now)
            materials = self._planning.read(connection, planned, now)
            asking = [view for view in views if may_launch(view) or view in planned or renews(view, now)]
            place_scores = recent_scores(connection, now) if asking else {}
            queue = self._bounds.admission.read(connection, now)
        report.troubles += unreadable
        never_read = self._never_read(unread)
        views = [self._held_up(_unseen(view, never_read), now) for view in views]
        places = self._planning.advised(asking, self._place_finder.places(asking, accrual, place_scores), now)
        places = self._planning.by_expected_cost(planned, materials, places, now)
        since = self._listening.since
        silent = all_silent(news.reported_at.values(), self._terms, now, since)
        context = JobContext(self._terms, now, since, silent, life)
        planned_ids = {view.job.id for view in planned}
        plans, plan_notes = self._planning.plan(
            [view for view in views if view.job.id in planned_ids], materials, places, context
        )
        views = [replace(view, plan=plans.get(view.job.id)) for view in views]
        views = self._planning.with_rests(views, materials, now)
        decided = [(view, decision) for view in views if (decision := self._decide(view, places, context, report))]
        admitted = self._bounds.admission.admitted(
            decided, queue, lambda view: self._decide(view, places, context, report), now
        )
        decided, points = self._prepared(admitted.decided, places, context, report)
        notes: list[Note] = [*plan_notes, *admitted.notes]
        todo: list[Step] = list(more)
        for view, decision in decided:
            written, more_steps = steps.of_decision(view, decision, points, self._launch_context, now)
            notes += [*written, *self._progress.news(view, now)]
            todo += more_steps
            self._agenda.decided(view.job.id, news, self._next(view, decision, now), now)
        done = self._executor.carry_out(steps.together(notes), todo, fence, stop)
        for job_id, until in done.paused.items():
            self._agenda.decided(job_id, news, until, now)
        report.decided += len(decided)
        report.calls += done.calls
        report.left = done.left
        report.troubles += done.troubles
        ends = (DeleteStep, DeleteOrphanStep, GroupDeleteStep)
        report.deleted += sum(isinstance(step, ends) and step.is_asked for step in todo)
        report.launched += sum(isinstance(step, InsertStep) and step.inserted is not None for step in todo)
        report.launched += sum(len(step.attempts) for step in todo if isinstance(step, GroupInsertStep))
        return (done.changed | admitted.woken) & news.marks.keys()

    def _decide(
        self, view: JobView, places: dict[str, list[LaunchPlace]], context: JobContext, report: TurnReport
    ) -> JobDecision | None:
        with Isolated("job_not_decided", job=view.job.id) as failure:
            job_places = places.get(view.job.id, [])
            return decide(view, job_places, context)
        report.troubles.append(f"Job {view.job.id} could not be decided on ({failure.words}).")
        return None

    def _prepared(
        self,
        decided: Sequence[tuple[JobView, JobDecision]],
        places: dict[str, list[LaunchPlace]],
        context: JobContext,
        report: TurnReport,
    ) -> tuple[list[tuple[JobView, JobDecision]], dict[str, ResumePoint]]:
        """Adds where each launch resumes from. Launches for which nobody can tell are decided on again, as held up."""
        launches = [view for view, decision in decided if _launches(decision)]
        if not launches:
            return list(decided), {}
        with ThreadPoolExecutor(self._workers, thread_name_prefix="looks") as pool:
            points = dict(zip((view.job.id for view in launches), pool.map(self._point, launches), strict=True))
        ready: list[tuple[JobView, JobDecision]] = []
        for view, decision in decided:
            job_id = view.job.id
            if job_id in points and points[job_id] is None:
                again = self._decide(self._held_up(view, context.now), places, context, report)
                ready += [(view, again)] if again is not None else []
                continue
            ready.append((view, decision))
        return ready, {job_id: point for job_id, point in points.items() if point is not None}

    def _point(self, view: JobView) -> ResumePoint | None:
        job, now = view.job, self._clock.now()
        paused = self._paced.paused_until(job.spec.project, CallKind.WRITE)
        if paused is not None:
            self._launch_backoff.until_then(job.id, paused, said(job.spec.project, paused))
            return None
        with Isolated("checkpoints_not_looked_at", job=job.id) as failure:
            try:
                tried = [seen.attempt for seen in view.attempts]
                runs = resumed_runs(job, tried, view.rounds, view.interruptions)
                point = resume.find(self._checkpoints, job, runs, self._terms, now)
            except CheckpointError as error:
                self._launch_backoff.for_longer(job.id, f"its checkpoints cannot be read: {error}", now)
                return None
            self._launch_backoff.forget(job.id)
            return point
        # What lies there is unknown, and starting over may cost days.
        self._launch_backoff.for_longer(job.id, f"its checkpoints cannot be read ({failure.words})", now)
        return None

    def _held_up(self, view: JobView, now: datetime) -> JobView:
        why = self._launch_backoff.why(view.job.id, now)
        return replace(view, hold=why) if why and not view.hold else view

    def _next(self, view: JobView, decision: JobDecision, now: datetime) -> datetime | None:
        """Returns when it is to be decided on again without news."""
        later = [self._launch_backoff.until(view.job.id), view.job.spec.deadline]
        every = (*view.attempts, *([view.standby] if view.standby is not None else []))
        later += [seen.attempt.try_after for seen in every if seen.attempt.gone_at is None]
        moments = [moment for moment in later if moment is not None and moment > now]
        return min([*moments, *([decision.next_at] if decision.next_at is not None else [])], default=None)

    def _compare(self, fence: Lease | None, now: datetime) -> None:
        """Compares, after each look, VMs with our labels against the attempts, before anything is decided.

        A VM that a restore lost may run: it is adopted, or nothing is launched for its job meanwhile.
        """
        with self._database.read() as connection:
            looks = tuple(look.last_tried_at for look in projects.read_all(connection))
            if looks == self._looks:
                return
            ours = job_vms.labelled(connection, self._launch_context.maker.guard_id)
            findings = unknown_vms.find(connection, ours, self._looks is None, now)
        if findings:
            with self._database.write(fence) as connection:
                unknown_vms.write(connection, findings, self._begin_generation, now)
        self._looks = looks

    def _never_read(self, unread: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        """The zones, by project, that this process has never read. What it has read once is in the ledger."""
        self._whole |= {project for project, zones in unread.items() if not zones}
        return {project: zones for project, zones in unread.items() if project not in self._whole}

    def _orphans(self, now: datetime) -> list[Step]:
        last = self._looked_for_orphans_at
        if last is not None and now - last < _ORPHANS_EVERY:
            return []
        self._looked_for_orphans_at = now
        guard_id = self._launch_context.maker.guard_id
        with self._database.read() as connection:
            actions = job_vms.find_orphans(
                connection, job_vms.labelled(connection, guard_id), self._terms.orphan_grace, now
            )
            policies = placement_rows.unused(connection, now)
        return [
            *(DeleteOrphanStep(self._launch_context, guard_id, action) for action in actions),
            *(DeletePolicyStep(self._launch_context, policy) for policy in policies),
        ]


def _unseen(view: JobView, unread: Mapping[str, frozenset[str]]) -> JobView:
    """Where it may not be seen yet what runs for a job, nothing is launched for it."""
    zones = unread.get(view.job.spec.project, frozenset()) & {*view.job.recipe.zones, "*"}
    if not zones or view.hold:
        return view
    which = "its project" if "*" in zones else ", ".join(sorted(zones))
    return replace(
        view, hold=f"{which} has not been read since Costguard started, so one of its VMs may be running unseen"
    )


def _launches(decision: JobDecision) -> bool:
    """Says whether a command is to begin, for which it must be known what it resumes from."""
    return any(
        isinstance(action, LetBegin | LetRoundBegin)
        or (isinstance(action, LaunchAttempt) and action.follows is None and not action.formation)
        for action in decision.actions
    )
