"""Decides whether a spent budget holds, pauses or refuses a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.access.teams import team_of
from costguard.model.budget import AtLimit, Budget, Period
from costguard.model.job import JobSpec
from costguard.model.moments import clock_text
from costguard.model.money import Money, about_text
from costguard.model.reminder import Team


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """The spend of a budget in its present period. `reached_at` is when all of it first was spent."""

    budget: Budget
    spent: Money
    starts_at: datetime
    ends_at: datetime
    reached_at: datetime | None = None

    @property
    def left(self) -> Money:
        """Returns the amount left, below zero once it is overspent."""
        return self.budget.limit - self.spent

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.budget.limit


@dataclass(frozen=True, slots=True)
class BudgetHold:
    """`hold` is why no VM may be launched for a job, `pause` why its Spot VMs are to be stopped; "" lets them be."""

    hold: str = ""
    pause: str = ""
    pause_at: datetime | None = None
    by: BudgetUse | None = None
    left: Money | None = None  # of the budget that leaves the least; None: nobody asked, or none bounds it
    left_of: str = ""


def counts(budget: Budget, spec: JobSpec, job_id: str, labels: Mapping[str, str], teams: Sequence[Team]) -> bool:
    """Says whether the cost of this job's VMs counts against this budget. A job that is not stored yet has no id.

    `labels` are those of its preset, which its VMs are launched with; labels that people change on a VM later do not
    count.
    """
    scope = budget.scope
    team = team_of(spec.project, spec.owner, teams) if scope.team is not None else None
    return (
        scope.project in (None, spec.project)
        and scope.preset in (None, spec.preset)
        and (scope.owner is None or scope.owner.lower() == spec.owner.lower())
        and (scope.team is None or (team is not None and team.name == scope.team))
        and scope.job in (None, job_id)
        and (scope.label is None or scope.label.holds(labels))
    )


def held(standings: Sequence[BudgetUse], now: datetime) -> BudgetHold:
    """Returns the hold that lasts the longest among the budgets that a job counts against; none where no budget holds
    it.
    """
    spent = [standing for standing in standings if standing.is_spent and standing.budget.at_limit is not AtLimit.TELL]
    if not spent:
        return BudgetHold()
    longest = max(spent, key=lambda use: use.ends_at)
    stopping = [use for use in spent if use.budget.at_limit is AtLimit.STOP_SPOT]
    if not stopping:
        return BudgetHold(why(longest, now), by=longest)
    stops = max(stopping, key=lambda use: use.ends_at)
    since = min((use.reached_at for use in stopping if use.reached_at is not None), default=None)
    return BudgetHold(why(longest, now), why(stops, now), since, longest)


def why(use: BudgetUse, now: datetime) -> str:
    """Names the budget, with its figures, and when there is money again."""
    again = f"the next period begins {clock_text(use.ends_at, now)}"
    return f"budget {use.budget.name} is spent: {use.spent} of {use.budget.limit} {_this(use.budget.period)}; {again}"


def problem(use: BudgetUse, spec: JobSpec, expected: Money | None, now: datetime) -> str | None:
    """Explains why a job may not be accepted, with what to change; None: this budget lets it.

    `expected` is the cost of all of it; None: not known. The part of that in this period must fit.
    """
    if use.budget.at_limit is AtLimit.TELL:
        return None
    if use.is_spent:
        return f"The {why(use, now)}. Launch it then, or have the budget's limit raised."
    if expected is None:
        return None
    until = use.ends_at - now
    share = expected if spec.work is None or spec.work <= until else _part(expected, until, spec.work)
    if spec.ceiling is not None:
        share = min(share, spec.ceiling)
    if share <= use.left:
        return None
    return (
        f"It would cost {about_text(str(share))} until {clock_text(use.ends_at, now)}, and budget {use.budget.name} "
        f"has {use.left} of {use.budget.limit} left until then. Give it a ceiling within that, or have the budget's "
        "limit raised."
    )


def _part(whole: Money, part: timedelta, whole_time: timedelta) -> Money:
    second = timedelta(seconds=1)
    return Money(whole.nanos * (part // second) // max(whole_time // second, 1))


def _this(period: Period) -> str:
    return "today" if period is Period.DAY else f"this {period.value}"
