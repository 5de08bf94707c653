"""Jobs' VMs pay another cloud for their inputs, against budgets and ceilings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.model.attempt import AttemptState
from costguard.model.budget import Budget, LabelFilter, Period, Scope
from costguard.model.job import JobInput
from costguard.model.money import ZERO, Money
from costguard.model.reminder import Team
from costguard.model.sweep import Sweep, SweepState
from costguard.spend import downloads
from costguard.spend.budgets import outlooks, standings
from costguard.sweeps import gather, sweep_rows
from costguard.sweeps.ceiling import Reservation
from costguard.sweeps.sweep_rows import NewMember

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
INPUTS = (JobInput("s3://acme/v7", "/data", Money.of(4)), JobInput("s3://acme/unknown", "/more"))
TEAM = Team("vision", members=frozenset({"ada@lab.example"}))


def three_vms(database: Database) -> None:
    """Two of j1 have paid, one of them yesterday; the third was not heard yet. A job of bob's has no inputs."""
    with database.write() as connection:
        rows.project(connection, "lab")
        job_rows.added(connection, "j1", inputs=INPUTS)
        job_rows.added(connection, "j2", owner="bob@lab.example")
        for number, (made_at, heard_at) in enumerate([(NOW - DAY, NOW - DAY), (NOW - HOUR, NOW), (NOW, None)], 1):
            job_rows.attempt(
                connection, "j1", number, made_at=made_at, heard_at=heard_at, state=AttemptState.OVER, ended_at=NOW
            )
        job_rows.attempt(connection, "j2", 1, made_at=NOW, heard_at=NOW)


def test_job_pays_for_each_vm_that_was_heard(database: Database) -> None:
    """The inputs without a known price are left out, as are jobs that pay nothing."""
    three_vms(database)
    with database.read() as connection:
        assert downloads.of_jobs(connection, ["j1", "j2"]) == {"j1": Money.of(8)}
        assert downloads.of_next_vms(connection, ["j1", "j2"]) == {"j1": downloads.NextDownload(Money.of(4), {})}


def test_budgets_count_downloads_on_the_day_of_each_vm(database: Database) -> None:
    """The downloads count in every scope that the job is in; the page Spend, which is Google's bill, does not have
    them.
    """
    three_vms(database)
    scopes = {
        Scope(): "8",
        Scope(project="lab", preset="t4"): "8",
        Scope(owner="ada@lab.example"): "8",
        Scope(owner="bob@lab.example"): "0",
        Scope(team="vision"): "8",
        Scope(job="j1"): "8",
        Scope(job="j2"): "0",
        Scope(label=LabelFilter("team", "vision")): "8",
        Scope(label=LabelFilter("team", None)): "0",
    }
    budgets = [Budget(f"b{n}", scope, Money.of(10), Period.MONTH) for n, scope in enumerate(scopes)]
    today = Budget("today", Scope(), Money.of(10), Period.DAY)
    with database.read() as connection:
        accrual = accrual_at(connection, NOW)
        *counted, of_today = standings(connection, accrual, [*budgets, today], [TEAM])
        (spend,) = outlooks(connection, accrual, [(Scope(), Period.MONTH)])
    expected = {one.budget.scope: (Money.of(scopes[one.budget.scope]),) * 2 for one in counted}
    assert {one.budget.scope: (one.outlook.spent, one.outlook.downloads) for one in counted} == expected
    assert of_today.outlook.spent == Money.of(4)
    assert counted[0].outlook.days[-2:] == (Money.of(4), Money.of(4))
    assert counted[0].percent == 80
    assert (spend.spent, spend.downloads) == (ZERO, ZERO)


def test_sweeps_ceiling_counts_its_members_downloads(database: Database) -> None:
    """The downloads are those paid, and the one that a VM which was not heard yet will pay."""
    with database.write() as connection:
        spec = job_rows.job("j1", inputs=INPUTS, sweep="s1").spec
        limit = Money.of(100)
        sweep = Sweep("s1", "", spec.owner, "lab", "t4", 2, limit, SweepState.RUNNING, "why", NOW, "api")
        sweep_rows.add(
            connection, sweep, [NewMember(n, {"lr": str(n)}, spec, job_rows.RECIPE) for n in (1, 2)], None, ""
        )
        for number, job_id in enumerate(("j1", "j2"), 1):
            job_rows.added(connection, job_id, inputs=INPUTS, sweep="s1")
            sweep_rows.add_job(connection, "s1", number, 1, job_id)
        run = {"state": AttemptState.RUNNING, "rate": Money.of(1), "max_run": 10 * HOUR, "made_at": NOW}
        job_rows.attempt(connection, "j1", 1, **run, heard_at=NOW)
        job_rows.attempt(connection, "j2", 1, **run)
        use = gather.views(connection, accrual_at(connection, NOW), ["s1"])["s1"].use
    assert use is not None
    assert use.spent == Money.of(4)
    assert use.reservations == [
        Reservation("j1", Money.of(1), 10 * HOUR),
        Reservation("j2", Money.of(1), 10 * HOUR, Money.of(4)),
    ]
    assert use.free == Money.of(100 - 4 - 10 - 14)


def test_sweeps_reserve_a_staged_source_once(database: Database) -> None:
    """The first VM that was not heard yet pays for it; the others take it from the stage."""
    inputs = (replace(INPUTS[0], staged=True), JobInput("s3://acme/own", "/own", Money.of(1)))
    with database.write() as connection:
        run = {"state": AttemptState.RUNNING, "rate": Money.of(1), "max_run": 10 * HOUR, "made_at": NOW}
        for job_id in ("j1", "j2", "j3"):
            job_rows.added(connection, job_id, inputs=inputs)
            job_rows.attempt(connection, job_id, 1, **run)
        reserved = gather.reservations(connection, ["j1", "j2", "j3"], NOW)
    assert [reserved[job_id][0].download for job_id in ("j1", "j2", "j3")] == [Money.of(5), Money.of(1), Money.of(1)]
