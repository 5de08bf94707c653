"""Steps that give VMs of a group back: each through its group, and group and template with the last of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions import ending_vms
from costguard.actions.execute import Urgency
from costguard.errors import CloudError, NotFound
from costguard.jobs.act.attempts.vm_step import is_of, request_uuid, retry_changes
from costguard.jobs.act.groups.group_insert import GroupStep, address_of
from costguard.jobs.rows import attempts
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.backoff import Backoff
from costguard.model.instance import Status
from costguard.model.launch import ResizeState
from costguard.model.observation import Sighting

_BACKOFF = Backoff(timedelta(seconds=10), timedelta(minutes=2))
_ON_ITS_WAY = frozenset({Status.STOPPING, Status.DEPROVISIONING})
_ENDED = (AttemptState.ENDING,)
# A change that was not answered may still take effect until then. Before that, nothing is believed to be gone.
_LATE = timedelta(minutes=2)
_AGAIN = timedelta(minutes=5)  # since its deletion was requested: a group that is there still is deleted again


@dataclass(slots=True)
class GroupDeleteStep(GroupStep):
    """Attempts of one group whose outcome is known.

    While the group has others, VMs are deleted by it, and a request that waits is cancelled. With the last of them, the
    group goes, which takes its VMs and requests along ("About resize requests in a MIG"), and then its template. Until
    then one attempt at least is not over, and a guard that ended goes on from there.
    """

    is_last: bool = False
    is_going: bool = False  # what is left of them was deleted a moment ago
    dead_requests: frozenset[str] = frozenset()  # none of whose attempts is open
    seen: dict[int, Sighting] = field(default_factory=dict)  # VMs of ours that are there, by attempt
    gone: set[int] = field(default_factory=set)  # attempts of which nothing is left
    is_asked: bool = False
    urgency: Urgency = field(default=Urgency.STOP, init=False)

    def intend(self, connection: Connection, now: datetime) -> bool:
        """Looks which attempts of the group are open now: one may have been requested since."""
        every = attempts.of_jobs(connection, [self.job.id]).get(self.job.id, [])
        mine = [one for one in every if one.vm_group == self.attempts[0].vm_group]
        is_open = {one.resize_request for one in mine if one.is_open}
        self.is_last = not is_open
        deleted_at = [one.delete_asked_at for one in self.attempts]
        self.is_going = all(moment is not None and now - moment < _AGAIN for moment in deleted_at)
        self.dead_requests = frozenset({one.resize_request for one in mine} - is_open)
        return True

    def call(self) -> None:
        if self.is_last:
            self._end_group()
        else:
            self._delete_members()

    def _end_group(self) -> None:
        lead, groups = self.attempts[0], self.means.launcher.groups
        group = address_of(lead)
        parts = groups.parts(group)
        if parts.has_group:
            if not self.is_going:
                groups.delete_group(group, self._uuid("group"))
                self.is_asked = True
            return
        self._look()
        for attempt in self.attempts:  # a VM that was taken out of its group
            if (seen := self.seen.get(attempt.id)) is not None and seen.status not in _ON_ITS_WAY:
                address = (attempt.project, attempt.zone, attempt.name)
                ending_vms.delete(self.means.launcher, address, seen, self._uuid(seen.gce_id), is_own=True)
                self.is_asked = True
        if self.seen:
            return
        if parts.has_template:
            groups.delete_template(group, self._uuid("template"))
            self.is_asked = True
            return
        self.gone = {one.id for one in self.attempts}

    def _delete_members(self) -> None:
        groups, group = self.means.launcher.groups, address_of(self.attempts[0])
        settled: set[str] = set()
        for name in sorted({one.resize_request for one in self.attempts} & self.dead_requests):
            answer = groups.resize_answer(group, name)
            if answer is None or answer.state.is_final:
                settled.add(name)
            elif answer.state is ResizeState.ACCEPTED:
                groups.cancel(group, name, self._uuid(f"cancel/{name}"))
        self._look()
        going = [
            one.name
            for one in self.attempts
            if one.id in self.seen and not (self.seen[one.id].status in _ON_ITS_WAY and one.delete_asked_at is not None)
        ]
        if going:
            groups.delete_vms(group, going, self._uuid("/".join(going)))
            self.is_asked = True
        # Of a request that others share, each VM is there or was: it was granted all at once.
        living = {one.resize_request for one in self.attempts} - self.dead_requests
        self.gone = {
            one.id for one in self.attempts if one.id not in self.seen and one.resize_request in settled | living
        }

    def _look(self) -> None:
        for one in self.attempts:
            seen = self.means.launcher.look(one.project, one.zone, one.name)
            if seen is not None and is_of(seen, one, self.means.maker):
                self.seen[one.id] = seen

    def _uuid(self, what: str) -> str:
        lead = self.attempts[0]
        return request_uuid(lead.project, lead.vm_group, f"delete/{what}/{lead.tries}")

    def settle(self, connection: Connection, now: datetime, error: CloudError | None) -> bool:
        for one in self.attempts:
            if isinstance(error, NotFound):  # it was there a moment ago: the next look says so for certain
                attempts.change(connection, one.id, _ENDED, try_after=now, error="")
            elif error is not None:
                attempts.change(connection, one.id, _ENDED, **retry_changes(one, error, now))
            elif one.id in self.gone:
                self._gone(connection, one, now)
            else:
                self._later(connection, one, now)
        return isinstance(error, NotFound)

    def _gone(self, connection: Connection, attempt: Attempt, now: datetime) -> None:
        until = (attempt.ended_at or attempt.intended_at) + _LATE
        if attempt.asked_at is None and now < until:
            attempts.change(connection, attempt.id, _ENDED, try_after=until)
            return
        over = AttemptState.OVER
        attempts.change(connection, attempt.id, _ENDED, state=over, gone_at=now, try_after=None, error="")

    def _later(self, connection: Connection, attempt: Attempt, now: datetime) -> None:
        seen = self.seen.get(attempt.id)
        attempts.change(
            connection,
            attempt.id,
            _ENDED,
            gce_id=attempt.gce_id if seen is None else seen.gce_id,
            delete_asked_at=attempt.delete_asked_at or (now if self.is_asked else None),
            tries=attempt.tries + 1,
            try_after=now + _BACKOFF.after(attempt.tries + 1),
            error="",
        )
