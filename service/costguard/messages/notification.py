"""What notices say: a title, what happened, figures as they are now, and what to do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from costguard.access import teams
from costguard.access.rules import Rules
from costguard.db.lease import Lease
from costguard.db.tables import facts
from costguard.db.transaction import Database
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.messages import job_update
from costguard.messages.outbox import Composed, Withdrawn
from costguard.model.budget import Budget
from costguard.model.fact import Fact
from costguard.model.message import NotificationContent
from costguard.model.money import ZERO, Money
from costguard.model.ports import Clock
from costguard.model.reminder import Team
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage, StoredMessage
from costguard.spend import budgets, burning
from costguard.spend.budget import On
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

# Kinds of facts.
BUDGET, GPUS, BURN, CLAIM = "BudgetThresholdCrossed", "GpusAppeared", "BurnRateUnusual", "OwnerClaimed"
GENERATION, UNKNOWN_VM = "GenerationBegan", "UnknownVmFound"
SHOWN = 3  # of those that spent the most, and of refused prices


def budget_of(fact: Fact, known: Sequence[Budget]) -> Budget | None:
    return next((each for each in known if each.name == fact.data.get("budget")), None)


def crossing(connection: Connection, accrual: Accrual, fact: Fact, rules: Rules, url: str) -> NotificationContent:
    """As the budget stands now; where its period is over, as it stood then."""
    data = fact.data
    limit, spent, expected = (_money(fact, name) for name in ("limit", "spent", "forecast"))
    figures = {"Spent": str(spent), "Limit": f"{limit} a {data['period']}", "Forecast": f"about {expected}"}
    budget = budget_of(fact, rules.budgets)
    if budget is not None:
        (standing,) = budgets.standings(connection, accrual, [budget], rules.teams)
        outlook = standing.outlook
        if outlook.starts_at.isoformat() == data["period_starts_at"]:
            figures = {
                "Spent": f"{outlook.spent} ({standing.percent}%)",
                "Limit": f"{budget.limit} a {budget.period.value}",
                "Forecast": standing.forecast_text,
                "Now": f"{outlook.rate} an hour",
                **_most(connection, accrual, budget, outlook.starts_at),
            }
    what = "spent" if data["on"] == On.SPENT.value else "forecast to be spent"
    return NotificationContent(
        icon="budget",
        title=f"Budget {data['budget']}: {data['percent']}% {what}",
        text=fact.text,
        figures=figures,
        what_next="See what runs, the most expensive first, with: costguard ps",
        url=url,
    )


def _most(connection: Connection, accrual: Accrual, budget: Budget, since: datetime) -> dict[str, str]:
    """Who spent the most of it; of a team's budget, or a job's, that is not asked."""
    if any(part is not None for part in (budget.scope.team, budget.scope.owner, budget.scope.job)):
        return {}
    found = spend(connection, accrual, since.date(), accrual.now.date(), [Grouping.OWNER], budget.scope)
    rows = [row for row in found.rows if row.amounts.total][:SHOWN]
    text = ", ".join(f"{row.group[0] or 'unclaimed'} {row.amounts.total}" for row in rows)
    return {"Most of it": text} if text else {}


def gpus(connection: Connection, accrual: Accrual, fact: Fact, url: str) -> NotificationContent:
    kinds: Counter[str] = Counter()
    rate, is_whole = ZERO, True
    for each in burning.running(connection):
        if each.whose.project == fact.project and each.shape.gpu_type is not None:
            kinds[each.shape.gpu_type] += each.shape.gpu_count * each.count
            hourly = accrual.rate(each.shape, each.zone, each.provisioning_model)
            is_whole = is_whole and hourly is not None
            rate += Money((hourly or ZERO).nanos * each.count)
    shown = ", ".join(f"{number} x {kind}" for kind, number in kinds.most_common()) or "none any more"
    return NotificationContent(
        icon="anomaly",
        title=f"GPUs appeared in {fact.project}",
        text=fact.text,
        figures={"GPUs now": shown, "Now": f"{rate} an hour{'' if is_whole else ' and what the unpriced cost'}"},
        what_next=f"See whose they are with: costguard ps --project {fact.project}",
        url=url,
    )


def claimed(fact: Fact, url: str) -> NotificationContent:
    """Who took a VM over: from now on they may stop it, so those who know better hear of it first."""
    before = str(fact.data["before"] or "") or "unowned"
    return NotificationContent(
        icon="owner",
        title=f"{fact.actor} claimed {fact.name}",
        text=fact.text,
        figures={"Before": before, "Project": fact.project},
        what_next=f"If that is wrong, an admin or an operator of the team takes it back: costguard claim {fact.name}",
        url=url,
    )


def burn(fact: Fact, url: str) -> NotificationContent:
    return NotificationContent(
        icon="anomaly",
        title=f"{fact.project} costs far more an hour than usual",
        text=fact.text,
        figures={"Then": f"{_money(fact, 'rate')} an hour", "Usual": f"{_money(fact, 'usual')} an hour"},
        what_next=f"See what runs, the most expensive first, with: costguard ps --project {fact.project}",
        url=url,
    )


def generation(fact: Fact, url: str) -> NotificationContent:
    return NotificationContent(
        icon="anomaly",
        title="Costguard works with an older or another database",
        text=fact.text,
        figures={"Generation": str(fact.data["generation"])},
        what_next="See which VMs it does not know with: costguard db unknown",
        url=url,
    )


def unknown_vms(found: Sequence[Fact], many: int, url: str) -> NotificationContent:
    more = f"\nand {many - SHOWN} more" if many > SHOWN else ""
    return NotificationContent(
        icon="anomaly",
        title="A VM that the ledger does not know" if many == 1 else f"{many} VMs that the ledger does not know",
        text="\n".join(fact.text for fact in found[:SHOWN]) + more,
        figures={"Found": str(many)},
        what_next="Have each adopted or deleted with: costguard db unknown",
        url=url,
    )


def refused(found: Sequence[Fact], many: int) -> NotificationContent:
    more = f"\nand {many - SHOWN} more" if many > SHOWN else ""
    return NotificationContent(
        icon="anomaly",
        title="A price was refused" if many == 1 else f"{many} prices were refused",
        text="\n".join(fact.text for fact in found[:SHOWN]) + more,
        figures={"Refused": str(many)},
        what_next="The last good prices stay in force. Compare with Google's list what this shows: costguard prices",
    )


def _money(fact: Fact, name: str) -> Money:
    nanos = fact.data[f"{name}_nanos"]
    assert isinstance(nanos, int)  # as the fact was written
    return Money(nanos)


KIND = "notification"
_PRICE = "PriceRefused"
_RESTORE = (GENERATION, UNKNOWN_VM)
_TOLD = (
    CLAIM,
    BUDGET,
    GPUS,
    BURN,
    _PRICE,
    *_RESTORE,
    *job_update.KINDS,
)
_NEWS_FOR = timedelta(days=1)  # older facts are no news: Slack may be set up on a ledger of years
_GOOD_FOR = timedelta(days=3)
_AT_ONCE = 500  # written in one transaction


class NotificationWatch:
    """Intends a notice for each fact that is worth one. `channel` takes those that no team's channel takes."""

    def __init__(self, database: Database, clock: Clock, rules: Rules, channel: str) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._channel = channel

    def intend(self, fence: Lease | None = None) -> list[str]:
        """The keys of those that were intended now. Writes only what was not intended before."""
        now = self._clock.now()
        with self._database.read() as connection:
            told = recorded_since(connection, _TOLD, now - _NEWS_FOR)
            of_jobs = [fact for _, fact in told if fact.kind in job_update.KINDS]
            others = [each for each in told if each[1].kind not in job_update.KINDS]
            found = [
                *_messages(others, self._rules, self._channel),
                *job_update.messages_of(connection, of_jobs, self._rules, now),
            ]
            known = message_rows.known(connection, [each.key for each in found])
        new = [each for each in found if each.key not in known]
        for at in range(0, len(new), _AT_ONCE):
            with self._database.write(fence) as connection:
                for each in new[at : at + _AT_ONCE]:
                    message_rows.intend(connection, each, now)
        return [each.key for each in new]


class NotificationComposer:
    """`url` is where people reach the dashboard; "" where they cannot."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        """What happened, with figures as they are now."""
        keys = message.data["facts"]
        found = facts_by_key(connection, [str(key) for key in keys] if isinstance(keys, list) else [])
        if not found:
            return Withdrawn("what it was to tell is not in the ledger")
        if now - message.intended_at >= _GOOD_FOR:
            return Withdrawn("it could not be sent for meanwhile that it is no news any more")
        accrual = accrual_at(connection, now)
        if found[0].kind in job_update.KINDS:
            return self._news(connection, accrual, found[0])
        return Composed(self._content(connection, accrual, found, message), shown="", is_final=True)

    def _news(self, connection: Connection, accrual: Accrual, fact: Fact) -> Composed | Withdrawn:
        scene = job_update.read_scene(connection, accrual, job_update.job_id(fact))
        if scene is None:
            return Withdrawn("its job is not in the ledger")
        if why := job_update.outdated(scene.job, fact):
            return Withdrawn(why)
        content = job_update.news(scene, fact, self._page(f"/jobs/{scene.job.id}"))
        return Composed(content, shown="", is_final=True)

    def _content(
        self, connection: Connection, accrual: Accrual, found: Sequence[Fact], message: StoredMessage
    ) -> NotificationContent:
        fact = found[0]
        many = int(str(message.data.get("count", 1)))
        if fact.kind == BUDGET:
            return crossing(connection, accrual, fact, self._rules, self._page("/budgets"))
        if fact.kind == GPUS:
            return gpus(connection, accrual, fact, self._page("/"))
        if fact.kind == CLAIM:
            return claimed(fact, self._page(f"/vm/{fact.project}/{fact.gce_id}"))
        if fact.kind == BURN:
            return burn(fact, self._page("/"))
        if fact.kind == GENERATION:
            return generation(fact, self._page("/health"))
        if fact.kind == UNKNOWN_VM:
            return unknown_vms(found, many, self._page("/health"))
        return refused(found, many)

    def _page(self, path: str) -> str:
        return f"{self._url}{path}" if self._url else ""


def _messages(found: Sequence[tuple[datetime, Fact]], rules: Rules, channel: str) -> Iterator[NewMessage]:
    refused: dict[datetime, list[Fact]] = defaultdict(list)
    unknown: dict[datetime, list[Fact]] = defaultdict(list)
    for recorded_at, fact in found:
        if fact.kind == _PRICE:
            refused[recorded_at].append(fact)
        elif fact.kind == UNKNOWN_VM:
            unknown[recorded_at].append(fact)
        elif fact.kind == GENERATION:
            yield from _new(f"notice/{fact.key}", channel, [fact])
        elif fact.kind == BUDGET:
            yield from _of_budget(fact, rules, channel)
        elif fact.kind == CLAIM:
            team = teams.team_of(fact.project, str(fact.data["before"] or ""), rules.teams)
            yield from _new(f"notice/{fact.key}", teams.channel_of(team, rules), [fact])
        else:
            team = teams.team_of(fact.project, "", rules.teams)
            yield from _new(f"notice/{fact.key}", _channel_of(team, channel), [fact])
    # One look after a restore can find many.
    for recorded_at, some in unknown.items():
        yield from _new(f"notice/unknown/{recorded_at.isoformat()}", channel, some)
    # One reading of the catalogue can refuse hundreds of prices, for one and the same reason.
    for recorded_at, some in refused.items():
        yield from _new(f"notice/prices-refused/{recorded_at.isoformat()}", channel, some)


def _of_budget(fact: Fact, rules: Rules, channel: str) -> Iterator[NewMessage]:
    budget = budget_of(fact, rules.budgets)
    if budget is None:
        return
    team = next((team for team in rules.teams if team.name == budget.scope.team), None)
    yield from _new(f"notice/{fact.key}", _channel_of(team, channel), [fact])
    yield from _new(f"notice/{fact.key}/contact", budget.contact, [fact])


def _new(key: str, address: str, facts: Sequence[Fact]) -> Iterator[NewMessage]:
    if address:
        yield NewMessage(
            key=key,
            kind=KIND,
            address=address,
            data={"facts": [fact.key for fact in facts[:SHOWN]], "count": len(facts)},
        )


def _channel_of(team: Team | None, otherwise: str) -> str:
    return team.channel if team is not None and team.channel else otherwise


_LATE = timedelta(days=2)  # what a fact tells of may have happened some time before it was recorded


def recorded_since(connection: Connection, kinds: Collection[str], since: datetime) -> list[tuple[datetime, Fact]]:
    """Facts of these kinds with when they were recorded, the oldest first."""
    of = facts.c
    query = select(facts).where(of.kind.in_(kinds), of.occurred_at >= since - _LATE, of.recorded_at >= since)
    return [(row.recorded_at, _fact(row)) for row in connection.execute(query.order_by(of.id))]


def facts_by_key(connection: Connection, keys: Collection[str]) -> list[Fact]:
    """In the order in which they were recorded."""
    query = select(facts).where(facts.c.key.in_(list(keys))).order_by(facts.c.id)
    return [_fact(row) for row in connection.execute(query)]


def _fact(row: Row[Any]) -> Fact:
    return Fact(
        key=row.key,
        kind=row.kind,
        occurred_at=row.occurred_at,
        text=row.text,
        project=row.project,
        gce_id=row.gce_id,
        name=row.name,
        actor=row.actor,
        data=row.data,
    )
