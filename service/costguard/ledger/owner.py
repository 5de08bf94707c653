"""A VM's owner and preset, from its labels and the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from costguard.model.instance import Shape
from costguard.model.keeper import Keeper
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import Claim

PRESET_LABEL = "costguard-preset"


def classify(labels: Mapping[str, str], shape: Shape, presets: Sequence[Preset]) -> str:
    """The name of the VM's preset: the one its label names, else the first that matches, else `other`.

    A label that names no known preset is passed over, so that a typing error does not hide a VM's GPUs.
    """
    named = labels.get(PRESET_LABEL)
    if named is not None and (named == OTHER or any(preset.name == named for preset in presets)):
        return named
    return next((preset.name for preset in presets if _matches(preset.match, labels, shape)), OTHER)


def _matches(match: Match, labels: Mapping[str, str], shape: Shape) -> bool:
    if match == Match():
        return False
    return (
        all(labels.get(key) == value for key, value in match.labels.items())
        and (not match.gpu_types or shape.gpu_type in match.gpu_types)
        and shape.gpu_count >= match.gpu_count_min
        and (match.gpu_count_max is None or shape.gpu_count <= match.gpu_count_max)
    )


class OwnerSource(StrEnum):
    JOB = "job"
    CLAIM = "claim"
    LABEL = "label"
    CLUSTER = "cluster"
    CREATOR = "creator"
    NOBODY = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """`address` is "" when nobody is known; `how` says in words how we know, or what little we know."""

    address: str
    source: OwnerSource
    how: str


@dataclass(frozen=True, slots=True)
class OwnerRules:
    """The label that names the owner, and the way a label value becomes an address.

    Label values cannot hold `@` or `.`: `addresses` maps a whole value, `domain` completes any other. `clusters` names
    the owners of clusters, as `train`, and of their pools, as `train/t4`.
    """

    label: str = "owner"
    domain: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)


def owner_of(
    labels: Mapping[str, str],
    created_by: str | None,
    job_owner: str | None,
    rules: OwnerRules,
    claim: Claim | None = None,
    keeper: Keeper | None = None,
) -> Owner:
    """The owner: of the job that launched the VM, by the latest claim, by its label, of its pool or cluster, else who
    created it, else nobody.

    A VM that someone disowned is unowned: its label or creator misled us. A service account that created it
    is no owner either: nobody reads its mail.
    """
    if job_owner:
        return Owner(job_owner, OwnerSource.JOB, "launched by their job")
    if claim is not None and claim.owner:
        return Owner(claim.owner, OwnerSource.CLAIM, f"claimed by {claim.by}")
    if claim is not None:
        return Owner("", OwnerSource.NOBODY, f"disowned by {claim.by}")
    labelled = labels.get(rules.label, "")
    if labelled:
        return Owner(_address(labelled, rules), OwnerSource.LABEL, f"label {rules.label}")
    if keeper is not None and keeper.cluster:
        for name in (keeper.where, keeper.cluster):
            if name in rules.clusters:
                return Owner(rules.clusters[name], OwnerSource.CLUSTER, f"the settings name the owner of {name}")
    if not created_by:
        return Owner("", OwnerSource.NOBODY, f"no label {rules.label}, and nothing says who created it")
    if is_person(created_by):
        return Owner(created_by, OwnerSource.CREATOR, "created it")
    return Owner("", OwnerSource.NOBODY, f"created by {created_by}")


def _address(labelled: str, rules: OwnerRules) -> str:
    if labelled in rules.addresses:
        return rules.addresses[labelled]
    if rules.domain and "@" not in labelled:
        return f"{labelled}@{rules.domain}"
    return labelled


def is_person(account: str) -> bool:
    """Says whether an account is a person: not `system`, not a `principal://` of another identity pool, not a service
    account.
    """
    return "@" in account and "/" not in account and not account.endswith("gserviceaccount.com")
