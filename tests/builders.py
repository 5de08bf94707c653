"""Values that tests say a rule about, with everything that the rule is not about filled in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from costguard.model.instance import (
    AttachedDisk,
    InstanceKey,
    ProvisioningModel,
    SeenInstance,
    Shape,
    Status,
)
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.observation import Observation, OperationStatus, SeenOperation

PROJECT = "acme-training"
KEY = InstanceKey(PROJECT, "1000")
A100 = Shape("a2-highgpu-1g", 12, 87040, "nvidia-tesla-a100", 1)
T4 = Shape("n1-standard-4", 4, 15360, "nvidia-tesla-t4", 1)


def at(text: str) -> datetime:
    """`10:00`, `10:00:05` on 2 November 2026, or a whole ISO moment; always UTC."""
    return datetime.fromisoformat(text if "T" in text else f"2026-11-02T{text}").replace(tzinfo=UTC)


def seen(status: Status = Status.RUNNING, started: str | None = "10:00", **given: Any) -> SeenInstance:
    """A listed VM, made at 09:59 and started at 10:00 unless told otherwise; times may be texts for `at`."""
    times = {
        name: at(value) if isinstance(value := given.pop(name, default), str) else value
        for name, default in {
            "created_at": "09:59",
            "last_stopped_at": None,
            "last_suspended_at": None,
        }.items()
    }
    values: dict[str, Any] = {
        "key": KEY,
        "name": "vm",
        "zone": "us-central1-a",
        "status": status,
        "shape": A100,
        "provisioning_model": ProvisioningModel.STANDARD,
        "fingerprint": "f",
        "last_started_at": at(started) if started is not None else None,
        "disks": (AttachedDisk("vm", 100, "pd-balanced", times["created_at"], boot=True, auto_delete=True),),
    }
    return SeenInstance(**{**values, **times, **given})


_serial = iter(range(10_000, 10_000_000))


def operation(kind: str, begun: str, ended: str | None = None, **given: Any) -> SeenOperation:
    """An operation that starts as it is asked for; done when `ended` is given."""
    values: dict[str, Any] = {
        "project": PROJECT,
        "operation_id": str(next(_serial)),
        "kind": kind,
        "target_id": KEY.gce_id,
        "target_name": "vm",
        "zone": "us-central1-a",
        "user": "ana@example.com",
        "status": OperationStatus.DONE if ended is not None else OperationStatus.RUNNING,
        "inserted_at": at(begun),
        "started_at": at(begun),
        "ended_at": at(ended) if ended is not None else None,
    }
    return SeenOperation(**{**values, **given})


def event(kind: str, moment: str, **given: Any) -> SeenOperation:
    """A system event such as a preemption: begun, started and ended at once, by `system`."""
    return operation(f"compute.instances.{kind}", moment, moment, user="system", **given)


def lifetime(started: str, ended: str | None = None, reason: EndReason | None = None, **given: Any) -> Lifetime:
    values: dict[str, Any] = {
        "key": KEY,
        "started_at": at(started),
        "shape": A100,
        "provisioning_model": ProvisioningModel.STANDARD,
        "zone": "us-central1-a",
        "ended_at": at(ended) if ended is not None else None,
        "end_reason": reason,
        "id": 1,
    }
    return Lifetime(**{**values, **given})


def observation(*instances: SeenInstance, read: str = "12:00", **given: Any) -> Observation:
    read_at = at(read)
    values: dict[str, Any] = {
        "project": PROJECT,
        "read_at": read_at,
        "instances": instances,
        "operations_through_at": read_at,
    }
    return Observation(**{**values, **given})
