"""The service or group that keeps a VM, from its labels and metadata. Costguard never stops or deletes such a VM.

A managed instance group repairs a VM that others stop by recreating it from its template, on a fresh boot disk
(docs.cloud.google.com/compute/docs/instance-groups/about-repair): its data is lost, and it bills on. What marks the VMs
of each service was read from recorded instances, and for Batch and Dataflow from Google's documents and provider tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from typing import Any

CREATED_BY = "created-by"
KUBE_LABELS = "kube-labels"
_NAMES = (CREATED_BY, "cluster-name", "cluster-location")
_ORIGIN = frozenset({*_NAMES, KUBE_LABELS})
_POOL_KEY = "cloud.google.com/gke-nodepool"
_GROUP = re.compile(r"projects/[^/]+/(zones|regions)/([a-z0-9-]+)/instanceGroupManagers/([a-z0-9-]+)$")
_IS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")  # what may stand in a command and in a message
_LONGEST_ORIGIN = 500


class KeeperKind(StrEnum):
    GKE = "gke"
    DATAPROC = "dataproc"
    BATCH = "batch"
    DATAFLOW = "dataflow"
    GROUP = "instance_group"


@dataclass(frozen=True, slots=True)
class Keeper:
    """The service that keeps a VM: `name` is the cluster, job or group, `place` its zone or region; "" where nothing
    says it.

    `evidence` names the labels and metadata items that say so.
    """

    kind: KeeperKind
    name: str = ""
    place: str = ""
    pool: str = ""  # of GKE: the node pool
    group: str = ""  # the managed instance group that recreates the VM
    evidence: tuple[str, ...] = ()

    @property
    def whose(self) -> str:
        """`GKE cluster train (node pool t4)`"""
        pool = f" (node pool {self.pool})" if self.pool else ""
        return f"{_TITLES[self.kind]}{f' {self.name}' if self.name else ''}{pool}"

    @property
    def effect(self) -> str:
        """Describes the effect of a stop behind the keeper's back."""
        if self.kind is KeeperKind.GROUP or self.group:
            return "its group would recreate it on a fresh boot disk, so its data would be lost while it bills on"
        return f"only {_SERVICES[self.kind]} knows what runs on it, and may replace it on a fresh boot disk"

    def instead(self, vm: str, project: str) -> str:
        """The command by which a person stops it; capitals stand for what nothing says."""
        name, place, named = self.name, self.place, quote(project)
        match self.kind:
            case KeeperKind.GKE:
                return (
                    f"gcloud container clusters resize {name or 'CLUSTER'} --node-pool {self.pool or 'POOL'}"
                    f" --num-nodes 0 --location {place or 'LOCATION'} --project {named}"
                )
            case KeeperKind.DATAPROC:
                return (
                    f"gcloud dataproc clusters stop {name or 'CLUSTER'} --region {place or 'REGION'} --project {named}"
                )
            case KeeperKind.BATCH:
                return f"gcloud batch jobs cancel {name or 'JOB'} --location {place or 'REGION'} --project {named}"
            case KeeperKind.DATAFLOW:
                return f"gcloud dataflow jobs cancel {name or 'JOB'} --region {place or 'REGION'} --project {named}"
            case KeeperKind.GROUP:
                at = f"--zone {place}" if place.count("-") > 1 else f"--region {place or 'REGION'}"
                group = name or "GROUP"
                return (
                    f"gcloud compute instance-groups managed stop-instances {group}"
                    f" --instances {quote(vm)} {at} --project {named}"
                )

    def refusal(self, vm: str, project: str) -> str:
        """Explains why no way of Costguard stops this VM, and what to do instead, as sentences."""
        return f"{self.why(vm)} Instead, {self.advice(vm, project)}."

    def why(self, vm: str) -> str:
        return f"{vm} belongs to {self.whose}, so Costguard does not stop it: {self.effect}."

    def advice(self, vm: str, project: str) -> str:
        """Advises what a person does instead, as a clause with its command."""
        if self.kind is KeeperKind.GKE and vm.startswith("gk3-"):
            return "delete or scale down the workloads that run on it, and GKE Autopilot removes it"
        what = "its whole node pool" if self.kind is KeeperKind.GKE else _WHAT.get(self.kind, "it")
        return f"stop {what} with `{self.instead(vm, project)}`"


_TITLES = {
    KeeperKind.GKE: "GKE cluster",
    KeeperKind.DATAPROC: "Dataproc cluster",
    KeeperKind.BATCH: "Batch job",
    KeeperKind.DATAFLOW: "Dataflow job",
    KeeperKind.GROUP: "managed instance group",
}
_WHAT = {
    KeeperKind.DATAPROC: "its cluster",
    KeeperKind.BATCH: "its job",
    KeeperKind.DATAFLOW: "its job",
}
_SERVICES = {
    KeeperKind.GKE: "GKE",
    KeeperKind.DATAPROC: "Dataproc",
    KeeperKind.BATCH: "Batch",
    KeeperKind.DATAFLOW: "Dataflow",
}


def origin_of(items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the metadata items that show a VM's keeper: a few short values of perhaps 30 KB.

    Of a GKE node's `kube-labels` it takes the node pool alone. Raises AttributeError or TypeError for values that are
    no items.
    """
    origin: dict[str, str] = {}
    for item in items:
        key, value = item.get("key"), item.get("value")
        if not isinstance(value, str):
            continue
        if key in _NAMES:
            origin[key] = value[-_LONGEST_ORIGIN:]
        elif key == KUBE_LABELS:
            pairs = (pair.partition("=") for pair in value.split(","))
            pool = next((pool for label, _, pool in pairs if label == _POOL_KEY), "")
            origin[key] = f"{_POOL_KEY}={pool[:_LONGEST_ORIGIN]}"
    return origin


def is_of_origin(item: Mapping[str, Any]) -> bool:
    """Says whether `origin_of` takes anything from this metadata item."""
    return item.get("key") in _ORIGIN


def keeper_of(labels: Mapping[str, str], origin: Mapping[str, str], zone: str = "") -> Keeper | None:
    """Returns the keeper of a VM with these labels and this origin; None where a stop from outside is safe.

    Vertex AI Workbench is no keeper: its VMs may be stopped through Compute Engine. `zone` is the VM's own.
    """
    if not labels and not origin:
        return None
    group, group_name, group_place = _group(origin)
    region = zone.rpartition("-")[0]

    def made(kind: KeeperKind, name: str, place: str, marks: Iterable[str], pool: str = "") -> Keeper:
        evidence = (*sorted(marks), *((CREATED_BY,) if group else ()))
        return Keeper(kind, _name(name), _name(place), _name(pool), group, evidence)

    if marks := _of_dataproc(labels):
        place = labels.get("goog-dataproc-location", region)
        return made(KeeperKind.DATAPROC, labels.get("goog-dataproc-cluster-name", ""), place, marks)
    if marks := _of_batch(labels):
        return made(KeeperKind.BATCH, labels.get("batch-job-id", ""), region, marks)
    if marks := [label for label in labels if label.startswith("goog-dataflow-")]:
        return made(KeeperKind.DATAFLOW, labels.get("goog-dataflow-job-id", ""), region, marks)
    if (of_gke := _of_gke(labels, origin, group_name)) is not None:
        cluster = labels.get("goog-k8s-cluster-name") or origin.get("cluster-name", "")
        pool = labels.get("goog-k8s-node-pool-name") or origin.get(KUBE_LABELS, "").partition("=")[2]
        place = labels.get("goog-k8s-cluster-location") or origin.get("cluster-location", "")
        return made(KeeperKind.GKE, cluster, place, of_gke, pool)
    if group:
        return made(KeeperKind.GROUP, group_name, group_place, ())
    return None


def keeper_of_own(origin: Mapping[str, str]) -> Keeper | None:
    """Returns the keeper of a VM that Costguard launched, as its id proves: no service labels a VM that it did not
    make.

    The only evidence left is a group's `created-by`, which Google sets. "A managed instance group creates each of its
    managed instances" (docs.cloud.google.com/compute/docs/instance-groups/working-with-managed-instances).
    """
    return keeper_of({}, {CREATED_BY: origin[CREATED_BY]}) if CREATED_BY in origin else None


def _group(origin: Mapping[str, str]) -> tuple[str, str, str]:
    """Path, name and zone or region of the managed instance group that made it; a path that is odd counts as one."""
    path = origin.get(CREATED_BY, "")
    if "instanceGroupManagers" not in path:
        return "", "", ""
    parsed = _GROUP.search(path)
    return (parsed.group(0), parsed.group(3), parsed.group(2)) if parsed else ("instanceGroupManagers", "", "")


def _of_dataproc(labels: Mapping[str, str]) -> list[str]:
    return [label for label in labels if label.startswith("goog-dataproc-")]


def _of_batch(labels: Mapping[str, str]) -> list[str]:
    """Batch labels its VMs `batch-job-id`, `batch-job-uid` and `batch-node`, without Google's prefix.

    A person may have a `batch-job-id` or a `batch-node` of their own: one of these alone says nothing.
    """
    marks = [label for label in labels if label in _BATCH or label.startswith("goog-batch-")]
    return marks if set(marks) - {"batch-job-id", "batch-node"} or len(marks) > 1 else []


_BATCH = frozenset({"batch-job-id", "batch-job-uid", "batch-node"})


def _of_gke(labels: Mapping[str, str], origin: Mapping[str, str], group: str) -> list[str] | None:
    """Returns the evidence that a VM is a GKE node; None where it is none.

    Nodes of all ages have `goog-gke-node`; their group's name and `kube-labels` say it where labels went.
    """
    marks = [label for label in labels if label.startswith(("goog-gke-", "goog-k8s-"))]
    if not marks and not origin.get(KUBE_LABELS) and not group.startswith(("gke-", "gk3-")):
        return None
    return marks + [key for key in origin if key != CREATED_BY]


def _name(text: str) -> str:
    return text if _IS_NAME.fullmatch(text) else ""
