"""Which regional quota a VM's GPUs count against, and whether it has room."""

from __future__ import annotations

from collections.abc import Mapping

from costguard.model.instance import ProvisioningModel
from costguard.model.launch import Quota, Recipe


def region_of(zone: str) -> str:
    return zone.rsplit("-", 1)[0]


def used_up(recipe: Recipe, zone: str, model: ProvisioningModel, quotas: Mapping[str, Mapping[str, Quota]]) -> str:
    """Why there is no room for it in this zone's region, in a few words; "" where there is, or nobody knows."""
    quota = _quota(recipe.gpu_type, model, quotas.get(region_of(zone), {}))
    if quota is None or not recipe.gpu_count or quota.usage + recipe.gpu_count <= quota.limit:
        return ""
    return f"the quota {quota.metric} of {region_of(zone)} is used up ({quota.usage:g} of {quota.limit:g})"


def _quota(gpu_type: str, model: ProvisioningModel, of_region: Mapping[str, Quota]) -> Quota | None:
    """Spot VMs count against the quota for preemptible GPUs once one was granted, and against the common one before."""
    metric = f"{_stem(gpu_type)}_GPUS"
    preemptible = of_region.get(f"PREEMPTIBLE_{metric}")
    if model is ProvisioningModel.SPOT and preemptible is not None and preemptible.limit > 0:
        return preemptible
    return of_region.get(metric)


def _stem(gpu_type: str) -> str:
    """`NVIDIA_T4` for nvidia-tesla-t4. The memory is part of the A100's and the H100's type, and of one's metric."""
    stem = gpu_type.replace("nvidia-tesla-", "nvidia-").upper().replace("-", "_")
    return "NVIDIA_H100" if stem == "NVIDIA_H100_80GB" else stem
