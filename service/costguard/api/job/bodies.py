"""Requests for jobs, quotes and cancellations, as the API receives them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import Field

from costguard.api.fields import Address, Body, Text
from costguard.api.job.options import Hours, takes_options, values_of, whole_hours
from costguard.jobs.submit.check.options import submission_of
from costguard.jobs.submit.submission import Submission


@takes_options("checkpoint")
class CheckpointBody(Body):
    """Where the command saves, how that is recognised, and how it resumes."""


@takes_options("metric")
class MetricBody(Body):
    """A number that the command prints."""


@takes_options("overrides")
class OverridesBody(Body):
    """Deviations from the preset's recipe. Operators may override what the preset allows."""


@takes_options("")
class JobBody(Body):
    """A job to launch or to quote. What is left out is as its preset or its default has it."""

    checkpoint: CheckpointBody | None = Field(
        None, description="The place of its checkpoints, and how it resumes; null: nothing is kept."
    )
    metric: MetricBody | None = Field(None, description="A number in the output, such as a validation loss.")
    overrides: OverridesBody | None = Field(None, description="Deviations from the preset; null: none.")
    if TYPE_CHECKING:
        owner: str

    def submission(self, owner: str) -> Submission:
        values: dict[str, Any] = values_of(self)
        for group in ("checkpoint", "metric", "overrides"):
            if (part := getattr(self, group)) is not None:
                values |= values_of(part, group)
        return submission_of(values, owner)


class QuoteBody(JobBody):
    hours: Hours = Field(1.0, description="The running time to quote for.")

    @property
    def span(self) -> timedelta:
        return whole_hours(self.hours)


class DeleteDiskBody(Body):
    by: Address | None = Field(
        None, description="The address of the person who confirms it; default: the caller. Only admins name another."
    )


class DrillBody(Body):
    by: Address | None = Field(
        None, description="The requester's address; default: the caller. Only admins name another."
    )


class NeverMindBody(Body):
    by: Address | None = Field(
        None, description="The requester's address; default: the caller. Only admins name another."
    )


class CancelBody(Body):
    by: Address | None = Field(
        None, description="The address of the person who cancels; default: the caller. Only admins name another."
    )
    reason: Text = ""
    delete_disk: bool = Field(
        False,
        description="Delete also the disk that holds the only copy of what the job saved. By default it is kept, and "
        "bills.",
    )
    after_checkpoint: bool = Field(
        False,
        description=(
            "True: cancels once a checkpoint was written after this request, or at once where none of its VMs runs."
        ),
    )
