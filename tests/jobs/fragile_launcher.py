"""Google's Compute Engine as a process calls it that may end around each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.jobs.cloud import CloudOfVms
from tests.jobs.cloud_groups import stepping
from tests.jobs.cloud_policies import SteppingPolicies

from costguard.model.launch import OperationAnswer, Quota, VmRequest, WayOut
from costguard.model.observation import Sighting
from costguard.model.ports import VmGroups


@dataclass
class FragileLauncher(SteppingPolicies):
    """May end the process before each call and right after Google has done what was asked."""

    cloud: CloudOfVms
    step: Callable[[], None]  # each of them may be the process's end

    @property
    def groups(self) -> VmGroups:
        return stepping(self.cloud.groups, self.step)

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        with self._stepping():
            return self.cloud.look(project, zone, name)

    def insert(self, project: str, zone: str, vm: VmRequest, request_id: str) -> str:
        with self._stepping():
            return self.cloud.insert(project, zone, vm, request_id)

    def start(self, project: str, zone: str, instance: str, request_id: str) -> str:
        with self._stepping():
            return self.cloud.start(project, zone, instance, request_id)

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        with self._stepping():
            return self.cloud.stop(project, zone, instance, request_id)

    def delete(self, project: str, zone: str, instance: str, request_id: str) -> str:
        with self._stepping():
            return self.cloud.delete(project, zone, instance, request_id)

    def operation(self, project: str, zone: str, operation: str) -> OperationAnswer | None:
        with self._stepping():
            return self.cloud.operation(project, zone, operation)

    def quotas(self, project: str, region: str) -> Mapping[str, Quota]:
        with self._stepping():
            return self.cloud.quotas(project, region)

    def way_out(self, project: str, region: str, network: str, subnetwork: str) -> WayOut:
        return self.cloud.way_out(project, region, network, subnetwork)  # an end here is as one around the quotas

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        self.step()
        yield
        self.step()
