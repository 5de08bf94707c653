"""A Compute Engine client that also keeps, as the ledger does, what each VM was when it last came whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from costguard.gce.client import ComputeCloud
from costguard.model.instance import InstanceKey, SeenInstance
from costguard.model.observation import Observation


class RememberingCloud(ComputeCloud):
    """The looks of this client have all VMs in `instances`: an unchanged one is the very object as before.

    Fails where a VM is called unchanged that never came whole, or was something else when it did.
    """

    _whole: dict[InstanceKey, SeenInstance]

    def observe(self, project: str, operations_since: datetime | None) -> Observation:
        observation = super().observe(project, operations_since)
        whole = self.__dict__.setdefault("_whole", {})
        whole |= {seen.key: seen for seen in observation.instances}
        same = [whole[InstanceKey(project, one.gce_id)] for one in observation.unchanged]
        for one, seen in zip(observation.unchanged, same, strict=True):
            assert (one.fingerprint, one.zone) == (seen.fingerprint, seen.zone)
            assert one.bills_machine == seen.status.bills_machine
        return replace(observation, instances=(*observation.instances, *same), unchanged=())
