"""What notices say: a title, what happened, figures as they are now, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.ledger.accrual import Accrual
from costguard.model.budget import Budget
from costguard.model.fact import Fact
from costguard.model.message import NoticeContent
from costguard.model.money import ZERO, Money
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


def crossing(connection: Connection, accrual: Accrual, fact: Fact, rules: Rules, url: str) -> NoticeContent:
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
    return NoticeContent(
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


def gpus(connection: Connection, accrual: Accrual, fact: Fact, url: str) -> NoticeContent:
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


def claimed(fact: Fact, url: str) -> NoticeContent:
    """Who took a VM over: from now on they may stop it, so those who know better hear of it first."""
    before = str(fact.data["before"] or "") or "unowned"
    return NoticeContent(
        icon="owner",
        title=f"{fact.actor} claimed {fact.name}",
        text=fact.text,
        figures={"Before": before, "Project": fact.project},
        what_next=f"If that is wrong, an admin or an operator of the team takes it back: costguard claim {fact.name}",
        url=url,
    )


def burn(fact: Fact, url: str) -> NoticeContent:
    return NoticeContent(
        icon="anomaly",
        title=f"{fact.project} costs far more an hour than usual",
        text=fact.text,
        figures={"Then": f"{_money(fact, 'rate')} an hour", "Usual": f"{_money(fact, 'usual')} an hour"},
        what_next=f"See what runs, the most expensive first, with: costguard ps --project {fact.project}",
        url=url,
    )


def generation(fact: Fact, url: str) -> NoticeContent:
    return NoticeContent(
        icon="anomaly",
        title="Costguard works with an older or another database",
        text=fact.text,
        figures={"Generation": str(fact.data["generation"])},
        what_next="See which VMs it does not know with: costguard db unknown",
        url=url,
    )


def unknown_vms(found: Sequence[Fact], many: int, url: str) -> NoticeContent:
    more = f"\nand {many - SHOWN} more" if many > SHOWN else ""
    return NoticeContent(
        icon="anomaly",
        title="A VM that the ledger does not know" if many == 1 else f"{many} VMs that the ledger does not know",
        text="\n".join(fact.text for fact in found[:SHOWN]) + more,
        figures={"Found": str(many)},
        what_next="Have each adopted or deleted with: costguard db unknown",
        url=url,
    )


def refused(found: Sequence[Fact], many: int) -> NoticeContent:
    more = f"\nand {many - SHOWN} more" if many > SHOWN else ""
    return NoticeContent(
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
