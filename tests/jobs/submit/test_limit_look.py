"""A job that is submitted or quoted under limits: it fits now, waits, is refused, or fits never."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.api import rows
from tests.jobs.job_service import RULES, JobSetup, asked
from tests.jobs.queued import ADA, ONE_GPU, queue

from costguard.access.rules import Access
from costguard.db.transaction import Database
from costguard.errors import Conflict, Invalid
from costguard.model.budget import AtLimit, Budget, FleetLimit, Period, Scope
from costguard.model.money import Money
from costguard.model.reminder import Team


@pytest.fixture
def office(sqlite_database: Database) -> JobSetup:
    """Takes jobs in under a limit of one GPU, for which two jobs wait."""
    queue(sqlite_database)
    office = JobSetup(sqlite_database, rules=replace(RULES, fleet_limits=(ONE_GPU,)))
    with sqlite_database.write() as connection:
        rows.prices(connection)
    return office


def test_it_waits_by_default_and_says_behind_what(office: JobSetup) -> None:
    """The quote and the new job say it in the same words."""
    quoted = office.it.quote(asked(), timedelta(hours=1))
    (warning,) = [one for one in quoted.warnings if one.startswith("It would wait for")]
    assert "limit gpus: 1 of 1 GPU in use, and it needs 1 GPU; third in line, behind jobs third and second" in warning
    job, is_new = office.it.submit(asked(), None, "api")
    assert is_new
    assert warning in job.reason


def test_with_no_queue_it_is_a_conflict(office: JobSetup) -> None:
    """The sentence says why, and what to do next."""
    with pytest.raises(Conflict, match="It would wait for limit gpus") as caught:
        office.it.submit(asked(queue=False), None, "api")
    assert caught.value.kind == "over-limit"
    office.rules = replace(office.rules, fleet_limits=())
    assert office.it.submit(asked(queue=False), None, "api")[1]


def test_a_job_that_fits_never_is_refused(office: JobSetup) -> None:
    """It names the limit, what it needs, and what to change."""
    with pytest.raises(Invalid, match="It needs 2 GPUs, and limit gpus allows at most 1 GPU at once: use fewer"):
        office.it.submit(asked(nodes=2), None, "api")
    office.rules = replace(office.rules, fleet_limits=(FleetLimit("money", Scope(), dollars_per_hour=Money.of("0.1")),))
    with pytest.raises(Invalid, match="limit money allows at most"):
        office.it.submit(asked(), None, "api")


def test_a_spent_budget_refuses_unless_the_job_is_to_wait(office: JobSetup) -> None:
    """A job with `queue` is stored, and waits for the next period of the budget."""
    spent = Budget("lab", Scope(), Money(1), Period.DAY, at_limit=AtLimit.REFUSE)
    office.rules = replace(office.rules, fleet_limits=(), budgets=(spent,))
    work = timedelta(hours=1)
    with pytest.raises(Invalid, match="budget lab"):
        office.it.submit(asked(work=work), None, "api")
    assert office.it.submit(asked(work=work, queue=True), None, "api")[1]


def test_who_may_raise_a_priority(office: JobSetup) -> None:
    """Admins, and operators of the owner's team; everybody may lower their own."""
    roles = Access(operators=frozenset({ADA}), admins=frozenset({"root@lab.example"}))
    office.rules = replace(office.rules, fleet_limits=(), access=roles)
    with pytest.raises(Invalid, match="Only an admin may give a priority above 0"):
        office.it.submit(asked(priority=1), None, "api")
    assert office.it.submit(asked(priority=-5), None, "api")[1]
    team = Team("vision", members=frozenset({ADA}), operators=frozenset({ADA}))
    office.rules = replace(office.rules, teams=(team,))
    assert office.it.submit(asked(priority=1), None, "api")[1]
