"""Compares budgets with the ledger, and records crossed thresholds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from itertools import chain
from typing import TypeAlias

from sqlalchemy import Connection

from costguard.access.teams import team_of
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.ledger import projects
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.gaps import GapGroup, gap_groups
from costguard.ledger.running import running_totals
from costguard.model.budget import Budget, LabelFilter, Period, Scope
from costguard.model.event import Event, new_event
from costguard.model.money import Money, about_text
from costguard.model.ports import Clock
from costguard.model.reminder import Team
from costguard.spend import budget as policy
from costguard.spend import burning, downloads
from costguard.spend.anomalies import anomalies
from costguard.spend.budget import On, Outlook, Standing, Threshold
from costguard.spend.burning import Whose
from costguard.spend.downloads import Download
from costguard.spend.forecast import HISTORY, Burn, forecast
from costguard.spend.spend import live
from costguard.spend.spend_rows import Grouping, rolled_up_days

EVERY = timedelta(minutes=5)
_DAY = timedelta(days=1)
_Until: TypeAlias = datetime | None
_Kind: TypeAlias = tuple[tuple[Grouping, ...], LabelFilter | None]  # what a reading tells apart, and its label
_Rate: TypeAlias = tuple[Whose, _Until, int]  # nano-dollars an hour, and when they end


@dataclass(frozen=True, slots=True)
class _Ledger:
    """The spend of each day and the present rates, by attribution: each budget adds up the parts in its scope."""

    days: Mapping[Whose, Mapping[date, int]]  # nano-dollars
    burns: Mapping[Whose, Mapping[datetime | None, int]]  # nano-dollars an hour, by when they end
    unpriced: Sequence[GapGroup]
    watched: Mapping[str, datetime]
    teams: Mapping[tuple[str, str], str]  # by project and owner, where a scope asks for a team
    downloads: Mapping[Whose, Mapping[date, int]] = field(default_factory=dict)  # nano-dollars; part of `days`


def standings(
    connection: Connection, accrual: Accrual, budgets: Sequence[Budget], teams: Sequence[Team] = ()
) -> list[Standing]:
    """Each budget in its present period, in the order of the settings."""
    in_scopes = of_budgets(connection, accrual, budgets, teams)
    keys = [
        policy.key(budget, outlook.starts_at, on, percent)
        for budget, outlook in zip(budgets, in_scopes, strict=True)
        for on, percents in ((On.SPENT, budget.thresholds), (On.FORECAST, budget.forecast_thresholds))
        for percent in percents
    ]
    announced = burning.recorded_at(connection, keys) if keys else {}
    return [policy.standing(budget, outlook, announced) for budget, outlook in zip(budgets, in_scopes, strict=True)]


def of_budgets(
    connection: Connection, accrual: Accrual, budgets: Sequence[Budget], teams: Sequence[Team]
) -> list[Outlook]:
    """Returns the amounts that count against each budget in its present period: spend, and what jobs' VMs paid for
    their inputs.
    """
    periods = [(budget.scope, budget.period) for budget in budgets]
    return outlooks(connection, accrual, periods, teams, with_downloads=True)


def outlooks(
    connection: Connection,
    accrual: Accrual,
    scoped_periods: Sequence[tuple[Scope, Period]],
    teams: Sequence[Team] = (),
    *,
    with_downloads: bool = False,
) -> list[Outlook]:
    """Returns the spend and the forecast of each scope in its present period. The ledger is read once a kind.

    Raises ValueError for a scope whose team is not among `teams`: it would look as if nothing were spent.
    """
    if not scoped_periods:
        return []
    wanted = {scope.team for scope, _ in scoped_periods if scope.team is not None}
    if unknown := wanted - {team.name for team in teams}:
        raise ValueError(f"no such team: {', '.join(sorted(unknown))}")
    now = accrual.now
    periods = [policy.bounds(period, now) for _, period in scoped_periods]
    first = min([now.date() - HISTORY * _DAY, *(start.date() for start, _ in periods)])
    kinds: dict[_Kind, list[Scope]] = defaultdict(list)
    for scope, _ in scoped_periods:
        kinds[_kept_apart_by(scope), scope.label].append(scope)
    watched = {look.project: look.first_seen_at for look in projects.read_all(connection)}
    finest = set(chain.from_iterable(groups for groups, _ in kinds))
    labels = {label for _, label in kinds}
    rates = {label: _burning_now(connection, accrual, finest, label) for label in labels}
    paid = {label: downloads.since(connection, first, label) for label in labels} if with_downloads else {}
    ledgers = {
        (groups, label): _with_downloads(
            _ledger(connection, accrual, first, groups, _common(scopes), rates[label], watched, teams),
            groups,
            paid.get(label, ()),
            teams,
        )
        # The finest grouping first.
        for (groups, label), scopes in sorted(kinds.items(), key=_fineness)
    }
    return [
        _outlook(scope, period, start, end, ledgers[_kept_apart_by(scope), scope.label], now)
        for (scope, period), (start, end) in zip(scoped_periods, periods, strict=True)
    ]


def _kept_apart_by(scope: Scope) -> tuple[Grouping, ...]:
    """Returns the groupings that a reading for this scope must keep apart.

    Owners alone have a roll-up of their own, as presets have.
    """
    if scope.job is not None:
        return Grouping.PROJECT, Grouping.PRESET, Grouping.OWNER, Grouping.JOB
    if scope.owner is None and scope.team is None:
        return Grouping.PROJECT, Grouping.PRESET
    return (Grouping.PROJECT, *((Grouping.PRESET,) if scope.preset is not None else ()), Grouping.OWNER)


def _fineness(kind: tuple[_Kind, object]) -> tuple[bool, bool]:
    (groups, _), _ = kind
    return Grouping.JOB not in groups, Grouping.OWNER not in groups


def _common(scopes: Sequence[Scope]) -> Scope:
    """Returns the common part of scopes with one label, so that no more is read than one of them counts.

    Spend knows no teams.
    """
    first, *others = scopes

    def same(name: str) -> str | None:
        value: str | None = getattr(first, name)
        return value if all(getattr(other, name) == value for other in others) else None

    return Scope(same("project"), same("preset"), same("owner"), job=same("job"), label=first.label)


def _ledger(
    connection: Connection,
    accrual: Accrual,
    first: date,
    groups: tuple[Grouping, ...],
    within: Scope,
    burning_now: Sequence[_Rate],
    watched: Mapping[str, datetime],
    teams: Sequence[Team],
) -> _Ledger:
    today = accrual.now.date()
    days: dict[Whose, Counter[date]] = defaultdict(Counter)
    for whose, stored in _stored_days(connection, first, today, groups, within).items():
        days[whose] = Counter(stored)
    running = live(connection, accrual, first, today, within, {group.value for group in groups})
    for day, (project, attribution, _), amounts in running:
        days[_whose_of(groups, project, attribution.preset, attribution.owner, attribution.job)][day] += (
            amounts.total.nanos
        )
    unpriced = gap_groups(connection, accrual, first, today, within)
    burns: dict[Whose, Counter[_Until]] = defaultdict(Counter)
    for whose, until, nanos in burning_now:
        burns[_whose_of(groups, whose.project, whose.preset, whose.owner, whose.job)][until] += nanos
    everybody = {*days, *burns, *map(_whose, unpriced)} if Grouping.OWNER in groups else ()
    return _Ledger(days, burns, unpriced, watched, _teams_of(everybody, teams))


def _with_downloads(
    ledger: _Ledger, groups: Collection[Grouping], paid: Sequence[Download], teams: Sequence[Team]
) -> _Ledger:
    """The same with what was paid for downloads as spent on its day."""
    if not paid:
        return ledger
    by_whose: dict[Whose, Counter[date]] = defaultdict(Counter)
    for one in paid:
        whose = one.whose
        by_whose[_whose_of(groups, whose.project, whose.preset, whose.owner, whose.job)][one.day] += one.cost.nanos
    days = {whose: Counter(ledger.days.get(whose, {})) for whose in {*ledger.days, *by_whose}}
    for whose, amounts in by_whose.items():
        days[whose].update(amounts)
    named = _teams_of(by_whose, teams) if Grouping.OWNER in groups else {}
    return replace(ledger, days=days, teams={**ledger.teams, **named}, downloads=by_whose)


def _teams_of(everybody: Iterable[Whose], teams: Sequence[Team]) -> Mapping[tuple[str, str], str]:
    return {
        (one.project, one.owner): team.name
        for one in (everybody if teams else ())
        if (team := team_of(one.project, one.owner, teams)) is not None
    }


def _stored_days(
    connection: Connection, first: date, last: date, groups: tuple[Grouping, ...], within: Scope
) -> Mapping[Whose, Mapping[date, int]]:
    """Reads the daily roll-up, in nano-dollars."""
    days_by_whose: dict[Whose, dict[date, int]] = {}
    for values, days in rolled_up_days(connection, first, last, groups, within).items():
        group = dict(zip(groups, values, strict=True))
        names = (
            group.get(grouping, "") for grouping in (Grouping.PROJECT, Grouping.PRESET, Grouping.OWNER, Grouping.JOB)
        )
        days_by_whose[Whose(*names)] = days
    return days_by_whose


def _whose_of(groups: Collection[Grouping], project: str, preset: str, owner: str, job: str) -> Whose:
    return Whose(
        project,
        preset if Grouping.PRESET in groups else "",
        owner if Grouping.OWNER in groups else "",
        job if Grouping.JOB in groups else "",
    )


class BudgetWatch:
    """Tells what crossed a threshold and what is out of the ordinary, once each."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        budgets: Sequence[Budget],
        every: timedelta = EVERY,
        teams: Sequence[Team] = (),
    ) -> None:
        self._database = database
        self._clock = clock
        self._budgets = tuple(budgets)
        self._teams = tuple(teams)
        self._every = every
        self._looked_at: datetime | None = None
        self._hour: datetime | None = None

    def look(self, fence: Lease | None = None) -> list[Event]:
        """The events recorded now. Looks only every few minutes, and writes only what was not recorded before."""
        now = self._clock.now()
        if self._looked_at is not None and timedelta() <= now - self._looked_at < self._every:
            return []
        hour = now.replace(minute=0, second=0, microsecond=0)
        with self._database.read() as connection:
            accrual = accrual_at(connection, now)
            new = [
                _crossing(standing, threshold, now)
                for standing in standings(connection, accrual, self._budgets, self._teams)
                for threshold in policy.due(standing)
            ]
            # What is usual is asked of past weeks, which is dearer, and no hour has two answers.
            new += anomalies(connection, accrual, with_rates=hour != self._hour)
            announced = burning.recorded_at(connection, [event.key for event in new]) if new else {}
        new = [event for event in new if event.key not in announced]
        if new:
            with self._database.write(fence) as connection:
                audit_log.append(connection, new, now)
        self._looked_at, self._hour = now, hour
        return new


def _outlook(
    scope: Scope, period: Period, starts_at: datetime, ends_at: datetime, ledger: _Ledger, now: datetime
) -> Outlook:
    days: Counter[date] = Counter()
    for whose, amounts in ledger.days.items():
        if _counts(scope, whose, ledger):
            days.update(amounts)
    rates: Counter[datetime | None] = Counter()
    for whose, burning_now in ledger.burns.items():
        if _counts(scope, whose, ledger):
            rates.update(burning_now)
    spent = Money(sum(nanos for day, nanos in days.items() if day >= starts_at.date()))
    burns = [Burn(Money(nanos), until) for until, nanos in rates.items()]
    by_day = {day: Money(days[day]) for day in _whole_days(_watched_since(scope, ledger.watched), now.date())}
    passed = (now.date() - starts_at.date()) // _DAY + 1
    return Outlook(
        scope=scope,
        period=period,
        starts_at=starts_at,
        ends_at=ends_at,
        spent=spent,
        rate=Money(sum(rates.values())),
        forecast=forecast(spent, burns, by_day, now, ends_at),
        unpriced=sum(
            gap.number
            for gap in ledger.unpriced
            if (gap.last is None or gap.last >= starts_at.date()) and _counts(scope, _whose(gap), ledger)
        ),
        days=tuple(Money(days[starts_at.date() + number * _DAY]) for number in range(passed)),
        downloads=Money(
            sum(
                nanos
                for whose, amounts in ledger.downloads.items()
                for day, nanos in amounts.items()
                if day >= starts_at.date() and _counts(scope, whose, ledger)
            )
        ),
    )


def _counts(scope: Scope, whose: Whose, ledger: _Ledger) -> bool:
    return (
        (scope.project is None or scope.project == whose.project)
        and (scope.preset is None or scope.preset == whose.preset)
        and (scope.owner is None or scope.owner == whose.owner)
        and (scope.job is None or scope.job == whose.job)
        and (scope.team is None or scope.team == ledger.teams.get((whose.project, whose.owner)))
    )


def _whose(gap: GapGroup) -> Whose:
    return Whose(gap.project, gap.preset, gap.owner, gap.job)


def _whole_days(since: date | None, today: date) -> Iterator[date]:
    """Yields the days before today that were watched from midnight to midnight, as far back as forecasts look."""
    if since is not None:
        for back in range(1, min(HISTORY, (today - since) // _DAY - 1) + 1):
            yield today - back * _DAY


def _watched_since(scope: Scope, watched: Mapping[str, datetime]) -> date | None:
    if scope.project is not None:
        since = watched.get(scope.project)
        return None if since is None else since.date()
    return min((since.date() for since in watched.values()), default=None)


def _burning_now(
    connection: Connection, accrual: Accrual, groups: Collection[Grouping], label: LabelFilter | None
) -> list[_Rate]:
    """Returns the present rates, by owner and job where they are requested; without resources that have no price."""
    if label is not None:
        changes: list[_Rate] = [(whose, None, nanos) for whose, nanos in burning.labelled(connection, accrual, label)]
    else:
        changes = [
            (
                Whose(group.project, group.preset, group.owner, group.job),
                None,
                figures.machine_rate + figures.gpu_rate + figures.storage_rate,
            )
            for group, _, figures in running_totals.read(connection, accrual, by=[one.value for one in groups])
        ]
    for run in burning.limited(connection, label):
        rate = accrual.rate(run.shape, run.zone, run.provisioning_model)
        if rate is not None:
            changes += [(run.whose, run.until, rate.nanos), (run.whose, None, -rate.nanos)]
    return changes


def _crossing(standing: Standing, threshold: Threshold, now: datetime) -> Event:
    budget, outlook = standing.budget, standing.outlook
    spent, expected = outlook.spent, outlook.forecast.expected
    head = f"Budget {budget.name}: "
    when = "today" if budget.period is Period.DAY else f"this {budget.period.value}"
    if threshold.on is On.SPENT:
        text = f"{spent} is spent, past {threshold.percent}% of the {budget.limit} for {when}."
    else:
        text = (
            f"{about_text(str(expected))} will be spent by the end of {when}, past {threshold.percent}% of the "
            f"{budget.limit}; {spent} is spent so far."
        )
    return new_event(
        policy.CROSSED,
        now,
        head + text,
        *policy.crossing(budget, outlook.starts_at, threshold.on, threshold.percent),
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
