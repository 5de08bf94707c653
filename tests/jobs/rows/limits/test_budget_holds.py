"""Budgets at their limit against a ledger: which jobs they hold, what is written down, and how often it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs.job_rows import job

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.decide.limits.holds import BudgetHold
from costguard.jobs.rows.limits import budget_holds
from costguard.jobs.rows.limits.budget_holds import BudgetHolds
from costguard.ledger import prices
from costguard.ledger.accrual import Accrual
from costguard.ledger.price_book import PriceBook
from costguard.model.budget import AtLimit, Budget, LabelFilter, Period, Scope
from costguard.model.event import Event
from costguard.model.job import Job, JobState
from costguard.model.money import Money

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
REFUSES = Budget("lab", Scope(project="lab"), Money.of(3), Period.DAY, at_limit=AtLimit.REFUSE)
STOPS = Budget("ada", Scope(owner="ada@lab.example"), Money.of(4), Period.MONTH, at_limit=AtLimit.STOP_SPOT)
TELLS = Budget("all", Scope(), Money.of(1), Period.MONTH)


@pytest.fixture
def ledger(sqlite_database: Database) -> Database:
    """A T4 of ada's in `lab` since 06:00: 0.53 dollars an hour, 3.18 by NOW and 4.24 two hours later."""
    with sqlite_database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab")
        vm = rows.instance(connection, "one")
        rows.lifetime(connection, vm, NOW - 6 * HOUR)
    return sqlite_database


def look(holds: BudgetHolds, database: Database, jobs: Sequence[Job], now: datetime) -> Mapping[str, BudgetHold]:
    with database.read() as connection:
        return holds(connection, jobs, now)


def reported(database: Database) -> list[Event]:
    with database.read() as connection:
        return [event.event for event in audit_log.read(connection)]


def held(holds: BudgetHolds, database: Database, *jobs: Job, minutes: int = 0) -> dict[str, tuple[str, str]]:
    result = look(holds, database, jobs, NOW + minutes * MINUTE)
    return {job_id: (item.hold[:13], item.pause[:13]) for job_id, item in result.items() if item.hold}


def test_labels_budget_holds_jobs_whose_preset_sets_the_label(ledger: Database) -> None:
    """A budget by label counts the labels of a job's future VM; a budget of VMs without the label does not hold the
    job.
    """
    with ledger.write() as connection:
        vm = rows.instance(connection, "labelled", labels={"team": "vision"})
        rows.lifetime(connection, vm, NOW - 6 * HOUR)
    mine, others = (
        Budget(name, Scope(label=label), Money.of(3), Period.DAY, at_limit=AtLimit.REFUSE)
        for name, label in (("vision", LabelFilter("team", "vision")), ("none", LabelFilter("team", None)))
    )
    holds = BudgetHolds(ledger, Rules({}, budgets=(mine, others)))
    assert held(holds, ledger, job()) == {"j7k2m9q4": ("budget vision", "")}
    assert held(BudgetHolds(ledger, Rules({}, budgets=(others,))), ledger, job()) == {}


def test_what_is_held(ledger: Database) -> None:
    """A job that counts against a spent budget is held until that is read again; another one is not."""
    holds = BudgetHolds(ledger, Rules({}, budgets=(TELLS, REFUSES, STOPS)))
    mine, elsewhere = job(), job("j0000000", project="other", owner="bob@lab.example")
    assert held(holds, ledger, mine, elsewhere) == {"j7k2m9q4": ("budget lab is", "")}
    assert held(holds, ledger, mine, minutes=120) == {"j7k2m9q4": ("budget ada is", "budget ada is")}
    assert held(holds, ledger, mine, minutes=12 * 60)["j7k2m9q4"][0] == "budget ada is"


def test_nothing_is_read_where_budgets_only_tell(sqlite_database: Database) -> None:
    """The ledger is not read without such a budget, or without a job: there are no prices in this one."""
    with sqlite_database.read() as connection:
        assert BudgetHolds(sqlite_database, Rules({}, budgets=(TELLS,)))(connection, [job()], NOW) == {}
        assert BudgetHolds(sqlite_database, Rules({}, budgets=(REFUSES,)))(connection, [], NOW) == {}


def test_the_ledger_is_read_once_a_minute(ledger: Database) -> None:
    """The figures stand for a minute; a new period is noticed at once."""
    holds = BudgetHolds(ledger, Rules({}, budgets=(REFUSES,)))
    before = BudgetHolds(ledger, Rules({}, budgets=(REFUSES,)), serves=24 * HOUR)
    assert held(before, ledger, job(), minutes=-30) == {}
    assert held(before, ledger, job(), minutes=0) == {}
    assert held(holds, ledger, job(), minutes=-30) == {}
    assert held(holds, ledger, job(), minutes=0) != {}
    assert held(before, ledger, job(), minutes=13 * 60) == {}


def test_it_is_written_down_once_a_period(ledger: Database) -> None:
    """A spent budget and the waiting jobs that it holds are events, once, however many look again."""
    rules = Rules({}, budgets=(REFUSES,))
    holds = BudgetHolds(ledger, rules)
    running = job("j1111111", state=JobState.RUNNING)
    held(holds, ledger, job(), running)
    new = holds.tell(None, NOW)
    assert [(event.kind, event.data.get("job", "")) for event in new] == [
        ("BudgetReached", ""),
        ("JobHeldByBudget", "j7k2m9q4"),
    ]
    assert new[0].text == (
        "Budget lab is spent: $3.18 of $3.00 today; the next period begins Sat 00:00 UTC; until then no VM is "
        "launched for jobs that count against it."
    )
    assert new[1].text.startswith("resnet of ada@lab.example gets no VM: budget lab is spent: $3.18 of $3.00 today")
    held(holds, ledger, job(), minutes=5)
    assert holds.tell(None, NOW + 5 * MINUTE) == []
    another = BudgetHolds(ledger, rules)
    held(another, ledger, job(), minutes=6)
    assert another.tell(None, NOW + 6 * MINUTE) == []
    assert len(reported(ledger)) == 2


def test_since_when_a_spot_vm_is_to_stop(ledger: Database) -> None:
    """A Spot VM stops from the moment that the budget was first found spent, and a restarted guard knows it too."""
    rules = Rules({}, budgets=(STOPS,))
    holds = BudgetHolds(ledger, rules)
    at = NOW + 2 * HOUR

    def since(holds: BudgetHolds, minutes: int) -> object:
        return look(holds, ledger, [job()], at + minutes * MINUTE)["j7k2m9q4"].pause_at

    assert [since(holds, minutes) for minutes in (0, 2)] == [at, at]
    holds.tell(None, at)
    assert since(BudgetHolds(ledger, rules), 10) == at


def test_what_a_new_job_is_told(ledger: Database) -> None:
    """A budget that is spent refuses it; what is left of each, before and after, is in the order of the settings."""
    rules = Rules({}, budgets=(TELLS, REFUSES, STOPS))
    spec = job(ceiling=None, work=HOUR).spec
    with ledger.read() as connection:
        accrual = Accrual(PriceBook(prices.load(connection)), NOW)
        problems = budget_holds.budget_problems(connection, accrual, rules, spec, Money.of(1), NOW)
        left = budget_holds.budgets_left(connection, accrual, rules, spec, Money.of(1))
    assert [problem[:28] for problem in problems] == ["The budget lab is spent: $3.", "It would cost about $1.00 un"]
    assert [(item.budget.name, str(item.left), str(item.left_after)) for item in left] == [
        ("all", "-$2.18", "-$3.18"),
        ("lab", "-$0.18", "-$1.18"),
        ("ada", "$0.82", "-$0.18"),
    ]
