"""Plans jobs with deadlines for their turns, and says for every job what each policy would do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

from sqlalchemy import Connection

from costguard.actions.execute import Note
from costguard.deadlines.hazards import ZoneCounts
from costguard.deadlines.planner import Planner
from costguard.deadlines.simple_policies import Greedy, OnDemand, UniformProgress
from costguard.deadlines.situation import Policy
from costguard.deadlines.waits import NO_WAITS, WaitCounts
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.jobs.decide.buy.placement import (
    REMEMBERED,
    LaunchPlace,
    PlaceEvent,
    lost_zone,
    with_advice,
)
from costguard.jobs.decide.buy.plan import PlanBasis, plan, shadow_of
from costguard.jobs.decide.buy.ways import WorkToBuy, by_expected_cost, may_choose, ways_of
from costguard.jobs.decide.gang.widths import may_grow
from costguard.jobs.decide.measures.start_times import planned_start
from costguard.jobs.decide.measures.work_left import MeasuredWork, keeps_nothing, overhead, work_left
from costguard.jobs.decide.planned import JobPlan, ShadowChoice, StoredPlan
from costguard.jobs.decide.view import JobContext, JobView
from costguard.jobs.reports.progress import progress
from costguard.jobs.rows import job_events, plan_rows
from costguard.jobs.rows.checkpoints import checkpoint_rows
from costguard.jobs.rows.history import place_rows
from costguard.jobs.rows.history.fleet_history import FleetHistory, SeenByFleet
from costguard.jobs.rows.history.zone_advice import RegionAdvice, ZoneAdvice
from costguard.jobs.rows.history.zone_history import VMKind
from costguard.jobs.rows.progress import progress_rows
from costguard.jobs.submit.where.places import may_launch
from costguard.model.instance import ProvisioningModel, region_of
from costguard.model.job import Job, JobKind
from costguard.model.reported.progress import POSITION, SeriesPoint

_WRITTEN_EVERY = timedelta(minutes=5)
_WRITTEN_READ = 40  # checkpoints of a job, for the pace of its saves
_SHADOW_EVERY = timedelta(minutes=15)
_AS_IF = 1.5  # a job without a deadline is looked at as if it had to be done in so many times its work


@dataclass(frozen=True, slots=True)
class Materials:
    """The data of plans, read together with the views."""

    events: Sequence[PlaceEvent] = ()
    written: Mapping[str, Sequence[datetime]] = field(default_factory=dict)  # checkpoints' times, by job
    stored: Mapping[str, StoredPlan] = field(default_factory=dict)
    seen: SeenByFleet = field(default_factory=SeenByFleet)
    measured: Mapping[str, MeasuredWork] = field(default_factory=dict)  # by job


@dataclass(frozen=True, slots=True)
class PlansNote:
    """The plans of jobs, and an event for each reason for which a deadline is at risk, once a day.

    A plan that decides otherwise has a note of its own; those that decide as before are written together.
    """

    plans: Sequence[tuple[Job, StoredPlan]]

    @property
    def subject(self) -> str:
        return self.plans[0][0].id

    def write(self, connection: Connection, now: datetime) -> bool:
        plan_rows.save(connection, [stored for _, stored in self.plans])
        at_risk = [
            job_events.deadline_at_risk(job, stored.plan.at_risk, now)
            for job, stored in self.plans
            if stored.plan is not None and stored.plan.at_risk is not None
        ]
        if at_risk:
            audit_log.append(connection, at_risk, now)
        return False


class Planning:
    """Plans jobs, one thread at a time.

    Its memory saves work: a new process reads what is stored, and plans the same.
    """

    def __init__(
        self, policy: Policy | None = None, *, advice: ZoneAdvice | None = None, capacity: RegionAdvice | None = None
    ) -> None:
        self._advice = advice
        self._capacity = capacity
        self._policy = policy or Planner(explains=True)
        self._shadows = (OnDemand(), Greedy(), UniformProgress(), self._policy)  # remember nothing of a job
        self._stored: dict[str, StoredPlan] = {}
        self._shadowed_at: dict[str, datetime] = {}
        self._history = FleetHistory()

    def forget(self, job_ids: Collection[str]) -> None:
        """All but these."""
        for remembered in (self._stored, self._shadowed_at):
            for gone in remembered.keys() - job_ids:
                del remembered[gone]

    def wanted(self, views: Sequence[JobView], now: datetime) -> list[JobView]:
        """Returns the views with a deadline, those that choose a way to buy, and those whose shadow is due."""
        return [
            view
            for view in views
            if _is_planned(view) or _chooses(view) or may_grow(view) or self._is_shadow_due(view, now)
        ]

    def read(self, connection: Connection, views: Sequence[JobView], now: datetime) -> Materials:
        """Reads the data for the views that are wanted."""
        if not views:
            return Materials()
        events = [
            PlaceEvent(one.zone, one.gpu_type, one.provisioning_model, one.outcome, one.at)
            for one in place_rows.recent(connection, now - REMEMBERED)
            if one.provisioning_model is ProvisioningModel.SPOT
        ]
        missing = [view.job.id for view in views if view.job.id not in self._stored]
        return Materials(
            events,
            checkpoint_rows.written_of(connection, [view.job.id for view in views], _WRITTEN_READ),
            plan_rows.of_jobs(connection, missing),
            self._history.read(connection, now),
            _measured(connection, views),
        )

    def plan(
        self,
        views: Sequence[JobView],
        materials: Materials,
        places: Mapping[str, Sequence[LaunchPlace]],
        context: JobContext,
    ) -> tuple[dict[str, JobPlan], list[Note]]:
        """Plans by job, and notes what to store of it. A job that cannot be planned runs without a plan."""
        plans: dict[str, JobPlan] = {}
        notes: list[Note] = []
        same: list[tuple[Job, StoredPlan]] = []
        for view in views:
            with Isolated("job_not_planned", job=view.job.id):
                made, after, is_new = self._of_job(view, materials, places.get(view.job.id, ()), context)
                if made is not None:
                    plans[view.job.id] = made
                if after is not None and is_new:
                    notes.append(PlansNote([(view.job, after)]))
                elif after is not None:
                    same.append((view.job, after))
        return plans, [*notes, *([PlansNote(same)] if same else [])]

    def with_rests(self, views: Sequence[JobView], materials: Materials, now: datetime) -> list[JobView]:
        """Adds the work that is left to gangs that may grow."""
        return [_with_rest(view, materials, now) if may_grow(view) else view for view in views]

    def advised(
        self, views: Sequence[JobView], places: Mapping[str, list[LaunchPlace]], now: datetime
    ) -> dict[str, list[LaunchPlace]]:
        """Ranks the places of each job again by Google's advice on Spot, as far as it is known."""
        ranked = dict(places)
        if self._capacity is None:
            return ranked
        for view in views:
            spec, recipe, mine = view.job.spec, view.job.recipe, places.get(view.job.id, [])
            regions = {region_of(one.zone) for one in mine if one.provisioning_model is ProvisioningModel.SPOT}
            answers = self._capacity.capacity(spec.project, recipe, sorted(regions), ProvisioningModel.SPOT, now)
            if answers:
                chances = {region: advice.obtainability for region, advice in answers.items()}
                ranked[view.job.id] = with_advice(recipe, mine, chances, lost_zone(view))
        return ranked

    def by_expected_cost(
        self,
        views: Sequence[JobView],
        materials: Materials,
        places: Mapping[str, list[LaunchPlace]],
        now: datetime,
    ) -> dict[str, list[LaunchPlace]]:
        """Orders the places of jobs that choose a way to buy by what each is expected to cost to their end."""
        ordered = dict(places)
        for view in views:
            with Isolated("way_not_chosen", job=view.job.id):
                job, mine = view.job, places.get(view.job.id, [])
                left = work_left(view, now, materials.measured.get(job.id)) if _chooses(view) else None
                if left is None or not mine:
                    continue
                start = planned_start(materials.seen.starts, job.spec.preset, job.recipe.zones)
                cost = overhead(view, start, materials.written.get(job.id, ()), now)
                ways = ways_of(
                    job.recipe,
                    {(place.zone, place.provisioning_model): place.rate for place in mine},
                    WorkToBuy(left.likely, cost.start, None if keeps_nothing(job.spec.checkpoint) else cost.loss),
                    self._counts_of(job, materials, mine, now),
                    self._waits_of(job, materials, mine, now),
                )
                ordered[job.id] = by_expected_cost(mine, ways)
        return ordered

    def _of_job(
        self, view: JobView, materials: Materials, places: Sequence[LaunchPlace], context: JobContext
    ) -> tuple[JobPlan | None, StoredPlan | None, bool]:
        """Plans a job. What is to be stored of it, None where nothing is, and whether it decides otherwise."""
        job, now = view.job, context.now
        start = planned_start(materials.seen.starts, job.spec.preset, job.recipe.zones)
        basis = PlanBasis(
            places,
            [event for event in materials.events if event.gpu_type == job.recipe.gpu_type],
            work_left(view, now, materials.measured.get(job.id)),
            overhead(view, start, materials.written.get(job.id, ()), now),
            self._counts_of(job, materials, places, now),
            self._waits_of(job, materials, places, now),
        )
        made = plan(view, basis, self._policy, context)
        shadow, as_if = self._shadow(view, basis, context)
        before = self._stored.get(job.id) or materials.stored.get(job.id) or StoredPlan(job.id, now)
        after = before.after(made, shadow, as_if, now)
        is_new = after.decisions != before.decisions or _risk(after) != _risk(before)
        self._stored.setdefault(job.id, before)
        if not (is_new or shadow or (made is not None and now - before.updated_at >= _WRITTEN_EVERY)):
            return made, None, False
        self._stored[job.id] = after
        return made, after, is_new

    def _counts_of(
        self, job: Job, materials: Materials, places: Sequence[LaunchPlace], now: datetime
    ) -> Mapping[str, ZoneCounts]:
        """The fleet's own history of the places' zones, and Google's advice on those in which it has none."""
        own = materials.seen.counts.get(VMKind.of_recipe(job.recipe), {})
        if self._advice is None:
            return own
        return self._advice.with_own(own, job.spec.project, job.recipe, [place.zone for place in places], now)

    def _waits_of(self, job: Job, materials: Materials, places: Sequence[LaunchPlace], now: datetime) -> WaitCounts:
        """The fleet's own requests of flex-start, with Google's advice as their prior where it answers."""
        own = materials.seen.waits.get(VMKind.of_recipe(job.recipe), NO_WAITS)
        zones = [place.zone for place in places if place.provisioning_model is ProvisioningModel.FLEX_START]
        return own if self._capacity is None else self._capacity.waits(own, job.spec.project, job.recipe, zones, now)

    def _shadow(
        self, view: JobView, basis: PlanBasis, context: JobContext
    ) -> tuple[tuple[ShadowChoice, ...], datetime | None]:
        """Nothing while it is not due. Of a job without a deadline, as if it had one."""
        spec, now = view.job.spec, context.now
        if basis.work_left is None or not self._is_shadow_due(view, now):
            return (), None if spec.deadline is not None else self._as_if(view)
        self._shadowed_at[view.job.id] = now
        as_if = None if spec.deadline is not None else self._as_if(view)
        looked_at = view if as_if is None else replace(view, job=replace(view.job, spec=replace(spec, deadline=as_if)))
        return tuple(shadow_of(looked_at, basis, policy, context) for policy in self._shadows), as_if

    def _as_if(self, view: JobView) -> datetime | None:
        spec = view.job.spec
        return view.job.created_at + spec.work * _AS_IF if spec.work is not None else None

    def _is_shadow_due(self, view: JobView, now: datetime) -> bool:
        spec = view.job.spec
        if view.job.state.is_over or spec.kind is not JobKind.TRAINING or (spec.deadline is None and spec.work is None):
            return False
        last = self._shadowed_at.get(view.job.id)
        return last is None or now - last >= _SHADOW_EVERY


def _is_planned(view: JobView) -> bool:
    spec = view.job.spec
    return spec.deadline is not None and spec.kind is JobKind.TRAINING and not view.job.state.is_over


def _with_rest(view: JobView, materials: Materials, now: datetime) -> JobView:
    left = work_left(view, now, materials.measured.get(view.job.id))
    return view if left is None else replace(view, rest=left.likely)


def _chooses(view: JobView) -> bool:
    """Says whether it needs a VM now, and its way to buy is chosen by what it is expected to cost."""
    return may_launch(view) and may_choose(view.job.recipe) and not _is_planned(view)


def _measured(connection: Connection, views: Sequence[JobView]) -> dict[str, MeasuredWork]:
    """Returns the work left by the positions in the output, by job; jobs for which it is unknown are left out."""
    measured: dict[str, MeasuredWork] = {}
    positions = progress_rows.series_of_jobs(connection, [view.job.id for view in views], POSITION)
    for view in views:
        points = positions.get(view.job.id, [])
        tried = (seen.attempt.agent.progress for seen in reversed(view.attempts))
        seen = next((one for one in tried if one is not None), None)
        left = progress.work_left(view.job, seen, points)
        if left is not None:
            measured[view.job.id] = MeasuredWork(left, _read_for(points))
    return measured


def _read_for(points: Sequence[SeriesPoint]) -> timedelta:
    """Returns the time read within runs: the time between two of them says nothing of the pace."""
    spans = (later.at - earlier.at for earlier, later in pairwise(points) if earlier.start == later.start)
    return sum(spans, start=timedelta())


def _risk(stored: StoredPlan) -> object:
    return stored.plan.at_risk.risk if stored.plan is not None and stored.plan.at_risk is not None else None
