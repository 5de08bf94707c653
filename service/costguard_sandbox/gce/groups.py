"""Managed instance groups, as their VMs show them: what others stop or delete is made again from the template.

A group repairs a VM "that fails or is deleted by an action not initiated by the MIG" on a fresh boot disk
(docs.cloud.google.com/compute/docs/instance-groups/about-repair). A stop counts: in kubernetes/autoscaler issue 283 a
stopped node's log says "expected instance status RUNNING but STOPPING found", then repair.recreateInstance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.timeline import Timeline
from costguard_sandbox.gce.vm import VM, Status

_NOTICES_AFTER = timedelta(seconds=10)  # ours: no recording says how soon a group looks
_FAILED = frozenset({Status.STOPPING, Status.TERMINATED, Status.SUSPENDING, Status.SUSPENDED})


def group_of(vm: VM) -> str:
    """The path of the group that made it, as its metadata have it; "" for a VM of no group."""
    items = (vm.given.get("metadata") or {}).get("items") or ()
    path = next((str(item.get("value")) for item in items if item.get("key") == "created-by"), "")
    return path if "/instanceGroupManagers/" in path else ""


def service_agent(project: str) -> str:
    """Returns the account in whose name groups act: Google's own agent in the project."""
    return f"{project_number(project)}@cloudservices.gserviceaccount.com"


@dataclass(eq=False)
class Groups:
    """`recreate` is given the VM with its state; `insert` makes a deleted one again, under its old name."""

    _timeline: Timeline
    _recreate: Callable[[VM, Status], None]
    _insert: Callable[[VM], None]
    repairs: int = field(default=0, init=False)
    _at_work: set[int] = field(default_factory=set, init=False)  # VMs that are noticed, or being recreated
    _deleting: set[int] = field(default_factory=set, init=False)
    _let_go: set[int] = field(default_factory=set, init=False)  # by the group itself, as when it is resized

    def asked(self, verb: str, vm: VM, is_group: bool) -> None:
        """Notes a request for a VM, by its group or by others."""
        if is_group and verb in ("stop", "suspend", "delete"):
            self._let_go.add(vm.id)
        elif verb in ("start", "resume"):
            self._let_go.discard(vm.id)
        if verb == "delete":
            self._deleting.add(vm.id)

    def changed(self, vm: VM) -> None:
        """A VM of a group that is not as its group wants it is repaired a little later."""
        if not group_of(vm) or vm.id in self._let_go:
            return
        if vm.status is Status.RUNNING:
            self._at_work.discard(vm.id)
        elif vm.status is Status.DELETED:
            self._timeline.at(self._timeline.now + _NOTICES_AFTER, lambda: self._made_again(vm))
        elif vm.status in _FAILED and vm.id not in self._at_work:
            self._at_work.add(vm.id)
            self._timeline.at(self._timeline.now + _NOTICES_AFTER, lambda: self._repaired(vm))

    def _repaired(self, vm: VM) -> None:
        if vm.id in self._deleting or vm.status not in _FAILED:
            return
        self.repairs += 1
        self._recreate(vm, vm.status)

    def _made_again(self, vm: VM) -> None:
        self.repairs += 1
        self._insert(vm)
