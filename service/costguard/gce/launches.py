"""Compute Engine as the engine's `Launcher`: VMs are made, started again and deleted, and their operations read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costguard.gce.actions import ComputeActuator
from costguard.gce.errors import LAUNCHING
from costguard.gce.machine_types import MachineTypes
from costguard.gce.official import Official
from costguard.gce.vm_body import vm_body
from costguard.model.launch import OperationAnswer, Quota, VmRequest
from costguard.model.observation import Sighting


class ComputeLauncher:
    """Thread-safe. Nothing is repeated here: whether to ask again is for the caller to decide.

    CloudUnavailable means that it may have begun; after any other CloudError it has not.
    """

    def __init__(self, official: Official, types: MachineTypes) -> None:
        self._official = official
        self._types = types
        self._actuator = ComputeActuator(official)

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        """The VM that has this address now; None where there is none."""
        return self._actuator.look(project, zone, name)

    def insert(self, project: str, zone: str, vm: VmRequest, request_id: str) -> str:
        """Begin to make it. The operation's id.

        RequestRefused as well where something that the request names, such as its image, is not there.
        """
        # A type that cannot be read is taken to have none: where that is wrong, Google refuses and says so.
        shape = self._types.shape(project, zone, vm.recipe.machine_type) if vm.keeps_disk else None
        has_local_ssds = shape is not None and shape.local_ssd_gib > 0
        return self._official.insert(project, zone, vm_body(zone, vm, has_local_ssds=has_local_ssds), request_id)

    def start(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to start a VM that was stopped. The operation's id."""
        return self._official.begin("start", project, zone, instance, request_id, LAUNCHING)

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to stop it, its disks kept. The operation's id. By its numeric id, no other VM is stopped instead."""
        return self._official.begin("stop", project, zone, instance, request_id, LAUNCHING)

    def delete(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to delete it. The operation's id. By its numeric id, no other VM can be deleted instead."""
        return self._official.begin("delete", project, zone, instance, request_id, LAUNCHING)

    def operation(self, project: str, zone: str, operation: str) -> OperationAnswer | None:
        """How far it came; None where Google does not know it (any more)."""
        found = self._official.operation(project, zone, operation)
        if found is None:
            return None
        error = next(iter(found.error.errors), None)
        return OperationAnswer(
            is_done=found.status == found.Status.DONE,
            target_id=str(found.target_id or ""),
            # Some failures have nothing but an HTTP status.
            error_code=error.code if error else str(found.http_error_status_code or ""),
            error_message=(_said(error) if error else "") or found.http_error_message,
        )

    def quotas(self, project: str, region: str) -> Mapping[str, Quota]:
        """The region's, by metric, as Google counts them now."""
        read = self._official.region(project, region)
        return {quota.metric: Quota(quota.metric, quota.limit, quota.usage) for quota in read.quotas}


def _said(error: Any) -> str:
    """Google's words for people, where it has some; of a stockout, they alone say what is to be had elsewhere."""
    texts = (detail.localized_message.message for detail in error.error_details)
    return next((text for text in texts if text), None) or str(error.message)
