"""Notifications: which events, to whom, once each, and with which figures."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.fakes import HandClock

from costguard.access.rules import Rules
from costguard.daemon import restoring
from costguard.db.transaction import Database
from costguard.messages import outbox_rows
from costguard.messages.notification import NotificationComposer, NotificationWatch
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.budget import Budget, Period, Scope
from costguard.model.delivery.message import NotificationContent
from costguard.model.generation import Cause
from costguard.model.money import Money
from costguard.model.reminder import Team
from costguard.spend.budgets import BudgetWatch

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LAB = Budget("lab", Scope(project="lab"), Money.of(100), Period.MONTH, (50,), (), contact="cfo@lab.example")
RULES = Rules(
    {},
    channel="#gpus",
    budgets=(LAB, Budget("vision", Scope(team="vision"), Money.of(10), Period.MONTH, (50,), ())),
    teams=(Team("vision", projects=frozenset({"vision"}), channel="#vision"),),
)


def intend(database: Database, rules: Rules = RULES, later: timedelta = timedelta()) -> list[str]:
    return NotificationWatch(database, HandClock(NOW + later), rules, "#costs").intend()


def stored(database: Database) -> list[StoredMessage]:
    """Returns messages in the order in which they were intended."""
    with database.read() as connection:
        return outbox_rows.waiting(connection, NOW + DAY, 100)


def composed(database: Database, later: timedelta = timedelta(), rules: Rules = RULES) -> NotificationContent:
    """The first of them."""
    with database.read() as connection:
        made = NotificationComposer(rules, "https://guard.example")(connection, stored(database)[0], NOW + later)
    assert isinstance(made, Composed)
    assert made.is_final
    assert isinstance(made.content, NotificationContent)
    return made.content


def a_crossing(database: Database) -> None:
    """Sixty dollars in `lab` this month, most of it ada's, and a T4 that runs."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for back in range(1, 16):
            rows.day(connection, (NOW - back * DAY).date(), gpu_nanos=3 * 10**9)
            rows.day(connection, (NOW - back * DAY).date(), owner="bob@lab.example", gpu_nanos=10**9)
        vm = rows.instance(connection, "one")
        rows.lifetime(connection, vm, NOW - 9 * DAY, ended_at=NOW - 8 * DAY, charged_to=NOW - 8 * DAY)
        rows.lifetime(connection, vm, NOW - 2 * HOUR)
    BudgetWatch(database, HandClock(NOW), [LAB]).look()


def test_a_restore_and_the_vms_that_it_lost_are_two_notices(database: Database) -> None:
    """The notice is one however many VMs were found at one look: an operator is to read of it, not to be flooded."""
    with database.write() as connection:
        restoring.begin(connection, Cause.RESTORED, NOW, NOW - DAY)
        for number in range(5):
            rows.event(connection, f"unknown/lab/{number}", NOW, kind="UnknownVmFound", text=f"vm-{number} is unknown.")
    assert len(intend(database)) == 2
    assert {item.address for item in stored(database)} == {"#costs"}
    assert intend(database) == []
    first, second = (made for made in stored(database))
    with database.read() as connection:
        compose = NotificationComposer(RULES, "https://guard.example")
        result = [compose(connection, item, NOW) for item in (first, second)]
    titles = {item.content.title for item in result if isinstance(item, Composed)}  # type: ignore[union-attr]
    assert titles == {
        "Costguard is running on a restored or different database",
        "5 VMs that the ledger does not know",
    }


def test_a_crossing_is_told_to_the_channel_and_to_the_contact_once(database: Database) -> None:
    """The notification comes once however often one looks, and across restarts."""
    a_crossing(database)
    key = "notice/budget/lab/month/2026-11-01/spent/50"
    assert intend(database) == [key, f"{key}/contact"]
    assert [(item.address, item.kind) for item in stored(database)] == [
        ("#costs", "notification"),
        ("cfo@lab.example", "notification"),
    ]
    assert intend(database) == []


def test_a_teams_budget_is_told_in_its_channel_and_an_anomaly_in_that_of_its_project(database: Database) -> None:
    """A message that no team's channel takes goes to the one for costs."""
    with database.write() as connection:
        rows.event(connection, "budget/vision/1", NOW, kind="BudgetThresholdCrossed", data={"budget": "vision"})
        rows.event(connection, "anomaly/gpus/vision/1", NOW, kind="GpusAppeared", project="vision")
        rows.event(connection, "anomaly/burn/lab/1", NOW, kind="BurnRateUnusual")
    intend(database)
    assert [item.address for item in stored(database)] == ["#vision", "#vision", "#costs"]


def test_old_events_and_other_facts_are_no_news(database: Database) -> None:
    """Slack may be set up on a ledger of years; nor is every event worth a message."""
    with database.write() as connection:
        rows.event(connection, "old", NOW - 2 * DAY, kind="GpusAppeared", recorded_at=NOW - 25 * HOUR)
        rows.event(connection, "new", NOW - DAY, kind="GpusAppeared", recorded_at=NOW - 23 * HOUR)
        rows.event(connection, "start", NOW)
        rows.event(connection, "budget/gone/1", NOW, kind="BudgetThresholdCrossed", data={"budget": "gone"})
    assert intend(database) == ["notice/new"]


def test_a_crossing_shows_how_the_budget_stands_when_it_is_sent(database: Database) -> None:
    """Spent, forecast, rate and who spent the most, after it waited for an hour."""
    a_crossing(database)
    intend(database)
    result = composed(database, HOUR)
    assert (result.icon, result.title) == ("budget", "Budget lab: 50% spent")
    assert result.text.startswith("Budget lab: $61.06 is spent, past 50% of the $100.00")
    assert result.figures["Spent"] == "$61.59 (61%)"
    assert result.figures["Limit"] == "$100.00 a month"
    assert result.figures["Now"] == "$0.53 an hour"
    assert result.figures["Most spent by"] == "ada@lab.example $46.59, bob@lab.example $15.00"
    assert result.url == "https://guard.example/budgets"


def test_a_teams_crossing_shows_what_its_people_spent(database: Database) -> None:
    """The figure equals every other reading of that budget."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, "vision")
        for name, dollars in (("lab", 3), ("vision", 6)):
            rows.day(connection, (NOW - DAY).date(), project=name, gpu_nanos=dollars * 10**9)
    BudgetWatch(database, HandClock(NOW), RULES.budgets, teams=RULES.teams).look()
    intend(database)
    assert composed(database).figures["Spent"] == "$6.00 (60%)"


@pytest.mark.parametrize("rules", [RULES, Rules({})])
def test_a_crossing_of_a_period_that_is_over_shows_how_it_stood(database: Database, rules: Rules) -> None:
    """The message of a budget that is no more does so too."""
    with database.write() as connection:
        data = {"percent": 100, "on": "forecast", "limit_nanos": 10**11, "spent_nanos": 5 * 10**10}
        data |= {"forecast_nanos": 12 * 10**10, "period": "month", "budget": "lab"}
        data |= {"period_starts_at": "2026-10-01T00:00:00+00:00"}
        rows.event(connection, "budget/lab/1", NOW, kind="BudgetThresholdCrossed", data=data)
    intend(database)
    result = composed(database, rules=rules)
    assert result.title == "Budget lab: 100% forecast to be spent"
    assert result.figures == {"Spent": "$50.00", "Limit": "$100.00 a month", "Forecast": "about $120.00"}


def test_sudden_gpus_come_with_how_many_run_now(database: Database) -> None:
    """The message has their hourly cost; one without a price is not nought."""
    with database.write() as connection:
        rows.prices(connection)
        for name in ("one", "two"):
            rows.lifetime(connection, rows.instance(connection, name), NOW - HOUR)
        rows.lifetime(connection, rows.instance(connection, "dear", **rows.H100), NOW - HOUR, **rows.H100)
        rows.event(connection, "anomaly/gpus/lab/1", NOW, kind="GpusAppeared", text="GPUs run in project lab.")
    intend(database)
    result = composed(database)
    assert (result.icon, result.title, result.text) == ("anomaly", "GPUs appeared in lab", "GPUs run in project lab.")
    assert result.figures == {
        "GPUs now": "8 x nvidia-h100-80gb, 2 x nvidia-tesla-t4",
        "Now": "$1.06 an hour plus what has no price",
    }


@pytest.mark.parametrize(("names", "words"), [(["tpu"], "TPUs"), (["one", "tpu"], "GPUs and TPUs")])
def test_sudden_tpus_are_called_tpus(database: Database, names: list[str], words: str) -> None:
    """The title and the figure name what runs, not what the event is called."""
    tpu = {"machine_type": "ct6e-standard-4t", "gpu_type": "v6e", "gpu_count": 4}
    with database.write() as connection:
        rows.prices(connection)
        for name in names:
            shape = tpu if name == "tpu" else {}
            rows.lifetime(connection, rows.instance(connection, name, **shape), NOW - HOUR, **shape)
        rows.event(connection, "anomaly/gpus/lab/1", NOW, kind="GpusAppeared", text="TPUs run in project lab.")
    intend(database)
    result = composed(database)
    assert result.title == f"{words} appeared in lab"
    assert "4 x v6e" in result.figures[f"{words} now"]


def test_an_unusual_rate_comes_with_the_usual_one(database: Database) -> None:
    """Both per hour, as they were recorded."""
    with database.write() as connection:
        data = {"rate_nanos": 40 * 10**9, "usual_nanos": 5 * 10**9}
        rows.event(connection, "anomaly/burn/lab/1", NOW, kind="BurnRateUnusual", data=data)
    intend(database)
    assert composed(database).figures == {"Then": "$40.00 an hour", "Usual": "$5.00 an hour"}


def test_prices_refused_at_one_reading_are_one_notice(database: Database) -> None:
    """A catalogue that went wrong refuses hundreds; the first few are shown and all are counted."""
    with database.write() as connection:
        for number in range(5):
            rows.event(connection, f"price-refused/{number}", NOW, kind="PriceRefused", text=f"Price {number}.")
        rows.event(connection, "price-refused/later", NOW, kind="PriceRefused", recorded_at=NOW + HOUR)
    assert len(intend(database, later=HOUR)) == 2
    result = composed(database)
    assert result.title == "5 prices were refused"
    assert result.text == "Price 0.\nPrice 1.\nPrice 2.\nand 2 more"


def test_what_could_not_be_sent_for_days_is_withdrawn(database: Database) -> None:
    """A day without Slack loses nothing; after three it is no news."""
    a_crossing(database)
    intend(database)
    assert composed(database, DAY).title
    with database.read() as connection:
        made = NotificationComposer(RULES)(connection, stored(database)[0], NOW + 3 * DAY)
    assert isinstance(made, Withdrawn)


def test_drift_of_the_bill_comes_once_with_its_worst_rows(database: Database) -> None:
    """The message goes to the channel, each row explained, with the command that shows the rest."""
    worst = ["2026-11-15 train-7: The ledger charges $8.40 for gpu:nvidia-tesla-t4, and the bill has no row of it."]
    data = {"names": ["project lab"], "total_nanos": 8_400_000_000, "worst": worst}
    with database.write() as connection:
        rows.event(connection, "bill-drift/1", NOW, kind="BillDrifted", text="Google's bill differs.", data=data)
    assert len(intend(database)) == 1
    assert intend(database) == []
    content = composed(database)
    assert content.text == f"Google's bill differs.\n• {worst[0]}"
    assert content.figures == {"Unexplained": "$8.40"}
    assert content.url == "https://guard.example/bill"
