"""Notices: facts that are told in Slack once each, to the channel and to who answers for the budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.engine import budgets
from costguard.engine.accrual import Accrual
from costguard.engine.outbox import Composed, Withdrawn
from costguard.engine.ports import Clock
from costguard.engine.spend import spend
from costguard.model.budget import Budget
from costguard.model.fact import Fact
from costguard.model.message import NoticeContent
from costguard.model.money import ZERO, Money
from costguard.model.reminder import Team
from costguard.policy import teams
from costguard.policy.budget import On
from costguard.policy.price_book import PriceBook
from costguard.policy.rules import Rules
from costguard.store import burning, digest, messages, prices
from costguard.store.lease import Lease
from costguard.store.messages import Message, NewMessage
from costguard.store.spend import Grouping
from costguard.store.transaction import Database

KIND = "notice"
_BUDGET, _GPUS, _BURN, _PRICE = "BudgetThresholdCrossed", "GpusAppeared", "BurnRateUnusual", "PriceRefused"
_TOLD = (_BUDGET, _GPUS, _BURN, _PRICE)
_NEWS_FOR = timedelta(days=1)  # older facts are no news: Slack may be set up on a ledger of years
_GOOD_FOR = timedelta(days=3)
_SHOWN = 3


class NoticeWatch:
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
            found = list(
                _messages(digest.recorded_since(connection, _TOLD, now - _NEWS_FOR), self._rules, self._channel)
            )
            known = digest.known(connection, [each.key for each in found])
        new = [each for each in found if each.key not in known]
        if new:
            with self._database.write(fence) as connection:
                for each in new:
                    messages.intend(connection, each, now)
        return [each.key for each in new]


class NoticeComposer:
    """`url` is where people reach the dashboard; "" where they cannot."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: Message, now: datetime) -> Composed | Withdrawn:
        """What happened, with figures as they are now."""
        keys = message.data["facts"]
        found = digest.facts_by_key(connection, [str(key) for key in keys] if isinstance(keys, list) else [])
        if not found:
            return Withdrawn("what it was to tell is not in the ledger")
        if now - message.intended_at >= _GOOD_FOR:
            return Withdrawn("it could not be sent for so long that it is no news any more")
        return Composed(self._content(connection, found, message, now), shown="", is_final=True)

    def _content(self, connection: Connection, found: Sequence[Fact], message: Message, now: datetime) -> NoticeContent:
        accrual = Accrual(PriceBook(prices.load(connection)), now)
        match found[0].kind:
            case "BudgetThresholdCrossed":
                return _crossing(connection, accrual, found[0], self._rules.budgets, self._page("/budgets"))
            case "GpusAppeared":
                return _gpus(connection, accrual, found[0], self._page("/"))
            case "BurnRateUnusual":
                return _burn(found[0], self._page("/"))
            case _:
                return _refused(found, int(str(message.data["count"])))

    def _page(self, path: str) -> str:
        return f"{self._url}{path}" if self._url else ""


def _messages(found: Sequence[tuple[datetime, Fact]], rules: Rules, channel: str) -> Iterator[NewMessage]:
    refused: dict[datetime, list[Fact]] = defaultdict(list)
    for recorded_at, fact in found:
        if fact.kind == _PRICE:
            refused[recorded_at].append(fact)
        elif fact.kind == _BUDGET:
            yield from _of_budget(fact, rules, channel)
        else:
            team = teams.team_of(fact.project, "", rules.teams)
            yield from _new(f"notice/{fact.key}", _channel_of(team, channel), [fact])
    # One reading of the catalogue can refuse hundreds of prices, for one and the same reason.
    for recorded_at, facts in refused.items():
        yield from _new(f"notice/prices-refused/{recorded_at.isoformat()}", channel, facts)


def _of_budget(fact: Fact, rules: Rules, channel: str) -> Iterator[NewMessage]:
    budget = _budget(fact, rules.budgets)
    if budget is None:
        return
    team = next((each for each in rules.teams if each.name == budget.scope.team), None)
    yield from _new(f"notice/{fact.key}", _channel_of(team, channel), [fact])
    yield from _new(f"notice/{fact.key}/contact", budget.contact, [fact])


def _new(key: str, address: str, facts: Sequence[Fact]) -> Iterator[NewMessage]:
    if address:
        yield NewMessage(
            key=key,
            kind=KIND,
            address=address,
            data={"facts": [fact.key for fact in facts[:_SHOWN]], "count": len(facts)},
        )


def _channel_of(team: Team | None, otherwise: str) -> str:
    return team.channel if team is not None and team.channel else otherwise


def _budget(fact: Fact, known: Sequence[Budget]) -> Budget | None:
    return next((each for each in known if each.name == fact.data.get("budget")), None)


def _crossing(connection: Connection, accrual: Accrual, fact: Fact, known: Sequence[Budget], url: str) -> NoticeContent:
    """As the budget stands now; where its period is over, as it stood then."""
    data = fact.data
    limit, spent, expected = (_money(fact, name) for name in ("limit", "spent", "forecast"))
    figures = {"Spent": str(spent), "Limit": f"{limit} a {data['period']}", "Forecast": f"about {expected}"}
    budget = _budget(fact, known)
    if budget is not None:
        (standing,) = budgets.standings(connection, accrual, [budget])
        outlook = standing.outlook
        if outlook.starts_at.isoformat() == data["period_starts_at"]:
            figures = {
                "Spent": f"{outlook.spent} ({standing.percent}%)",
                "Limit": f"{budget.limit} a {budget.period.value}",
                "Forecast": f"about {outlook.forecast.expected} ({standing.forecast_percent}%)",
                "Now": f"{outlook.rate} an hour",
                **_most(connection, accrual, budget, outlook.starts_at),
            }
    what = "spent" if data["on"] == On.SPENT.value else "forecast to be spent"
    return NoticeContent(
        icon="budget",
        title=f"Budget {data['budget']}: {data['percent']}% {what}",
        text=fact.text,
        figures=figures,
        what_next="See what runs, the most expensive first, with: costguard ps",
        url=url,
    )


def _most(connection: Connection, accrual: Accrual, budget: Budget, since: datetime) -> dict[str, str]:
    """Who spent the most of it; of a team's budget that is not asked."""
    if budget.scope.team is not None or budget.scope.owner is not None:
        return {}
    found = spend(connection, accrual, since.date(), accrual.now.date(), [Grouping.OWNER], budget.scope)
    rows = [row for row in found.rows if row.amounts.total][:_SHOWN]
    text = ", ".join(f"{row.group[0] or 'unclaimed'} {row.amounts.total}" for row in rows)
    return {"Most of it": text} if text else {}


def _gpus(connection: Connection, accrual: Accrual, fact: Fact, url: str) -> NoticeContent:
    kinds: Counter[str] = Counter()
    rate, is_whole = ZERO, True
    for each in burning.running(connection):
        if each.whose.project == fact.project and each.shape.gpu_type is not None:
            kinds[each.shape.gpu_type] += each.shape.gpu_count * each.count
            hourly = accrual.rate(each.shape, each.zone, each.provisioning_model)
            is_whole = is_whole and hourly is not None
            rate += Money((hourly or ZERO).nanos * each.count)
    shown = ", ".join(f"{number} x {kind}" for kind, number in kinds.most_common()) or "none any more"
    return NoticeContent(
        icon="anomaly",
        title=f"GPUs appeared in {fact.project}",
        text=fact.text,
        figures={"GPUs now": shown, "Now": f"{rate} an hour{'' if is_whole else ' and what the unpriced cost'}"},
        what_next=f"See whose they are with: costguard ps --project {fact.project}",
        url=url,
    )


def _burn(fact: Fact, url: str) -> NoticeContent:
    return NoticeContent(
        icon="anomaly",
        title=f"{fact.project} costs far more an hour than usual",
        text=fact.text,
        figures={"Then": f"{_money(fact, 'rate')} an hour", "Usual": f"{_money(fact, 'usual')} an hour"},
        what_next=f"See what runs, the most expensive first, with: costguard ps --project {fact.project}",
        url=url,
    )


def _refused(found: Sequence[Fact], many: int) -> NoticeContent:
    more = f"\nand {many - _SHOWN} more" if many > _SHOWN else ""
    return NoticeContent(
        icon="anomaly",
        title="A price was refused" if many == 1 else f"{many} prices were refused",
        text="\n".join(fact.text for fact in found[:_SHOWN]) + more,
        figures={"Refused": str(many)},
        what_next="The last good prices stay in force. Compare with Google's list what this shows: costguard prices",
    )


def _money(fact: Fact, name: str) -> Money:
    nanos = fact.data[f"{name}_nanos"]
    assert isinstance(nanos, int)  # as the fact was written
    return Money(nanos)
