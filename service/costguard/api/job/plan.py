"""The plan of a job with a deadline, as the API shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from costguard.api.fields import Moment, Out, Seconds, one_of, read_from
from costguard.deadlines.situation import Act
from costguard.jobs.decide.planned import Risk, StoredPlan

ActName = Annotated[str, one_of(Act)]


class PlannedStepOut(Out):
    at: Moment
    act: ActName
    zone: str = Field(description="The zone in which Spot is started; empty: none.")
    reason: str
    latest_safe_at: Moment | None


class PlanPointOut(Out):
    at: Moment
    work_left_seconds: Seconds = read_from("work_left")
    latest_safe_at: Moment | None


class ShadowChoiceOut(Out):
    policy: str
    act: ActName
    zone: str
    reason: str


class AtRiskOfDeadlineOut(Out):
    risk: Annotated[str, one_of(Risk)]
    text: str = Field(description="Explains why, when the job is expected to finish, and what would help.")


class WorkLeftOut(Out):
    likely_seconds: Seconds = read_from("likely")
    most_seconds: Seconds = read_from("most", description="The upper estimate, which decisions use.")
    source: str


class OverheadOut(Out):
    start_seconds: Seconds = read_from(
        "start", description="The longest time from the loss of a VM to work on the next."
    )
    loss_seconds: Seconds = read_from("loss", description="The most work that a preemption can undo.")


class JobPlanOut(Out):
    """The plan of a job with a deadline: where it runs now and why."""

    act: ActName
    zone: str
    reason: str
    is_urgent: bool = Field(description="True: the guard acts at once and waits for nothing.")
    work_left: WorkLeftOut | None
    overhead: OverheadOut | None
    latest_safe_at: Moment | None = Field(
        description="The latest time at which on-demand must start, if the job gains nothing before."
    )
    finishes_at: Moment | None = Field(description="The expected end if nothing interrupts it from now on.")
    behind_seconds: Seconds | None = read_from(
        "behind", description="Seconds behind the straight line from launch to deadline; below zero: ahead of it."
    )
    at_risk: AtRiskOfDeadlineOut | None = Field(description="The risk to the deadline; null: the deadline can be kept.")


class StoredPlanOut(Out):
    updated_at: Moment
    plan: JobPlanOut | None = Field(
        description="The plan; null: the job has no deadline, or its amount of work is not known."
    )
    decisions: Sequence[PlannedStepOut] = Field(
        description="The decisions, the oldest first; each holds until the next."
    )
    curve: Sequence[PlanPointOut] = Field(description="The progress over time, thinned evenly.")
    shadow: Sequence[ShadowChoiceOut] = Field(description="The present decision of each policy.")
    as_if: Moment | None = Field(description="The deadline that the policies assume where the job has none.")


def plan_out(stored: StoredPlan | None) -> StoredPlanOut | None:
    return None if stored is None else StoredPlanOut.read(stored)
