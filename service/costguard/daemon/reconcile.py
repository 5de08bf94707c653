"""Runs one pass: observe, record, charge, decide."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from costguard.access.rules import Rules
from costguard.daemon import hourly_counts
from costguard.daemon.listing_turns import ListingTurns, not_listed
from costguard.daemon.listings import Why
from costguard.daemon.shard_keeper import TAKEOVER, ShardKeeper
from costguard.db.lease import Lease, check_still_held
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, StoreError
from costguard.isolation import Isolated
from costguard.jobs.reports.listening import Listening
from costguard.ledger import projects
from costguard.ledger.charging import Charged, charge_due
from costguard.ledger.discovery import rows as discovered
from costguard.ledger.discovery.rules import due_projects
from costguard.ledger.discovery.watch import Watched
from costguard.ledger.observe import Belonging
from costguard.ledger.record import Recorded, close_account, failed, record
from costguard.ledger.running import running_totals
from costguard.model.action import SendReminder
from costguard.model.observation import Observation, Unread
from costguard.model.ports import Clock, Cloud
from costguard.reminders import gather
from costguard.reminders.decide import addresses_needed
from costguard.reminders.execute import PlanExecutor
from costguard.reminders.watched import FleetPlan, WatchedVm
from costguard.spend import label_roll_up

_CHECK_TOTALS_EVERY = timedelta(hours=1)
_SENDS_AT_ONCE = 500  # reminders in one transaction
_FRESH_FOR = timedelta(minutes=2) + TAKEOVER

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PassReport:
    """The observations, records and decisions of one pass. `due` are the projects that it listed, with the reason."""

    started_at: datetime
    finished_at: datetime
    recorded: tuple[Recorded, ...]
    charged: Charged | None  # None: the pass was ended before it came to that
    plan: FleetPlan
    interrupted: bool = False
    due: Mapping[str, Why] = field(default_factory=dict)

    @property
    def failed_projects(self) -> tuple[Recorded, ...]:
        return tuple(one for one in self.recorded if one.error)


@dataclass(slots=True)
class Looks:
    """The looks of one pass so far. `fences` are the projects that it may look at, with the leases to record under."""

    fences: Mapping[str, Lease | None]
    is_shared: bool  # with other replicas
    recorded: list[Recorded] = field(default_factory=list)
    put_off: set[str] = field(default_factory=set)  # to be looked at by another replica before anything is decided

    @property
    def projects(self) -> list[str]:
        return [report.project for report in self.recorded]

    @property
    def undecided(self) -> list[str]:
        return [*self.put_off, *(report.project for report in self.recorded if report.error)]


class Reconciler:
    """Runs passes over the watched projects. One pass at a time; the caller sees to that.

    `name` is called at every pass with those whose Slack accounts decisions may soon rest on, by their addresses.
    `fresh_for` is how old another replica's look at a project may be for anything new to be decided of that project.
    `turns` choose the projects that a pass lists; without them it lists all.
    """

    def __init__(
        self,
        database: Database,
        cloud: Cloud,
        clock: Clock,
        watched: Watched,
        rules: Rules,
        belonging: Belonging,
        parallel: int = 8,
        name: Callable[[Collection[str]], None] | None = None,
        executor: PlanExecutor | None = None,
        listening: Listening | None = None,
        fresh_for: timedelta = _FRESH_FOR,
        turns: ListingTurns | None = None,
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._clock = clock
        self._watched = watched
        self._rules = rules
        self._belonging = belonging
        self._parallel = parallel
        self._name = name
        self._executor = executor
        self._listening = listening or Listening(clock)
        self._fresh_for = fresh_for
        self._turns = turns
        self._checked_at: datetime | None = None
        self._has_asked = False  # in this process: the first pass asks every project, also those that refuse

    def watched(self) -> Sequence[str]:
        """Returns the projects that all replicas together watch at this moment."""
        return self._watched()

    def run(
        self, fence: Lease | None = None, stop: threading.Event | None = None, shards: ShardKeeper | None = None
    ) -> PassReport:
        """Runs one pass. A project that fails is reported, and the others go on.

        With `shards` it looks at this replica's projects alone, and decides on what all replicas recorded.

        When `stop` is set, the present write is finished and the rest is left to the next pass. Raises LeaseLost when
        another daemon took over, and StoreError when the database failed for all projects.
        """
        started_at = self._clock.now()
        watched = self.watched()
        looks = Looks(self._fences(watched, fence, shards), is_shared=shards is not None)
        self._close_unwatched(watched, fence, shards)
        due = self._due(looks, started_at)
        self._record(due, looks, stop)
        interrupted = stop is not None and stop.is_set()
        charged, plan = None, FleetPlan()
        if not interrupted:
            now = self._clock.now()
            charged = charge_due(self._database, now, fence)
            running_totals.catch_up(self._database, now, fence)  # not before: charges move the totals
            if self._checked_at is None or now - self._checked_at >= _CHECK_TOTALS_EVERY:
                running_totals.heal(self._database, now, fence)
                self._checked_at = now
            with Isolated("labels_not_rolled_up", passing=LeaseLost):  # they are then read from charges
                label_roll_up.roll_up(self._database, self._rules.spend_labels, now, fence)
            plan = self.act(fence, stop, looks)
        self._count(looks, plan, fence)
        return PassReport(started_at, self._clock.now(), tuple(looks.recorded), charged, plan, interrupted, due)

    def look(self, shards: ShardKeeper, stop: threading.Event | None = None) -> PassReport:
        """Looks at this replica's projects and records them: what another replica's pass charges and decides on.

        Raises StoreError when the database failed for all projects.
        """
        started_at = self._clock.now()
        looks = Looks(self._fences(self.watched(), None, shards), is_shared=True)
        due = self._due(looks, started_at)
        self._record(due, looks, stop)
        interrupted = stop is not None and stop.is_set()
        self._count(looks, FleetPlan(), None)
        finished_at = self._clock.now()
        return PassReport(started_at, finished_at, tuple(looks.recorded), None, FleetPlan(), interrupted, due)

    def act(
        self, fence: Lease | None = None, stop: threading.Event | None = None, looks: Looks | None = None
    ) -> FleetPlan:
        """Decide, write down whom to remind, and have the rest carried out. Without an executor, only decide.

        `looks` are those of this pass. A project that is not among them, and in which a reminder or a stop is due, is
        looked at first, and then all is decided again. Nothing new is decided of a project that was not recorded: see
        `decide_about`. Without `looks` the ledger is taken as it is.

        A person whom Slack was not asked about yet is reminded by a later pass.
        """
        if self._executor is not None:
            self._listening.under(fence)
            self._executor.settle(fence)
        now, fleet, plan = self._decided(looks, fence)
        if self._executor is None:
            return plan
        while looks is not None and (first := self._to_look_at_first(plan, looks, now)):
            self._look_first(first, looks, fence, stop)
            if stop is not None and stop.is_set():
                return plan  # the next pass acts
            now, fleet, plan = self._decided(looks, fence)
        if self._name is not None:
            self._name(addresses_needed(fleet, self._rules, now))
        sends = [action for action in plan.actions if isinstance(action, SendReminder)]
        if sends:
            vms = {vm.key: vm for vm in fleet}
            for at in range(0, len(sends), _SENDS_AT_ONCE):
                with self._database.write(fence) as connection:
                    gather.intend(connection, sends[at : at + _SENDS_AT_ONCE], vms, self._rules, now)
        others = [action for action in plan.actions if not isinstance(action, SendReminder)]
        if others:
            self._executor.carry_out(others, fence, stop)
        return plan

    def _decided(self, looks: Looks | None, fence: Lease | None) -> tuple[datetime, Sequence[WatchedVm], FleetPlan]:
        undecided = looks.undecided if looks is not None else []
        if looks is not None and looks.is_shared:
            undecided += self._stale(looks.projects, fence)
        now, answers_since = self._clock.now(), self._listening.answers_since
        with self._database.read() as connection:
            fleet = gather.gather(connection, self._rules, now)
            return now, fleet, gather.decide_about(connection, fleet, self._rules, now, answers_since, undecided)

    def _due(self, looks: Looks, now: datetime) -> Mapping[str, Why]:
        """Returns the projects that this pass looks at: not those that refuse, and were asked not long ago."""
        asked = list(looks.fences)
        with self._database.read() as connection:
            if self._has_asked:
                refusing = {
                    row.project: row for row in discovered.read_all(connection) if row.refused_since is not None
                }
                tried_at = {look.project: look.last_tried_at for look in projects.read_all(connection)}
                asked = list(due_projects(asked, refusing, tried_at, now))
            self._has_asked = True
            return dict.fromkeys(asked, Why.SILENT) if self._turns is None else self._turns.due(connection, asked, now)

    def _to_look_at_first(self, plan: FleetPlan, looks: Looks, now: datetime) -> list[str]:
        """Returns the projects that the plan acts on, and whose last look may be as old as their turn allows."""
        if self._turns is None:
            return []
        fresh = {*looks.projects, *looks.put_off}
        if looks.is_shared:
            with self._database.read() as connection:
                lately = (look for look in projects.read_all(connection) if look.last_tried_at >= now - self._fresh_for)
                fresh |= {look.project for look in lately if look.project not in looks.fences}
        return not_listed(plan, fresh, self.watched())

    def _look_first(
        self, first: Sequence[str], looks: Looks, fence: Lease | None, stop: threading.Event | None
    ) -> None:
        """Looks at these projects; those of other replicas are looked at by these, and decided on by a later pass."""
        self._record([project for project in first if project in looks.fences], looks, stop)
        if others := [project for project in first if project not in looks.projects]:
            looks.put_off.update(others)
            with self._database.write(fence) as connection:
                projects.want(connection, others, self._clock.now())

    def _count(self, looks: Looks, plan: FleetPlan, fence: Lease | None) -> None:
        if self._turns is None:
            return
        now = self._clock.now()
        self._turns.decided(plan, now)
        if counts := self._turns.passed(looks.fences, now):
            with Isolated("listings_not_counted", passing=LeaseLost), self._database.write(fence) as connection:
                hourly_counts.add(connection, counts, now)

    def _fences(
        self, watched: Sequence[str], fence: Lease | None, shards: ShardKeeper | None
    ) -> Mapping[str, Lease | None]:
        """Returns the projects to look at, each with the lease under which it is recorded."""
        if shards is None:
            return dict.fromkeys(watched, fence)
        held = shards.held(fence)
        return {project: held[project] for project in watched if project in held}

    def _stale(self, looked_at: Collection[str], fence: Lease | None) -> list[str]:
        """Returns the projects of which nothing new may be decided: not looked at by this pass, nor lately by another
        replica.

        Raises LeaseLost where another daemon acts by now: projects may have been recorded under leases of their own.
        """
        now = self._clock.now()
        with self._database.read() as connection:
            if fence is not None:
                check_still_held(connection, fence)
            return [
                look.project
                for look in projects.read_all(connection)
                if look.project not in looked_at and look.last_tried_at < now - self._fresh(look.project, now)
            ]

    def _fresh(self, project: str, now: datetime) -> timedelta:
        return self._fresh_for if self._turns is None else self._turns.longest_age(project, now, self._fresh_for)

    def _close_unwatched(self, watched: Sequence[str], fence: Lease | None, shards: ShardKeeper | None) -> None:
        with self._database.read() as connection:
            looks = projects.read_all(connection)
        kept = frozenset(watched)
        for look in looks:
            if look.project in kept:
                continue
            lease = fence if shards is None else shards.claim_unwatched(look.project)
            if shards is not None and lease is None:
                continue  # another replica still watches it
            close_account(self._database, look, self._belonging, lease)
            if shards is not None and lease is not None:
                shards.release(lease)
            log.warning("project_unwatched", project=look.project)

    def _record(self, due: Collection[str], looks: Looks, stop: threading.Event | None) -> None:
        """Looks at these projects, and records each under its lease.

        Where projects are shared, one that was passed on meanwhile is left to the replica that holds it now. Raises
        StoreError when the database failed for all.
        """
        troubles: list[StoreError] = []
        for observation in self._observe(due, stop):
            project = observation.project
            if self._turns is not None:
                self._turns.listed(observation)
            fence = looks.fences[project]
            try:
                with Isolated("project_not_recorded", passing=LeaseLost, project=project) as failure:
                    looks.recorded.append(record(self._database, self._cloud, observation, self._belonging, fence))
            except LeaseLost as lost:
                if not looks.is_shared:
                    raise
                log.info("project_passed_on", project=project, why=lost.message)
                continue
            if failure.error is not None:
                looks.recorded.append(failed(observation, failure.error))
            if isinstance(failure.error, StoreError):
                troubles.append(failure.error)
        if troubles and len(troubles) == len(looks.recorded):
            raise troubles[0]

    def _observe(self, due: Collection[str], stop: threading.Event | None) -> Iterator[Observation]:
        """Looks at these projects at once, and yields each observation as it comes."""
        with self._database.read() as connection:
            since = {look.project: look.operations_through_at for look in projects.read_all(connection)}
        parallel = max(1, min(self._parallel, len(due) or 1))
        with ThreadPoolExecutor(parallel, thread_name_prefix="observe") as pool:
            looks = [pool.submit(self._look, project, since.get(project)) for project in due]
            waiting: set[Future[Observation]] = set(looks)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in (look for look in looks if look in done):  # a set of them has no order
                    if stop is not None and stop.is_set():
                        pool.shutdown(wait=False, cancel_futures=True)
                        return
                    yield future.result()

    def _look(self, project: str, since: datetime | None) -> Observation:
        """An error that no adapter should let through costs the look at one project, not the pass."""
        with Isolated("project_not_observed", passing=(), project=project) as failure:
            return self._cloud.observe(project, since)
        reason = (
            f"Project {project} could not be read ({failure.words}). "
            "It is tried again at every pass; the log holds the trace to report."
        )
        unread = (Unread("project", reason, "unexpected"),)
        return Observation(project, self._clock.now(), instances_complete=False, unread=unread)
