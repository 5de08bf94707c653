"""Placement policies of the Compute Engine in memory: made some seconds after they were asked for, in use while a VM is
there that names one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.jobs.cloud_vms import Vm

from costguard.errors import AlreadyExists, NotFound, RequestRefused
from costguard.model.launch import PolicyAnswer, VmRequest

_TAKES = timedelta(seconds=3)
Key = tuple[str, str, str]  # project, region, name


@dataclass
class CloudPolicies:
    """`refusal` is what Google says where it makes none; `made` and `deleted` are all that ever were."""

    now: Callable[[], datetime]
    there: dict[Key, tuple[str, datetime]] = field(default_factory=dict)  # description, and when it is ready
    made: list[Key] = field(default_factory=list)
    deleted: list[Key] = field(default_factory=list)
    refusal: str = ""

    def read(self, key: Key) -> PolicyAnswer | None:
        if key not in self.there:
            return None
        description, ready_at = self.there[key]
        return PolicyAnswer("READY" if self.now() >= ready_at else "CREATING", description, True)

    def make(self, key: Key, description: str) -> None:
        if self.refusal:
            raise RequestRefused(self.refusal)
        if key in self.there:
            raise AlreadyExists(f"The resource {key[2]} already exists.")
        self.there[key] = (description, self.now() + _TAKES)
        self.made.append(key)

    def delete(self, key: Key, vms: Iterable[Vm]) -> None:
        if key not in self.there:
            raise NotFound(f"The resource {key[2]} was not found.")
        for vm in vms:
            if (vm.project, vm.zone.rpartition("-")[0], vm.request.placement_policy) == key:
                raise RequestRefused(f"The resource_policy resource '{key[2]}' is already being used by '{vm.name}'")
        del self.there[key]
        self.deleted.append(key)

    def mark(self) -> str:
        """Returns a text that is equal for clouds whose policies are alike."""
        return repr((sorted(self.there.items()), self.made, self.deleted))

    def check(self, project: str, zone: str, vm: VmRequest) -> None:
        """Raises RequestRefused where the VM names a policy that is not there, or not ready."""
        answer = self.read((project, zone.rpartition("-")[0], vm.placement_policy))
        if vm.placement_policy and (answer is None or answer.status != "READY"):
            raise RequestRefused(f"The resource 'resourcePolicies/{vm.placement_policy}' was not found")


class PolicyCalls:
    """Calls of a launcher about policies, for a cloud that counts its calls and may lose them."""

    policies: CloudPolicies

    def placement_policy(self, project: str, region: str, name: str) -> PolicyAnswer | None:
        with self.called("policy", project, changes=False):
            return self.policies.read((project, region, name))

    def make_placement_policy(self, project: str, region: str, name: str, description: str, request_id: str) -> None:
        assert request_id
        with self.called("make policy", project):
            self.deafness()
            self.policies.make((project, region, name), description)
            self.muteness()

    def delete_placement_policy(self, project: str, region: str, name: str, request_id: str) -> None:
        assert request_id
        with self.called("delete policy", project):
            self.deafness()
            self.policies.delete((project, region, name), self.present())
            self.muteness()

    def present(self) -> list[Vm]:
        raise NotImplementedError

    def called(self, what: str, project: str, changes: bool = True) -> AbstractContextManager[object]:
        raise NotImplementedError

    def deafness(self) -> None:
        raise NotImplementedError

    def muteness(self) -> None:
        raise NotImplementedError


class SteppingPolicies:
    """Calls of a launcher about policies, in a process that may end around each of them."""

    cloud: PolicyCalls

    def placement_policy(self, project: str, region: str, name: str) -> PolicyAnswer | None:
        with self._stepping():
            return self.cloud.placement_policy(project, region, name)

    def make_placement_policy(self, project: str, region: str, name: str, description: str, request_id: str) -> None:
        with self._stepping():
            self.cloud.make_placement_policy(project, region, name, description, request_id)

    def delete_placement_policy(self, project: str, region: str, name: str, request_id: str) -> None:
        with self._stepping():
            self.cloud.delete_placement_policy(project, region, name, request_id)

    def _stepping(self) -> AbstractContextManager[None]:
        raise NotImplementedError
