"""Converts rows to lifetimes and storage spans."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import Row

from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import EndReason, Lifetime, StorageSpan


def shape_of(row: Row[Any]) -> Shape:
    return shape_from(row.machine_type, row.vcpus, row.memory_mib, row.gpu_type, row.gpu_count, row.local_ssd_gib)


# Fleets have few shapes: ten thousand VMs share them.
shape_from = lru_cache(maxsize=4096)(Shape)


def lifetime_of(key: InstanceKey, row: Row[Any]) -> Lifetime:
    return Lifetime(
        key=key,
        started_at=row.started_at,
        shape=shape_of(row),
        provisioning_model=ProvisioningModel(row.provisioning_model),
        zone=row.zone,
        ended_at=row.ended_at,
        end_reason=None if row.end_reason is None else EndReason(row.end_reason),
        ended_by=row.ended_by,
        end_is_estimate=bool(row.end_is_estimate),
        id=row.id,
        age_from=row.age_from,
    )


def storage_of(key: InstanceKey, row: Row[Any]) -> StorageSpan:
    return StorageSpan(
        key=key,
        name=row.name,
        resource=row.resource,
        size_mib=row.size_mib,
        zone=row.zone,
        started_at=row.started_at,
        ended_at=row.ended_at,
        id=row.id,
        disk_id=row.disk_id,
    )
