"""The marks of the VMs of other tools that launch and end VMs by themselves, read from their public sources."""

from __future__ import annotations

from collections.abc import Iterable

from costguard.keepers.services import VmSigns, group_of
from costguard.model.keeper import CLUSTER_TOOLKIT, DSTACK, RAY, SKYPILOT, SLURM, Keeper, KeeperKind
from costguard.model.managed.origin import SLURM_ITEMS


def tool_of(signs: VmSigns) -> Keeper | None:
    """SkyPilot (sky/provision/constants.py, sky/provision/gcp/instance_utils.py): `skypilot-cluster-name` and, as Ray
    does, `ray-cluster-name` (ray/autoscaler/tags.py). dstack (core/backends/gcp/compute.py): `owner` = `dstack` and
    `dstack_project`. Slurm (slurm-gcp, Cluster Toolkit): `slurm_cluster_name` and `slurm_instance_role` in labels and
    metadata; the Cluster Toolkit itself (pkg/config/expand.go): `ghpc_deployment`.
    """
    labels, origin = signs.labels, signs.origin
    if marks := signs.marks("skypilot-"):
        name = signs.first(labels.get("skypilot-cluster-name", ""), labels.get("ray-cluster-name", ""))
        return _tool(signs, SKYPILOT, name, [*marks, *signs.marks("ray-")])
    if (marks := signs.marks("dstack_")) and (labels.get("owner") == "dstack" or "dstack_project" in labels):
        owner = ["owner"] if labels.get("owner") == "dstack" else []
        return _tool(signs, DSTACK, signs.label("dstack_name"), [*marks, *owner])
    toolkit = signs.marks("ghpc_")
    if marks := [*signs.marks("slurm_cluster_name", "slurm_instance_role"), *signs.items(SLURM_ITEMS)]:
        name = signs.first(labels.get("slurm_cluster_name", ""), origin.get("slurm_cluster_name", ""))
        return _tool(signs, SLURM, name, [*marks, *toolkit])
    if "ray-cluster-name" in labels and len(marks := signs.marks("ray-")) > 1:
        return _tool(signs, RAY, signs.label("ray-cluster-name"), marks)
    if "ghpc_deployment" in labels:
        return _tool(signs, CLUSTER_TOOLKIT, signs.label("ghpc_deployment"), toolkit)
    return None


def _tool(signs: VmSigns, product: str, name: str, marks: Iterable[str]) -> Keeper:
    group = group_of(signs.origin)[0]
    return Keeper(KeeperKind.TOOL, name, cluster=name, group=group, product=product, evidence=signs.evidence(marks))
