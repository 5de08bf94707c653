"""Assesses and quotes a sweep: every member, all of them together, and everything that speaks against it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.jobs.rows.limits import budget_holds
from costguard.jobs.submit import quote as job_quote
from costguard.jobs.submit.assess import Assessment, Assessor
from costguard.jobs.submit.cost import egress, offers
from costguard.jobs.submit.cost.offers import PlaceOffer
from costguard.jobs.submit.quote import JobQuote
from costguard.jobs.submit.submission import JobRefusal, without_credentials
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Authority
from costguard.model.buying import models_of
from costguard.model.job import JobSpec
from costguard.model.money import ZERO, Money
from costguard.model.ports import Clock, GoOn, always
from costguard.model.words import count_text
from costguard.sweeps import members
from costguard.sweeps.members import MemberPlan, SweepOrder

_LOOKS_AT_ONCE = 8  # locations of checkpoints, and machine types


@dataclass(frozen=True, slots=True)
class SweepAssessment:
    """`refusals` are empty where every member may be launched. `cases` belong to `plans`, in the same order."""

    order: SweepOrder
    plans: Sequence[MemberPlan] = ()
    cases: Sequence[Assessment] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[JobRefusal, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberQuote:
    plan: MemberPlan
    first: PlaceOffer | None  # where it would start now; None: nowhere


@dataclass(frozen=True, slots=True)
class SweepQuote:
    """`total` is what all members cost where they would start now; None: not known. `span` is until the last ends."""

    as_of: datetime
    order: SweepOrder
    hours: timedelta
    span: timedelta
    members: Sequence[MemberQuote]
    first: JobQuote | None  # of the first member: its VM, places, and prices
    total: Money | None
    ceiling: Money | None
    budgets: Sequence[budget_holds.BudgetLeft]
    warnings: Sequence[str]
    refusals: Sequence[JobRefusal]


class SweepAssessor:
    """Assesses each member as a job by itself would be, and then all of them together. Changes nothing."""

    def __init__(self, database: Database, clock: Clock, rules: Rules, assessor: Assessor) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._assessor = assessor

    def assess(
        self,
        order: SweepOrder,
        sweep_id: str,
        ceiling: Money | None,
        authority: Authority | None,
        go_on: GoOn = always,
    ) -> SweepAssessment:
        """Everything that is wrong with it, at once, as far as members can be made of it. Raises what `go_on` does."""
        if problems := tuple(members.parameter_problems(order)):
            return SweepAssessment(order, refusals=problems)
        order = members.with_direction(members.seeded(order))
        if problems := tuple(members.size_problems(order)):
            return SweepAssessment(order, refusals=problems)
        order = replace(order, template=without_credentials(order.template))
        plans = members.planned(order, sweep_id)
        problems = (
            *_ceiling_problems(ceiling),
            *_tracker_problems(order.template.spec),
            *members.halving_problems(order),
            *members.text_problems(order),
            *members.sharing_problems(plans),
        )

        def assessed(plan: MemberPlan) -> Assessment:
            go_on()
            spec = plan.submission.spec
            limits = [limit for limit in (spec.ceiling, ceiling) if limit is not None]
            limited = replace(spec, ceiling=min(limits, default=None))
            case = self._assessor.assess(replace(plan.submission, spec=limited), authority)
            return replace(case, spec=replace(case.spec, ceiling=spec.ceiling))

        with ThreadPoolExecutor(_LOOKS_AT_ONCE, thread_name_prefix="members") as pool:
            cases = list(pool.map(assessed, plans))
        of_each = [(plan.number, refusal) for plan, case in zip(plans, cases, strict=True) for refusal in case.refusals]
        of_members = members.described(of_each, len(plans))
        warnings = [warning for case in cases for warning in case.warnings]
        total = _least(cases)
        if ceiling is not None and total is not None and total > ceiling:
            size = count_text(len(plans), "member")
            warnings.append(f"{size} cost at least {total}, and its ceiling is {ceiling}: some would not finish.")
        together = (
            [] if of_members or not cases else list(self._budgets(cases[0].spec, len(plans), order, total, ceiling))
        )
        return SweepAssessment(order, plans, cases, tuple(dict.fromkeys(warnings)), (*problems, *of_members, *together))

    def quote(
        self,
        order: SweepOrder,
        ceiling: Money | None,
        hours: timedelta,
        authority: Authority | None,
        go_on: GoOn = always,
    ) -> SweepQuote:
        case, now = self.assess(order, "sweep", ceiling, authority, go_on), self._clock.now()
        offered: dict[str, PlaceOffer | None] = {}
        quoted: list[MemberQuote] = []
        for plan, one in zip(case.plans, case.cases, strict=True):
            go_on()
            key = repr((one.recipe, one.machine))  # members with the same VM have the same prices
            if key not in offered:
                offered[key] = job_quote.first_offer(self._database, one, hours, now)
            quoted.append(MemberQuote(plan, offered[key]))
        costs = [one.first.cost if one.first is not None else None for one in quoted]
        priced = [cost for cost in costs if cost is not None]
        total = sum(priced, start=ZERO) if priced and len(priced) == len(costs) else None
        paid = None if total is None else total + _downloads(case.cases)
        capped = paid if paid is None or ceiling is None else min(paid, ceiling)
        first = job_quote.quote(self._database, self._rules, case.cases[0], hours, now) if case.cases else None
        budgets: Sequence[budget_holds.BudgetLeft] = ()
        if first is not None:
            with self._database.read() as connection:
                accrual = accrual_at(connection, now)
                budgets = budget_holds.budgets_left(connection, accrual, self._rules, first.spec, capped)
        waves = -(-len(quoted) // order.at_once) if order.at_once > 0 else 0
        return SweepQuote(
            as_of=now,
            order=order,
            hours=hours,
            span=hours * waves,
            members=quoted,
            first=first,
            total=total,
            ceiling=ceiling,
            budgets=budgets,
            warnings=case.warnings,
            refusals=case.refusals,
        )

    def _budgets(
        self, spec: JobSpec, count: int, order: SweepOrder, total: Money | None, ceiling: Money | None
    ) -> list[JobRefusal]:
        """Checks that all of it fits into what budgets have left, as if it were one job."""
        waves = -(-count // order.at_once)
        whole = replace(spec, ceiling=ceiling, work=None if spec.work is None else spec.work * waves)
        now = self._clock.now()
        with self._database.read() as connection:
            accrual = accrual_at(connection, now)
            problems = budget_holds.budget_problems(connection, accrual, self._rules, whole, total, now)
        return [JobRefusal("budget", message) for message in problems]


def _ceiling_problems(ceiling: Money | None) -> list[JobRefusal]:
    if ceiling is None or ceiling.nanos > 0:
        return []
    return [JobRefusal("ceiling", "It must be more than nothing: give an amount of dollars, or none.")]


def _tracker_problems(spec: JobSpec) -> list[JobRefusal]:
    message = "The cost of all members would be logged to one run, each over the other: leave it out."
    return [JobRefusal(f"job.{tracker.value}_run", message) for tracker in spec.tracker_runs]


def _least(cases: Sequence[Assessment]) -> Money | None:
    """Returns the least cost of all members with their downloads, by how long they take; None: not known of all."""
    total = _downloads(cases)
    for case in cases:
        if case.recipe is None or case.spec.work is None:
            return None
        best = offers.cheapest(case.rates, models_of(case.recipe), case.spec.work)
        if best is None or best.cost is None:
            return None
        total += best.cost
    return total


def _downloads(cases: Sequence[Assessment]) -> Money:
    """Returns the cost of all members' downloads; one that is staged is paid once."""
    shares = {source: share for case in cases for source, share in case.shares.items()}
    return egress.ahead([case.priced for case in cases], shares)
