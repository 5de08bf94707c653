"""Quotes a submitted job: where it would start, and what it would cost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.jobs.decide.buy import placement
from costguard.jobs.decide.buy.placement import LaunchPlace
from costguard.jobs.decide.buy.ways import WayToFinish, WorkToBuy, in_order, may_choose, ways_of
from costguard.jobs.decide.checkpoints import notice
from costguard.jobs.decide.machines.chip_prices import MachinePrice
from costguard.jobs.decide.measures.work_left import APART, keeps_nothing
from costguard.jobs.rows.limits import budget_holds
from costguard.jobs.submit.assess import Assessment
from costguard.jobs.submit.cost import offers as policy
from costguard.jobs.submit.cost.expected import ExpectedJobCost, SeenPlaces, expected_job_cost, unusual_beginning
from costguard.jobs.submit.cost.offers import Feasibility, HourlyRate, PlaceOffer
from costguard.jobs.submit.cost.question import question_of
from costguard.jobs.submit.machine_prices import preset_prices
from costguard.jobs.submit.submission import JobRefusal
from costguard.jobs.submit.where import places
from costguard.jobs.submit.where.targets import LaunchTargets
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.model import buying
from costguard.model.buying import models_of
from costguard.model.data import DataMove
from costguard.model.instance import ProvisioningModel, Shape, region_of
from costguard.model.job import JobKind, JobSpec
from costguard.model.launch import AddressChoice, Recipe

_ONE_EXPECTED = threading.Lock()


@dataclass(frozen=True, slots=True)
class PlaceQuote:
    """`note` is what was seen there lately; "" where nothing was."""

    zone: str
    spot: HourlyRate
    on_demand: HourlyRate
    flex: HourlyRate
    note: str
    address: AddressChoice | None = None  # None: nobody looked


@dataclass(frozen=True, slots=True)
class JobQuote:
    """`places` are in the order in which they would be tried; `first` is where it would start now.

    `shape` is None where nobody knows what the machine type is made of, `recipe` where the preset has none.
    """

    as_of: datetime
    spec: JobSpec
    hours: timedelta
    recipe: Recipe | None
    shape: Shape | None
    places: Sequence[PlaceQuote]
    first: PlaceOffer | None
    cheapest: PlaceOffer | None
    saving_percent: int | None
    budgets: Sequence[budget_holds.BudgetLeft]
    warnings: Sequence[str]
    feasibility: Feasibility
    refusals: Sequence[JobRefusal]
    moves: Sequence[DataMove] = ()
    expected: ExpectedJobCost | None = None  # of a job with a deadline
    on_notice: str = ""  # whether a save fits in the notice of a preemption; "" where it is not known
    price_note: str | None = None  # how old prices are that came with Costguard
    question: str = ""  # what a person should confirm first; "" nothing
    ways: Sequence[WayToFinish] = ()  # of a job without a deadline, whose work is known
    presets: Sequence[MachinePrice] = ()  # that can be launched, the least dollars for a FLOP first

    @property
    def first_place(self) -> PlaceQuote | None:
        """Returns the place in which it would start now; None: nowhere."""
        return next((place for place in self.places if self.first is not None and place.zone == self.first.zone), None)

    @property
    def has_flex(self) -> bool:
        """Says whether such VMs have a price by flex-start anywhere."""
        return any(place.flex.total is not None for place in self.places)

    @property
    def first_rate(self) -> HourlyRate | None:
        """Returns an hour of the VM with which it would start now, by its parts; None: it would start nowhere."""
        place = self.first_place
        if place is None or self.first is None:
            return None
        rates = {ProvisioningModel.SPOT: place.spot, ProvisioningModel.FLEX_START: place.flex}
        return rates.get(self.first.provisioning_model, place.on_demand)


def quote(
    database: Database,
    rules: Rules,
    case: Assessment,
    hours: timedelta,
    now: datetime,
    launching: LaunchTargets | None = None,
) -> JobQuote:
    """Reads prices, what happened lately, and budgets; quotas are Google's to know, and are looked at for a launch.

    With `launching` the other presets are priced, too.
    """
    made = case.recipe
    with database.read() as connection:
        accrual = accrual_at(connection, now)
        lately = places.recent_scores(connection, now)
        ways = _ways(case, made)
        tried = _tried(made, case, lately, now, ways) if made is not None else []
        first = _first(tried, hours)
        cost = None if first is None or first.cost is None else first.cost + case.download_cost
        budgets = budget_holds.budgets_left(connection, accrual, rules, case.spec, cost)
    zones = list(dict.fromkeys(place.zone for place in tried))
    waiting_saves = rules.jobs.terms.waiting_saves
    announced = made.notice_of(made.provisioning_model) if made is not None else None
    lost = notice.lost_at_preemption(case.save, announced) if announced is not None else None
    seen = SeenPlaces(case.rates, case.counts, case.waits)
    begins = unusual_beginning(case.spec, made, seen, now, case.start, waiting_saves)
    expected = expected_in_turn(case.spec, made, seen, now, case.start, waiting_saves, lost)
    return JobQuote(
        as_of=now,
        spec=case.spec,
        hours=hours,
        recipe=made,
        shape=made.shape(case.machine) if made is not None and case.machine is not None else None,
        places=[
            PlaceQuote(
                zone,
                case.rates[zone, ProvisioningModel.SPOT],
                case.rates[zone, ProvisioningModel.STANDARD],
                case.rates[zone, ProvisioningModel.FLEX_START],
                _note(zone, tried),
                case.addresses.get(region_of(zone)),
            )
            for zone in zones
        ],
        first=first,
        cheapest=policy.cheapest(case.rates, models_of(made), hours) if made is not None else None,
        saving_percent=policy.saving_percent(case.rates, first.zone) if first is not None else None,
        budgets=budgets,
        warnings=case.warnings if begins is None else (*case.warnings, begins),
        feasibility=case.feasibility,
        refusals=_refusals(case),
        moves=case.moves,
        price_note=_price_note(made, case.machine, accrual),
        expected=expected,
        ways=ways,
        on_notice=notice.notice_text(made, case.save),
        question=question_of(case.spec, made, first, expected, rules.jobs.confirm_above),
        presets=() if launching is None else _presets(rules, launching, case.spec, accrual),
    )


def _ways(case: Assessment, made: Recipe | None) -> Sequence[WayToFinish]:
    """Every way in which Google sells such VMs, whether the recipe may use it or not."""
    spec = case.spec
    if made is None or spec.work is None or spec.deadline is not None or spec.kind is not JobKind.TRAINING:
        return ()
    sold = buying.models_of(replace(made, buys_cheapest=True))
    rates = {where: rate.total for where, rate in case.rates.items() if where[1] in sold}
    apart = None if keeps_nothing(spec.checkpoint) else APART
    return ways_of(made, rates, WorkToBuy(spec.work, case.start, apart), case.counts, case.waits)


def _presets(rules: Rules, launching: LaunchTargets, spec: JobSpec, accrual: Accrual) -> list[MachinePrice]:
    return preset_prices(rules.presets.values(), launching.shapes, launching.known(spec.project), accrual)


def first_offer(database: Database, case: Assessment, hours: timedelta, now: datetime) -> PlaceOffer | None:
    """Where it would start now, without the rest of a quote; None: nowhere."""
    if case.recipe is None:
        return None
    with database.read() as connection:
        lately = places.recent_scores(connection, now)
    return _first(_tried(case.recipe, case, lately, now, _ways(case, case.recipe)), hours)


def _first(tried: Sequence[LaunchPlace], hours: timedelta) -> PlaceOffer | None:
    return PlaceOffer.at(tried[0].zone, tried[0].provisioning_model, tried[0].rate, hours) if tried else None


def _price_note(made: Recipe | None, machine: Shape | None, accrual: Accrual) -> str | None:
    """Returns the note of the first zone that has one: the prices of all zones of a kind came at the same time."""
    if made is None or machine is None:
        return None
    shape = made.shape(machine)
    notes = (accrual.note_of(shape, zone, model) for zone in made.zones for model in models_of(made))
    return next((note for note in notes if note is not None), None)


def _tried(
    made: Recipe, case: Assessment, lately: places.Scores, now: datetime, ways: Sequence[WayToFinish]
) -> list[LaunchPlace]:
    rates = {where: rate.total for where, rate in case.rates.items()}
    tried = placement.places(made, rates, lately, {}, "", now)
    return in_order(tried, ways) if ways and may_choose(made) else tried


def _note(zone: str, tried: Sequence[LaunchPlace]) -> str:
    """Lists what counts against it, apart from its price."""
    return "; ".join(dict.fromkeys(reason for place in tried if place.zone == zone for reason in place.reasons[1:]))


def _refusals(case: Assessment) -> list[JobRefusal]:
    """A price may be asked for before anybody knows what is to be run, and by whom."""
    unsaid = set()
    if not case.spec.owner:
        unsaid.add("owner")
    if not case.spec.command and not case.spec.image:
        unsaid.add("command")
    return [refusal for refusal in case.refusals if refusal.where not in unsaid]


def expected_in_turn(
    spec: JobSpec,
    recipe: Recipe | None,
    places: SeenPlaces,
    now: datetime,
    start: timedelta,
    waiting_saves: int,
    lost: timedelta | None = None,
) -> ExpectedJobCost | None:
    """Calls `expected_job_cost` for one job at a time: its replays take up to 250 MB."""
    with _ONE_EXPECTED:
        return expected_job_cost(spec, recipe, places, now, start, waiting_saves, lost)
