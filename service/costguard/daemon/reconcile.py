"""Runs one pass: observe, record, charge, decide."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from costguard.access.rules import Rules
from costguard.daemon import hourly_counts
from costguard.daemon.listing_turns import not_listed
from costguard.daemon.listings import ListingReason
from costguard.daemon.looker import Looker, LookPace, Looks
from costguard.daemon.shard_keeper import ShardKeeper
from costguard.db.lease import Lease, check_still_held
from costguard.db.transaction import Database
from costguard.errors import LeaseLost
from costguard.isolation import Isolated
from costguard.jobs.reports.listening import Listening
from costguard.ledger import projects
from costguard.ledger.charged import label_roll_up
from costguard.ledger.charged.charging import Charged, charge_due
from costguard.ledger.discovery import rows as discovered
from costguard.ledger.discovery.rules import due_projects
from costguard.ledger.discovery.watch import Watched
from costguard.ledger.observe import Belonging
from costguard.ledger.projects import ProjectLook
from costguard.ledger.record import Recorded, close_account
from costguard.ledger.running import running_totals
from costguard.model.action import SendReminder
from costguard.model.ports import Clock, Cloud
from costguard.reminders import gather
from costguard.reminders.decide import SOON, addresses_needed
from costguard.reminders.due_rows import may_be_due
from costguard.reminders.execute import PlanExecutor
from costguard.reminders.watched import FleetPlan, WatchedVm

_CHECK_TOTALS_EVERY = timedelta(hours=1)
_USUAL_PACE = LookPace()
_SENDS_AT_ONCE = 500  # reminders in one transaction

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
    due: Mapping[str, ListingReason] = field(default_factory=dict)
    late: tuple[str, ...] = ()  # projects whose looks go on: their results come with a later pass

    @property
    def failed_projects(self) -> tuple[Recorded, ...]:
        return tuple(one for one in self.recorded if one.error)


@dataclass(frozen=True, slots=True)
class PassActs:
    """The parts of a pass that act on what was decided; without an executor nothing does.

    `enqueue_lookups` is called at every pass with the addresses whose Slack accounts decisions may soon need.
    """

    enqueue_lookups: Callable[[Collection[str]], None] | None = None
    executor: PlanExecutor | None = None
    listening: Listening | None = None


class Reconciler:
    """Runs passes over the watched projects. One pass at a time; the caller sees to that."""

    def __init__(
        self,
        database: Database,
        cloud: Cloud,
        clock: Clock,
        watched: Watched,
        rules: Rules,
        belonging: Belonging,
        pace: LookPace = _USUAL_PACE,
        acts: PassActs = PassActs(),
    ) -> None:
        self._database = database
        self._cloud = cloud
        self._clock = clock
        self._watched = watched
        self._rules = rules
        self._belonging = belonging
        self._looker = Looker(database, cloud, clock, belonging, pace)
        self._enqueue_lookups = acts.enqueue_lookups
        self._executor = acts.executor
        self._listening = acts.listening or Listening(clock)
        self._turns, self._fresh_for = pace.turns, pace.fresh_for
        self._checked_at: datetime | None = None
        self._has_asked = False  # in this process: the first pass asks every project, also those that refuse

    def watched(self) -> Sequence[str]:
        """Returns the projects that all replicas together watch at this moment."""
        return self._watched()

    def run(
        self,
        fence: Lease | None = None,
        stop: threading.Event | None = None,
        shards: ShardKeeper | None = None,
        *,
        repeated: bool = False,
        late_alone: bool = False,
    ) -> PassReport:
        """Runs one pass. A project that fails is reported, and the others go on.

        With `shards` it looks at this replica's projects alone, and decides on what all replicas recorded. Of
        `repeated` passes none waits for a project that hangs, which comes with a later one, and each decides only about
        VMs that may be due: of the others there is nothing to do. With `late_alone` it begins no look, takes those that
        ended since the last pass, and decides about their projects alone.

        When `stop` is set, the present write is finished and the rest is left to the next pass. Raises LeaseLost when
        another daemon took over, and StoreError when the database failed for all projects.
        """
        started_at = self._clock.now()
        watched = self.watched()
        looks = Looks(self._fences(watched, fence, shards), is_shared=shards is not None, is_repeated=repeated)
        before, due = self._due(looks, started_at, late_alone=late_alone)
        self._close_unwatched(before, watched, fence, shards)
        self._looker.record(due, before, looks, fence, stop)
        if late_alone:
            looks.waiting.update(set(watched).difference(looks.projects))
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
        if not late_alone:  # else the plan says nothing of most projects
            self._count(looks, plan, fence)
        late, finished_at = self._looker.late(looks), self._clock.now()
        return PassReport(started_at, finished_at, tuple(looks.recorded), charged, plan, interrupted, due, late)

    @property
    def has_late(self) -> bool:
        """Says whether looks that were late have ended since the last pass: one with `late_alone` decides on them."""
        return self._looker.has_ended

    def look(self, shards: ShardKeeper, stop: threading.Event | None = None, *, late_alone: bool = False) -> PassReport:
        """Looks at this replica's projects and records them: what another replica's pass charges and decides on.

        `late_alone` is as in `run`. Raises StoreError when the database failed for all projects.
        """
        started_at = self._clock.now()
        looks = Looks(self._fences(self.watched(), None, shards), is_shared=True, is_repeated=True)
        before, due = self._due(looks, started_at, late_alone=late_alone)
        self._looker.record(due, before, looks, None, stop)
        interrupted = stop is not None and stop.is_set()
        self._count(looks, FleetPlan(), None)
        late, finished_at = self._looker.late(looks), self._clock.now()
        return PassReport(started_at, finished_at, tuple(looks.recorded), None, FleetPlan(), interrupted, due, late)

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
        sends = [action for action in plan.actions if isinstance(action, SendReminder)]
        vms = {vm.key: vm for vm in fleet} if sends else {}
        for at in range(0, len(sends), _SENDS_AT_ONCE):
            with self._database.write(fence) as connection:
                gather.intend(connection, sends[at : at + _SENDS_AT_ONCE], vms, now)
        if self._enqueue_lookups is not None:
            self._enqueue_lookups(addresses_needed(fleet, self._rules, now))
        others = [action for action in plan.actions if not isinstance(action, SendReminder)]
        if others:
            self._executor.carry_out(others, fence, stop)
        return plan

    def _decided(self, looks: Looks | None, fence: Lease | None) -> tuple[datetime, Sequence[WatchedVm], FleetPlan]:
        undecided = [*looks.undecided, *self._looker.late(looks)] if looks is not None else []
        if looks is not None and looks.is_shared:
            undecided += self._stale(looks.projects, fence)
        now, answers_since = self._clock.now(), self._listening.answers_since
        with self._database.read() as connection:
            is_repeated = looks is not None and looks.is_repeated
            due = may_be_due(connection, self._rules, now, SOON) if is_repeated else None
            fleet = gather.gather(connection, self._rules, now, due=due, unrecorded=undecided)
            return now, fleet, gather.decide_about(connection, fleet, self._rules, now, answers_since)

    def _due(
        self, looks: Looks, now: datetime, *, late_alone: bool
    ) -> tuple[Sequence[ProjectLook], Mapping[str, ListingReason]]:
        """Returns the last looks at all projects, and those that this pass looks at: not those that refuse, and were
        asked not long ago.
        """
        names = list(looks.fences)
        with self._database.read() as connection:
            before = projects.read_all(connection)
            if late_alone:
                return before, dict.fromkeys(self._looker.ended(looks), ListingReason.UNREAD)
            if self._has_asked:
                refusing = {
                    row.project: row for row in discovered.read_all(connection) if row.refused_since is not None
                }
                tried_at = {look.project: look.last_tried_at for look in before}
                names = list(due_projects(names, refusing, tried_at, now))
            self._has_asked = True
            if self._turns is None:
                return before, dict.fromkeys(names, ListingReason.SILENT)
            return before, self._turns.due(connection, names, now)

    def _to_look_at_first(self, plan: FleetPlan, looks: Looks, now: datetime) -> list[str]:
        """Returns the projects that the plan acts on, and whose last look may be as old as their turn allows."""
        if self._turns is None:
            return []
        fresh = {*looks.projects, *looks.waiting}
        if looks.is_shared:
            with self._database.read() as connection:
                lately = (look for look in projects.read_all(connection) if look.last_tried_at >= now - self._fresh_for)
                fresh |= {look.project for look in lately if look.project not in looks.fences}
        return not_listed(plan, fresh, self.watched())

    def _look_first(
        self, first: Sequence[str], looks: Looks, fence: Lease | None, stop: threading.Event | None
    ) -> None:
        """Looks at these projects; those of other replicas are looked at by these, and decided on by a later pass."""
        with self._database.read() as connection:
            before = projects.read_all(connection)
        self._looker.record([project for project in first if project in looks.fences], before, looks, fence, stop)
        if others := [project for project in first if project not in looks.projects]:
            looks.waiting.update(others)
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

    def _close_unwatched(
        self,
        before: Sequence[ProjectLook],
        watched: Sequence[str],
        fence: Lease | None,
        shards: ShardKeeper | None,
    ) -> None:
        kept = frozenset(watched)
        for look in before:
            if look.project in kept:
                continue
            lease = fence if shards is None else shards.claim_unwatched(look.project)
            if shards is not None and lease is None:
                continue  # another replica still watches it
            close_account(self._database, look, self._belonging, lease)
            if shards is not None and lease is not None:
                shards.release(lease)
            log.warning("project_unwatched", project=look.project)
