"""Instances of each service and tool, as recordings and public sources show them, have the right keeper."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from costguard.keepers.reading import VmFacts, keeper_of, read_keeper
from costguard.model.keeper import Keeper, KeeperKind
from costguard.model.managed.origin import origin_of


class Case(NamedTuple):
    """An instance, and what it must be read as; `source` says who showed it so."""

    source: str
    labels: dict[str, str]
    metadata: dict[str, str]
    kind: KeeperKind
    name: str = ""
    cluster: str = ""
    pool: str = ""
    product: str = ""
    tags: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()


def group(name: str, at: str = "zones/us-central1-a") -> dict[str, str]:
    return {"created-by": f"projects/1234/{at}/instanceGroupManagers/{name}"}


CASES = [
    Case(  # gcpdiag, test-data/gke: a node of a regional cluster
        "recorded by gcpdiag",
        {
            "goog-gke-node": "",
            "goog-k8s-cluster-location": "europe-west10",
            "goog-k8s-cluster-name": "gcp-cluster",
            "goog-k8s-node-pool-name": "default-pool",
        },
        {
            "cluster-name": "gcp-cluster",
            "kube-labels": "a=b,cloud.google.com/gke-nodepool=default-pool",
            **group("gke-gcp-cluster-default-pool-82e0c046-grp", "zones/europe-west10-a"),
        },
        KeeperKind.GKE,
        "gcp-cluster",
        "gcp-cluster",
        "default-pool",
    ),
    Case(
        "a node's boot disk in a public Terraform state: newer labels of nodes, and Config Connector's",
        {
            "goog-gke-cluster-id-base32": "ilcousyn4jd5zogknbsdzq3bgvozybox6tluz34w624j3zi6h4wa",
            "goog-gke-node": "",
            "goog-gke-node-pool-provisioning-model": "on-demand",
            "goog-k8s-cluster-location": "us-west1-b",
            "goog-k8s-cluster-name": "cluster1",
            "goog-k8s-node-pool-name": "default-pool",
            "managed-by-cnrm": "true",
            "goog-terraform-provisioned": "true",
        },
        group("gke-cluster1-default-pool-0b2083d6-grp"),
        KeeperKind.GKE,
        "cluster1",
        "cluster1",
        "default-pool",
    ),
    Case(
        "Autopilot (GKE's own e2e tests match gk3-CLUSTER-POOL-HASH-grp), its labels lost",
        {},
        {"cluster-name": "istio", **group("gk3-istio-default-pool-a13bd571-grp", "zones/us-west1-b")},
        KeeperKind.GKE,
        "istio",
        "istio",
        "default-pool",
    ),
    Case(
        "an old node without names in labels: its group and its network tag are all",
        {"goog-gke-node": ""},
        group("gke-train-t4-82e0c046-grp"),
        KeeperKind.GKE,
        "train",
        "train",
        "t4",
        tags=("gke-train-714df7d8-node",),
    ),
    Case(
        "a cluster's name of 20 characters and more is cut in tags: it is not guessed",
        {"goog-gke-node": ""},
        group("gke-kd-ix-eur-dev-cluste-default-pool-6dbd2287-grp"),
        KeeperKind.GKE,
        tags=("gke-kd-ix-eur-dev-cluste-6dbd2287-node",),
    ),
    Case(
        "a GKE cluster made by the Cluster Toolkit, whose labels its nodes inherit",
        {"goog-gke-node": "", "goog-k8s-cluster-name": "a3", "ghpc_deployment": "a3", "ghpc_blueprint": "gke-a3-mega"},
        group("gke-a3-default-pool-82e0c046-grp"),
        KeeperKind.GKE,
        "a3",
        "a3",
        "default-pool",
    ),
    Case(
        "cal-itp/data-infra: labels of Composer 1 on what belongs to its cluster",
        {
            "goog-composer-environment": "calitp-airflow2-prod",
            "goog-composer-location": "us-west2",
            "goog-composer-version": "composer-1-17-7-airflow-2-0-2",
            "goog-k8s-cluster-location": "us-west2-a",
            "goog-k8s-cluster-name": "us-west2-calitp-airflow2-pr-171e4e47-gke",
            "goog-k8s-node-pool-name": "default-pool",
        },
        group("gke-us-west2-calitp-ai-default-pool-0b2083d6-grp", "zones/us-west2-a"),
        KeeperKind.COMPOSER,
        "calitp-airflow2-prod",
        "us-west2-calitp-airflow2-pr-171e4e47-gke",
        "default-pool",
    ),
    Case(
        "Composer 2: a node of Autopilot that has the cluster's name alone",
        {"goog-gke-node": "", "goog-k8s-cluster-name": "us-west2-calitp-airflow2-pr-91e4038b-gke"},
        group("gk3-us-west2-calitp-ai-nap-1-0b2083d6-grp", "zones/us-west2-a"),
        KeeperKind.COMPOSER,
        cluster="us-west2-calitp-airflow2-pr-91e4038b-gke",
    ),
    Case(
        "a zonal group",
        {},
        group("trainers"),
        KeeperKind.GROUP,
        "trainers",
    ),
    Case(
        "a regional group of App Engine Flexible, which is as any other",
        {"gae_app": "shop"},
        group("aef-default-00bb", "regions/us-central1"),
        KeeperKind.GROUP,
        "aef-default-00bb",
    ),
    Case(
        "a public Terraform state of a Dataproc master",
        {"goog-dataproc-cluster-name": "cluster-6c13", "goog-dataproc-location": "us-central1"},
        {"dataproc-cluster-name": "cluster-6c13", "dataproc-region": "us-central1", "dataproc-role": "Master"},
        KeeperKind.DATAPROC,
        "cluster-6c13",
        "cluster-6c13",
    ),
    Case(
        "Dataproc whose labels are lost",
        {},
        {"dataproc-cluster-name": "cluster-6c13", "dataproc-cluster-uuid": "9179c6b1", "dataproc-role": "Worker"},
        KeeperKind.DATAPROC,
        "cluster-6c13",
        "cluster-6c13",
    ),
    Case(
        "recorded by gcpdiag: Workbench v2; a notebook's metadata may name a Dataproc cluster that it uses",
        {
            "notebooks-product": "workbench-instances",
            "resource-name": "notebooks2instance-ok",
            "consumer-project-id": "gcpdiag-notebooks2-aaaa",
        },
        {"notebooks-api": "PROD", "notebooks-api-version": "v2", "dataproc-cluster-name": "etl"},
        KeeperKind.WORKBENCH,
        "notebooks2instance-ok",
    ),
    Case(
        "a user-managed notebook (the Terraform provider's and Config Connector's tests)",
        {"goog-caip-notebook": ""},
        {"notebooks-api": "PROD", "proxy-mode": "service_account"},
        KeeperKind.WORKBENCH,
        product="user-managed notebook",
    ),
    Case(
        "cloud.google.com/batch/docs/organize-resources-using-labels",
        {"batch-job-id": "eval", "batch-job-uid": "eval-8f9", "batch-node": "true"},
        group("eval-8f9-group0-0"),
        KeeperKind.BATCH,
        "eval",
    ),
    Case("a task of Batch reads this item of its VM", {}, {"cloudbatch-job-uid": "eval-8f9"}, KeeperKind.BATCH),
    Case(
        "the Terraform provider's test finds workers so",
        {"goog-dataflow-job-id": "2026-11-02_12_00_00-7562727000000000000"},
        group("counts-11021200-abcd-harness", "zones/us-central1-b"),
        KeeperKind.DATAFLOW,
        "2026-11-02_12_00_00-7562727000000000000",
    ),
    Case(
        "Apache Beam reads its job from this item on a worker",
        {},
        {"job_id": "2021-05-21_08_48_27-16638284577175562727", **group("counts-harness")},
        KeeperKind.DATAFLOW,
        "2021-05-21_08_48_27-16638284577175562727",
    ),
    Case(
        "cloud.google.com/workstations/docs/label-resources",
        {
            "goog-workstations": "",
            "workstation_cluster_id": "dev",
            "workstation_config_id": "gpu",
            "workstation_id": "ana",
            "workstation_location": "us-central1",
        },
        {},
        KeeperKind.WORKSTATION,
        "ana",
        "dev",
        "gpu",
    ),
    Case(
        "a VM of a workstation's pool, which has the default account",
        {},
        {},
        KeeperKind.WORKSTATION,
        accounts=("service-53194414571@gcp-sa-workstationsvm.iam.gserviceaccount.com",),
    ),
    Case(
        "sky/provision/constants.py and a test of its ct6e groups",
        {
            "ray-cluster-name": "sky-a-ana",
            "ray-node-type": "worker",
            "skypilot-cluster-name": "sky-a-ana",
            "skypilot-head-node": "0",
            "skypilot-user": "ana",
        },
        {},
        KeeperKind.TOOL,
        "sky-a-ana",
        "sky-a-ana",
        product="SkyPilot cluster",
    ),
    Case(
        "SkyPilot with a group of its own for flex-start",
        {"skypilot-cluster-name": "sky-b", "ray-cluster-name": "sky-b"},
        group("sky-mig-sky-b"),
        KeeperKind.TOOL,
        "sky-b",
        "sky-b",
        product="SkyPilot cluster",
    ),
    Case(
        "dstack, core/backends/gcp/compute.py",
        {"owner": "dstack", "dstack_project": "main", "dstack_name": "pool-0", "dstack_user": "admin"},
        {},
        KeeperKind.TOOL,
        "pool-0",
        "pool-0",
        product="dstack instance",
    ),
    Case(
        "Cluster Toolkit, modules/internal/slurm-gcp/instance_template",
        {
            "ghpc_blueprint": "slurm-a3",
            "ghpc_deployment": "slurm1",
            "ghpc_role": "compute",
            "slurm_cluster_name": "slurm1",
            "slurm_instance_role": "compute",
            "goog-terraform-provisioned": "true",
        },
        {"slurm_cluster_name": "slurm1", "slurm_instance_role": "compute"},
        KeeperKind.TOOL,
        "slurm1",
        "slurm1",
        product="Slurm cluster",
    ),
    Case(
        "ray/autoscaler/tags.py",
        {"ray-cluster-name": "minimal", "ray-node-type": "head", "ray-node-status": "up-to-date"},
        {},
        KeeperKind.TOOL,
        "minimal",
        "minimal",
        product="Ray cluster",
    ),
    Case("an attempt of ours", {"costguard-attempt": "train-1-2"}, {}, KeeperKind.JOB, "train-1-2"),
    Case(
        "a group whose template was made from a job's VM",
        {"costguard-attempt": "train-1-2"},
        group("trainers"),
        KeeperKind.GROUP,
        "trainers",
    ),
    Case("a plain VM", {"team": "vision"}, {}, KeeperKind.NOBODY),
    Case(
        "recorded by gcpdiag: Terraform made it, and keeps nothing",
        {"goog-terraform-provisioned": "true"},
        {},
        KeeperKind.NOBODY,
        product="Terraform",
    ),
    Case("a person's own labels that look alike", {"ray-cluster-name": "x", "owner": "dstack"}, {}, KeeperKind.NOBODY),
    Case("a person's own item of Dataflow's name", {}, {"job_id": "7"}, KeeperKind.NOBODY),
    Case("a person's own `created-by`, which Google would not write", {}, {"created-by": "ana"}, KeeperKind.UNKNOWN),
]


def read(case: Case) -> Keeper:
    items: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in case.metadata.items()]
    return read_keeper(VmFacts(case.labels, origin_of(items), "us-central1-a", case.tags, case.accounts))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.source[:60])
def test_an_instance_has_its_keeper_with_its_names(case: Case) -> None:
    """Kind, name, cluster, pool and product, and the group where one recreates the VM."""
    keeper = read(case)
    assert keeper.kind is case.kind
    assert (keeper.name, keeper.cluster, keeper.pool) == (case.name, case.cluster, case.pool)
    assert keeper.product == case.product
    assert keeper.group == (case.metadata["created-by"] if "instanceGroup" in str(case.metadata) else "")


@pytest.mark.parametrize("case", [one for one in CASES if one.kind.keeps], ids=lambda case: case.source[:60])
def test_a_keeper_has_evidence_that_the_instance_holds_and_a_command(case: Case) -> None:
    """The evidence are keys of its labels and metadata; the refusal names a command that a person can run."""
    keeper = read(case)
    assert keeper.evidence
    assert set(keeper.evidence) <= {*case.labels, *case.metadata, "tags", "serviceAccounts"}
    assert "`" in keeper.refusal("vm-1", "acme") or "workloads" in keeper.refusal("vm-1", "acme")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.source[:60])
def test_nothing_is_called_a_persons(case: Case) -> None:
    """No instance proves that a person made it."""
    said = read(case).in_words("vm-1").lower()
    assert "person" not in said
    assert "vm-1" in said


def test_metadata_that_could_not_be_read_leave_the_keeper_unknown() -> None:
    """A plain VM might be a group's; a node's labels say enough."""
    assert read_keeper(VmFacts({"team": "vision"}, None)).kind is KeeperKind.UNKNOWN
    assert "could not be read" in read_keeper(VmFacts({}, None)).in_words("vm-1")
    node = read_keeper(VmFacts({"goog-gke-node": ""}, None))
    assert (node.kind, node.doubt) == (KeeperKind.GKE, "")


def test_labels_that_lie_keep_a_vm_and_it_is_said() -> None:
    """A node's label on a VM without a node's metadata: it is left alone until the label is removed."""
    keeper = read_keeper(VmFacts({"goog-gke-node": ""}))
    assert keeper.kind is KeeperKind.GKE
    assert "Its labels alone say so (goog-gke-node)" in keeper.refusal("vm-1", "acme")
    assert "set them by hand" in keeper.in_words("vm-1")


def test_commands_of_tools_name_what_they_end() -> None:
    """The tool's own command, with its names where labels have them, quoted for a shell where they come from a VM."""
    commands = {case.product: read(case).instead("vm-1", "acme") for case in CASES if case.kind is KeeperKind.TOOL}
    assert commands == {
        "SkyPilot cluster": "sky stop sky-b",
        "dstack instance": "dstack fleet delete pool -i 0",
        "Slurm cluster": "scontrol update NodeName=vm-1 State=POWER_DOWN",
        "Ray cluster": "ray down minimal.yaml",
    }
    hostile = read_keeper(VmFacts({"skypilot-cluster-name": "a; rm -rf /"}))
    assert hostile.instead("vm-1", "acme") == "sky stop CLUSTER"


@pytest.mark.parametrize("case", [one for one in CASES if not one.accounts], ids=lambda case: case.source[:60])
def test_what_stops_ask_for_is_the_keeper_that_is_read(case: Case) -> None:
    """Stops ask it of a whole fleet, most of which no mark concerns."""
    origin = origin_of([{"key": key, "value": value} for key, value in case.metadata.items()])
    keeper = read_keeper(VmFacts(case.labels, origin, "us-central1-a"))
    assert keeper_of(case.labels, origin, "us-central1-a") == (keeper if keeper.kind.keeps else None)
