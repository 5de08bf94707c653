"""Keepers of VMs are recognised: recorded instances of each kind, and label names from Google's documents and provider
tests.
"""

from __future__ import annotations

from typing import Any

import pytest

from costguard.keepers.reading import VmFacts, keeper_of, keeper_of_own, own_group, read_keeper, recorded_keeper
from costguard.model.attempt import ATTEMPT_LABEL, GROUP_LABEL
from costguard.model.keeper import Keeper, KeeperKind
from costguard.model.managed.origin import origin_of

ZONE = "us-central1-a"
GROUP = "projects/1234/zones/us-central1-a/instanceGroupManagers/trainers"
REGIONAL = "projects/1234/regions/us-central1/instanceGroupManagers/trainers"


def of(labels: dict[str, str] | None = None, zone: str = ZONE, **items: str) -> Keeper | None:
    named = [{"key": key.replace("_", "-"), "value": value} for key, value in items.items()]
    return keeper_of(labels or {}, origin_of(named), zone)


def kept(labels: dict[str, str] | None = None, **items: str) -> Keeper:
    keeper = of(labels, **items)
    assert keeper is not None
    return keeper


def test_an_old_gke_node_without_the_newer_labels_names_cluster_and_pool() -> None:
    """The metadata have them, as the recordings' README says."""
    keeper = kept(
        {"goog-gke-node": ""},
        created_by="projects/1/zones/us-central1-a/instanceGroupManagers/gke-train-t4-pool-82e0c046-grp",
        cluster_name="train",
        cluster_location="us-central1",
        kube_labels="cloud.google.com/gke-accelerator=nvidia-tesla-t4,cloud.google.com/gke-nodepool=t4-pool",
    )
    assert (keeper.kind, keeper.name, keeper.pool, keeper.place) == (KeeperKind.GKE, "train", "t4-pool", "us-central1")
    assert keeper.instead("gke-vm", "acme") == (
        "gcloud container clusters resize train --node-pool t4-pool --num-nodes 0 --location us-central1 --project acme"
    )


@pytest.mark.parametrize(
    "label",
    [
        *("goog-gke-node", "goog-dataproc-cluster-uuid", "notebooks-product", "batch-job-id", "skypilot-cluster-name"),
        *("dstack_project", "slurm_cluster_name", "ray-cluster-name", "ghpc_deployment", "goog-terraform-provisioned"),
        *("managed-by-cnrm", ATTEMPT_LABEL, GROUP_LABEL, "team", ""),
    ],
)
def test_recorded_keeper_is_the_one_that_all_rules_read(label: str) -> None:
    """No label that a rule knows is passed over because most VMs have none."""
    labels = {label: "some-name"} if label else {}
    assert recorded_keeper(labels, {}, ZONE, "") == read_keeper(VmFacts(labels, {}, ZONE))


@pytest.mark.parametrize("name", ["gke-train-t4-82e0c046-grp", "gk3-auto-nap-1-82e0c046-grp"])
def test_a_node_whose_labels_are_lost_is_known_by_its_group(name: str) -> None:
    """The group is of a standard cluster or of Autopilot, whose groups begin with gk3
    (cloud.google.com/kubernetes-engine).
    """
    keeper = kept(created_by=f"projects/1/zones/us-central1-a/instanceGroupManagers/{name}")
    assert keeper.kind is KeeperKind.GKE
    assert keeper.group.endswith(name)
    assert keeper.instead("vm", "acme").startswith("gcloud container clusters resize CLUSTER ")


def test_a_group_is_known_at_the_end_of_a_long_path() -> None:
    """A whole address with a long project keeps its end, which says whose the VM is."""
    host = f"https://www.googleapis.com/compute/v1/{'x' * 500}/"
    assert kept(created_by=host + GROUP).name == "trainers"


@pytest.mark.parametrize(
    ("labels", "kind", "name"),
    [
        ({"goog-gke-node": ""}, KeeperKind.GKE, ""),
        ({"goog-k8s-node-pool-name": "t4", "goog-k8s-cluster-name": "train"}, KeeperKind.GKE, "train"),
        ({"goog-gke-node-pool-provisioning-model": "spot"}, KeeperKind.GKE, ""),
        ({"goog-dataproc-cluster-name": "etl", "goog-dataproc-location": "us-east1"}, KeeperKind.DATAPROC, "etl"),
        ({"goog-dataproc-autozone": "enabled"}, KeeperKind.DATAPROC, ""),
        # cloud.google.com/batch/docs/organize-resources-using-labels: three labels, without Google's prefix.
        ({"batch-job-id": "eval", "batch-job-uid": "eval-1", "batch-node": "true"}, KeeperKind.BATCH, "eval"),
        ({"batch-job-uid": "eval-1"}, KeeperKind.BATCH, ""),
        ({"goog-batch-worker": "true"}, KeeperKind.BATCH, ""),
        # The Terraform provider's acceptance test finds a job's workers by `labels.goog-dataflow-job-id`.
        ({"goog-dataflow-job-id": "2026-11-02_12_00_00-1"}, KeeperKind.DATAFLOW, "2026-11-02_12_00_00-1"),
    ],
)
def test_labels_of_googles_services_name_the_keeper(labels: dict[str, str], kind: KeeperKind, name: str) -> None:
    """Each label by itself, and what it names."""
    keeper = kept(labels)
    assert keeper.kind is kind
    assert keeper.name == name
    assert set(keeper.evidence) == set(labels)
    assert (kind in (KeeperKind.GKE, KeeperKind.DATAPROC)) == ("set them by hand" in keeper.doubt)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"goog-terraform-provisioned": "true"},
        {"managed-by-cnrm": "true"},
        {"batch-job-id": "7"},  # a person's own
        {"batch-node": "no"},
        {"my-goog-gke-node": ""},
    ],
)
def test_a_vm_that_nothing_keeps_may_be_stopped(labels: dict[str, str]) -> None:
    """Neither Terraform nor a person's own labels are keepers."""
    assert of(labels) is None
    assert of(labels, cluster_name="mine", startup_script="#!/bin/sh") is None


@pytest.mark.parametrize(
    ("path", "place", "at"),
    [
        (GROUP, "us-central1-a", "--zone us-central1-a"),
        (REGIONAL, "us-central1", "--region us-central1"),
        (f"https://www.googleapis.com/compute/v1/{GROUP}", "us-central1-a", "--zone us-central1-a"),
    ],
)
def test_a_group_of_a_zone_or_a_region_is_named_with_the_command_that_stops_its_vm(
    path: str, place: str, at: str
) -> None:
    """The group is given as a path or as a whole address."""
    keeper = kept(created_by=path)
    assert (keeper.kind, keeper.name, keeper.place) == (KeeperKind.GROUP, "trainers", place)
    assert keeper.evidence == ("created-by",)
    command = "gcloud compute instance-groups managed stop-instances trainers --instances vm-1"
    assert keeper.instead("vm-1", "acme") == f"{command} {at} --project acme"


def test_a_path_of_a_group_that_cannot_be_read_still_keeps_its_vm() -> None:
    """A malformed path is not taken for no group, and capitals stand in the command."""
    keeper = kept(created_by="projects/1/universes/x/instanceGroupManagers/g$(reboot)")
    assert keeper.kind is KeeperKind.GROUP
    assert keeper.name == ""
    assert "GROUP --instances vm-1 --region REGION" in keeper.instead("vm-1", "acme")


def test_a_service_goes_before_the_group_that_it_works_with() -> None:
    """Dataproc and GKE have groups of their own."""
    assert kept({"goog-dataproc-cluster-name": "etl"}, created_by=GROUP).kind is KeeperKind.DATAPROC
    assert kept({"goog-gke-node": ""}, created_by=GROUP).kind is KeeperKind.GKE


def test_names_from_metadata_cannot_put_anything_else_into_a_command() -> None:
    """Anyone who makes a VM writes its metadata."""
    keeper = kept({"goog-gke-node": ""}, cluster_name="a; rm -rf /", kube_labels="cloud.google.com/gke-nodepool=`x`")
    assert "clusters resize CLUSTER --node-pool POOL" in keeper.instead("vm-1", "acme")


def test_the_refusal_says_whose_it_is_what_would_happen_and_what_to_do() -> None:
    """The refusal is as people read it."""
    labels = {
        "goog-k8s-cluster-name": "train",
        "goog-k8s-node-pool-name": "t4",
        "goog-k8s-cluster-location": "us-east1",
    }
    keeper = kept(labels, created_by=GROUP)
    assert keeper.refusal("gke-1", "acme") == (
        "gke-1 belongs to GKE cluster train (node pool t4), so Costguard does not stop it: its group would recreate it "
        "on a fresh boot disk, so its data would be lost while it bills on. Instead, stop its whole node pool with "
        "`gcloud container clusters resize train --node-pool t4 --num-nodes 0 --location us-east1 --project acme`."
    )
    assert "delete or scale down the workloads" in keeper.refusal("gk3-train-1", "acme")


def test_only_what_says_who_keeps_a_vm_is_kept_of_its_metadata() -> None:
    """No scripts, and no keys of people."""
    items: list[dict[str, Any]] = [
        {"key": "created-by", "value": GROUP},
        {"key": "user-data", "value": "x" * 20_000},
        {"key": "ssh-keys", "value": "ana:ssh-ed25519 AAAA"},
        {"key": "kube-labels", "value": f"a=b,cloud.google.com/gke-nodepool=t4,{'y' * 900}"},
        {"key": "no-value"},
    ]
    assert origin_of(items) == {"created-by": GROUP, "kube-labels": "cloud.google.com/gke-nodepool=t4"}


OWN = "projects/1234/zones/us-central1-a/instanceGroupManagers/cg-j7k2m9q4-1-0a1b2c3d"


def test_a_vm_of_a_gangs_own_group_is_a_jobs() -> None:
    """The label and Google's item name the same group, by a name as Costguard gives them."""
    labels, origin = {"costguard-group": "cg-j7k2m9q4-1-0a1b2c3d"}, {"created-by": OWN}
    assert own_group(labels, origin) == "cg-j7k2m9q4-1-0a1b2c3d"
    assert keeper_of(labels, origin, ZONE) is None
    assert keeper_of_own(labels, origin) is None
    assert recorded_keeper(labels, origin, ZONE, "j7k2m9q4") == Keeper(KeeperKind.JOB, "j7k2m9q4")
    later = "cg-j7k2m9q4-12-g3-0a1b2c3d"
    assert own_group({"costguard-group": later}, {"created-by": OWN.replace("cg-j7k2m9q4-1-0a1b2c3d", later)}) == later


@pytest.mark.parametrize(
    ("label", "path"),
    [
        ("cg-j7k2m9q4-1-0a1b2c3d", GROUP),
        ("trainers", GROUP),
        ("", OWN),
        ("cg-j7k2m9q4-1-ffffffff", OWN),
        ("cg-j7k2m9q4-1", OWN.replace("-0a1b2c3d", "")),
    ],
    ids=["of a copied template", "named by hand", "without the label", "of another gang", "no group's name"],
)
def test_a_vm_of_any_other_group_is_left_to_it(label: str, path: str) -> None:
    """A user's group may have a template that was made from a gang's VM, labels and all."""
    labels = {"costguard-group": label} if label else {}
    assert own_group(labels, {"created-by": path}) == ""
    keeper = keeper_of(labels, {"created-by": path}, ZONE)
    assert keeper is not None
    assert keeper.kind is KeeperKind.GROUP
    assert keeper_of_own(labels, {"created-by": path}) == keeper
