"""Budgets against a ledger: what is spent in scope, what is forecast, what is announced and how often."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from tests.api import rows
from tests.api.rows import NOW
from tests.fakes import HandClock

from costguard.db import tables
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.ledger import prices
from costguard.ledger.accrual import Accrual
from costguard.ledger.labels import label_history
from costguard.ledger.labels.label_history import LabelChange
from costguard.ledger.price_book import PriceBook
from costguard.model.budget import Budget, LabelFilter, Period, Scope
from costguard.model.event import Event
from costguard.model.money import Money
from costguard.model.reminder import Team
from costguard.spend import budget as policy
from costguard.spend.budgets import BudgetWatch, outlooks, standings

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MONTH = Budget("lab", Scope(), Money.of(120), Period.MONTH)


def a_month(database: Database, **given: str) -> None:
    """A dollar of GPU on each of the last 30 days in `lab`, two in `vision`, and one T4 in `lab` since six hours."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab")
        rows.project(connection, "vision")
        for back in range(1, 31):
            day = (NOW - back * DAY).date()
            rows.day(connection, day, gpu_nanos=10**9)
            rows.day(connection, day, project="vision", owner="bob@lab.example", gpu_nanos=2 * 10**9)
        vm = rows.instance(connection, "one", **given)
        rows.lifetime(connection, vm, NOW - 9 * DAY, ended_at=NOW - 8 * DAY, charged_to=NOW - 8 * DAY)
        rows.lifetime(connection, vm, NOW - 6 * HOUR)


def accrual_at(database: Database, now: datetime) -> Accrual:
    with database.read() as connection:
        return Accrual(PriceBook(prices.load(connection)), now)


def recorded_events(database: Database) -> list[Event]:
    with database.read() as connection:
        return [event.event for event in audit_log.read(connection)]


def watch(database: Database, clock: HandClock, *budgets: Budget) -> BudgetWatch:
    return BudgetWatch(database, clock, budgets, timedelta(minutes=5))


def test_labels_budget_counts_while_the_value_held(database: Database) -> None:
    """A VM in two experiments: each pays its hours, and only the present one an hour from now on; alarms follow."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab")
        vm = rows.instance(connection, "one", labels={"experiment": "b"})
        rows.lifetime(connection, vm, NOW - 6 * HOUR)
        label_history.store(connection, [LabelChange(vm, "experiment", NOW - 2 * HOUR, "a")])
    labels = {value: LabelFilter("experiment", value) for value in ("a", "b", None)}
    scoped_periods = [(Scope(project="lab", label=label), Period.MONTH) for label in labels.values()]
    with database.read() as connection:
        answers = outlooks(connection, accrual_at(database, NOW), scoped_periods)
    assert [answer.spent for answer in answers] == [Money.of("2.12"), Money.of("1.06"), Money()]
    assert [answer.rate for answer in answers] == [Money(), Money.of("0.53"), Money()]
    budget = Budget("trial", Scope(label=labels["a"]), Money.of(2), Period.DAY)
    watch(database, HandClock(NOW), budget, replace(budget, name="later", scope=Scope(label=labels["b"]))).look()
    crossed = {
        (one.data["budget"], one.data["scope"], one.data["percent"])
        for one in recorded_events(database)
        if one.kind == policy.CROSSED
    }
    assert crossed >= {("trial", "label experiment=a", 100), ("later", "label experiment=b", 50)}
    assert ("later", "label experiment=b", 80) not in crossed


def test_a_scope_counts_what_fits_all_its_parts(database: Database) -> None:
    """Finished days from the roll-up, today's run as it accrues; a rate and a history of its own."""
    a_month(database)
    scoped_periods = [
        (Scope(), Period.MONTH),
        (Scope(project="vision"), Period.MONTH),
        (Scope(owner="ada@lab.example"), Period.WEEK),
        (Scope(preset="t4"), Period.DAY),
        (Scope(project="vision", owner="ada@lab.example"), Period.MONTH),
    ]
    with database.read() as connection:
        answers = outlooks(connection, accrual_at(database, NOW), scoped_periods)
    run = Money.of("3.18")  # 6 h at 0.53
    assert [answer.spent for answer in answers] == [
        Money.of(57) + run,
        Money.of(38),
        Money.of(4) + run,
        run,
        Money(),
    ]
    assert [answer.rate for answer in answers] == [Money.of(rate) for rate in ("0.53", "0", "0.53", "0.53", "0")]
    assert {answer.forecast.days_known for answer in answers} == {28}
    assert answers[1].forecast.expected == Money.of(
        57
    )  # ten and a half days at two, less the one that stands for what runs
    assert answers[4].forecast.high == Money()


def test_a_team_has_its_peoples_spend_and_the_rest_of_its_projects(database: Database) -> None:
    """The team has what its people own, wherever it runs; and of its project, what nobody in another team owns."""
    a_month(database)
    with database.write() as connection:
        vm = rows.instance(connection, "dear", **rows.H100, preset="other", owner="cy@lab.example")
        rows.lifetime(connection, vm, NOW - HOUR, **rows.H100, preset="other", owner="cy@lab.example")
    ada = Team("ada", members=frozenset({"ada@lab.example"}))
    lab = Team("lab", projects=frozenset({"lab", "vision"}))
    scopes = (Scope(team="ada"), Scope(team="lab"), Scope(team="lab", project="lab"), Scope())
    scoped_periods = [(scope, Period.MONTH) for scope in scopes]
    with database.read() as connection:
        answers = outlooks(connection, accrual_at(database, NOW), scoped_periods, (ada, lab))
        assert [answer.spent for answer in answers[:3]] == [Money.of("22.18"), Money.of(38), Money()]
        assert [answer.rate for answer in answers[:3]] == [Money.of("0.53"), Money(), Money()]
        assert [answer.unpriced for answer in answers] == [0, 1, 1, 1]
        budget = Budget("team", Scope(team="lab"), Money.of(50), Period.MONTH)
        (standing,) = standings(connection, accrual_at(database, NOW), [budget], (ada, lab))
        with pytest.raises(ValueError, match="no such team: lab"):
            standings(connection, accrual_at(database, NOW), [budget])
    assert standing.percent == 76
    event = BudgetWatch(database, HandClock(NOW), [budget], teams=(ada, lab)).look()[0]
    assert (event.project, event.data["scope"]) == ("", "team lab")


def test_days_before_the_first_look_are_no_history(database: Database) -> None:
    """The day of the first look is not whole, and what was never watched is not zero."""
    a_month(database)
    with database.write() as connection:
        connection.execute(update(tables.projects).values(first_seen_at=NOW - 3 * DAY))
    with database.read() as connection:
        (outlook,) = outlooks(connection, accrual_at(database, NOW), [(Scope(), Period.MONTH)])
    assert outlook.forecast.days_known == 2
    assert not outlook.forecast.is_grounded


def test_what_has_no_price_is_counted_and_not_zero(database: Database) -> None:
    """The budget says how many lifetimes its figures lack."""
    a_month(database)
    with database.write() as connection:
        vm = rows.instance(connection, "dear", **rows.H100, preset="other")
        rows.lifetime(connection, vm, NOW - HOUR, **rows.H100, preset="other")
    with database.read() as connection:
        everything, t4 = outlooks(
            connection, accrual_at(database, NOW), [(Scope(), Period.MONTH), (Scope(preset="t4"), Period.MONTH)]
        )
    assert (everything.unpriced, t4.unpriced) == (1, 0)


def test_a_known_end_ends_the_forecast(database: Database) -> None:
    """Google's own run-time limit on the VM is taken into account."""
    a_month(database)
    with database.write() as connection:
        connection.execute(update(tables.instances).values(termination_at=NOW))
    with database.read() as connection:
        (outlook,) = outlooks(connection, accrual_at(database, NOW), [(Scope(project="lab"), Period.DAY)])
    assert outlook.forecast.expected < outlook.spent + Money.of("0.13")  # an eighth of the usual dollar


def test_each_threshold_is_told_once_a_period(database: Database) -> None:
    """The notification comes once however often one looks, across restarts, until the next period begins."""
    a_month(database)
    clock = HandClock(NOW)
    first = watch(database, clock, MONTH).look()
    assert [event.key for event in first] == ["budget/lab/month/2026-11-01/spent/50"]
    assert first[0].text == "Budget lab: $60.18 is spent, past 50% of the $120.00 for this month."
    for _ in range(3):
        clock.moment += HOUR
        assert watch(database, clock, MONTH).look() == []
    clock.moment = NOW + 5 * DAY
    later = watch(database, clock, MONTH).look()
    assert [event.key.removeprefix("budget/lab/month/2026-11-01/") for event in later] == [
        "spent/80",
        "spent/100",
        "forecast/100",
    ]
    with database.read() as connection:
        (standing,) = standings(connection, accrual_at(database, clock.moment), [MONTH])
    assert [(threshold.percent, threshold.is_crossed, threshold.first_at) for threshold in standing.thresholds[:2]] == [
        (50, True, NOW),
        (80, True, clock.moment),
    ]
    clock.moment = datetime(2026, 12, 31, 23, tzinfo=UTC)
    assert {event.key for event in watch(database, clock, MONTH).look()} >= {"budget/lab/month/2026-12-01/spent/100"}


def test_a_watch_looks_only_every_few_minutes(database: Database) -> None:
    """The watch reads nothing between two looks, however often a pass ends."""
    clock = HandClock(NOW)
    looking = watch(database, clock, MONTH)
    assert looking.look() == []
    a_month(database)
    clock.moment += timedelta(minutes=4)
    assert looking.look() == []
    clock.moment += timedelta(minutes=1)
    assert len(looking.look()) == 1


def test_gpus_where_there_were_none_are_told_once(database: Database) -> None:
    """The project was watched for two weeks without one; a second GPU next to the first is not sudden."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab")
        rows.project(connection, "new", first_seen_at=NOW - 13 * DAY)
        for name, project in (("a", "lab"), ("b", "new")):
            rows.lifetime(connection, rows.instance(connection, name, project=project), NOW - HOUR)
    clock = HandClock(NOW)
    (event,) = watch(database, clock).look()
    assert (event.kind, event.project, event.occurred_at) == ("GpusAppeared", "lab", NOW - HOUR)
    assert event.text == "GPUs run in project lab, which had none in the 14 days before."
    with database.write() as connection:
        rows.lifetime(connection, rows.instance(connection, "c"), NOW + HOUR)
        connection.execute(
            update(tables.lifetimes).where(tables.lifetimes.c.started_at == NOW - HOUR).values(ended_at=NOW + 2 * HOUR)
        )
    clock.moment += 3 * HOUR
    assert watch(database, clock).look() == []


@pytest.mark.parametrize(("since", "is_announced"), [(NOW - 60 * DAY, True), (NOW - 20 * DAY, False)])
def test_an_unusual_rate_is_told_once_a_day(database: Database, since: datetime, is_announced: bool) -> None:
    """The rate is compared with the same hours of the last four weeks, by stored charges; a short past makes nothing
    unusual.
    """
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "lab", first_seen_at=since)
        vm = rows.instance(connection, "steady")
        for week in range(1, 5):
            start = NOW - week * 7 * DAY - 3 * HOUR
            ended = {"ended_at": start + 6 * HOUR, "charged_to": start + 6 * HOUR}
            run = rows.lifetime(connection, vm, start, **ended)
            rows.charge(connection, "lifetime", run, start, start + 6 * HOUR, 6 * 10**9)
        for number in range(12):
            rows.lifetime(connection, rows.instance(connection, f"flood{number}"), NOW - HOUR)
    clock = HandClock(NOW)
    burning = [event for event in watch(database, clock).look() if event.kind == "BurnRateUnusual"]
    assert [event.text for event in burning] == [
        "Machines in project lab cost $6.36 an hour; at this hour of the week, "
        "$1.00 is usual (the median of the last 4 weeks)."
    ] * is_announced
    clock.moment += HOUR
    assert [event for event in watch(database, clock).look() if event.kind == "BurnRateUnusual"] == []


def test_an_ordinary_day_tells_nothing(database: Database) -> None:
    """A ledger of ordinary days makes no event, without budgets."""
    a_month(database)
    assert watch(database, HandClock(NOW)).look() == []
    assert recorded_events(database) == []
