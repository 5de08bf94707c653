"""Schedules are created, quoted and changed, or refused with what to change."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.api.rows import NOW
from tests.jobs.job_service import RULES, JobSetup, priced
from tests.schedules import rows
from tests.schedules.schedule_story import order, settle, template, to_due, turn

from costguard.access.roles import Actor
from costguard.access.rules import Access
from costguard.db.named import RowFilters
from costguard.db.transaction import Database
from costguard.errors import Conflict, Forbidden, Invalid, Missing
from costguard.model.access import PERMISSIONS, Authority, Role, Via
from costguard.model.job import JobKind, JobOutput, JobState
from costguard.model.money import Money
from costguard.schedules import schedule_rows
from costguard.schedules.runs import ScheduleOrder
from costguard.schedules.submit import MOST_SCHEDULES

ADA, BEN = Actor("ada@lab.example"), Actor("ben@lab.example")


@pytest.fixture
def office(database: Database) -> JobSetup:
    return JobSetup(priced(database))


def refusals(office: JobSetup, wanted: ScheduleOrder) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        office.schedules.create(wanted, None, "cli")
    with office.database.read() as connection:
        assert schedule_rows.page(connection, RowFilters(), None, 10) == []
    return dict(refused.value.fields)


def test_everything_that_is_wrong_is_said_at_once(office: JobSetup) -> None:
    """The times, the schedule's own limits, and the job as it would be launched."""
    wrong = order(
        every="week",
        late=timedelta(days=30),
        name=" nightly",
        template=template(preset="none", command=("train", "{day}"), deadline=NOW + timedelta(days=1)),
    )
    said = refusals(office, wrong)
    assert said["every"].startswith("'week' is no interval")
    assert said["late"] == "A run can be late by 1 min to 7 d: choose a time between them."
    assert "no space at either end" in said["name"]
    assert said["job"].startswith("{day} stands for nothing here: a schedule's job has {schedule}, {date}, {time}")
    assert "cannot hold for all runs" in said["job.deadline"]
    assert "'none'" in said["job.preset"]


def test_development_vm_is_no_job_of_a_schedule(office: JobSetup) -> None:
    """It never ends by itself."""
    assert "launch it by itself" in refusals(office, order(template=template(kind=JobKind.DEV, command=())))["job.kind"]


def test_session_of_a_link_creates_no_schedule(office: JobSetup) -> None:
    """The right ends within hours, and a schedule would keep it."""
    operator = PERMISSIONS[Role.OPERATOR]
    link = Authority(ADA.address, Role.OPERATOR, operator, Via.LINK, is_granted=True)
    with pytest.raises(Invalid, match="make a token"):
        office.schedules.create(order(), None, "page", link)
    token = replace(link, via=Via.TOKEN, token_id="t1")
    assert office.schedules.create(order(), None, "page", token)[1]


def test_repeat_under_its_key_is_the_same_schedule(office: JobSetup) -> None:
    """Another request under that key is refused."""
    first, is_new = office.schedules.create(order(), "key", "cli")
    assert (is_new, office.woken) == (True, 1)
    assert office.schedules.create(order(), "key", "cli") == (first, False)
    with pytest.raises(Conflict, match="another request before"):
        office.schedules.create(order(at="03:00"), "key", "cli")


def test_one_owner_has_a_hundred_schedules_at_most(office: JobSetup) -> None:
    """A script that creates one for each run would fill the list otherwise."""
    with office.database.write() as connection:
        for number in range(MOST_SCHEDULES):
            rows.added(connection, f"n{number}", ADA.address)
    with pytest.raises(Conflict, match="which is the most"):
        office.schedules.create(order(), None, "cli")
    office.schedules.end("n7", ADA)
    assert office.schedules.create(order(), None, "cli")[1]


def test_owner_team_and_admins_change_it_and_nobody_else(office: JobSetup) -> None:
    """The rule is that of cancelling a job."""
    office.rules = replace(RULES, access=Access(operators=frozenset({ADA.address, BEN.address})))
    office.schedules.create(order(), None, "cli")
    service = office.schedules
    for change in (service.pause, service.resume, service.end, service.run_now):
        with pytest.raises(Forbidden, match=f"Only {ADA.address} or an admin can"):
            change("c1", BEN)
    with pytest.raises(Missing):
        service.pause("c9", ADA)
    assert service.end("c1", ADA)[1]


def test_run_under_a_key_is_launched_once(office: JobSetup) -> None:
    """A repeat minutes later is the same run; the key is of one schedule."""
    office.schedules.create(order(), None, "cli")
    office.schedules.create(order(name="other"), None, "cli")
    run = office.schedules.run_now("c1", ADA, "key")
    turn(office)
    settle(office, "j1", JobState.SUCCEEDED)
    office.clock.advance(timedelta(minutes=5))
    assert office.schedules.run_now("c1", ADA, "key").due_at == run.due_at
    assert office.schedules.run_now("c1", ADA).due_at > run.due_at
    with pytest.raises(Conflict, match="another request before"):
        office.schedules.run_now("c2", ADA, "key")


def test_quote_counts_the_runs_of_a_month_and_stores_nothing(office: JobSetup) -> None:
    """The cheapest offer of one run times the due times of 30 days."""
    quoted = office.schedules.quote(order(every="weekday"), timedelta(hours=2))
    assert [f"{due:%a %d}" for due in quoted.next_due[:2]] == ["Mon 23", "Tue 24"]
    assert quoted.runs_a_month == 20
    assert quoted.cost_a_month == Money.of("0.1715").times(2 * 20)
    assert quoted.warnings == ()
    wrong = office.schedules.quote(order(every="week"), timedelta(hours=2))
    assert (wrong.recurrence, wrong.next_due, wrong.runs_a_month, wrong.cost_a_month) == (None, (), 0, Money())


def test_quote_warns_of_what_runs_share(office: JobSetup) -> None:
    """Outputs at one place are published over one another; overlapping runs would save over one another."""
    output = JobOutput("/data/out/model", "gs://lab/models/latest")
    shared = replace(template().spec.checkpoint, location="gs://lab/nightly")  # type: ignore[type-var]
    wanted = order(template=template(outputs=(output,), checkpoint=shared), overlaps=True)
    warnings = office.schedules.quote(wanted, timedelta(hours=2)).warnings
    assert [warning.partition(",")[0] for warning in warnings] == [
        "Runs save to the same place",
        "Runs that overlap would save to that place at the same time.",
        "Runs publish to the same place",
    ]


def test_names_lead_to_the_schedule_that_has_not_ended(office: JobSetup) -> None:
    """A name may be used again once the schedule has ended."""
    office.schedules.create(order(), None, "cli")
    office.schedules.end("c1", ADA)
    schedule, _ = office.schedules.create(order(), None, "cli")
    with office.database.read() as connection:
        assert schedule_rows.id_of(connection, "nightly") == schedule.id == "c2"
    to_due(office, schedule)
    assert turn(office).launched == 1
