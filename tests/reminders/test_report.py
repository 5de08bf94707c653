"""The report of a span: what the rules would have stopped or did, whose it is, and what it cost after that."""

from __future__ import annotations

from dataclasses import replace
from datetime import time, timedelta
from typing import Any

import pytest
from sqlalchemy import insert
from tests.api import rows
from tests.api.rows import EARLIER, NOW
from tests.reminders import reminder_rows

from costguard.access.rules import Rules
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.model.money import Money, Priced
from costguard.model.preset import Match, Preset
from costguard.model.reminder import Enforcement, QuietRule, ReminderRule
from costguard.model.utilisation import IdleRule
from costguard.reminders.report import FleetReport, LeftAlone, ReportedVm, RuleOutcome
from costguard.reminders.report_rows import fleet_report

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RATE = Money.of("0.53")  # of a T4 VM
REMIND = ReminderRule(every=2 * HOUR, stop_after=2, grace=HOUR)
T4 = Preset("t4", Match(), 8 * HOUR, idle=IdleRule(500, 500, HOUR), reminders=REMIND)
RULES = Rules({"t4": T4}, quiet=QuietRule(time(), time(), frozenset()), channel="#gpus")
STOPS = replace(RULES, presets={"t4": replace(T4, reminders=replace(REMIND, enforcement=Enforcement.STOP))})
WATCHED = NOW - 2 * DAY


def report(database: Database, rules: Rules = RULES, days: int = 30) -> FleetReport:
    with database.read() as connection:
        return fleet_report(connection, rules, NOW, days)


def watched(database: Database, since: Any = WATCHED) -> None:
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection, first_seen_at=since)


def ran(database: Database, name: str, hours: float, ended: float | None = None, **given: Any) -> tuple[int, int]:
    """A VM that started so many hours ago, and ended so many hours ago, or runs; its row and its run's."""
    given = {"owner": "ada@lab.example", **given}
    of_run = {key: value for key, value in given.items() if key not in ("labels", "origin", "job")}
    with database.write() as connection:
        vm = rows.instance(connection, name, **given)
        ended_at = None if ended is None else NOW - ended * HOUR
        return vm, rows.lifetime(connection, vm, NOW - hours * HOUR, ended_at=ended_at, **of_run)


def reminded(database: Database, vm: int, run: int, *hours: float) -> None:
    """Reminders that Slack accepted so many hours ago, the first stages of the first cycle."""
    with database.write() as connection:
        for stage, ago in enumerate(hours):
            at = {"intended_at": NOW - ago * HOUR, "accepted_at": NOW - ago * HOUR}
            key = f"reminder/run:{vm}:{run}/0/{stage}/owner"
            reminder_rows.message(connection, key, subject=f"run:{vm}:{run}", instance_id=vm, stage=stage, **at)


def one(report: FleetReport) -> ReportedVm:
    (vm,) = report.vms
    return vm


def test_a_recorded_stop_costs_what_the_vm_cost_after_it(database: Database) -> None:
    """Twenty hours at $0.53 after it; 48 of the 52 hours past its limit, as those were watched; a month scales that."""
    watched(database)
    vm, run = ran(database, "late", 60)
    with database.write() as connection:
        evidence = {"due_at": (NOW - 52 * HOUR).isoformat()}
        reminder_rows.stop(connection, vm, run, NOW - 20 * HOUR, outcome="shadow", evidence=evidence)
    result = report(database, STOPS)
    late = one(result)
    assert (late.name, late.owner, late.asks, late.step) == (
        "late",
        "ada@lab.example",
        "ada@lab.example",
        RuleOutcome.WOULD_STOP,
    )
    assert late.why == "past the limit of preset t4 (8 h) by 2 h"  # as it was recorded
    assert (late.due_at, late.stop_at, late.ended_at) == (NOW - 52 * HOUR, NOW - 20 * HOUR, None)
    assert late.left_cost == Priced(Money.of("10.60"))
    assert late.due_cost == Priced(Money.of("25.44"))  # 48 h
    assert result.left_month == Priced(Money(RATE.nanos * 20 * 730 // 48))
    assert late.month_at_rate == Money.of("386.90")
    assert result.only_remind == ()


def test_a_preset_that_reminds_says_when_it_would_have_stopped(database: Database) -> None:
    """Two accepted reminders and the grace make the moment; nothing recorded it."""
    watched(database)
    vm, run = ran(database, "late", 20)
    reminded(database, vm, run, 11.5, 9)
    result = report(database)
    late = one(result)
    assert (late.step, late.stop_at, late.reminders) == (RuleOutcome.WOULD_STOP, NOW - 8 * HOUR, 2)
    assert late.left_cost == Priced(Money.of("4.24"))
    assert late.why == "past the limit of preset t4 (8 h) by 12 h"
    assert result.only_remind == ("t4",)


def test_one_that_is_still_being_reminded_is_not_stopped_yet(database: Database) -> None:
    """The moment is to come: nothing was left running after it, and its cost past the limit is shown."""
    watched(database)
    vm, run = ran(database, "late", 9)
    reminded(database, vm, run, 1)
    late = one(report(database))
    assert (late.step, late.stop_at) == (RuleOutcome.REMINDED, NOW + 2 * HOUR)
    assert (late.left_cost, late.due_cost) == (Priced(), Priced(RATE))


def test_without_slack_it_is_when_silence_would_have_been_enough(database: Database) -> None:
    """Nobody was asked: the earliest moment counts from the limit, or from when watching began."""
    watched(database)
    ran(database, "old", 100)
    ran(database, "new", 12)
    old, new = report(database, replace(RULES, channel="")).vms
    assert (old.name, old.asks, old.stop_at) == ("old", "", WATCHED + 3 * HOUR)
    assert (new.name, new.stop_at) == ("new", NOW - 1 * HOUR)
    assert old.left_cost == Priced(Money.of("23.85"))  # 45 h


def test_quiet_hours_put_the_moment_off(database: Database) -> None:
    """A reminder that falls into the night waits for the morning."""
    watched(database)
    ran(database, "late", 24)  # due at 20:00 of the day before
    rules = replace(RULES, channel="", quiet=QuietRule(days=frozenset()))
    assert one(report(database, rules)).stop_at == NOW - HOUR  # 08:00, 10:00, and an hour
    assert one(report(database, replace(RULES, channel=""))).stop_at == NOW - 13 * HOUR


def test_what_has_no_price_is_unknown_and_never_zero(database: Database) -> None:
    """A priced VM and one without make `at least`, in the month as well."""
    watched(database)
    ran(database, "priced", 20)
    ran(database, "mystery", 20, None, **rows.H100)
    result = report(database, replace(RULES, channel=""))
    mystery, priced = result.vms
    assert (mystery.name, mystery.rate, mystery.month_at_rate) == ("mystery", None, None)
    assert mystery.left_cost == Priced(whole=False)
    assert result.left_cost == Priced(priced.left_cost.amount, whole=False)
    assert result.left_month is not None
    assert not result.left_month.whole


def test_an_unowned_vm_is_asked_about_in_the_channel(database: Database) -> None:
    """Nobody owns it, and the channel hears of it."""
    watched(database)
    ran(database, "nobodys", 20, owner="")
    result = report(database)
    assert (one(result).owner, one(result).asks, result.people) == ("", "#gpus", ("#gpus",))


def test_a_run_that_ended_counts_up_to_its_end(database: Database) -> None:
    """It was past its limit; its cost ends with it, and it has no month of its own."""
    watched(database)
    ran(database, "over", 30, ended=10)
    ran(database, "short", 30, ended=25)
    ran(database, "before", 99, ended=50)
    over = one(report(database, replace(RULES, channel="")))
    assert (over.name, over.stop_at, over.ended_at) == ("over", NOW - 19 * HOUR, NOW - 10 * HOUR)
    assert over.left_cost == Priced(Money.of("4.77"))  # 9 h
    assert over.month_at_rate is None


def test_idle_vms_are_reported_while_they_run_and_once_they_ended(database: Database) -> None:
    """The present measurement says so, or what was recorded when it became idle; one busy again is none."""
    watched(database)
    vm, _ = ran(database, "idle", 5)
    ran(database, "idled", 6, ended=1)
    ran(database, "worked", 6, ended=1)
    with database.write() as connection:
        rows.measured(connection, vm, NOW - 5 * HOUR)
        ids = {row.name: row.gce_id for row in connection.execute(tables.instances.select())}
        for name, kind, ago in (
            ("idled", "InstanceIdle", 4),
            ("worked", "InstanceIdle", 4),
            ("worked", "InstanceBusy", 2),
        ):
            data = {"since": (NOW - ago * HOUR).isoformat(), "is_weak": False}
            moment = NOW - (ago - 1) * HOUR
            rows.event(connection, f"{name} {kind}", moment, kind=kind, gce_id=ids[name], name=name, data=data)
    by_name = {one.name: one for one in report(database).vms}
    assert sorted(by_name) == ["idle", "idled"]
    assert by_name["idle"].due_at == NOW - HOUR
    assert by_name["idled"].due_at == NOW - 3 * HOUR
    assert by_name["idled"].due_cost == Priced(Money.of("1.06"))
    assert "idle for 2 h" in by_name["idle"].why


def test_what_is_left_alone_is_counted_with_its_reason(database: Database) -> None:
    """Protected, kept, at work, in a cluster, within its limits: no rule stops them, and each says why."""
    watched(database)
    ran(database, "guarded", 30, labels={"costguard-protect": "true"})
    for number in range(2):
        cluster = {"goog-gke-node": "", "goog-k8s-cluster-name": "train", "goog-k8s-node-pool-name": "t4"}
        ran(database, f"node-{number}", 30, labels=cluster, origin={"gke": "by its metadata"})
    ran(database, "new", 1)
    kept, run = ran(database, "kept", 30)
    ran(database, "other", 30, preset="gone")
    with database.write() as connection:
        reminder_rows.keep(connection, kept, f"run:{kept}:{run}", NOW + HOUR)
    result = report(database)
    assert (result.vms, result.running) == ((), 6)
    assert result.left_alone == (
        LeftAlone(2, "kept by GKE"),
        LeftAlone(1, "kept by a person for now"),
        LeftAlone(1, "of a preset that the settings do not have"),
        LeftAlone(1, "protected by a label or the settings"),
        LeftAlone(1, "within their limits (whether they are busy is not known)"),
    )


def test_live_enforcement_says_what_it_stopped(database: Database) -> None:
    """A stop by a rule, with what it saved; one that a person asked for is none of the rules'."""
    watched(database)
    vm, run = ran(database, "stopped", 20, ended=5)
    request_vm, request_run = ran(database, "asked", 20, ended=5)
    with database.write() as connection:
        reminder_rows.stop(connection, vm, run, NOW - 5 * HOUR)
        request = reminder_rows.request(connection, request_vm, f"run:{request_vm}:{request_run}")
        reminder_rows.stop(connection, request_vm, request_run, NOW - 5 * HOUR, request_id=request)
    result = report(database, replace(STOPS, is_shadow=False))
    (stopped,) = result.of(RuleOutcome.STOPPED)
    assert (stopped.name, stopped.saved, stopped.rate) == ("stopped", Priced(Money.of("2.65")), RATE)
    assert (result.saved, result.is_shadow) == (Priced(Money.of("2.65")), False)


def test_stops_of_another_span_do_not_count(database: Database) -> None:
    """A stop recorded before the span counts from its beginning where the VM runs on, and not where it had ended."""
    watched(database, NOW - 20 * DAY)
    on, on_run = ran(database, "on", 300)
    over, over_run = ran(database, "over", 300, ended=200)
    with database.write() as connection:
        for vm, run in ((on, on_run), (over, over_run)):
            reminder_rows.stop(connection, vm, run, NOW - 250 * HOUR, outcome="shadow")
    result = report(database, STOPS, days=2)
    assert result.since == NOW - 36 * HOUR
    assert one(result).left_cost == Priced(Money.of("19.08"))
    assert result.left_month == Priced(Money(RATE.nanos * 730))
    assert {vm.name for vm in report(database, STOPS).vms} == {"on", "over"}


def test_a_month_is_given_once_a_day_was_watched(database: Database) -> None:
    """Five hours say nothing about a month, and what is known is reported."""
    watched(database, NOW - 5 * HOUR)
    ran(database, "late", 20)
    result = report(database, replace(RULES, channel=""))
    assert (result.is_early, result.left_month, result.due_month) == (True, None, None)
    assert one(result).due_cost == Priced(Money.of("2.65"))


def test_an_empty_fleet_has_a_report(database: Database) -> None:
    """Before the first look nothing is known, and after it nothing was to be stopped."""
    before = report(database)
    assert (before.watched_since, before.vms, before.running) == (None, (), 0)
    watched(database)
    after = report(database)
    assert (after.watched_since, after.vms, after.left_cost, after.is_early) == (WATCHED, (), Priced(), False)
    assert after.gpu_use.used_bp is None


@pytest.mark.parametrize("days", [1, 30])
def test_gpu_use_is_that_of_the_span(database: Database, days: int) -> None:
    """The stored days of the span, weighted by GPU-hours, with the share that is known."""
    watched(database)
    ran(database, "one", 12)  # all of today
    with database.write() as connection:
        hour_us = 3_600_000_000
        for day, known_h, used_h in ((NOW, 6, 3), (NOW - DAY, 6, 0), (EARLIER, 99, 99)):
            row = {"project": "lab", "day": day.date(), "known_us": known_h * hour_us, "used_us": used_h * hour_us}
            connection.execute(insert(tables.gpu_use), row)
    use = report(database, days=days).gpu_use
    assert (use.gpu_time, use.used_bp, use.known_percent) == (
        (12 * HOUR, 5000, 50) if days == 1 else (12 * HOUR, 2500, 100)
    )
