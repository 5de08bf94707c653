"""The VMs of the Compute Engine in memory, and how its list shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from costguard.model.instance import InstanceKey, SeenInstance, Shape, Status
from costguard.model.launch import VmRequest

GUARD = "guard@acme.iam.gserviceaccount.com"


@dataclass
class Operation:
    """Google does this, or it becomes of a VM by itself, by `done_at`."""

    id: str
    kind: str
    project: str
    zone: str
    target_id: str
    target_name: str
    begun_at: datetime
    done_at: datetime
    error: tuple[str, str] = ("", "")
    user: str = GUARD


@dataclass
class Vm:
    """A VM with a permanent identity: those that are gone stay in `CloudOfVms.all`."""

    gce_id: str
    project: str
    zone: str
    request: VmRequest
    made_at: datetime
    status: Status = Status.PROVISIONING
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    gone_at: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.request.name


def shown(vm: Vm) -> SeenInstance:
    """Returns the VM as Google's list shows it."""
    recipe = vm.request.recipe
    return SeenInstance(
        key=InstanceKey(vm.project, vm.gce_id),
        name=vm.name,
        zone=vm.zone,
        status=vm.status,
        shape=Shape(recipe.machine_type, 8, 30720, recipe.gpu_type or None, recipe.gpu_count),
        provisioning_model=vm.request.provisioning_model,
        created_at=vm.made_at,
        fingerprint=f"{vm.status}/{vm.started_at}/{vm.stopped_at}/{vm.origin}",
        last_started_at=vm.started_at,
        last_stopped_at=vm.stopped_at,
        labels=vm.labels,
        origin=vm.origin,
    )
