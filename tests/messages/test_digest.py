"""Digests: intended once each, and written from the ledger as it is when they are sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time, timedelta

import pytest
from sqlalchemy import select, update
from tests.api import rows
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.reminders import reminder_rows

from costguard.access.rules import Rules
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.messages import outbox_rows
from costguard.messages.digest import DigestComposer, DigestWatch
from costguard.messages.digest_schedule import DigestRule
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.budget import Budget, Period, Scope
from costguard.model.delivery.message import DigestContent, DigestLine
from costguard.model.money import Money
from costguard.model.preset import Match, Preset
from costguard.model.reminder import Team

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RULE = DigestRule(time(9), time(9), 0, "UTC")  # NOW is noon on a Friday
RULES = Rules(
    {"t4": Preset("t4", Match(), 8 * HOUR)},
    budgets=(Budget("lab", Scope(), Money.of(100), Period.MONTH),),
    channel="#gpus",
)


def watch(database: Database, clock: HandClock, channel: str = "#gpus") -> DigestWatch:
    return DigestWatch(database, clock, RULE, channel)


def stored(database: Database) -> list[StoredMessage]:
    """Returns messages, the latest intended first."""
    with database.read() as connection:
        return outbox_rows.waiting(connection, NOW + 99 * DAY, 100)[::-1]


def composed(database: Database, rules: Rules = RULES, weekly: bool = False, now: datetime = NOW) -> DigestContent:
    data = {
        "every": "weekly" if weekly else "daily",
        "first": "2026-11-13" if weekly else "2026-11-19",
        "last": "2026-11-19",
        "good_until": (NOW + 9 * HOUR).isoformat(),
    }
    message = StoredMessage(1, "digest/x", "digest", "#gpus", data, "intended", NOW, NOW)
    with database.read() as connection:
        made = DigestComposer(rules, "https://guard.example/")(connection, message, now)
    assert isinstance(made, Composed)
    assert isinstance(made.content, DigestContent)
    return made.content


def section(content: DigestContent, title: str) -> tuple[DigestLine, ...]:
    (result,) = (lines for name, lines in content.sections if name.startswith(title))
    return result


def a_fleet(database: Database) -> None:
    """Ten dollars yesterday and eight the day before; five VMs run, two of them idle and three past their limit."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for back, dollars in ((1, 10), (2, 8)):
            rows.day(connection, (NOW - back * DAY).date(), gpu_nanos=dollars * 10**9)
        for name, ago, given in (
            ("new", 2, {}),
            ("late", 10, {}),
            ("sleepy", 20, {}),
            ("nobodys", 9, {"owner": ""}),
            ("cheap", 3, {**rows.N1, "gpu_type": None, "gpu_count": 0}),
        ):
            vm = rows.instance(connection, name, **given)
            rows.lifetime(connection, vm, NOW - ago * HOUR, **given)
            if name in {"sleepy", "cheap"}:
                rows.measured(connection, vm, NOW - ago * HOUR)


def test_each_is_intended_once(database: Database) -> None:
    """The digest is one however often one looks and across restarts; the next day has another."""
    with database.write() as connection:
        rows.project(connection)
    clock = HandClock(NOW)
    assert [item.key for item in watch(database, clock).intend()] == ["digest/daily/2026-11-20"]
    assert watch(database, clock).intend() == []
    (message,) = stored(database)
    assert (message.kind, message.address, message.status) == ("digest", "#gpus", "intended")
    assert (message.data["first"], message.data["last"]) == ("2026-11-19", "2026-11-19")
    clock.advance(3 * DAY)
    assert [item.key for item in watch(database, clock).intend()] == [
        "digest/daily/2026-11-23",
        "digest/weekly/2026-11-23",
    ]


def test_a_teams_budget_stands_at_what_its_people_spent(database: Database) -> None:
    """The spend of everybody else does not count."""
    a_fleet(database)
    with database.write() as connection:
        rows.day(connection, (NOW - DAY).date(), owner="bob@lab.example", gpu_nanos=7 * 10**9)
    budget = Budget("vision", Scope(team="vision"), Money.of(10), Period.MONTH)
    teams = (Team("vision", members=frozenset({"bob@lab.example"})),)
    (line,) = section(composed(database, replace(RULES, budgets=(budget,), teams=teams)), "Budgets")
    assert (line.label, line.amount) == ("vision", "$7.00 of $10.00 (70%)")


def test_one_that_was_withdrawn_is_not_meant_again(database: Database) -> None:
    """It was too late already."""
    with database.write() as connection:
        rows.project(connection)
    watch(database, HandClock(NOW)).intend()
    with database.write() as connection:
        outbox_rows.withdraw(connection, stored(database)[0].id, "too late")
    assert watch(database, HandClock(NOW)).intend() == []


def test_nothing_is_intended_without_a_channel_or_a_ledger(database: Database) -> None:
    """Before the first pass there is nothing to tell, and without Slack nobody to tell it to."""
    assert watch(database, HandClock(NOW)).intend() == []
    with database.write() as connection:
        rows.project(connection)
    assert watch(database, HandClock(NOW), channel="").intend() == []
    assert stored(database) == []


def test_a_daily_tells_of_yesterday_and_of_now(database: Database) -> None:
    """Spend against the day before, and what runs and idles at this moment."""
    a_fleet(database)
    result = composed(database)
    assert (result.weekly, result.first, result.last) == (False, date(2026, 11, 19), date(2026, 11, 19))
    assert result.headline.startswith(
        "$14.24 was spent, 78% more than the $8.00 on the day before. 5 VMs are running now at $2.30 an hour"
    )
    assert "; 2 idle, at $0.710 an hour." in result.headline
    assert section(result, "By preset") == (DigestLine("t4", "$14.24", "$8.00 before"),)
    assert section(result, "By owner")[0] == DigestLine("ada@lab.example", "$14.24")
    assert result.url == "https://guard.example/spend"


def test_idlers_come_with_what_they_wasted(database: Database) -> None:
    """The most expensive first, with whose they are, since when they idle and what shows it."""
    a_fleet(database)
    sleepy, cheap = section(composed(database), "Idle now")
    assert (sleepy.label, sleepy.amount) == ("sleepy", "$0.530/h")
    assert sleepy.remark == "ada@lab.example, idle for 2 h, $1.06 wasted; GPU under 5 % for 2 h (max 3 %)"
    assert (cheap.label, cheap.amount) == ("cheap", "$0.180/h")


def test_the_late_and_the_unclaimed_are_named(database: Database) -> None:
    """Each with how late it is, or how long it runs."""
    a_fleet(database)
    result = composed(database)
    late = {line.label: line.remark for line in section(result, "Past their limits")}
    assert late == {
        "late": "ada@lab.example, past the 8 h of preset t4 by 2 h",
        "sleepy": "ada@lab.example, past the 8 h of preset t4 by 12 h",
        "nobodys": "unclaimed, past the 8 h of preset t4 by 1 h",
    }
    assert section(result, "Running without an owner") == (DigestLine("nobodys", "$0.530/h", "running for 9 h in lab"),)


def test_budgets_are_told_with_their_forecast(database: Database) -> None:
    """The digest has the spend of the limit, and the forecast."""
    a_fleet(database)
    (budget,) = section(composed(database), "Budgets")
    assert (budget.label, budget.amount) == ("lab", "$40.27 of $100.00 (40%)")
    assert budget.remark == "about $95.47 (95%) by the end of the month"


@pytest.mark.parametrize("is_shadow", [True, False])
def test_stops_of_the_period_are_told_with_what_they_saved(database: Database, is_shadow: bool) -> None:
    """Shadow stops apart, with both figures; no empty shadow section once rules do stop."""
    a_fleet(database)
    with database.write() as connection:
        vm = rows.instance(connection, "stopped")
        run = rows.lifetime(connection, vm, NOW - 40 * HOUR, ended_at=NOW - 20 * HOUR)
        reminder_rows.stop(connection, vm, run, NOW - 20 * HOUR)
        reminder_rows.keep(connection, vm, f"run:{vm}:{run}", NOW, at=NOW - 30 * HOUR, reason="ablation")
        if is_shadow:
            long = rows.lifetime(connection, rows.instance(connection, "long"), NOW - 60 * HOUR)
            reminder_rows.stop(connection, vm + 1, long, NOW - 30 * HOUR, outcome="shadow")
    result = composed(database, Rules(RULES.presets, is_shadow=is_shadow))
    (line,) = section(result, "Stopped, $10.60 saved (estimate: ")
    assert (line.label, line.amount) == ("stopped", "$10.60")
    (kept,) = section(result, "Kept")
    assert (kept.label, kept.amount, kept.remark) == (
        "stopped",
        "until Fri 20 Nov 12:00 UTC",
        "by bob@lab.example: ablation",
    )
    titles = [title for title, _ in result.sections]
    assert ("Would have been stopped, saving $12.72" in titles) is is_shadow
    if is_shadow:
        (shadow,) = section(result, "Would have been stopped")
        assert shadow.remark.endswith("; it has cost $15.90 since")


NODE = {"goog-gke-node": "", "goog-k8s-cluster-name": "train", "goog-k8s-node-pool-name": "t4"}
GROUP = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/gke-train-t4-grp"}


def test_a_pool_is_listed_once_with_its_count_and_sum(database: Database) -> None:
    """It outranks a dearer VM by its sum; a list of VMs would show five nodes of it and nothing else."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for number in range(9):
            given = {"owner": "" if number < 6 else "ada@lab.example", "labels": NODE, "origin": GROUP}
            vm = rows.instance(connection, f"gke-{number}", **given)
            rows.lifetime(connection, vm, NOW - (12 - number) * HOUR)
            if number < 4:
                rows.measured(connection, vm, NOW - (12 - number) * HOUR, since=NOW - (2 + number) * HOUR)
        alone = rows.instance(connection, "alone", owner="")
        rows.lifetime(connection, alone, NOW - 9 * HOUR)
    result = composed(database)
    (idle,) = section(result, "Idle now")
    assert (idle.label, idle.amount) == ("4 of 9 VMs of GKE cluster train (node pool t4)", "$2.12/h")
    assert idle.remark == "unclaimed, idle for up to 5 h, $7.42 wasted"
    late, other = section(result, "Past their limits")
    assert (late.label, other.label) == ("4 of 9 VMs of GKE cluster train (node pool t4)", "alone")
    assert late.remark == "unclaimed, past their limits by up to 4 h"
    unclaimed, _ = section(result, "Running without an owner")
    assert unclaimed.label == "6 of 9 VMs of GKE cluster train (node pool t4)"
    assert unclaimed.remark == "running for up to 12 h in lab"


def test_what_has_no_price_or_was_not_read_is_said(database: Database) -> None:
    """Amounts are too low by it, so the headline says `at least`."""
    a_fleet(database)
    with database.write() as connection:
        vm = rows.instance(connection, "dear", **rows.H100)
        rows.lifetime(connection, vm, NOW - 30 * HOUR, **rows.H100, charged_to=NOW, unpriced="No price is known.")
        reason = {"scope": "us-east1-b", "code": "quota", "reason": "Too many requests."}
        connection.execute(update(tables.projects).values(unread=[reason]))
    result = composed(database)
    assert result.headline.startswith("At least $14.24 was spent")
    assert "$2.30 an hour plus unpriced VMs; 2 idle" in result.headline
    assert section(result, "Not priced")[0].label == "dear"
    assert section(result, "Not read") == (DigestLine("lab, us-east1-b", "quota", "Too many requests."),)


def test_only_the_first_few_are_named_and_the_rest_is_counted(database: Database) -> None:
    """A digest is read in a minute."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for number in range(7):
            vm = rows.instance(connection, f"vm{number}", owner="")
            rows.lifetime(connection, vm, NOW - 2 * HOUR)
            rows.day(connection, date(2026, 11, 19), preset=f"p{number}", gpu_nanos=(9 - number) * 10**9)
    result = composed(database)
    assert [line.label for line in section(result, "Running without an owner")][-2:] == ["vm4", "2 more"]
    assert section(result, "By preset")[-1] == DigestLine("2 more", "$7.00")


def test_a_week_is_compared_with_the_week_before_where_that_was_watched(database: Database) -> None:
    """The spend of a time that was never watched is not zero."""
    a_fleet(database)
    with database.write() as connection:
        rows.day(connection, date(2026, 11, 10), gpu_nanos=40 * 10**9)
    weekly = composed(database, weekly=True)
    assert weekly.weekly
    assert "44% less than the $40.00 in the week before." in weekly.headline
    with database.write() as connection:
        connection.execute(update(tables.projects).values(first_seen_at=NOW - 9 * DAY))
    alone = composed(database, weekly=True)
    assert "was spent. 5 VMs" in alone.headline
    assert section(alone, "By preset")[0].remark == ""


def test_an_empty_ledger_has_a_digest_too(database: Database) -> None:
    """Every section is there, and empty."""
    result = composed(database, Rules({}))
    assert result.headline == "$0.00 was spent. Nothing is running now."
    assert all(lines == () for _, lines in result.sections)


def test_one_that_could_not_be_sent_in_time_is_withdrawn(database: Database) -> None:
    """The next one is nearer."""
    with database.write() as connection:
        rows.project(connection)
    watch(database, HandClock(NOW)).intend()
    (message,) = stored(database)
    with database.read() as connection:
        made = DigestComposer(RULES)(connection, message, NOW + 9 * HOUR)
        assert list(connection.execute(select(tables.keeps))) == []
    assert isinstance(made, Withdrawn)
