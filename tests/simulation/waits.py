"""Checks whether a job with a deadline that may use Spot alone waited while Spot was available."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costguard.deadlines.situation import Act
from costguard.jobs.rows import job_rows, plan_rows

if TYPE_CHECKING:
    from tests.simulation.life import Life

_NONE_OPEN = "no Spot zone"  # how a plan says that none has room, or a price that the job can pay


def no_job_waits_with_spot_to_be_had(life: Life) -> list[str]:
    """Where no on-demand VM may be used, Spot is asked for as soon as a zone is not known to be out."""
    with life.ledger.read() as connection:
        jobs = job_rows.of_ids(connection, life.jobs.trainings).values()
        mine = [job for job in jobs if job.spec.deadline is not None and not job.recipe.falls_back_to_on_demand]
        stored = plan_rows.of_jobs(connection, [job.id for job in mine])
    life.counts["jobs on Spot alone by a deadline"] = len(mine)
    return [
        f"job {plan.job_id} waited at {decision.at} with Spot to be had: {decision.reason}"
        for plan in stored.values()
        for decision in plan.decisions
        if decision.act == Act.WAIT and _NONE_OPEN not in decision.reason
    ]
