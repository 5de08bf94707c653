"""Paces calls by Google's limits: once one is reached, a project's calls of that kind wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from costguard.actions.execute import CallKind
from costguard.errors import RateLimited
from costguard.model.backoff import Backoff
from costguard.model.launch import (
    GroupAddress,
    GroupParts,
    OperationAnswer,
    PolicyAnswer,
    Quota,
    ResizeAnswer,
    ResizeRequest,
    VmRequest,
    WayOut,
)
from costguard.model.observation import Sighting
from costguard.model.ports import Clock, Launcher, VmGroups

_Answer = TypeVar("_Answer")

_BACKOFF = Backoff(timedelta(seconds=2), timedelta(minutes=1))


class Paused(RateLimited):
    """The limit was reached, now or a moment ago. Nothing was done."""

    def __init__(self, project: str, until: datetime) -> None:
        super().__init__(said(project, until))
        self.until = until


def said(project: str, until: datetime) -> str:
    return f"Google's limit on API calls of project {project} is used up; it goes on at {until:%H:%M:%S} UTC."


class PacedLauncher:
    """A launcher that asks nothing while a project's limit is used up. Raises RateLimited then, as Google would.

    The pause doubles while Google goes on refusing, up to a minute: its limits are refilled by the minute.
    """

    def __init__(self, launcher: Launcher, clock: Clock) -> None:
        self._launcher = launcher
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[tuple[str, CallKind], datetime] = {}
        self._refusals: dict[tuple[str, CallKind], int] = {}  # in a row

    @property
    def groups(self) -> PacedGroups:
        """The groups by which VMs are requested all at once, under the same limits."""
        return PacedGroups(self, self._launcher.groups)

    def paused_until(self, project: str, kind: CallKind) -> datetime | None:
        with self._lock:
            until = self._until.get((project, kind))
        return until if until is not None and until > self._clock.now() else None

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        return self.paced(project, CallKind.READ, lambda: self._launcher.look(project, zone, name))

    def insert(self, project: str, zone: str, vm: VmRequest, request_id: str) -> str:
        return self.paced(project, CallKind.WRITE, lambda: self._launcher.insert(project, zone, vm, request_id))

    def start(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self.paced(project, CallKind.WRITE, lambda: self._launcher.start(project, zone, instance, request_id))

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self.paced(project, CallKind.WRITE, lambda: self._launcher.stop(project, zone, instance, request_id))

    def delete(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self.paced(project, CallKind.WRITE, lambda: self._launcher.delete(project, zone, instance, request_id))

    def operation(self, project: str, zone: str, operation: str) -> OperationAnswer | None:
        return self.paced(project, CallKind.READ, lambda: self._launcher.operation(project, zone, operation))

    def quotas(self, project: str, region: str) -> Mapping[str, Quota]:
        return self.paced(project, CallKind.READ, lambda: self._launcher.quotas(project, region))

    def way_out(self, project: str, region: str, network: str, subnetwork: str) -> WayOut:
        return self.paced(project, CallKind.READ, lambda: self._launcher.way_out(project, region, network, subnetwork))

    def placement_policy(self, project: str, region: str, name: str) -> PolicyAnswer | None:
        return self.paced(project, CallKind.READ, lambda: self._launcher.placement_policy(project, region, name))

    def make_placement_policy(self, project: str, region: str, name: str, description: str, request_id: str) -> None:
        make = self._launcher.make_placement_policy
        self.paced(project, CallKind.WRITE, lambda: make(project, region, name, description, request_id))

    def delete_placement_policy(self, project: str, region: str, name: str, request_id: str) -> None:
        delete = self._launcher.delete_placement_policy
        self.paced(project, CallKind.WRITE, lambda: delete(project, region, name, request_id))

    def paced(self, project: str, kind: CallKind, ask: Callable[[], _Answer]) -> _Answer:
        """Asks, unless the project's limit on calls of this kind is used up. Raises Paused."""
        until = self.paused_until(project, kind)
        if until is not None:
            raise Paused(project, until)
        asked_at = self._clock.now()
        try:
            answer = ask()
        except RateLimited as error:
            raise Paused(project, self._slow_down((project, kind), asked_at)) from error
        with self._lock:
            if asked_at >= self._until.get((project, kind), asked_at):  # not one that was on its way before the refusal
                self._refusals.pop((project, kind), None)
        return answer

    def _slow_down(self, what: tuple[str, CallKind], asked_at: datetime) -> datetime:
        """Slows down. Of many calls that are refused at once, the first makes the pause longer."""
        now = self._clock.now()
        with self._lock:
            until = self._until.get(what)
            if until is not None and asked_at < until:
                return until
            self._refusals[what] = self._refusals.get(what, 0) + 1
            self._until[what] = now + _BACKOFF.after(self._refusals[what])
            return self._until[what]


class PacedGroups:
    """Groups whose calls count for the limits of their launcher."""

    def __init__(self, launcher: PacedLauncher, groups: VmGroups) -> None:
        self._launcher, self._groups = launcher, groups

    def parts(self, group: GroupAddress) -> GroupParts:
        return self._launcher.paced(group.project, CallKind.READ, lambda: self._groups.parts(group))

    def resize_answer(self, group: GroupAddress, name: str) -> ResizeAnswer | None:
        return self._launcher.paced(group.project, CallKind.READ, lambda: self._groups.resize_answer(group, name))

    def insert_template(self, group: GroupAddress, vm: VmRequest, request_id: str) -> None:
        self._change(group, lambda: self._groups.insert_template(group, vm, request_id))

    def insert_group(self, group: GroupAddress, request_id: str) -> None:
        self._change(group, lambda: self._groups.insert_group(group, request_id))

    def resize(self, group: GroupAddress, wanted: ResizeRequest, request_id: str) -> None:
        self._change(group, lambda: self._groups.resize(group, wanted, request_id))

    def cancel(self, group: GroupAddress, name: str, request_id: str) -> None:
        self._change(group, lambda: self._groups.cancel(group, name, request_id))

    def delete_vms(self, group: GroupAddress, vms: Sequence[str], request_id: str) -> None:
        self._change(group, lambda: self._groups.delete_vms(group, vms, request_id))

    def delete_group(self, group: GroupAddress, request_id: str) -> None:
        self._change(group, lambda: self._groups.delete_group(group, request_id))

    def delete_template(self, group: GroupAddress, request_id: str) -> None:
        self._change(group, lambda: self._groups.delete_template(group, request_id))

    def _change(self, group: GroupAddress, ask: Callable[[], None]) -> None:
        self._launcher.paced(group.project, CallKind.WRITE, ask)
