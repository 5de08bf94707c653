"""Inputs and outputs at a launch: what is there is looked at before money is spent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.api.rows import NOW
from tests.jobs.job_service import RULES, SPOT, JobSetup, asked, priced

from costguard.db.transaction import Database
from costguard.errors import CheckpointLocationMissing, CheckpointLocationRefused, Invalid
from costguard.jobs.rows import job_rows
from costguard.jobs.submit.submission import Submission
from costguard.model.budget import AtLimit, Budget, Period, Scope
from costguard.model.data import StoredSize
from costguard.model.job import JobInput, JobOutput, JobState
from costguard.model.money import Money

SOURCE, PLACE = "s3://acme-data/v7", "s3://acme-models/run-12"


@pytest.fixture
def office(database: Database) -> JobSetup:
    return JobSetup(priced(database))


def moving(**changed: Any) -> Submission:
    return asked(inputs=(JobInput(SOURCE, "/data"),), outputs=(JobOutput("/data/model", PLACE),), **changed)


def test_the_launch_says_what_the_transfer_costs(office: JobSetup) -> None:
    """The cost is in the job's reason and in the audit log; the quote has it as a figure."""
    office.buckets.sizes[SOURCE] = StoredSize(1 << 40, 900, region="us-east-1")
    quote = office.it.quote(moving(), timedelta(hours=1))
    assert str(quote.moves[0].cost) == "$92.16"
    job, _ = office.it.submit(moving(), None, "cli")
    assert "1.0 TiB from s3://acme-data/v7: about $92.16 of transfer on the AWS side" in job.reason


def test_budgets_have_to_pay_for_the_first_download(office: JobSetup) -> None:
    """An hour costs $0.17, and its data $92.16: a quote subtracts both, and a budget of $50 refuses the launch."""
    office.buckets.sizes[SOURCE] = StoredSize(1 << 40, 900, region="us-east-1")
    day = Budget("lab", Scope(project="lab"), Money.of(50), Period.DAY, at_limit=AtLimit.REFUSE)
    office.rules = replace(RULES, budgets=(day,))
    (budget,) = office.it.quote(moving(), timedelta(hours=1)).budgets
    assert budget.left_after == Money.of("50") - Money.of(SPOT) - Money.of("92.16")
    with pytest.raises(Invalid, match=r"It would cost about \$92\.33 until .*, and budget lab has \$50"):
        office.it.submit(moving(work=timedelta(hours=1)), None, "cli")


def test_a_missing_bucket_is_refused(office: JobSetup) -> None:
    """Missing buckets of an input and of an output are refused, both at once."""
    for address in (SOURCE, PLACE):
        office.buckets.sizes[address] = CheckpointLocationMissing(f"There is no bucket for {address}.", "Check it.")
    with pytest.raises(Invalid) as refused:
        office.it.submit(moving(), None, "cli")
    assert [where for where, _ in refused.value.fields] == ["inputs.0.source", "outputs.0.destination"]


def test_an_input_with_nothing_in_it_is_refused(office: JobSetup) -> None:
    """A misspelt path lists nothing, and the command would start without its data."""
    office.buckets.sizes[SOURCE] = StoredSize(0, 0)
    with pytest.raises(Invalid, match="There is nothing at s3://acme-data/v7"):
        office.it.submit(moving(), None, "cli")


def test_a_published_output_is_not_written_over(office: JobSetup) -> None:
    """A published output stays, because its readers rely on its marker."""
    office.buckets.sizes[PLACE] = StoredSize(10, 2, is_published=True)
    with pytest.raises(Invalid, match="An output was published at s3://acme-models/run-12 before"):
        office.it.submit(moving(), None, "cli")


def test_two_open_jobs_do_not_publish_to_one_place(office: JobSetup) -> None:
    """Two jobs may not publish one below the other's place; once the first is over, its marker protects what it
    published.
    """
    first, _ = office.it.submit(moving(name="first"), None, "cli")
    with pytest.raises(Invalid, match="Job first, which is not over, publishes there too"):
        office.it.submit(asked(outputs=(JobOutput("/out", f"{PLACE}/below"),)), None, "cli")
    office.it.submit(asked(outputs=(JobOutput("/out", f"{PLACE}-2"),)), None, "cli")
    with office.database.write() as connection:
        job_rows.set_state(connection, first.id, JobState.FAILED, "it failed", None, NOW)
    office.it.submit(moving(), None, "cli")


def test_other_files_at_a_destination_are_a_warning(office: JobSetup) -> None:
    """They may be meant to be there."""
    office.buckets.sizes[PLACE] = StoredSize(10, 2)
    quote = office.it.quote(moving(), timedelta(hours=1))
    assert quote.refusals == []
    assert any("There are files at s3://acme-models/run-12 already" in warning for warning in quote.warnings)


def test_what_only_the_vms_may_read_is_a_warning_and_an_unknown_cost(office: JobSetup) -> None:
    """The guard's own account need not read the data."""
    office.buckets.sizes[SOURCE] = CheckpointLocationRefused(f"{SOURCE}: it may not be read (403).", "Allow it.")
    quote = office.it.quote(moving(), timedelta(hours=1))
    assert quote.refusals == []
    assert quote.moves[0].cost is None
    assert any("it may not be read" in warning for warning in quote.warnings)


def test_a_job_that_names_its_own_endpoint_is_looked_at_there(office: JobSetup) -> None:
    """A bucket of the same name at Amazon says nothing of it."""
    environment = {"AWS_ENDPOINT_URL": "https://general.example", "AWS_ENDPOINT_URL_S3": "https://minio.example"}
    quote = office.it.quote(moving(environment=environment), timedelta(hours=1))
    assert office.buckets.endpoints == ["https://minio.example", "https://minio.example"]
    assert "another provider" in quote.moves[0].note


def test_an_address_that_is_refused_is_not_looked_at(office: JobSetup) -> None:
    """No request goes to what is no bucket, or holds a credential."""
    office.it.quote(asked(inputs=(JobInput("s3://A!/v7", "/data"),)), timedelta(hours=1))
    assert office.buckets.endpoints == []
