"""Budgets against the ledger: where each stands, and what of it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import Connection

from costguard.engine.accrual import Accrual
from costguard.engine.anomalies import anomalies
from costguard.engine.ports import Clock
from costguard.engine.spend import Spend, spend
from costguard.model.budget import Budget, Period, Scope
from costguard.model.fact import Fact
from costguard.model.money import ZERO, Money
from costguard.policy import budget as policy
from costguard.policy.budget import On, Outlook, Standing, Threshold
from costguard.policy.forecast import HISTORY, Burn, forecast
from costguard.policy.price_book import PriceBook
from costguard.store import burning, facts, prices, projects
from costguard.store.burning import Running, Stored, Whose
from costguard.store.lease import Lease
from costguard.store.spend import Grouping
from costguard.store.transaction import Database

EVERY = timedelta(minutes=5)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Burning:
    whose: Whose
    burn: Burn


def standings(connection: Connection, accrual: Accrual, budgets: Sequence[Budget]) -> list[Standing]:
    """Each budget in its present period, in the order of the settings."""
    found = outlooks(connection, accrual, [(each.scope, each.period) for each in budgets])
    keys = [
        policy.key(each, outlook.starts_at, on, percent)
        for each, outlook in zip(budgets, found, strict=True)
        for on, percents in ((On.SPENT, each.thresholds), (On.FORECAST, each.forecast_thresholds))
        for percent in percents
    ]
    told = burning.told(connection, keys) if keys else {}
    return [policy.standing(each, outlook, told) for each, outlook in zip(budgets, found, strict=True)]


def outlooks(connection: Connection, accrual: Accrual, asked: Sequence[tuple[Scope, Period]]) -> list[Outlook]:
    """What each scope has spent in its present period and is thought to spend. The ledger is read once for all."""
    if not asked:
        return []
    now = accrual.now
    periods = [policy.bounds(period, now) for _, period in asked]
    first = min([now.date() - HISTORY * _DAY, *(start.date() for start, _ in periods)])
    groups = [Grouping.DAY, Grouping.PROJECT, Grouping.PRESET]
    if any(scope.owner is not None for scope, _ in asked):
        groups.append(Grouping.OWNER)
    ledger = spend(connection, accrual, first, now.date(), groups)
    burns = _burns(connection, accrual)
    watched = {look.project: look.first_seen_at for look in projects.read_all(connection)}
    return [
        _outlook(scope, period, start, end, ledger, burns, _watched_since(scope, watched), now)
        for (scope, period), (start, end) in zip(asked, periods, strict=True)
    ]


class BudgetWatch:
    """Tells what crossed a threshold and what is out of the ordinary, once each."""

    def __init__(self, database: Database, clock: Clock, budgets: Sequence[Budget], every: timedelta = EVERY) -> None:
        self._database = database
        self._clock = clock
        self._budgets = tuple(budgets)
        self._every = every
        self._looked_at: datetime | None = None
        self._hour: datetime | None = None

    def look(self, fence: Lease | None = None) -> list[Fact]:
        """The facts that were told now. Looks only every few minutes, and writes only what was not told before."""
        now = self._clock.now()
        if self._looked_at is not None and timedelta() <= now - self._looked_at < self._every:
            return []
        hour = now.replace(minute=0, second=0, microsecond=0)
        with self._database.read() as connection:
            accrual = Accrual(PriceBook(prices.load(connection)), now)
            new = [
                _crossing(each, threshold, now)
                for each in standings(connection, accrual, self._budgets)
                for threshold in policy.due(each)
            ]
            # What is usual is asked of past weeks, which is dearer, and no hour has two answers.
            new += anomalies(connection, accrual, with_rates=hour != self._hour)
            known = burning.told(connection, [fact.key for fact in new]) if new else {}
        new = [fact for fact in new if fact.key not in known]
        if new:
            with self._database.write(fence) as connection:
                facts.append(connection, new, now)
        self._looked_at, self._hour = now, hour
        return new


def _outlook(
    scope: Scope,
    period: Period,
    starts_at: datetime,
    ends_at: datetime,
    ledger: Spend,
    burns: Sequence[_Burning],
    watched_since: date | None,
    now: datetime,
) -> Outlook:
    days: dict[date, Money] = {}
    for row in ledger.rows:
        if _counts(scope, row.group[1:]):
            day = date.fromisoformat(row.group[0])
            days[day] = days.get(day, ZERO) + row.amounts.total
    mine = [each.burn for each in burns if _counts(scope, (each.whose.project, each.whose.preset, each.whose.owner))]
    spent = sum((amount for day, amount in days.items() if day >= starts_at.date()), ZERO)
    known = {}
    if watched_since is not None:
        count = max(0, min(HISTORY, (now.date() - watched_since) // _DAY - 1))
        known = {day: days.get(day, ZERO) for day in (now.date() - back * _DAY for back in range(1, count + 1))}
    return Outlook(
        scope=scope,
        period=period,
        starts_at=starts_at,
        ends_at=ends_at,
        spent=spent,
        rate=sum((burn.rate for burn in mine), ZERO),
        forecast=forecast(spent, mine, known, now, ends_at),
        unpriced=sum(
            (gap.ended_at is None or gap.ended_at > starts_at)
            and _counts(scope, (gap.key.project, gap.attribution.preset, gap.attribution.owner))
            for gap in ledger.unpriced
        ),
    )


def _counts(scope: Scope, parts: Sequence[str]) -> bool:
    wanted = (scope.project, scope.preset, scope.owner)
    return all(want is None or want == part for want, part in zip(wanted, parts, strict=False))


def _watched_since(scope: Scope, watched: dict[str, datetime]) -> date | None:
    if scope.project is not None:
        since = watched.get(scope.project)
        return None if since is None else since.date()
    return min((since.date() for since in watched.values()), default=None)


def _burns(connection: Connection, accrual: Accrual) -> list[_Burning]:
    """What bills now at which rate; what has no price is not in it."""
    kinds: list[tuple[Running | Stored, Money | None]] = [
        *((each, accrual.rate(each.shape, each.zone, each.provisioning_model)) for each in burning.running(connection)),
        *((each, accrual.storage_rate(each.resource, each.size_mib, each.zone)) for each in burning.stored(connection)),
    ]
    return [
        _Burning(each.whose, Burn(Money(rate.nanos * each.count), each.until if isinstance(each, Running) else None))
        for each, rate in kinds
        if rate is not None
    ]


def _crossing(of: Standing, threshold: Threshold, now: datetime) -> Fact:
    budget, outlook = of.budget, of.outlook
    spent, expected = outlook.spent, outlook.forecast.expected
    head = f"Budget {budget.name}: "
    when = "today" if budget.period is Period.DAY else f"this {budget.period.value}"
    if threshold.on is On.SPENT:
        text = f"{spent} is spent, past {threshold.percent}% of the {budget.limit} for {when}."
    else:
        text = (
            f"about {expected} will be spent by the end of {when}, past {threshold.percent}% of the {budget.limit}; "
            f"{spent} is spent so far."
        )
    return Fact(
        key=policy.key(budget, outlook.starts_at, threshold.on, threshold.percent),
        kind="BudgetThresholdCrossed",
        occurred_at=now,
        text=head + text,
        project=budget.scope.project or "",
        data={
            "budget": budget.name,
            "scope": str(budget.scope),
            "period": budget.period.value,
            "period_starts_at": outlook.starts_at,
            "on": threshold.on.value,
            "percent": threshold.percent,
            "limit_nanos": budget.limit.nanos,
            "spent_nanos": spent.nanos,
            "forecast_nanos": expected.nanos,
        },
    )
