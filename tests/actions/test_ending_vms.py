"""The last point before Google is asked to stop or delete a VM."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.builders import at
from tests.fakes import FakeActuator, FakeVm

import costguard
from costguard.actions import ending_vms
from costguard.actions.ending_vms import OwnStops
from costguard.errors import KeptByAnother
from costguard.model.instance import Status
from costguard.model.keeper import KeeperKind
from costguard.model.observation import Sighting

ADDRESS = ("acme", "us-central1-a", "vm-1")
GROUP = {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/trainers"}


class Google(FakeActuator):
    def delete(self, project: str, zone: str, instance: str, request_id: str) -> str:
        return self._begin("delete", Status.STOPPING, project, zone, instance, request_id)


def google() -> Google:
    return Google({ADDRESS: FakeVm("1001")})


def sighting(labels: dict[str, str] | None = None, origin: dict[str, str] | None = None) -> Sighting:
    return Sighting("1001", Status.RUNNING, at("10:00"), labels or {}, origin or {})


@pytest.mark.parametrize(
    ("labels", "origin", "whose"),
    [
        ({}, GROUP, "managed instance group trainers"),
        ({"goog-gke-node": ""}, {}, "GKE cluster"),
        ({"goog-dataproc-cluster-name": "etl"}, {}, "Dataproc cluster etl"),
        ({"batch-job-uid": "eval-1"}, {}, "Batch job"),
        ({"goog-dataflow-job-id": "7"}, {}, "Dataflow job 7"),
        ({"notebooks-product": "workbench-instances"}, {"notebooks-api": "PROD"}, "Workbench instance"),
        ({"goog-workstations": "", "workstation_id": "ana"}, {}, "workstation ana"),
        ({"skypilot-cluster-name": "sky-a"}, {}, "SkyPilot cluster sky-a"),
    ],
)
@pytest.mark.parametrize("end", [ending_vms.stop, ending_vms.delete])
def test_a_vm_that_another_keeps_is_neither_stopped_nor_deleted(
    end: object, labels: dict[str, str], origin: dict[str, str], whose: str
) -> None:
    """Google is not asked at all."""
    cloud = google()
    assert callable(end)
    with pytest.raises(KeptByAnother, match=whose):
        end(cloud, ADDRESS, sighting(labels, origin), "request-1")
    assert cloud.calls == []


def test_a_rule_stops_no_vm_whose_keeper_is_not_known_and_a_user_does() -> None:
    """The very call is refused to rules."""
    cloud, seen = google(), sighting(origin={"created-by": "ana@example.com"})
    with pytest.raises(KeptByAnother, match="Who keeps vm-1 is not known, so no rule stops it"):
        ending_vms.stop(cloud, ADDRESS, seen, "request-1", by_rule=True)
    assert cloud.calls == []
    ending_vms.stop(cloud, ADDRESS, seen, "request-1")
    assert cloud.calls == [("stop", "1001", "request-1")]


OWN = frozenset({KeeperKind.GROUP, KeeperKind.WORKBENCH, KeeperKind.WORKSTATION})
BOOK = {"notebooks-product": "workbench-instances", "resource-name": "ana-book"}
DESK = {
    "goog-workstations": "",
    "workstation_id": "ana",
    "workstation_config_id": "gpu",
    "workstation_cluster_id": "dev",
}


@pytest.mark.parametrize(
    ("labels", "origin", "kind"),
    [
        ({}, GROUP, KeeperKind.GROUP),
        ({}, {"created-by": "projects/1/regions/us-central1/instanceGroupManagers/trainers"}, KeeperKind.GROUP),
        (BOOK, {"notebooks-api": "PROD"}, KeeperKind.WORKBENCH),
        (DESK, {}, KeeperKind.WORKSTATION),
    ],
)
@pytest.mark.parametrize("by_rule", [True, False])
def test_where_the_settings_allow_it_its_keeper_stops_it(
    labels: dict[str, str], origin: dict[str, str], kind: KeeperKind, by_rule: bool
) -> None:
    """The keeper is asked and never `instances.stop`; of other kinds, or without the setting, nothing is."""
    cloud, seen = google(), sighting(labels, origin)
    for kinds in (frozenset[KeeperKind](), OWN - {kind}):
        with pytest.raises(KeptByAnother, match=f'let Costguard do so by enforcement.stop_through = \\["{kind}"\\]'):
            ending_vms.stop(cloud, ADDRESS, seen, "request-1", by_rule=by_rule, own_stops=OwnStops(cloud, kinds))
    assert cloud.calls == []
    ending_vms.stop(cloud, ADDRESS, seen, "request-1", by_rule=by_rule, own_stops=OwnStops(cloud, {kind}))
    assert cloud.calls == [(f"stop_kept {kind}", "1001", "request-1")]


@pytest.mark.parametrize(
    ("labels", "origin"),
    [
        ({"goog-gke-node": "", "goog-k8s-cluster-name": "train"}, GROUP),
        ({}, {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/gke-train-t4-82e0c046-grp"}),
        ({"goog-dataproc-cluster-name": "etl"}, GROUP),
        ({"batch-job-uid": "eval-1"}, GROUP),
        ({}, {"created-by": "projects/1/zones/us-central1-a/instanceGroupManagers/"}),
        ({}, {"created-by": "instanceGroupManagers"}),
        ({"notebooks-product": "workbench-instances"}, {"notebooks-api": "PROD"}),
        (BOOK, {}),
        ({"goog-caip-notebook": ""}, {"notebooks-api": "PROD", "proxy-url": "x"}),
        (DESK | {"workstation_config_id": ""}, {}),
        ({"skypilot-cluster-name": "sky-a"}, {}),
    ],
    ids=[
        "GKE node",
        "GKE node without labels",
        "Dataproc",
        "Batch",
        "path without a name",
        "odd path",
        "Workbench without a name",
        "labels alone say Workbench",
        "user-managed notebook",
        "workstation without a configuration",
        "SkyPilot",
    ],
)
def test_all_that_the_call_needs_is_known_or_it_is_refused_as_ever(
    labels: dict[str, str], origin: dict[str, str]
) -> None:
    """No node of GKE or Dataproc is stopped by the group beneath its cluster either."""
    cloud = google()
    with pytest.raises(KeptByAnother) as caught:
        ending_vms.stop(cloud, ADDRESS, sighting(labels, origin), "request-1", own_stops=OwnStops(cloud, OWN))
    assert (cloud.calls, "stop_through" in str(caught.value)) == ([], False)


def test_any_other_vm_is_ended_by_its_numeric_id() -> None:
    """Terraform keeps nothing either."""
    cloud = google()
    ending_vms.stop(cloud, ADDRESS, sighting({"goog-terraform-provisioned": "true"}), "request-1")
    ending_vms.delete(cloud, ADDRESS, sighting(), "request-2")
    assert cloud.calls == [("stop", "1001", "request-1"), ("delete", "1001", "request-2")]


def test_nothing_else_asks_google_to_stop_or_delete_a_vm() -> None:
    """A call with four arguments named so is one of `Actuator` or `Launcher`; adapters pass theirs on."""
    root = Path(costguard.__file__).parent
    callers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("stop", "delete")
        and (len(node.args) == 4 or any(isinstance(arg, ast.Starred) for arg in node.args))
        and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "ending_vms")
    }
    assert callers == {"actions/ending_vms.py", "jobs/act/pacing.py", "gce/client.py"}
