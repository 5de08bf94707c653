"""Assesses a submitted job: its recipe, its prices, and everything that speaks against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta

from sqlalchemy import Connection

from costguard import credentials
from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.deadlines.hazards import ZoneCounts
from costguard.deadlines.waits import NO_WAITS, WaitCounts
from costguard.errors import CheckpointError, CloudError, NotFound
from costguard.jobs.decide.measures.start_times import planned_start
from costguard.jobs.decide.measures.work_left import START
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.history.fleet_history import FleetHistory
from costguard.jobs.rows.history.zone_history import VMKind
from costguard.jobs.rows.limits import budget_holds
from costguard.jobs.rows.recovery import drills
from costguard.jobs.submit import submission as recipe
from costguard.jobs.submit import submission as roles
from costguard.jobs.submit.check import check_data, check_gang, checks
from costguard.jobs.submit.check.check_labels import label_problems
from costguard.jobs.submit.code import CodeArchives
from costguard.jobs.submit.cost import egress, offers
from costguard.jobs.submit.cost.offers import Feasibility, HourlyRates, feasibility
from costguard.jobs.submit.cost.price_record import price_warnings
from costguard.jobs.submit.data_look import DataLook, look_at_data
from costguard.jobs.submit.limit_look import LimitLook, look_at_limits
from costguard.jobs.submit.submission import JobRefusal, Overrides, Submission, shown
from costguard.jobs.submit.where.places import rates
from costguard.jobs.submit.where.reserved import look_at_reservation
from costguard.jobs.submit.where.targets import LaunchTargets
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.model.access import Authority
from costguard.model.buying import models_of
from costguard.model.data import DataMove, StagedShare
from costguard.model.instance import ProvisioningModel, Shape, region_of
from costguard.model.job import JobKind, JobSpec, destinations_of
from costguard.model.launch import AddressChoice, Recipe
from costguard.model.money import Money
from costguard.model.ports import Checkpoints, Clock, DataPlaces
from costguard.model.preset import Preset
from costguard.spend import downloads
from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook, names_a_file, written_over


@dataclass(frozen=True, slots=True)
class Assessment:
    """A submission, looked at from all sides. `recipe` is None where its preset has none that could be launched.

    `resume` is the complete checkpoint that lies at its location already. `warnings` speak against it, and refuse
    nothing. `moves` are its inputs and outputs, with what moving them costs. `start` is the most that a start takes, as
    measured if it was, `counts` what was seen of its zones, `addresses` whether its VMs would get external ones.
    """

    spec: JobSpec
    recipe: Recipe | None = None
    machine: Shape | None = None
    rates: HourlyRates = field(default_factory=dict)
    resume: Checkpoint | None = None
    warnings: tuple[str, ...] = ()
    feasibility: Feasibility = field(default_factory=Feasibility)
    refusals: tuple[JobRefusal, ...] = ()
    moves: tuple[DataMove, ...] = ()
    start: timedelta = START
    counts: Mapping[str, ZoneCounts] = field(default_factory=dict)
    waits: WaitCounts = NO_WAITS
    addresses: Mapping[str, AddressChoice] = field(default_factory=dict)  # by region
    shares: Mapping[str, StagedShare] = field(default_factory=dict)  # of its sources: what is staged already
    save: timedelta | None = None  # how long a save on a notice took when it was last measured
    is_looked_at: bool = False  # its checkpoints' location, so that `resume` is all that is there

    @property
    def download_cost(self) -> Money:
        """Returns the cost of downloading its inputs to its VMs, as far as it is known and not paid already."""
        return egress.ahead([self.priced], self.shares)

    @property
    def priced(self) -> JobSpec:
        """Returns the job with the costs of its inputs."""
        return egress.with_costs(self.spec, self.moves)


class Assessor:
    """Reads the database, the buckets of checkpoints and data, and what a machine type is. Changes nothing."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        rules: Rules,
        launching: LaunchTargets,
        checkpoints: Checkpoints,
        data: DataPlaces,
        code: CodeArchives,
    ) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._launching = launching
        self._checkpoints = checkpoints
        self._data = data
        self._code = code
        self._history = FleetHistory()

    def assess(self, submission: Submission, authority: Authority | None = None) -> Assessment:
        """Everything that is wrong with it, at once. `authority` is what it is asked with.

        Nothing else of a submission that is too large is looked at. Its code's changes are `without_credentials`.
        """
        spec, refusals = self._named(submission.spec)
        if too_large := checks.size_problem(spec):
            return Assessment(spec, refusals=(too_large,))
        refusals += checks.problems(spec, self._rules.jobs.guard_url, self._clock.now())
        if (no_code := self._code.problem(spec.code)) is not None:
            refusals.append(no_code)
        preset = self._rules.presets.get(spec.preset)
        if preset is None or preset.launch is None:
            return Assessment(spec, refusals=(self._no_recipe(spec.preset, preset), *refusals))
        base = preset.launch
        base = replace(base, image=preset.dev_image) if spec.kind is JobKind.DEV and preset.dev_image else base
        machine, unknown = self._machine(spec.project, base, submission.overrides)
        checkable = submission.overrides
        if unknown is not None:
            refusals.append(unknown)
            checkable = replace(checkable, machine_type=None)
        refusals += recipe.override_problems(base, checkable, machine)
        if spec.secrets and not base.service_account:
            refusals.append(_no_account(preset.name))
        refusals += recipe.tracker_problems(spec, self._rules.jobs.trackers)
        refusals += self._of_rights(spec, preset, base, submission.overrides, authority)
        made = recipe.with_overrides(base, submission.overrides, machine)
        refusals += _of_recipe(spec, made, submission.overrides)
        refusals += label_problems(spec.labels, base.labels, self._rules.owner_label)
        reserved = look_at_reservation(spec, made, submission.overrides, self._launching, self._clock.now())
        spec, made = reserved.spec, reserved.recipe
        refusals += reserved.refusals
        data = self._look_at_data(spec, refusals)
        priced = egress.with_costs(spec, data.moves)
        addresses = self._launching.address_choices(spec, made)
        with self._database.read() as connection:
            accrual = accrual_at(connection, self._clock.now())
            hourly_rates = _of_all(rates(made, machine, made.zones, accrual, addresses), spec.nodes)
            if destinations_of(spec):
                refusals += check_data.taken_problems(spec, job_rows.open_jobs(connection))
            seen, save = self._history.read(connection, self._clock.now()), drills.last_save(connection, spec)
            chosen = submission.overrides.zones or ()
            shares = downloads.staged_shares(connection, {one.source for one in priced.inputs if one.staged})
            refusals += self._of_money(connection, accrual, priced, made, hourly_rates, chosen, shares)
            refusals += (lined_up := self._of_limits(connection, spec, made, hourly_rates)).refusals
        look, unreadable = self._look(spec)
        resume = look.resume if look is not None else None
        start = planned_start(seen.starts, preset.name, made.zones) or START
        ahead = feasibility(spec, hourly_rates, models_of(made), resume is not None, self._clock.now(), start)
        refusals += _others(ahead.refusals, refusals)
        others = (*reserved.warnings, *ahead.warnings, *data.warnings, *lined_up.warnings)
        refused = (*refusals, *unreadable, *_others(data.refusals, refusals))
        kind = VMKind.of_recipe(made)
        counts, waits = seen.counts.get(kind, {}), seen.waits.get(kind, NO_WAITS)
        warnings = (*_warnings(spec, made, look), *others)
        assessed = Assessment(spec, made, machine, hourly_rates, resume, warnings, ahead, refused)
        assessed = replace(assessed, moves=data.moves, start=start, counts=counts, addresses=addresses, save=save)
        return replace(assessed, waits=waits, shares=shares, is_looked_at=look is not None)

    def _of_rights(
        self, spec: JobSpec, preset: Preset, base: Recipe, overrides: Overrides, authority: Authority | None
    ) -> list[JobRefusal]:
        if not spec.owner:
            return []
        access, teams = self._rules.access, self._rules.teams
        of_launch = roles.launch_problems(
            preset.name, base, overrides, spec.owner, access, teams, preset.may_override, authority
        )
        return [*of_launch, *roles.priority_problems(spec, access, teams, authority)]

    def _look_at_data(self, spec: JobSpec, refusals: Sequence[JobRefusal]) -> DataLook:
        wrong = frozenset(refusal.where for refusal in refusals)
        return look_at_data(spec, self._data, wrong, self._rules.jobs.stage)

    def advised(self, case: Assessment) -> Assessment:
        """Adds Google's advice: on requests of flex-start, Spot's prices, and zones without history for a deadline."""
        advice, spec, made = self._launching.advice, case.spec, case.recipe
        capacity, now = self._launching.capacity, self._clock.now()
        if capacity is not None and made is not None and spec.project in self._launching.projects:
            models = models_of(made)
            zones = made.zones if ProvisioningModel.FLEX_START in models else ()
            waits = capacity.waits(case.waits, spec.project, made, zones, now)
            regions = sorted({*map(region_of, made.zones)}) if ProvisioningModel.SPOT in models else ()
            listed = capacity.spot_prices(spec.project, made, regions, now)
            warnings = (*case.warnings, *price_warnings(case.rates, listed))
            case = replace(case, waits=waits, warnings=warnings)
        if advice is None or made is None or spec.deadline is None or spec.project not in self._launching.projects:
            return case
        return replace(case, counts=advice.with_own(case.counts, spec.project, made, made.zones, now))

    def _named(self, spec: JobSpec) -> tuple[JobSpec, list[JobRefusal]]:
        """Normalises the job as it is kept: addresses are compared in lower case, and times in UTC."""
        refusals: list[JobRefusal] = []
        deadline = spec.deadline.astimezone(UTC) if spec.deadline is not None else None
        if spec.deadline_in is not None and deadline is not None:
            refusals.append(JobRefusal("deadline_in_hours", "Its deadline is given twice: leave one of the two out."))
        elif spec.deadline_in is not None:
            deadline = self._clock.now() + spec.deadline_in
        spec = replace(spec, owner=spec.owner.strip().lower(), deadline=deadline)
        try:
            return replace(spec, project=checks.watched(spec.project, self._launching.projects)), refusals
        except ValueError as wrong:
            return spec, [*refusals, JobRefusal("project", str(wrong))]

    def _no_recipe(self, name: str, preset: Preset | None) -> JobRefusal:
        names = (
            ", ".join(preset.name for preset in self._rules.presets.values() if preset.launch is not None) or "none yet"
        )
        if preset is None:
            return JobRefusal("preset", f"There is no preset {shown(name)}: choose one that can be launched ({names}).")
        message = f"The preset {name} does not say how it is launched: choose one that does ({names})"
        return JobRefusal("preset", f"{message}, or add a section [presets.{name}.launch] to the settings.")

    def _machine(self, project: str, base: Recipe, wanted: Overrides) -> tuple[Shape | None, JobRefusal | None]:
        name, zones = wanted.machine_type or base.machine_type, wanted.zones or base.zones
        project = self._launching.known(project)
        missing: CloudError | None = None
        for zone in zones:
            try:
                return self._launching.shapes(project, zone, name), None
            except NotFound as error:  # there; another zone may have it
                missing = missing or error
            except CloudError as error:
                if wanted.machine_type is None:
                    return None, None  # its price is not known, and the quote says so
                return None, JobRefusal("overrides.machine_type", f"{error} Try again, or leave it out.")
        where = "preset" if wanted.machine_type is None else "overrides.machine_type"
        return None, None if missing is None else JobRefusal(where, str(missing))

    def _of_money(
        self,
        connection: Connection,
        accrual: Accrual,
        spec: JobSpec,
        made: Recipe,
        hourly_rates: HourlyRates,
        chosen: Sequence[str],
        shares: Mapping[str, StagedShare],
    ) -> Iterator[JobRefusal]:
        models = models_of(made)
        yield from offers.price_problems(hourly_rates, models, chosen, spec.ceiling)
        best = offers.cheapest(hourly_rates, models, spec.work) if spec.work is not None else None
        expected = None if best is None or best.cost is None else best.cost + egress.ahead([spec], shares)
        if spec.queue:
            return  # for the budget's next period, as jobs do whose budget is spent while they run
        for message in budget_holds.budget_problems(connection, accrual, self._rules, spec, expected, accrual.now):
            yield JobRefusal("budget", message)

    def _of_limits(self, connection: Connection, spec: JobSpec, made: Recipe, hourly_rates: HourlyRates) -> LimitLook:
        models = models_of(made)
        totals = [rate.total for (_, model), rate in hourly_rates.items() if model in models]
        return look_at_limits(connection, self._rules, spec, made, totals, self._clock.now())

    def _look(self, spec: JobSpec) -> tuple[CheckpointLook | None, list[JobRefusal]]:
        """Looks at the location of its checkpoints: a location that cannot be read now could not be resumed
        from later.
        """
        plan = spec.checkpoint
        if spec.kind is not JobKind.TRAINING or plan is None or "://" not in plan.location:
            return None, []  # a path is on the VM's disk, and not on this machine's
        if credentials.in_text(plan.location):  # is refused for that, and no error may repeat it
            return None, []
        if checks.is_out_of_reach(plan.location, self._rules.jobs.guard_url):
            return None, []
        try:
            return self._checkpoints.look(plan.location, plan.look_for), []
        except CheckpointError as error:
            return None, [JobRefusal("checkpoint.location", str(error))]


def _of_recipe(spec: JobSpec, made: Recipe, wanted: Overrides) -> Iterator[JobRefusal]:
    """Lists what Google does not sell, and what this job cannot use of what it sells."""
    yield from recipe.unsold(made, wanted)
    yield from recipe.flex_problems(spec, made, wanted)
    yield from check_gang.gang_recipe_problems(spec, made)


def _of_all(of_one: HourlyRates, nodes: int) -> HourlyRates:
    return {place: rate.times(nodes) for place, rate in of_one.items()}


def _others(refusals: Sequence[JobRefusal], before: Sequence[JobRefusal]) -> list[JobRefusal]:
    """Returns those about what no earlier one is about."""
    places = {refusal.where for refusal in before}
    return [refusal for refusal in refusals if refusal.where not in places]


def _no_account(preset: str) -> JobRefusal:
    message = "VMs of this preset have no service account, so none of them could read a secret: set service_account"
    return JobRefusal("secrets", f"{message} under [presets.{preset}.launch].")


def _warnings(spec: JobSpec, made: Recipe, look: CheckpointLook | None) -> Iterator[str]:
    """Warns about files at the location of its checkpoints, if there are or will be any, and about a plan that begins
    late.
    """
    yield from check_gang.gang_warnings(spec, made)
    is_planned_later = spec.deadline is not None and spec.work is None and spec.total_steps is not None
    if is_planned_later and not made.reservation:
        yield (
            "Its deadline is planned for once its output gives the pace of its steps; until then it runs as one without"
            " a deadline. Say how long it takes (--work) to have it planned from the start."
        )
    if look is not None and (look.listing.files or look.listing.is_file):
        yield from look.notes
    elif spec.checkpoint is not None and spec.checkpoint.is_on_disk and names_a_file(spec.checkpoint.location):
        yield written_over(spec.checkpoint.location)
