"""Workbench instances (notebooks.v2): a service with a state of its own, which a stop behind its back contradicts.

Shapes and states: notebooks v2's discovery document (revision 20261006). A stop of Workbench's own stops its
VM; of a stop by others Workbench learns nothing: its instance stays ACTIVE, and its health turns to UNHEALTHY.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import VM, Status

_UP = frozenset({Status.RUNNING, Status.PENDING_STOP})


def notebooks_agent(project: str) -> str:
    """Returns the account in whose name Workbench acts."""
    return f"service-{project_number(project)}@gcp-sa-notebooks.iam.gserviceaccount.com"


@dataclass(slots=True, eq=False)
class Notebook:
    """An instance of Workbench, made from the labels of its VM."""

    vm: VM
    name: str
    state: str
    updated_at: datetime

    @property
    def path(self) -> str:
        return f"projects/{self.vm.project}/locations/{self.vm.zone}/instances/{self.name}"

    @property
    def is_orphan(self) -> bool:
        """Says whether Workbench takes it for running while its VM is down."""
        return self.state == "ACTIVE" and self.vm.status not in _UP


class _Requests(Protocol):
    def __call__(self, verb: str, project: str, zone: str, name: str, user: str) -> object: ...


@dataclass(eq=False)
class Workbench:
    """Callers hold the cloud's lock."""

    _timeline: Timeline
    _seed: int
    _request: _Requests
    orphaned: set[tuple[int, int]] = field(default_factory=set, init=False)  # (VM, its run) that others stopped
    _notebooks: dict[tuple[str, str, str], Notebook] = field(default_factory=dict, init=False)
    _of_vms: dict[int, Notebook] = field(default_factory=dict, init=False)

    def joined(self, vm: VM) -> None:
        """A VM was made: by Workbench, where its labels say so."""
        labels = vm.given.get("labels") or {}
        if labels.get("notebooks-product") != "workbench-instances":
            return
        notebook = Notebook(vm, labels.get("resource-name") or vm.name, "PROVISIONING", self._timeline.now)
        self._notebooks[vm.project, vm.zone, notebook.name] = self._of_vms[vm.id] = notebook

    def asked(self, verb: str, vm: VM, user: str) -> None:
        """Notes a stop that others ask of an instance's VM. A deletion takes the instance with it."""
        if vm.id in self._of_vms and verb in ("stop", "suspend") and user != notebooks_agent(vm.project):
            self.orphaned.add((vm.id, len(vm.runs)))

    def changed(self, vm: VM) -> None:
        notebook = self._of_vms.get(vm.id)
        if notebook is None:
            return
        if vm.status is Status.DELETED:
            del self._of_vms[vm.id]
            if self._notebooks.get((vm.project, vm.zone, notebook.name)) is notebook:
                del self._notebooks[vm.project, vm.zone, notebook.name]
        elif vm.status is Status.RUNNING and notebook.state in ("PROVISIONING", "STARTING"):
            self._show(notebook, "ACTIVE")
        elif vm.status is Status.TERMINATED and notebook.state == "STOPPING":
            self._show(notebook, "STOPPED")

    def of(self, project: str) -> Iterator[Notebook]:
        return (notebook for (owner, _, _), notebook in sorted(self._notebooks.items()) if owner == project)

    def find(self, project: str, location: str, name: str) -> Notebook:
        """Raises Refused (404) where there is none."""
        notebook = self._notebooks.get((project, location, name))
        if notebook is None:
            path = f"projects/{project}/locations/{location}/instances/{name}"
            raise Refused(404, "", f"Resource '{path}' was not found", status="NOT_FOUND")
        return notebook

    def ask(self, verb: str, notebook: Notebook) -> str:
        """Stops or starts its VM. The name of the operation. Refused in a state that does not allow it."""
        wanted, shown = {"stop": ("ACTIVE", "STOPPING"), "start": ("STOPPED", "STARTING")}[verb]
        if notebook.state != wanted:
            words = f"Instance {notebook.path} is in state {notebook.state}, not {wanted}."
            raise Refused(400, "", words, status="FAILED_PRECONDITION")
        vm, now = notebook.vm, self._timeline.now
        self._show(notebook, shown)
        self._timeline.at(
            now + draw_duration(self._seed, "begin", (notebook.path, now.isoformat())), lambda: self._do(verb, vm)
        )
        stamp = int(now.timestamp() * 1000)
        return f"projects/{vm.project}/locations/{vm.zone}/operations/operation-{stamp}-{vm.id % 16**13:013x}"

    def _do(self, verb: str, vm: VM) -> None:
        if vm.status is not Status.DELETED:
            self._request(verb, vm.project, vm.zone, vm.name, notebooks_agent(vm.project))

    def _show(self, notebook: Notebook, state: str) -> None:
        notebook.state, notebook.updated_at = state, self._timeline.now
