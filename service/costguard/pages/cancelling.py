"""Whether somebody may cancel a job on a page, what is put to them before, and what they are told after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costguard.access import roles as access
from costguard.access.rules import Rules
from costguard.jobs import submission
from costguard.jobs.disk import saves_on_disk
from costguard.jobs.kept_disks import holds
from costguard.model.access import Permission, Principal
from costguard.model.job import Job, JobKind, JobState, SeenCheckpoint
from costguard.pages.asked import BadAddress
from costguard.pages.launch import office
from costguard.pages.source import Source

_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Offer:
    """`is_open`: there is something to cancel. `refusal` says why this person may not; "" where they may."""

    is_open: bool
    refusal: str

    @property
    def is_given(self) -> bool:
        return self.is_open and not self.refusal


def offer(rules: Rules, me: Principal, job: Job) -> Offer:
    is_open = not job.state.is_over and job.cancel_asked_at is None
    return Offer(is_open, _refusal(rules, me, job) if is_open else "")


def what_happens(job: Job) -> list[str]:
    """What cancelling it does, one sentence each."""
    if job.spec.kind is JobKind.DEV:
        return ["Its VM is deleted, and its disk with it. What is not elsewhere is lost.", "It stops billing."]
    if saves_on_disk(job):
        return [
            "Its command gets its notice first, and the time to save; then its VM is stopped.",
            "Its disk holds the only copy of what it saved: it is kept, and bills, until you agree that it goes.",
            "The job cannot be taken up again.",
        ]
    if job.state is not JobState.RUNNING:
        return ["No VM is launched for it any more.", "It cannot be taken up again; another like it can be launched."]
    return [
        "Its command gets its notice first, and the time to save; then its VM is deleted and stops billing.",
        "It cannot be taken up again. Another like it can be launched, and resumes from what was saved.",
    ]


def cancelled(source: Source, me: Principal, job_id: str, form: Mapping[str, str]) -> str:
    """What was stored, in words. Raises JobError, ActorError, and BadAddress where no jobs are taken."""
    by = access.actor(me, form.get("by", "") if not me.address else "")
    reason, delete_disk = form.get("reason", "").strip()[:_LONGEST], form.get("delete_disk") == "yes"
    job, is_new = office(source).cancel(job_id, by.address, reason, by.authority, delete_disk=delete_disk)
    if not is_new:
        return f"{job.title} was cancelled before, or that was asked for."
    return f"Asked to cancel {job.title}; the daemon carries it out within seconds."


def loses(job: Job, checkpoint: SeenCheckpoint | None) -> str:
    """What would be lost with its disk; "" where nothing lies there alone."""
    return holds(checkpoint) if saves_on_disk(job) else ""


def keeps_disk(job: Job) -> bool:
    """Whether its VM is stopped at its end rather than deleted."""
    return saves_on_disk(job) and job.disk_given_up_at is None


def may_delete_disk(rules: Rules, me: Principal, job: Job) -> bool:
    return not _refusal(rules, me, job)


def disk_deleted(source: Source, me: Principal, job_id: str, form: Mapping[str, str]) -> None:
    """Raises JobError, ActorError, and BadAddress where no jobs are taken, or without the explicit agreement."""
    if form.get("agreed") != "yes":
        raise BadAddress(
            "Nothing was deleted: that all of it is lost was not agreed to.", "Tick the box, and try again."
        )
    by = access.actor(me, form.get("by", "") if not me.address else "")
    office(source).delete_disk(job_id, by.address, by.authority)


def _refusal(rules: Rules, me: Principal, job: Job) -> str:
    if not me.may(Permission.JOBS):
        return f"{me.address or 'Who asks'} may look, and not cancel: an admin gives roles under [access]."
    if not me.address:
        return ""  # whom the master token speaks for is asked, and held to it, with the form
    by = access.actor(me)
    return submission.cancel_refusal(by.address, job.spec.owner, job.spec.project, rules, by.authority) or ""
