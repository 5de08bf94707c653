"""Jobs that are submitted to run on a reservation: what is refused, what is warned of, and what ends with it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.api.rows import NOW
from tests.jobs.job_service import ON_DEMAND, JobSetup, asked, priced

from costguard.db.transaction import Database
from costguard.errors import Invalid
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.job_rows import JobFilters
from costguard.jobs.submit.cost.offers import Chance
from costguard.jobs.submit.quote import JobQuote
from costguard.jobs.submit.submit import Overrides
from costguard.model.buying import RESERVED
from costguard.model.job import Job, JobKind
from costguard.model.launch import ReservedVms
from costguard.model.money import Money

HOUR = timedelta(hours=1)
A, B = "us-central1-a", "us-central1-b"
ROOMY = ReservedVms("n1-standard-4", "nvidia-tesla-t4", 1, 2, 0, must_be_named=True, ends_at=None)
BILLS = (
    "Reservation train bills whether it is used or not: an hour of it costs as an hour on demand, and no more while "
    "this job uses it."
)


def office_with(database: Database, **zones: ReservedVms) -> JobSetup:
    """Returns an office whose cloud has a reservation in zones `a` and `b` as given."""
    return JobSetup(priced(database), reserved={{"a": A, "b": B}[name]: one for name, one in zones.items()})


def quoted(office: JobSetup, **changed: Any) -> JobQuote:
    return office.it.quote(asked(Overrides(buy="reserved:train"), **changed), HOUR)


def submitted(office: JobSetup, **changed: Any) -> Job:
    return office.it.submit(asked(Overrides(buy="reserved:train"), **changed), None, "cli")[0]


def refused(office: JobSetup) -> list[tuple[str, str]]:
    """Returns the refusals by part; nothing was stored."""
    with pytest.raises(Invalid) as error:
        submitted(office)
    with office.database.read() as connection:
        assert job_rows.page(connection, JobFilters(), None, 100) == []
    return list(error.value.fields)


def test_it_costs_as_on_demand_where_it_is_reserved(sqlite_database: Database) -> None:
    """It starts in the one zone that has the reservation; a ceiling counts, and what bills anyway is said."""
    office = office_with(sqlite_database, b=ROOMY)
    answer = quoted(office, work=2 * HOUR, ceiling=Money.of(5))
    assert (answer.refusals, answer.warnings) == ([], (BILLS,))
    assert answer.first is not None
    assert (answer.first.zone, answer.first.provisioning_model) == (B, RESERVED)
    assert answer.first.rate == Money.of(ON_DEMAND)
    assert answer.feasibility.within_ceiling is Chance.YES
    assert [place.zone for place in answer.places] == [B]
    assert submitted(office).recipe.zones == (B,)


def test_a_reservation_that_is_nowhere(sqlite_database: Database) -> None:
    """Refused where it was named, with the zones that were looked at."""
    (refusal,) = refused(office_with(sqlite_database))
    assert refusal == (
        "overrides.buy",
        "There is no reservation train in us-central1-a and us-central1-b: check its name, its project and the zones, "
        "with `gcloud compute reservations list`.",
    )


@pytest.mark.parametrize(
    ("reservation", "why"),
    [
        (replace(ROOMY, must_be_named=False), "is open to all VMs that fit, and cannot be named"),
        (replace(ROOMY, machine_type="n1-standard-8"), "is of n1-standard-8, and the job's VMs are n1-standard-4"),
        (replace(ROOMY, gpu_type="nvidia-tesla-v100"), "has 1 nvidia-tesla-v100, and the job's VMs have 1 nvidia-te"),
        (replace(ROOMY, gpu_type="", gpu_count=0), "has no GPU, and the job's VMs have 1 nvidia-tesla-t4"),
        (replace(ROOMY, ends_at=NOW + timedelta(minutes=9)), "which leaves less than 10 min for a VM"),
    ],
)
def test_a_reservation_that_does_not_fit(sqlite_database: Database, reservation: ReservedVms, why: str) -> None:
    """Open to all, of another machine or GPU, or all but over: refused with what to do."""
    ((where, message),) = refused(office_with(sqlite_database, a=reservation))
    assert where == "overrides.buy"
    assert f"Reservation train in us-central1-a {why}" in message or why in message


def test_the_zone_that_fits_is_used(sqlite_database: Database) -> None:
    """A reservation of another machine in another zone refuses nothing."""
    office = office_with(sqlite_database, a=replace(ROOMY, machine_type="n1-standard-8"), b=ROOMY)
    assert submitted(office).recipe.zones == (B,)


def test_a_full_one_is_waited_for(sqlite_database: Database) -> None:
    """A warning with its use, and no refusal."""
    full = replace(ROOMY, in_use=2)
    job = submitted(office_with(sqlite_database, a=full))
    assert (
        "Reservation train is full now (2 of 2 in use in us-central1-a): the job waits until one is free." in job.reason
    )


def test_one_zone_with_room_is_no_wait(sqlite_database: Database) -> None:
    """Nothing is full as long as a zone has room."""
    assert quoted(office_with(sqlite_database, a=replace(ROOMY, in_use=2), b=ROOMY)).warnings == (BILLS,)


def test_what_google_does_not_say_refuses_nothing(sqlite_database: Database) -> None:
    """The zone that could not be read is kept, and the quote says so."""
    office = office_with(sqlite_database)
    office.hidden = frozenset({A})
    answer = quoted(office)
    assert answer.refusals == []
    assert answer.warnings[1] == "Whether us-central1-a has reservation train is not known: Google does not answer."
    assert submitted(office).recipe.zones == (A,)


def test_its_end_is_the_deadline(sqlite_database: Database) -> None:
    """A job without a deadline gets it; the recipe keeps the end for the limit of each VM."""
    ends = NOW + 5 * HOUR
    job = submitted(office_with(sqlite_database, a=replace(ROOMY, ends_at=ends)))
    assert (job.spec.deadline, job.recipe.reservation_ends_at) == (ends, ends)
    assert "and its VMs with it: the job must end by then, which is its deadline." in job.reason


def test_a_later_deadline_is_warned_of(sqlite_database: Database) -> None:
    """The deadline stays; what is missing of it is said."""
    office = office_with(sqlite_database, a=replace(ROOMY, ends_at=NOW + 5 * HOUR))
    late = quoted(office, deadline=NOW + 7 * HOUR)
    assert late.spec.deadline == NOW + 7 * HOUR
    assert any("2 h before the job's deadline: it has no VM after that." in one for one in late.warnings)
    early = quoted(office, deadline=NOW + 3 * HOUR)
    assert any("and its VMs with it, after the job's deadline." in one for one in early.warnings)


def test_too_much_work_until_its_end_is_refused(sqlite_database: Database) -> None:
    """The rule of any deadline holds: the VM is certain to be had, and the time is not enough."""
    office = office_with(sqlite_database, a=replace(ROOMY, ends_at=NOW + 5 * HOUR))
    assert [one.where for one in quoted(office, work=6 * HOUR).refusals] == ["deadline"]
    enough = quoted(office, work=2 * HOUR)
    assert (enough.refusals, enough.feasibility.meets_deadline) == ([], Chance.YES)


def test_a_development_vm_has_no_deadline(sqlite_database: Database) -> None:
    """It ends with the reservation, which is said."""
    office = office_with(sqlite_database, a=replace(ROOMY, ends_at=NOW + 5 * HOUR))
    job = submitted(office, kind=JobKind.DEV, command=())
    assert job.spec.deadline is None
    assert "and its VMs with it." in job.reason
