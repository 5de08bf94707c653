"""The marks of the VMs of each service of Google, and of other tools that launch and end VMs by themselves.

They are read from recorded instances, Google's documents, and the tools' public sources.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from costguard.model.instance import region_of
from costguard.model.keeper import CLUSTER_TOOLKIT, DSTACK, RAY, SKYPILOT, SLURM, USER_MANAGED, Keeper, KeeperKind
from costguard.model.managed.origin import (
    BATCH_ITEMS,
    CREATED_BY,
    DATAPROC_ITEMS,
    GKE_ITEMS,
    JOB_ID,
    KUBE_LABELS,
    SLURM_ITEMS,
    WORKBENCH_ITEMS,
)

_GROUP = re.compile(r"projects/[^/]+/(zones|regions)/([a-z0-9-]+)/instanceGroupManagers/([a-z0-9-]+)$")
_IS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")  # what may stand in a command and in a message
_IS_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class VmSigns:
    """Everything that there is to read of a VM; `origin` is empty where metadata could not be read."""

    labels: Mapping[str, str]
    origin: Mapping[str, str]
    zone: str
    tags: tuple[str, ...]
    accounts: tuple[str, ...]

    @property
    def region(self) -> str:
        return region_of(self.zone)

    def marks(self, *prefixes: str) -> list[str]:
        return [key for key in self.labels if key.startswith(prefixes) and _IS_LABEL.fullmatch(key)]

    def items(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if key in self.origin]

    def first(self, *texts: str) -> str:
        """The first of these that is a name."""
        return next((text for text in texts if _IS_NAME.fullmatch(text)), "")

    def name(self, text: str) -> str:
        return self.first(text)

    def label(self, key: str) -> str:
        return self.name(self.labels.get(key, ""))

    def evidence(self, marks: Iterable[str]) -> tuple[str, ...]:
        """The labels and metadata items that say so, and the group that made it."""
        return (*sorted(set(marks)), *((CREATED_BY,) if group_of(self.origin)[0] else ()))


def group_of(origin: Mapping[str, str]) -> tuple[str, str, str]:
    """Path, name and zone or region of the managed instance group that made it; a path that is odd counts as one."""
    path = origin.get(CREATED_BY, "")
    if "instanceGroupManagers" not in path:
        return "", "", ""
    parsed = _GROUP.search(path)
    return (parsed.group(0), parsed.group(3), parsed.group(2)) if parsed else ("instanceGroupManagers", "", "")


def _workbench(signs: VmSigns) -> Keeper | None:
    """Workbench labels its instances `notebooks-product`, and user-managed notebooks had `goog-caip-notebook` since
    March 2021 (cloud.google.com/vertex-ai/docs/workbench/release-notes); `notebooks-api` is in the metadata of both.
    """
    labels = signs.labels
    is_v2 = "notebooks-product" in labels or signs.origin.get("notebooks-api-version") == "v2"
    marks = [*signs.marks("notebooks-product", "goog-caip-"), *signs.items(WORKBENCH_ITEMS)]
    if not is_v2 and not signs.marks("goog-caip-") and "notebooks-api" not in signs.origin:
        return None
    if is_v2:
        marks += [key for key in ("resource-name", "consumer-project-id", "consumer-project-number") if key in labels]
    return Keeper(
        KeeperKind.WORKBENCH,
        signs.label("resource-name") if is_v2 else "",
        signs.name(signs.zone),
        group=group_of(signs.origin)[0],
        product="" if is_v2 else USER_MANAGED,
        evidence=signs.evidence(marks),
    )


def _dataproc(signs: VmSigns) -> Keeper | None:
    """Three labels, and metadata: `dataproc-role` is on its VMs alone, where notebooks have a `dataproc-region` too."""
    marks = signs.marks("goog-dataproc-", "goog-drz-dataproc-")
    if not marks and not {"dataproc-role", "dataproc-cluster-uuid"} & signs.origin.keys():
        return None
    origin = signs.origin
    name = signs.first(signs.label("goog-dataproc-cluster-name"), origin.get("dataproc-cluster-name", ""))
    place = signs.first(signs.label("goog-dataproc-location"), origin.get("dataproc-region", ""), signs.region)
    return Keeper(
        KeeperKind.DATAPROC,
        name,
        place,
        cluster=name,
        group=group_of(origin)[0],
        evidence=signs.evidence([*marks, *signs.items(DATAPROC_ITEMS)]),
    )


def _batch(signs: VmSigns) -> Keeper | None:
    """Batch labels its VMs `batch-job-id`, `batch-job-uid` and `batch-node`, without Google's prefix
    (cloud.google.com/batch/docs/organize-resources-using-labels).

    A person may have a `batch-job-id` or a `batch-node` of their own: one of these alone says nothing.
    """
    marks = [*signs.marks("goog-batch-"), *(label for label in _BATCH if label in signs.labels)]
    marks += signs.items(BATCH_ITEMS)
    if not (set(marks) - {"batch-job-id", "batch-node"} or len(marks) > 1):
        return None
    group = group_of(signs.origin)[0]
    name = signs.label("batch-job-id")
    return Keeper(KeeperKind.BATCH, name, signs.name(signs.region), group=group, evidence=signs.evidence(marks))


_BATCH = ("batch-job-id", "batch-job-uid", "batch-node")


def _dataflow(signs: VmSigns) -> Keeper | None:
    """The Terraform provider's acceptance test finds a job's workers by `labels.goog-dataflow-job-id`; Apache Beam
    reads the job's id on its workers from the metadata item `job_id`.
    """
    marks = [*signs.marks("goog-dataflow-"), *signs.items((JOB_ID,))]
    if not marks:
        return None
    name = signs.first(signs.label("goog-dataflow-job-id"), signs.origin.get(JOB_ID, ""))
    place = signs.first(signs.label("goog-dataflow-region"), signs.region)
    group = group_of(signs.origin)[0]
    return Keeper(KeeperKind.DATAFLOW, name, place, group=group, evidence=signs.evidence(marks))


def _gke(signs: VmSigns) -> Keeper | None:
    """Nodes of all ages have `goog-gke-node`; their group's name and `kube-labels` say it where labels went.

    Clusters of Composer label their nodes with the environment, and are named REGION-ENVIRONMENT-HASH-gke.
    """
    origin, (group, group_name, _) = signs.origin, group_of(signs.origin)
    composer = signs.marks("goog-composer-")
    marks = signs.marks("goog-gke-", "goog-k8s-")
    is_node = bool(marks) or bool(origin.get(KUBE_LABELS)) or group_name.startswith(("gke-", "gk3-"))
    if not is_node and not composer:
        return None
    cluster = signs.first(signs.label("goog-k8s-cluster-name"), origin.get("cluster-name", ""))
    tags = [] if cluster else [tag for tag in signs.tags if _cluster_of_tag(tag)]
    cluster = cluster or (_cluster_of_tag(tags[0]) if tags else "")
    pool = signs.first(signs.label("goog-k8s-node-pool-name"), origin.get(KUBE_LABELS, "").partition("=")[2])
    place = signs.first(signs.label("goog-k8s-cluster-location"), origin.get("cluster-location", ""))
    evidence = [*marks, *composer, *signs.items(GKE_ITEMS), *(["tags"] if tags else [])]
    of_composer = bool(composer) or bool(_COMPOSER_CLUSTER.fullmatch(cluster))
    return Keeper(
        KeeperKind.COMPOSER if of_composer else KeeperKind.GKE,
        signs.label("goog-composer-environment") if of_composer else cluster,
        signs.first(signs.label("goog-composer-location"), place) if of_composer else place,
        cluster,
        pool or _pool_of_group(group_name, cluster),
        group,
        evidence=signs.evidence(evidence),
    )


_COMPOSER_CLUSTER = re.compile(r"[a-z]+-[a-z]+\d+-[a-z0-9-]+-[0-9a-f]{8}-gke")  # us-west2-prod-171e4e47-gke
_NODES_TAG = re.compile(r"gke-(.+)-[0-9a-f]{8}-node")
_WHOLE_CLUSTER, _WHOLE_POOL = 20, 12  # characters: GKE cuts longer names in those of its groups and tags


def _cluster_of_tag(tag: str) -> str:
    """`train` of the network tag `gke-train-714df7d8-node`; "" where the name may have been cut."""
    parsed = _NODES_TAG.fullmatch(tag)
    return parsed.group(1) if parsed and len(parsed.group(1)) < _WHOLE_CLUSTER else ""


def _pool_of_group(group: str, cluster: str) -> str:
    """`t4` of the group `gke-train-t4-82e0c046-grp` of cluster `train`; "" where the name may have been cut."""
    parsed = re.fullmatch(rf"gk[e3]-{re.escape(cluster)}-(.+)-[0-9a-f]{{8}}-grp", group) if cluster else None
    pool = parsed.group(1) if parsed else ""
    return pool if pool == "default-pool" or len(pool) < _WHOLE_POOL else ""


def _workstation(signs: VmSigns) -> Keeper | None:
    """Seven labels (cloud.google.com/workstations/docs/label-resources); the account of VMs without another is
    service-NUMBER@gcp-sa-workstationsvm.iam.gserviceaccount.com.
    """
    marks = signs.marks("goog-workstations", "goog-drz-workstation-")
    accounts = [one for one in signs.accounts if one.endswith("@gcp-sa-workstationsvm.iam.gserviceaccount.com")]
    if not marks and not accounts:
        return None
    own = [key for key in _WORKSTATION if key in signs.labels]
    return Keeper(
        KeeperKind.WORKSTATION,
        signs.label("workstation_id"),
        signs.first(signs.label("workstation_location"), signs.label("goog-drz-workstation-location"), signs.region),
        signs.label("workstation_cluster_id"),
        signs.label("workstation_config_id"),
        group_of(signs.origin)[0],
        evidence=signs.evidence([*marks, *own, *(["serviceAccounts"] if accounts else [])]),
    )


_WORKSTATION = ("workstation_id", "workstation_config_id", "workstation_cluster_id", "workstation_location")

RULES: tuple[Callable[[VmSigns], Keeper | None], ...] = (_workbench, _dataproc, _batch, _dataflow, _gke, _workstation)


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
