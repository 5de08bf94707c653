"""The plan of a job with a deadline, as the API shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from costguard.api.fields import Moment, Out, Seconds, one_of, read_from
from costguard.deadlines.situation import Act
from costguard.jobs.plan_rows import StoredPlan
from costguard.jobs.planned import Risk

ActName = Annotated[str, one_of(Act)]


class PlannedStepOut(Out):
    at: Moment
    act: ActName
    zone: str = Field(description="Where Spot is started; empty: nowhere.")
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
    text: str = Field(description="Why, when it is expected to finish, and what would help.")


class WorkLeftOut(Out):
    likely_seconds: Seconds = read_from("likely")
    most_seconds: Seconds = read_from("most", description="What is counted on.")
    source: str


class OverheadOut(Out):
    start_seconds: Seconds = read_from("start", description="From the loss of a VM to work on the next, at most.")
    loss_seconds: Seconds = read_from("loss", description="The most work that a preemption can undo.")


class JobPlanOut(Out):
    """Where it runs now and why."""

    act: ActName
    zone: str
    reason: str
    is_urgent: bool = Field(description="The guard acts: nothing is waited for.")
    work_left: WorkLeftOut | None
    overhead: OverheadOut | None
    latest_safe_at: Moment | None = Field(description="When on-demand must start, if nothing is gained before.")
    finishes_at: Moment | None = Field(description="If nothing interrupts it from now on.")
    behind_seconds: Seconds | None = read_from(
        "behind", description="Behind the straight line from launch to deadline; below zero: ahead of it."
    )
    at_risk: AtRiskOfDeadlineOut | None = Field(description="null: the deadline can be kept.")


class StoredPlanOut(Out):
    updated_at: Moment
    plan: JobPlanOut | None = Field(description="null: it has no deadline, or how much work it is is not known.")
    decisions: Sequence[PlannedStepOut] = Field(description="The oldest first; each holds until the next.")
    curve: Sequence[PlanPointOut] = Field(description="Its progress over time, thinned evenly.")
    shadow: Sequence[ShadowChoiceOut] = Field(description="What each policy would do now.")
    as_if: Moment | None = Field(description="The deadline that the policies assume where the job has none.")


def plan_out(stored: StoredPlan | None) -> StoredPlanOut | None:
    return None if stored is None else StoredPlanOut.read(stored)
