"""Applies budgets to jobs: when they are submitted, launched again, or run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.decide.limits import holds as policy
from costguard.jobs.decide.limits.holds import BudgetHold, BudgetUse
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.model.budget import AtLimit, Budget
from costguard.model.event import Event, event_key, new_event
from costguard.model.job import Job, JobSpec, JobState
from costguard.model.money import Money
from costguard.spend import burning
from costguard.spend.budgets import of_budgets

SERVES = timedelta(seconds=60)  # reading the ledger for a budget costs more than a turn without news
_WAITS = (JobState.QUEUED, JobState.RECOVERING)


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """The amount that a budget has left in its current period, and would have after a job; None: the cost is
    unknown.
    """

    budget: Budget
    ends_at: datetime
    spent: Money
    left: Money
    left_after: Money | None


def budget_problems(
    connection: Connection, accrual: Accrual, rules: Rules, spec: JobSpec, expected_cost: Money | None, now: datetime
) -> list[str]:
    """Explains why budgets refuse a new job, each in one sentence or two with what to change."""
    budgets = [budget for budget in _of_spec(rules, spec) if budget.at_limit is not AtLimit.TELL]
    messages = (
        policy.problem(standing, spec, expected_cost, now)
        for standing in _standings(connection, accrual, rules, budgets)
    )
    return [problem for problem in messages if problem is not None]


def budgets_left(
    connection: Connection, accrual: Accrual, rules: Rules, spec: JobSpec, expected_cost: Money | None
) -> list[BudgetLeft]:
    """Each budget that the job would count against, in the order of the settings."""
    return [
        BudgetLeft(
            budget=standing.budget,
            ends_at=standing.ends_at,
            spent=standing.spent,
            left=standing.left,
            left_after=None if expected_cost is None else standing.left - expected_cost,
        )
        for standing in _standings(connection, accrual, rules, _of_spec(rules, spec))
    ]


class BudgetHolds:
    """The holds of spent budgets on stored jobs, for their turns. One thread at a time.

    The ledger is read again after a minute: within that minute a job may be launched though its budget is spent.
    """

    def __init__(self, database: Database, rules: Rules, serves: timedelta = SERVES) -> None:
        self._database = database
        self._rules = rules
        self._budgets = [budget for budget in rules.budgets if budget.at_limit is not AtLimit.TELL]
        self._serves = serves
        self._read_at: datetime | None = None
        self._standings: list[BudgetUse] = []
        self._unrecorded: dict[str, Event] = {}
        self._recorded: set[str] = set()

    def __call__(self, connection: Connection, jobs: Sequence[Job], now: datetime) -> Mapping[str, BudgetHold]:
        """Returns the holds by job; jobs that nothing holds up and no budget bounds are left out."""
        if not self._budgets or not jobs:
            return {}
        self._refresh(connection, now)
        spent = [standing for standing in self._standings if standing.is_spent]
        budget_holds: dict[str, BudgetHold] = {}
        alike: dict[tuple[BudgetUse, ...], BudgetHold] = {}  # a thousand jobs meet the same few budgets
        for job in jobs:
            if not spent and job.spec.deadline is None:
                continue
            mine = tuple(
                use for use in spent if policy.counts(use.budget, job.spec, job.id, job.labels, self._rules.teams)
            )
            if not mine and job.spec.deadline is not None and (least := self._least(job)) is not None:
                budget_holds[job.id] = BudgetHold(left=least.left, left_of=least.budget.name)
            if mine and mine not in alike:
                alike[mine] = policy.held(mine, now)
            if not mine or (by := alike[mine].by) is None:
                continue
            budget_holds[job.id] = alike[mine]
            key = _held_key(job, by)
            if job.state in _WAITS and key not in self._recorded and key not in self._unrecorded:
                self._unrecorded[key] = _held_event(job, by, now)
        return budget_holds

    def _least(self, job: Job) -> BudgetUse | None:
        """The budget that leaves it the least: only jobs with a deadline may have two VMs at once."""
        teams = self._rules.teams
        mine = [use for use in self._standings if policy.counts(use.budget, job.spec, job.id, job.labels, teams)]
        return min(mine, key=lambda use: use.left, default=None)

    def tell(self, fence: Lease | None, now: datetime) -> list[Event]:
        """Record which budgets were spent and which jobs wait for them, once a period. Returns the new events.

        Raises LeaseLost when another daemon took over.
        """
        if not self._unrecorded:
            return []
        with self._database.read() as connection:
            recorded = burning.recorded_at(connection, list(self._unrecorded))
        new = [event for key, event in self._unrecorded.items() if key not in recorded]
        if new:
            with self._database.write(fence) as connection:
                audit_log.append(connection, new, now)
        self._recorded |= self._unrecorded.keys()
        self._unrecorded = {}
        return new

    def _refresh(self, connection: Connection, now: datetime) -> None:
        is_fresh = self._read_at is not None and timedelta() <= now - self._read_at < self._serves
        if is_fresh and all(now < standing.ends_at for standing in self._standings):
            return
        accrual = accrual_at(connection, now)
        uses = _standings(connection, accrual, self._rules, self._budgets)
        keys = {_key(use): use for use in uses if use.is_spent}
        since = burning.recorded_at(connection, list(keys)) if keys else {}
        for key, use in keys.items():
            if key not in since:
                event = self._unrecorded.setdefault(key, _reached_event(use, now))
                since[key] = event.occurred_at
        self._standings = [
            BudgetUse(use.budget, use.spent, use.starts_at, use.ends_at, since.get(_key(use))) for use in uses
        ]
        self._read_at = now


def _of_spec(rules: Rules, spec: JobSpec) -> list[Budget]:
    preset = rules.presets.get(spec.preset)
    labels = preset.launch.labels if preset is not None and preset.launch is not None else {}
    return [budget for budget in rules.budgets if policy.counts(budget, spec, "", labels, rules.teams)]


def _standings(connection: Connection, accrual: Accrual, rules: Rules, budgets: Sequence[Budget]) -> list[BudgetUse]:
    totals = of_budgets(connection, accrual, budgets, rules.teams)
    return [
        BudgetUse(budget, outlook.spent, outlook.starts_at, outlook.ends_at)
        for budget, outlook in zip(budgets, totals, strict=True)
    ]


def _key(use: BudgetUse) -> str:
    """A limit that was raised can be reached again."""
    return event_key("BudgetReached", *_reached(use))


def _reached(use: BudgetUse) -> tuple[object, ...]:
    budget = use.budget
    return budget.name, budget.period.value, f"{use.starts_at:%Y-%m-%d}", "reached", budget.limit.nanos


def _reached_event(use: BudgetUse, now: datetime) -> Event:
    spent = policy.why(use, now)
    does = "no VM is launched for jobs that count against it"
    if use.budget.at_limit is AtLimit.STOP_SPOT:
        does += ", and their Spot VMs are stopped once they have saved"
    return new_event(
        "BudgetReached",
        now,
        f"{spent[:1].upper()}{spent[1:]}; until then {does}.",
        *_reached(use),
        project=use.budget.scope.project or "",
        data=_data(use),
    )


def _held_key(job: Job, by: BudgetUse) -> str:
    return event_key("JobHeldByBudget", *_held(job, by))


def _held(job: Job, by: BudgetUse) -> tuple[object, ...]:
    return job.id, "held", by.budget.name, f"{by.starts_at:%Y-%m-%d}"


def _held_event(job: Job, by: BudgetUse, now: datetime) -> Event:
    return new_event(
        "JobHeldByBudget",
        now,
        f"{job.title} of {job.spec.owner} gets no VM: {policy.why(by, now)}.",
        *_held(job, by),
        project=job.spec.project,
        data={"job": job.id, **_data(by)},
    )


def _data(use: BudgetUse) -> dict[str, object]:
    return {
        "budget": use.budget.name,
        "at_limit": use.budget.at_limit.value,
        "limit_nanos": use.budget.limit.nanos,
        "spent_nanos": use.spent.nanos,
        "period": use.budget.period.value,
        "period_starts_at": use.starts_at,
        "period_ends_at": use.ends_at,
    }
