"""Reads who keeps a VM, from its labels, its metadata, its tags and its service accounts.

A managed instance group repairs a VM that others stop by recreating it from its template, on a fresh boot disk
(docs.cloud.google.com/compute/docs/instance-groups/about-repair): its data is lost, and it bills on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from costguard.keepers.services import RULES, VmSigns, group_of, tool_of
from costguard.model.attempt import ATTEMPT_LABEL, GROUP_LABEL, is_group_name
from costguard.model.instance import kind_of_collection
from costguard.model.keeper import TPU_SLICE, Keeper, KeeperKind
from costguard.model.managed.origin import CREATED_BY, TPU_NODE, VERTEX

_MAKERS = {  # labels that say who made a VM, and keep nothing
    "goog-terraform-provisioned": "Terraform",
    "managed-by-cnrm": "Config Connector",
}


@dataclass(frozen=True, slots=True)
class VmFacts:
    """Holds the labels and metadata of a VM.

    `origin` are the metadata items of `origin_of`; None where the metadata were not readable.
    """

    labels: Mapping[str, str]
    origin: Mapping[str, str] | None = field(default_factory=dict)
    zone: str = ""
    tags: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()  # addresses of its service accounts


def read_keeper(facts: VmFacts) -> Keeper:
    """Says who keeps a VM. What is read proves no person: NOBODY means that nothing keeps it.

    Services go before the tools and groups that they work with, and all before a job of ours: a group's template may
    carry the labels of a job's VM.
    """
    signs = VmSigns(facts.labels, facts.origin or {}, facts.zone, facts.tags, facts.accounts)
    for rule in (*RULES, tool_of):
        if (keeper := rule(signs)) is not None:
            return _doubted(keeper, facts)
    if TPU_NODE in signs.origin:
        product = TPU_SLICE if signs.origin[TPU_NODE] == "slice" else ""
        return Keeper(KeeperKind.TPU, place=facts.zone, product=product, evidence=(TPU_NODE,))
    if VERTEX in signs.origin:
        return _of_vertex(signs)
    if own := own_group(facts.labels, signs.origin):
        return Keeper(KeeperKind.JOB, signs.name(own), evidence=(GROUP_LABEL, CREATED_BY))
    group, name, place = group_of(signs.origin)
    if group:
        return Keeper(KeeperKind.GROUP, name, place, group=group, evidence=(CREATED_BY,))
    if CREATED_BY in signs.origin:
        return Keeper(
            KeeperKind.UNKNOWN,
            evidence=(CREATED_BY,),
            doubt=f"Its metadata item {CREATED_BY} is not the path of an instance group, as Google would write it.",
        )
    if ATTEMPT_LABEL in facts.labels:
        return Keeper(KeeperKind.JOB, signs.name(facts.labels[ATTEMPT_LABEL]), evidence=(ATTEMPT_LABEL,))
    if facts.origin is None:
        doubt = "Its metadata could not be read, and nothing else says it."
        return Keeper(KeeperKind.UNKNOWN, evidence=("metadata",), doubt=doubt)
    makers = [label for label in _MAKERS if label in facts.labels]
    return Keeper(KeeperKind.NOBODY, product=_MAKERS[makers[0]] if makers else "", evidence=tuple(makers))


def _of_vertex(signs: VmSigns) -> Keeper:
    """Vertex AI keeps what its lists show: the end of the resource's name is `customJobs/4567`, say."""
    collection, _, rest = signs.origin[VERTEX].partition("/")
    name, _, part = rest.partition("/")
    kind = kind_of_collection(collection)
    return Keeper(
        KeeperKind.VERTEX,
        signs.name(name),
        signs.name(signs.zone),
        pool=signs.name(part),
        product=kind.in_words if kind is not None else "",
        evidence=(VERTEX,),
    )


def keeper_of(labels: Mapping[str, str], origin: Mapping[str, str], zone: str = "") -> Keeper | None:
    """Returns the keeper of a VM with these labels and this origin; None where a stop from outside is safe.

    `zone` is the VM's own.
    """
    if _tell_nothing(labels, origin):
        return None
    keeper = read_keeper(VmFacts(labels, origin, zone))
    return keeper if keeper.kind.keeps else None


def _tell_nothing(labels: Mapping[str, str], origin: Mapping[str, str]) -> bool:
    """Says whether no rule could read anything in them, as of most VMs of a fleet."""
    return not origin and not any(key.startswith(_TELLING) for key in labels)


def why_unknown(origin: Mapping[str, str]) -> str:
    """Explains why it is not known who keeps a VM that nothing else is known to keep; "" where it is known.

    No rule stops such a VM; a user may, who knows more.
    """
    if CREATED_BY not in origin:
        return ""
    keeper = read_keeper(VmFacts({}, origin))
    return keeper.doubt if keeper.kind is KeeperKind.UNKNOWN else ""


_TELLING = (  # of labels
    *("goog-", "notebooks-", "batch-", "skypilot-", "dstack_", "slurm_", "ray-", "ghpc_", "managed-by-cnrm"),
    *(ATTEMPT_LABEL, GROUP_LABEL),
)
_OF_NOBODY = Keeper(KeeperKind.NOBODY)


def recorded_keeper(labels: Mapping[str, str], origin: Mapping[str, str], zone: str, job: str) -> Keeper:
    """Returns the keeper as the ledger records it; `job` is ours whose attempt launched the VM, as its id proves."""
    if job:
        return keeper_of_own(labels, origin) or Keeper(KeeperKind.JOB, job)
    if _tell_nothing(labels, origin):
        return _OF_NOBODY
    return read_keeper(VmFacts(labels, origin, zone))


def own_group(labels: Mapping[str, str], origin: Mapping[str, str]) -> str:
    """Returns the name of the group of Costguard's that made this VM, for a gang on flex-start; "" for any other.

    Its label and Google's `created-by` name the same group, by a name as we give them: a group whose template was made
    from one of our VMs has another name. Such a group repairs nothing, and goes with its job.
    """
    name, label = group_of(origin)[1], labels.get(GROUP_LABEL, "")
    return name if name and name == label and is_group_name(name) else ""


def keeper_of_own(labels: Mapping[str, str], origin: Mapping[str, str]) -> Keeper | None:
    """Returns the keeper of a VM that Costguard launched, as its id proves: no service labels a VM that it did not
    make.

    The only evidence left is a group's `created-by`, which Google sets. "A managed instance group creates each of its
    managed instances" (docs.cloud.google.com/compute/docs/instance-groups/working-with-managed-instances).
    """
    if CREATED_BY not in origin or own_group(labels, origin):
        return None
    return keeper_of({}, {CREATED_BY: origin[CREATED_BY]})


def _doubted(keeper: Keeper, facts: VmFacts) -> Keeper:
    """Says so where nothing but labels names a service that writes metadata into every VM: anybody may set labels."""
    proofs = _PROOFS.get(keeper.kind)
    if proofs is None or facts.origin is None or any(key.startswith(proofs) for key in facts.origin):
        return keeper
    title = {KeeperKind.DATAPROC: "Dataproc", KeeperKind.WORKBENCH: "Workbench"}.get(keeper.kind, "GKE")
    marks = ", ".join(keeper.evidence[:3])
    return replace(
        keeper,
        doubt=f"Its labels alone say so ({marks}), and no metadata of {title} confirm them: a user may have set them "
        "by hand. It is left alone until they are removed.",
    )


_PROOFS = {
    KeeperKind.GKE: (CREATED_BY, "cluster-", "kube-"),
    KeeperKind.COMPOSER: (CREATED_BY, "cluster-", "kube-"),
    KeeperKind.DATAPROC: (CREATED_BY, "dataproc-"),
    KeeperKind.WORKBENCH: ("notebooks-api", "proxy-url"),
}
