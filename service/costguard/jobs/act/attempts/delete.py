"""Steps that delete job VMs: by numeric id, repeatedly, and done only when the VM is seen to be gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions import ending_vms
from costguard.actions.execute import StepDefaults, Urgency
from costguard.errors import CloudError, NotFound
from costguard.events import audit_log
from costguard.jobs.act.attempts.vm_request import GUARD_LABEL
from costguard.jobs.act.attempts.vm_step import AttemptStep, LaunchContext, is_of, request_uuid, retry_changes
from costguard.jobs.decide.actions import DeleteOrphan
from costguard.jobs.rows import attempts, job_events
from costguard.jobs.rows.attempts import JobVm
from costguard.keepers.reading import own_group
from costguard.ledger import unknown_vms
from costguard.ledger.unknown_vms import UnknownVmVerdict
from costguard.model.attempt import AttemptState, labelled_attempt
from costguard.model.backoff import Backoff
from costguard.model.generation import REQUEST_LABEL
from costguard.model.instance import InstanceKey, Status
from costguard.model.launch import GroupAddress

_BACKOFF = Backoff(timedelta(seconds=20), timedelta(minutes=2))
_ON_ITS_WAY = frozenset({Status.STOPPING, Status.DEPROVISIONING})
# An unanswered insert may still take effect until then. Before that a 404 is not believed.
_LATE = timedelta(minutes=2)
_ENDED = (AttemptState.ENDING, AttemptState.KEPT)
_DOWN = _ON_ITS_WAY | {Status.STOPPED}


@dataclass(slots=True)
class DeleteStep(AttemptStep):
    """The VM of an attempt whose outcome is known; that it was never there is found out here as well."""

    gce_id: str = ""
    is_gone: bool = False
    is_asked: bool = False
    urgency: Urgency = field(default=Urgency.STOP, init=False)

    def call(self) -> None:
        attempt = self.attempt
        seen = self.means.launcher.look(attempt.project, attempt.zone, attempt.name)
        if seen is None or not is_of(seen, attempt, self.means.maker):
            self.is_gone = True
            return
        self.gce_id = seen.gce_id
        if seen.status in _ON_ITS_WAY and attempt.delete_asked_at is not None:
            return
        uuid = request_uuid(attempt.project, attempt.name, f"delete/{seen.gce_id}/{attempt.tries}")
        address, is_own = (attempt.project, attempt.zone, attempt.name), bool(attempt.gce_id)
        ending_vms.delete(self.means.launcher, address, seen, uuid, is_own=is_own)
        self.is_asked = True

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        attempt, ending = self.attempt, _ENDED
        if isinstance(error, NotFound):
            # It was there a moment ago: the next look says so for certain.
            attempts.change(connection, attempt.id, ending, try_after=now, error="")
            return True
        if error is not None:
            changes = retry_changes(attempt, error, now)
            if self.gce_id:
                changes["gce_id"] = self.gce_id
            attempts.change(connection, attempt.id, ending, **changes)
            return False
        if self.is_gone:
            return self._gone(connection, now)
        attempts.change(
            connection,
            attempt.id,
            ending,
            state=AttemptState.ENDING,
            gce_id=self.gce_id,
            delete_asked_at=attempt.delete_asked_at or now,
            tries=attempt.tries + 1 if self.is_asked else attempt.tries,
            try_after=now + _BACKOFF.after(attempt.tries + 1),
            error="",
        )
        return False

    def _gone(self, connection: Connection, now: datetime) -> bool:
        attempt, ending = self.attempt, _ENDED
        until = (attempt.ended_at or attempt.intended_at) + _LATE
        if not attempt.gce_id and not attempt.operation and now < until:
            attempts.change(connection, attempt.id, ending, try_after=until)
            return False
        over = AttemptState.OVER
        attempts.change(connection, attempt.id, ending, state=over, gone_at=now, try_after=None, error="")
        return False


@dataclass(slots=True)
class DeleteOrphanStep(StepDefaults):
    """A VM of ours that no live attempt stands for. Nothing of it is stored but that it was deleted.

    One whose disk holds the only copy of what a job saved is stopped instead, and bills for its disk alone.
    """

    means: LaunchContext
    guard_id: str
    action: DeleteOrphan  # of a VM whose giving up the ledger proves
    is_asked: bool = False
    is_own: bool = False  # by its id
    over_groups: set[str] = field(default_factory=set)  # all of whose attempts are over
    asked_in: str = ""
    urgency: Urgency = field(default=Urgency.STOP, init=False)
    subject: str = field(default="", init=False)

    @property
    def project(self) -> str:
        return self.action.project

    def intend(self, connection: Connection, now: datetime) -> bool:
        """An attempt may have come to stand for it meanwhile, or an admin may have changed their mind."""
        self.asked_in = f"{now:%Y%m%d%H%M}"  # what failed once is asked under another request id a minute later
        action = self.action
        named = attempts.of_instances(connection, action.project, names=[action.name])
        if any(stands_for(attempt, action.gce_id) for attempt in named):
            return False
        self.is_own = any(attempt.gce_id == action.gce_id for attempt in named)
        every = attempts.of_jobs(connection, {attempt.job_id for attempt in named}).values()
        of_group = [one for some in every for one in some if one.vm_group]
        live = {one.vm_group for one in of_group if one.state is not AttemptState.OVER}
        self.over_groups = {one.vm_group for one in of_group} - live
        if any(gave_up(attempt, action.gce_id, action.request_uuid) for attempt in named):
            return True
        return unknown_vms.verdict_on(connection, InstanceKey(action.project, action.gce_id)) is UnknownVmVerdict.DELETE

    def call(self) -> None:
        action = self.action
        seen = self.means.launcher.look(action.project, action.zone, action.name)
        if seen is None or seen.gce_id != action.gce_id:
            return
        is_named = labelled_attempt(seen.labels, action.name) == action.name
        ours = seen.labels.get(GUARD_LABEL) == self.guard_id and is_named
        ours = ours and seen.labels.get(REQUEST_LABEL, "") == action.request_uuid
        if not ours or seen.status in _ON_ITS_WAY:
            return
        address = (action.project, action.zone, action.name)
        if action.keeps_disk:
            if seen.status not in _DOWN:
                uuid = request_uuid(action.project, action.name, f"orphan-stop/{action.gce_id}/{self.asked_in}")
                ending_vms.stop(self.means.launcher, address, seen, uuid, is_own=self.is_own)
                self.is_asked = True
            return
        uuid = request_uuid(action.project, action.name, f"orphan/{action.gce_id}/{self.asked_in}")
        if group := own_group(seen.labels, seen.origin):
            self._delete_from(GroupAddress(action.project, action.zone, group), uuid)
            return
        ending_vms.delete(self.means.launcher, address, seen, uuid, is_own=self.is_own)
        self.is_asked = True

    def _delete_from(self, group: GroupAddress, uuid: str) -> None:
        """Has its group delete it; with the group itself, where the ledger is done with all of its VMs."""
        if group.name in self.over_groups:
            self.means.launcher.groups.delete_group(group, uuid)
        else:
            self.means.launcher.groups.delete_vms(group, [self.action.name], uuid)
        self.is_asked = True

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        if error is None and self.is_asked:
            named = (self.action.project, self.action.zone, self.action.name, self.action.gce_id)
            event = job_events.orphan_kept if self.action.keeps_disk else job_events.orphan_deleted
            audit_log.append(connection, [event(*named, self.action.reason, now)], now)
        return False


def stands_for(row: JobVm, gce_id: str) -> bool:
    """Says whether this attempt answers for that VM: deleting it is its own affair."""
    return row.is_live and row.gce_id in ("", gce_id)


def gave_up(row: JobVm, gce_id: str, request_uuid: str) -> bool:
    """Says whether this row proves that the ledger made the intent to launch that VM, and gave it up.

    Its name alone proves nothing: an older database that was restored gives it out again. `request_uuid` is the one in
    its label; a VM without one was launched before that label existed, and only its id is proof.
    """
    return not row.is_live and (row.gce_id == gce_id or (bool(request_uuid) and row.request_uuid == request_uuid))
