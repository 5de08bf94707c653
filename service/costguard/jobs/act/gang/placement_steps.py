"""Steps that make and delete the placement policies of jobs, and look at them first: a crash between any two calls
leaves none that is made twice or forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions.execute import StepDefaults, Urgency
from costguard.errors import AlreadyExists, CloudError, NotFound, RequestRefused
from costguard.events import audit_log
from costguard.jobs.act.attempts.vm_step import LaunchContext, request_uuid, retry_at
from costguard.jobs.rows import job_events, job_rows
from costguard.jobs.rows.gang import placement_rows
from costguard.model.backoff import Backoff
from costguard.model.job import Job
from costguard.model.launch import PlacementPolicy, PolicyAnswer

_READY, _COMING = "READY", frozenset({"", "CREATING"})
_SOON = timedelta(seconds=2)  # until a policy that Google makes is looked at again
_LATE = timedelta(minutes=2)  # until then an unanswered insert may still take effect
_BACKOFF = Backoff(timedelta(seconds=20), timedelta(minutes=10))


@dataclass(slots=True)
class MakePolicyStep(StepDefaults):
    """The compact placement policy of a job in a region, which its VMs there will name."""

    means: LaunchContext
    job: Job
    region: str
    policy: PlacementPolicy | None = None
    seen: PolicyAnswer | None = None
    urgency: Urgency = field(default=Urgency.LAUNCH, init=False)

    @property
    def subject(self) -> str:
        return self.job.id

    @property
    def project(self) -> str:
        return self.job.spec.project

    def intend(self, connection: Connection, now: datetime) -> bool:
        self.policy = placement_rows.want(connection, self.job.id, self.project, self.region, now)
        return self.policy.ready_at is None and not self.policy.refused and self.policy.gone_at is None

    def call(self) -> None:
        policy, launcher = _given(self.policy), self.means.launcher
        self.seen = launcher.placement_policy(policy.project, policy.region, policy.name)
        if self.seen is None:
            what = f"policy/{policy.region}/{policy.wanted_at.isoformat()}/{policy.tries}"
            uuid = request_uuid(policy.project, policy.name, what)
            description = _described(self.means, policy.job_id)
            launcher.make_placement_policy(policy.project, policy.region, policy.name, description, uuid)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        policy, seen = _given(self.policy), self.seen
        if isinstance(error, RequestRefused):
            placement_rows.change(connection, policy, refused=error.message.rstrip("."), error=str(error))
            return True
        if error is not None and not isinstance(error, AlreadyExists):
            tries = policy.tries + 1
            placement_rows.change(connection, policy, tries=tries, try_after=retry_at(tries, now), error=str(error))
            return False
        if seen is None or (seen.status in _COMING and _is_ours(self.means, policy, seen)):
            placement_rows.change(connection, policy, try_after=now + _SOON, error="")
            return False
        if seen.status != _READY or not _is_ours(self.means, policy, seen):
            placement_rows.change(connection, policy, refused=_unfit(policy, seen, self.means))
            return True
        if placement_rows.change(connection, policy, ready_at=now, tries=0, try_after=None, error=""):
            event = job_events.policy_made(self.job, policy.name, policy.region, now)
            audit_log.append(connection, [event], now)
        return True


@dataclass(slots=True)
class DeletePolicyStep(StepDefaults):
    """A placement policy whose job is over and has no VM any more."""

    means: LaunchContext
    policy: PlacementPolicy
    is_gone: bool = False
    urgency: Urgency = field(default=Urgency.STOP, init=False)

    @property
    def subject(self) -> str:
        return self.policy.job_id

    @property
    def project(self) -> str:
        return self.policy.project

    def call(self) -> None:
        policy, launcher = self.policy, self.means.launcher
        seen = launcher.placement_policy(policy.project, policy.region, policy.name)
        self.is_gone = seen is None or not _is_ours(self.means, policy, seen)
        if seen is not None and not self.is_gone:
            uuid = request_uuid(policy.project, policy.name, f"delete-policy/{policy.region}/{policy.tries}")
            launcher.delete_placement_policy(policy.project, policy.region, policy.name, uuid)

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        policy = self.policy
        if error is None and self.is_gone and (policy.ready_at is not None or now >= policy.wanted_at + _LATE):
            if placement_rows.change(connection, policy, gone_at=now, try_after=None, error=""):
                job = job_rows.of_ids(connection, [policy.job_id])[policy.job_id]
                events = [job_events.policy_deleted(job, policy.name, policy.region, now)] if policy.ready_at else []
                audit_log.append(connection, events, now)
            return False
        tries = policy.tries + 1
        why = "" if error is None or isinstance(error, NotFound) else str(error)
        placement_rows.change(connection, policy, tries=tries, try_after=now + _BACKOFF.after(tries), error=why)
        return False


def _described(means: LaunchContext, job_id: str) -> str:
    """Returns the description by which a policy of this installation is recognised: policies have no labels."""
    return f"Costguard {means.maker.guard_id}: VMs of job {job_id}"


def _is_ours(means: LaunchContext, policy: PlacementPolicy, seen: PolicyAnswer) -> bool:
    return seen.description == _described(means, policy.job_id)


def _unfit(policy: PlacementPolicy, seen: PolicyAnswer, means: LaunchContext) -> str:
    if not _is_ours(means, policy, seen):
        return (
            f"the name {policy.name} is taken in {policy.region} by a policy that this installation did not make; it "
            "is left alone"
        )
    return f"Google shows it as {seen.status}"


def _given(policy: PlacementPolicy | None) -> PlacementPolicy:
    if policy is None:
        raise ValueError("a placement policy was asked for before it was intended")
    return policy
