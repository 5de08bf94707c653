"""The keeper of a VM: the service, group or tool that would notice, or undo, a stop behind its back."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from typing import Any, NamedTuple

# What the ledger calls a keeper among labels: spend, budgets and filters take it as they take labels.
KEEPER_LABEL, CLUSTER_LABEL, POOL_LABEL = "costguard-keeper", "costguard-cluster", "costguard-pool"
KIND_LABEL = "costguard-kind"  # `custom job`, `deployed model`, `SkyPilot cluster`; not of a plain VM


def label_of_cluster(cluster: str) -> str:
    """Returns the ledger's label that has `train` among its values, or `train/t4` of a cluster's pool."""
    return POOL_LABEL if "/" in cluster else CLUSTER_LABEL


class KeeperKind(StrEnum):
    GKE = "gke"
    GROUP = "group"  # a managed instance group of a person's
    DATAPROC = "dataproc"
    WORKBENCH = "workbench"
    BATCH = "batch"
    DATAFLOW = "dataflow"
    COMPOSER = "composer"
    WORKSTATION = "workstation"
    TPU = "tpu"  # the Cloud TPU API, of the VMs of its nodes
    VERTEX = "vertex"  # Vertex AI and Colab Enterprise, of the machines of their jobs, endpoints and runtimes
    TOOL = "tool"  # SkyPilot, dstack, Slurm, the Cluster Toolkit, Ray
    JOB = "job"  # an attempt of ours
    NOBODY = "nobody"  # it was read, and nothing keeps it
    UNKNOWN = "unknown"  # what would say it could not be read, or makes no sense

    @property
    def keeps(self) -> bool:
        """Says whether something other than Costguard keeps the VM."""
        return self not in _KEEPS_NOTHING

    @property
    def in_words(self) -> str:
        """`GKE`, `instance group`"""
        return _KINDS_IN_WORDS.get(self, self.value)


STOPPED_THROUGH = (  # which have a stop for one VM
    *(KeeperKind.GROUP, KeeperKind.WORKBENCH, KeeperKind.WORKSTATION),
    KeeperKind.VERTEX,
)
_KEEPS_NOTHING = frozenset({KeeperKind.JOB, KeeperKind.NOBODY, KeeperKind.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Keeper:
    """Names what keeps a VM.

    `name` is the cluster, environment, job, notebook, workstation or group that it is part of, and `place` its zone or
    region; "" where nothing says it.

    `evidence` names the labels, metadata items and accounts that say so. `doubt` is a sentence where they contradict
    each other, or prove less than they say.
    """

    kind: KeeperKind
    name: str = ""
    place: str = ""
    cluster: str = ""  # of GKE, Composer, Dataproc, workstations and tools
    pool: str = ""  # of GKE: the node pool; of a workstation: its configuration
    group: str = ""  # the path of the managed instance group that recreates the VM
    product: str = ""  # which tool, or which kind of notebook
    evidence: tuple[str, ...] = ()
    doubt: str = ""

    @property
    def whose(self) -> str:
        """`GKE cluster train (node pool t4)`"""
        if self.kind in (KeeperKind.TPU, KeeperKind.VERTEX):
            return _SERVICES[self.kind]
        pool = f" (node pool {self.pool})" if self.pool and self.kind in _OF_GKE else ""
        return f"{self.product or _TITLES[self.kind]}{f' {self.name}' if self.name else ''}{pool}"

    @property
    def where(self) -> str:
        """`train/t4` of a cluster's pool, as filters take it; else the name of what keeps it; "" of Vertex AI,
        which numbers its resources.
        """
        if self.kind is KeeperKind.VERTEX:
            return ""
        return "/".join(part for part in (self.cluster or self.name, self.cluster and self.pool) if part)

    @property
    def stops_as_one(self) -> bool:
        """Says whether one command stops all its VMs, and none of them alone: people are asked about all at once."""
        if self.kind is KeeperKind.GKE:
            return bool(self.cluster and self.pool)
        return bool(self.where) and (self.kind in _AS_ONE or self.product in (SKYPILOT, RAY, CLUSTER_TOOLKIT))

    @property
    def effect(self) -> str:
        """Describes the effect of a stop of its VM behind the keeper's back."""
        if self.kind is KeeperKind.GROUP or self.group:
            return "its group would recreate it on a fresh boot disk, so its data would be lost while it bills on"
        if self.kind is KeeperKind.TPU:
            return "its VMs are in a project of Google's, and only the Cloud TPU API stops or deletes them"
        if self.kind is KeeperKind.VERTEX:
            return "its machines are in a project of Google's, and only the API of Vertex AI gives them back"
        if self.kind in (KeeperKind.WORKBENCH, KeeperKind.WORKSTATION):
            return f"{_SERVICES[self.kind]} has a stop of its own, and would not know of another"
        return f"only {self._service} knows what runs on it, and may replace it on a fresh boot disk"

    @property
    def _service(self) -> str:
        return self.product.partition(" ")[0] or _SERVICES[self.kind]

    @property
    def has_own_stop(self) -> bool:
        """Says whether an API of its keeper stops this one VM, and all that the call has to name is known.

        A node of GKE has none, though a group keeps it: the cluster decides about its nodes.
        """
        if self.doubt or not self.name or not self.place:
            return False
        if self.kind is KeeperKind.WORKSTATION:
            return bool(self.cluster and self.pool)
        if self.kind is KeeperKind.VERTEX:
            return self.product in _VERTEX_STOPS
        return self.kind is KeeperKind.GROUP or (self.kind is KeeperKind.WORKBENCH and self.product != USER_MANAGED)

    def is_stopped_by(self, through: Collection[KeeperKind]) -> bool:
        """Says whether Costguard stops its VM by the keeper's own stop; `through`: the kinds that settings name."""
        return self.kind in through and self.has_own_stop

    def own_stop(self, vm: str) -> str:
        """Describes the effect of its keeper's own stop, as a sentence for a user who is about to ask for it.

        Whether a group has an autoscaler is read when the stop is asked for; Slack shows 300 characters.
        """
        if self.kind is KeeperKind.VERTEX:
            return f"{vm}: {_VERTEX_STOPS[self.product].effect}"
        by = _SERVICES.get(self.kind) or (
            f"its group {self.name}, whose size falls by one; if it has an autoscaler, nothing is stopped"
        )
        return f"{vm} will be stopped by {by}. Its disks stay and are billed; data in memory and on local SSDs is lost."

    def instead(self, vm: str, project: str) -> str:
        """The command by which a person stops it; capitals stand for what nothing says."""
        if self.kind is KeeperKind.TOOL:
            return _of_tool(self, vm)
        name, place, cluster = self.name, self.place, self.cluster
        match self.kind:
            case KeeperKind.GKE:
                command = f"container clusters resize {cluster or 'CLUSTER'} --node-pool {self.pool or 'POOL'}"
                command += f" --num-nodes 0 --location {place or 'LOCATION'}"
            case KeeperKind.DATAPROC:
                command = f"dataproc clusters stop {name or 'CLUSTER'} --region {place or 'REGION'}"
            case KeeperKind.BATCH:
                command = f"batch jobs cancel {name or 'JOB'} --location {place or 'REGION'}"
            case KeeperKind.DATAFLOW:
                command = f"dataflow jobs cancel {name or 'JOB'} --region {place or 'REGION'}"
            case KeeperKind.COMPOSER:
                command = f"composer environments describe {name or 'ENVIRONMENT'} --location {place or 'LOCATION'}"
            case KeeperKind.WORKBENCH:
                api = "notebooks" if self.product == USER_MANAGED else "workbench"
                command = f"{api} instances stop {name or quote(vm)} --location {place or 'ZONE'}"
            case KeeperKind.WORKSTATION:
                command = f"workstations stop {name or 'WORKSTATION'} --cluster {cluster or 'CLUSTER'}"
                command += f" --config {self.pool or 'CONFIG'} --region {place or 'REGION'}"
            case KeeperKind.TPU:
                verb = "delete" if self.product == TPU_SLICE else "stop"
                command = f"compute tpus tpu-vm {verb} {quote(name or vm)} --zone {place or 'ZONE'}"
            case KeeperKind.VERTEX:
                command = _of_vertex(self)
            case KeeperKind.GROUP:
                at = f"--zone {place}" if place.count("-") > 1 else f"--region {place or 'REGION'}"
                command = (
                    f"compute instance-groups managed stop-instances {name or 'GROUP'} --instances {quote(vm)} {at}"
                )
            case _:
                command = f"compute instances stop {quote(vm)}{f' --zone {place}' if place else ''}"
        return f"gcloud {command} --project {quote(project)}"

    def refusal(self, vm: str, project: str) -> str:
        """Explains why no way of Costguard stops this VM, and what to do instead, as sentences."""
        return f"{self.why(vm)} Instead, {self.advice(vm, project)}."

    def pool_refusal(self, vm: str, project: str) -> str:
        """`refusal` of the pool that this VM is one of, which one command stops as a whole."""
        if self.group:
            effect = (
                "their group would recreate each on a fresh boot disk, so their data would be lost while they bill on"
            )
        else:
            effect = f"only {self._service} knows what runs on them, and may replace them on fresh boot disks"
        return f"Costguard stops none of these VMs: {effect}. Instead, {self.advice(vm, project)}."

    def why(self, vm: str) -> str:
        doubt = f" {self.doubt}" if self.doubt else ""
        return f"{self._belonging(vm)}, so Costguard does not stop it: {self.effect}.{doubt}"

    def _belonging(self, vm: str) -> str:
        is_itself = self.kind in (KeeperKind.WORKBENCH, KeeperKind.TPU) and self.name in ("", vm)
        is_itself = is_itself or self.kind is KeeperKind.VERTEX
        return f"{vm} is a {self.product or _TITLES[self.kind]}" if is_itself else f"{vm} belongs to {self.whose}"

    def advice(self, vm: str, project: str) -> str:
        """Advises what a person does instead, as a clause with its command."""
        if self.kind is KeeperKind.GKE and vm.startswith("gk3-"):
            return "delete or scale down the workloads that run on it, and GKE Autopilot removes it"
        if self.kind is KeeperKind.COMPOSER:
            return f"make its environment smaller, or delete it; `{self.instead(vm, project)}` shows it"
        what = "its whole node pool" if self.kind is KeeperKind.GKE else _WHAT.get(self.kind, "it")
        allowing = (
            f' (or let Costguard do so by enforcement.stop_through = ["{self.kind}"])' if self.has_own_stop else ""
        )
        verb = "delete" if self.product == TPU_SLICE else "stop"
        if self.kind is KeeperKind.VERTEX:
            verb = _VERTEX_STOPS[self.product].verb if self.product in _VERTEX_STOPS else "delete"
        return f"{verb} {what} with `{self.instead(vm, project)}`{allowing}"

    def stored(self) -> dict[str, Any]:
        """The fields that the ledger keeps, without empty ones; `cluster_pool` is `train/t4`."""
        parts = {name: value for name, value in self.as_json().items() if value}
        return parts | ({"cluster_pool": f"{self.cluster}/{self.pool}"} if self.cluster and self.pool else {})

    @classmethod
    def of_stored(cls, parts: Mapping[str, Any]) -> Keeper | None:
        """Reads what `stored` gave; None where the ledger has not read a keeper yet."""
        if not parts:
            return None
        texts = {name: str(parts.get(name, "")) for name in ("name", "place", "cluster", "pool", "group", "product")}
        evidence = tuple(parts.get("evidence", ()))
        return cls(KeeperKind(parts["keeper"]), **texts, evidence=evidence, doubt=str(parts.get("doubt", "")))

    def as_json(self) -> dict[str, str | list[str] | None]:
        """The fields that programs read; null where nothing says it."""
        return {
            "keeper": self.kind.value,
            "name": self.name or None,
            "cluster": self.cluster or None,
            "pool": self.pool or None,
            "group": self.group or None,
            "place": self.place or None,
            "product": self.product or None,
            "evidence": list(self.evidence),
            "doubt": self.doubt or None,
        }

    def in_words(self, vm: str) -> str:
        """Says who keeps the VM, as sentences. Who made it is not said: nothing of an instance proves that."""
        match self.kind:
            case KeeperKind.NOBODY:
                words = f"Nothing keeps {vm}: no group, service of Google or other tool that Costguard knows."
                return words + (f" {self.product} made it." if self.product else "")
            case KeeperKind.UNKNOWN:
                return f"Who keeps {vm} is not known. {self.doubt}".rstrip()
            case KeeperKind.JOB:
                return f"{vm} is an attempt of a job of Costguard's{f', {self.name}' if self.name else ''}."
        return f"{self._belonging(vm)}.{f' {self.doubt}' if self.doubt else ''}"


USER_MANAGED = "user-managed notebook"
TPU_SLICE = "TPU slice"
"""A node of several hosts: nodes.stop of tpu.v2 is "only available with single TPU nodes"."""
SKYPILOT, DSTACK, SLURM, RAY = "SkyPilot cluster", "dstack instance", "Slurm cluster", "Ray cluster"
CLUSTER_TOOLKIT = "Cluster Toolkit deployment"

_AS_ONE = (KeeperKind.COMPOSER, KeeperKind.DATAPROC, KeeperKind.BATCH, KeeperKind.DATAFLOW)
_OF_GKE = (KeeperKind.GKE, KeeperKind.COMPOSER)
_TITLES = {
    KeeperKind.GKE: "GKE cluster",
    KeeperKind.GROUP: "managed instance group",
    KeeperKind.DATAPROC: "Dataproc cluster",
    KeeperKind.WORKBENCH: "Workbench instance",
    KeeperKind.BATCH: "Batch job",
    KeeperKind.DATAFLOW: "Dataflow job",
    KeeperKind.COMPOSER: "Composer environment",
    KeeperKind.WORKSTATION: "workstation",
    KeeperKind.TPU: "TPU node",
    KeeperKind.VERTEX: "resource of Vertex AI",
    KeeperKind.TOOL: "another tool",
    KeeperKind.JOB: "job",
    KeeperKind.NOBODY: "nobody",
    KeeperKind.UNKNOWN: "an unknown keeper",
}
_WHAT = {
    KeeperKind.DATAPROC: "its cluster",
    KeeperKind.BATCH: "its job",
    KeeperKind.DATAFLOW: "its job",
}
_SERVICES = {
    KeeperKind.GKE: "GKE",
    KeeperKind.DATAPROC: "Dataproc",
    KeeperKind.WORKBENCH: "Workbench",
    KeeperKind.BATCH: "Batch",
    KeeperKind.DATAFLOW: "Dataflow",
    KeeperKind.COMPOSER: "Composer",
    KeeperKind.WORKSTATION: "Cloud Workstations",
    KeeperKind.TPU: "Cloud TPU",
    KeeperKind.VERTEX: "Vertex AI",
}
_KINDS_IN_WORDS = {
    **_SERVICES,
    KeeperKind.GROUP: "instance group",
    KeeperKind.TOOL: "another tool",
    KeeperKind.JOB: "a job",
    KeeperKind.UNKNOWN: "not known",
}


class _VertexStop(NamedTuple):
    """The request that gives a resource's machines back, as a person says it, and its effect."""

    verb: str
    effect: str


CUSTOM_JOB, COLAB_RUNTIME, DEPLOYED_MODEL = "custom job", "Colab Enterprise runtime", "deployed model"
_VERTEX_STOPS = {
    CUSTOM_JOB: _VertexStop(
        "cancel",
        "the custom job will be cancelled, for good; what it has not written to a bucket is lost.",
    ),
    COLAB_RUNTIME: _VertexStop(
        "stop",
        "the Colab Enterprise runtime will be stopped; its disks stay and are billed, and what is in memory is lost.",
    ),
    DEPLOYED_MODEL: _VertexStop(
        "undeploy",
        "the model will be undeployed from its endpoint, which then answers no requests with it; the model stays.",
    ),
}


def _of_vertex(keeper: Keeper) -> str:
    """The command that gives the machines back; of a persistent resource and of a pool there is a deletion alone."""
    name, region = keeper.name or "NAME", f"--region {keeper.place or 'REGION'}"
    if keeper.product == CUSTOM_JOB:
        return f"ai custom-jobs cancel {name} {region}"
    if keeper.product == COLAB_RUNTIME:
        return f"colab runtimes stop {name} {region}"
    if keeper.product == DEPLOYED_MODEL:
        return f"ai endpoints undeploy-model {name} --deployed-model-id {keeper.pool or 'ID'} {region}"
    kind = "persistent-resources" if keeper.product == "persistent resource" else "deployment-resource-pools"
    return f"ai {kind} delete {name} {region}"


def _of_tool(keeper: Keeper, vm: str) -> str:
    """The tool's own command. dstack numbers the instances of a fleet: `pool-0` is the first of `pool`."""
    name = keeper.name
    if keeper.product == SKYPILOT:
        return f"sky stop {name or 'CLUSTER'}"
    if keeper.product == DSTACK:
        fleet, _, number = name.rpartition("-")
        numbered = fleet and re.fullmatch(r"\d+", number)
        return f"dstack fleet delete {fleet} -i {number}" if numbered else "dstack fleet delete FLEET -i INSTANCE"
    if keeper.product == SLURM:
        return f"scontrol update NodeName={quote(vm)} State=POWER_DOWN"
    if keeper.product == CLUSTER_TOOLKIT:
        return f"gcluster destroy {name or 'DEPLOYMENT'}"
    return f"ray down {name or 'CLUSTER'}.yaml"
