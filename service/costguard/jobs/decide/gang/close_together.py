"""Decides that the placement policy of a job is there before any of its VMs is requested, which names it."""

from __future__ import annotations

from dataclasses import replace

from costguard.jobs.decide.actions import LaunchAttempt, MakePlacementPolicy, Proposal
from costguard.jobs.decide.view import JobContext, JobView, earliest, is_due, without_vm
from costguard.model.instance import region_of
from costguard.model.job import JobState
from costguard.model.launch import Placement, policy_name


def with_policy(view: JobView, step: Proposal, context: JobContext) -> Proposal:
    """Returns the step with its launches held back until their region has the job's placement policy."""
    launches = [action for action in step.actions if isinstance(action, LaunchAttempt)]
    if not launches or view.job.spec.placement is Placement.ANY:
        return step
    region = region_of(launches[0].zone)
    policy = next((one for one in view.policies if one.region == region and one.gone_at is None), None)
    if policy is not None and policy.ready_at is not None:
        return step
    others = tuple(action for action in step.actions if not isinstance(action, LaunchAttempt))
    name = f"its placement policy {policy_name(view.job.id)} in {region}"
    if policy is not None and policy.refused:
        return Proposal(JobState.FAILED, f"Google refused {name}: {policy.refused}", others)
    state = view.job.state if any(seen.attempt.is_open for seen in view.attempts) else without_vm(view)
    error = f" ({policy.error})" if policy is not None and policy.error else ""
    due = policy.try_after if policy is not None else None
    if not is_due(due, context.now):
        return Proposal(state, f"{name} is made before its VMs{error}", others, earliest(step.next_at, due))
    make = MakePlacementPolicy(view.job.id, region)
    return replace(step, state=state, reason=f"{name} is made before its VMs{error}", actions=(*others, make))
