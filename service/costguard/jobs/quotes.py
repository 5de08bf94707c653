"""Quotes: what a job would cost in each place, where it would start, and what its budgets would have left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.jobs import budget_holds, placement, surroundings
from costguard.jobs import quote as policy
from costguard.jobs.asked import Refusal
from costguard.jobs.assess import Case
from costguard.jobs.feasible import Outlook
from costguard.jobs.placement import Place
from costguard.jobs.quote import Offer, Rate
from costguard.jobs.recipe import models_of, shape_of
from costguard.ledger.accrual import accrual_at
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.job import JobSpec
from costguard.model.launch import Recipe


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """`note` is what was seen there lately; "" where nothing was."""

    zone: str
    spot: Rate
    on_demand: Rate
    note: str


@dataclass(frozen=True, slots=True)
class Quote:
    """`places` are in the order in which they would be tried; `first` is where it would start now.

    `shape` is None where nobody knows what the machine type is made of, `recipe` where the preset has none.
    """

    as_of: datetime
    spec: JobSpec
    hours: timedelta
    recipe: Recipe | None
    shape: Shape | None
    places: Sequence[QuotedPlace]
    first: Offer | None
    cheapest: Offer | None
    saving_percent: int | None
    budgets: Sequence[budget_holds.BudgetLeft]
    warnings: Sequence[str]
    outlook: Outlook
    refusals: Sequence[Refusal]


def quote(database: Database, rules: Rules, case: Case, hours: timedelta, now: datetime) -> Quote:
    """Reads prices, what happened lately, and budgets; quotas are Google's to know, and are looked at for a launch."""
    made = case.recipe
    with database.read() as connection:
        accrual = accrual_at(connection, now)
        lately = surroundings.lately(connection, now)
        tried = _tried(made, case, lately, now) if made is not None else []
        first = None if not tried else Offer.at(tried[0].zone, tried[0].provisioning_model, tried[0].rate, hours)
        cost = first.cost if first is not None else None
        budgets = budget_holds.budgets_left(connection, accrual, rules, case.spec, cost)
    zones = list(dict.fromkeys(place.zone for place in tried))
    shape = case.machine
    return Quote(
        as_of=now,
        spec=case.spec,
        hours=hours,
        recipe=made,
        shape=shape_of(made, shape) if made is not None and shape is not None else None,
        places=[
            QuotedPlace(
                zone,
                case.rates[zone, ProvisioningModel.SPOT],
                case.rates[zone, ProvisioningModel.STANDARD],
                _note(zone, tried),
            )
            for zone in zones
        ],
        first=first,
        cheapest=policy.cheapest(case.rates, models_of(made), hours) if made is not None else None,
        saving_percent=policy.saving_percent(case.rates, first.zone) if first is not None else None,
        budgets=budgets,
        warnings=case.warnings,
        outlook=case.outlook,
        refusals=_refusals(case),
    )


def _tried(made: Recipe, case: Case, lately: surroundings.Scores, now: datetime) -> list[Place]:
    rates = {where: rate.total for where, rate in case.rates.items()}
    return placement.places(made, rates, lately, {}, "", now, made.falls_back_to_on_demand)


def _note(zone: str, tried: Sequence[Place]) -> str:
    """What counts against it, beside its price."""
    return "; ".join(dict.fromkeys(reason for place in tried if place.zone == zone for reason in place.reasons[1:]))


def _refusals(case: Case) -> list[Refusal]:
    """A price may be asked for before anybody knows what is to be run, and by whom."""
    unsaid = set()
    if not case.spec.owner:
        unsaid.add("owner")
    if not case.spec.command and not case.spec.image:
        unsaid.add("command")
    return [each for each in case.refusals if each.where not in unsaid]
