"""Stops of VMs that a group, Workbench or Cloud Workstations keeps, by the keeper's own API, over HTTP.

The shapes are those of Google's API discovery documents: compute v1 of 6 November 2026, notebooks v2 of 6 October 2026,
workstations v1 of 23 September 2026; an operation has the type and target of a recorded one (kubernetes/autoscaler).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.gce.conftest import Connect, Setup
from tests.gce.server import Answer, Asked, google_error, json_answer

from costguard.errors import BadAnswer, CloudError, CloudUnavailable, KeptByAnother, PermissionDenied
from costguard.keepers.reading import keeper_of
from costguard.model.keeper import COLAB_RUNTIME, Keeper, KeeperKind

ROOT = "https://www.googleapis.com/compute/v1/projects/demo"
ADDRESS = ("demo", "us-central1-a", "trainer-x1")
REQUEST = str(UUID(int=7))
ZONAL = "projects/1/zones/us-central1-a/instanceGroupManagers/trainers"
REGIONAL = "projects/1/regions/us-central1/instanceGroupManagers/trainers"
BOOK = {"notebooks-product": "workbench-instances", "resource-name": "ana-book"}
DESK = {
    "goog-workstations": "",
    "workstation_id": "ana",
    "workstation_config_id": "gpu",
    "workstation_cluster_id": "dev",
    "workstation_location": "us-central1",
}


def keeper(labels: dict[str, str] | None = None, **origin: str) -> Keeper:
    read = keeper_of(labels or {}, {key.replace("_", "-"): value for key, value in origin.items()}, ADDRESS[1])
    assert read is not None
    return read


def group_answers(place: str, **changes: Any) -> Callable[[Asked], Answer]:
    """A group `trainers` with two VMs; `changes` are of the answer's parts: manager, member, operation."""
    member = {
        "instance": f"{ROOT}/zones/us-central1-a/instances/trainer-x1",
        "id": "1001",
        "name": "trainer-x1",
        "instanceStatus": "RUNNING",
        "currentAction": "NONE",
        **changes.get("member", {}),
    }
    other = {**member, "instance": f"{member['instance']}2", "id": "1002", "name": "trainer-x12"}
    link = f"{ROOT}/{place}/instanceGroupManagers/trainers"
    manager = {
        "kind": "compute#instanceGroupManager",
        "id": "77",
        "name": "trainers",
        "targetSize": 2,
        "status": {"isStable": True, **changes.get("status", {})},
    }
    operation = {
        "kind": "compute#operation",
        "id": "7558996788000226430",
        "name": "operation-1505739408819-5597646964339-eb839c88-28805931",
        "operationType": "compute.instanceGroupManagers.stopInstances",
        "targetLink": link,
        "targetId": "77",
        "status": "RUNNING",
        **changes.get("operation", {}),
    }

    def answer(call: Asked) -> Answer:
        verb = call.path.rpartition("/")[2]
        if verb == "listManagedInstances":
            return json_answer({"managedInstances": [other, member]})
        if verb == "stopInstances":
            refused: Answer | None = changes.get("refused")
            return refused or json_answer(operation)
        return json_answer(manager)

    return answer


def stop(setup: Setup, kept: Keeper) -> str:
    return setup.cloud.stop_kept(kept, ADDRESS, "1001", REQUEST)


@pytest.mark.parametrize(
    ("path", "place"), [(ZONAL, "zones/us-central1-a"), (REGIONAL, "regions/us-central1")], ids=["zonal", "regional"]
)
def test_a_groups_vm_is_stopped_by_its_group(connect: Connect, path: str, place: str) -> None:
    """The VM of the id, by the address that the group gives it, under the request's id; instances.stop is not asked."""
    setup = connect(group_answers(place))
    assert stop(setup, keeper(created_by=path)) == "7558996788000226430"
    group = f"/compute/v1/projects/demo/{place}/instanceGroupManagers/trainers"
    assert [request.path for request in setup.server.requests] == [
        group,
        f"{group}/listManagedInstances",
        f"{group}/stopInstances",
    ]
    request = setup.server.requests[-1]
    assert request.body == {"instances": [f"{ROOT}/zones/us-central1-a/instances/trainer-x1"]}
    assert request.query["requestId"] == REQUEST


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"member": {"id": "2002"}}, KeptByAnother, "does not have this very VM now"),
        ({"status": {"autoscaler": f"{ROOT}/zones/us-central1-a/autoscalers/x"}}, KeptByAnother, "autoscaler would"),
        ({"member": {"currentAction": "RECREATING"}}, CloudError, "its group's action RECREATING is under way"),
    ],
    ids=["another VM has its name", "autoscaler", "under way"],
)
def test_a_stop_that_would_stop_another_or_be_undone_is_not_asked(
    connect: Connect, changes: dict[str, Any], error: type[CloudError], said: str
) -> None:
    """Nothing but reads goes out."""
    setup = connect(group_answers("zones/us-central1-a", **changes))
    with pytest.raises(error, match=said):
        stop(setup, keeper(created_by=ZONAL))
    assert "stopInstances" not in setup.server.paths()


def test_a_missing_permission_is_named_with_the_role_and_the_command(connect: Connect) -> None:
    """Google's words name the permission; the role's file and the command follow."""
    words = "Required 'compute.instanceGroupManagers.update' permission for 'projects/demo/zones/z/x'"
    setup = connect(group_answers("zones/us-central1-a", refused=google_error(403, "forbidden", words)))
    with pytest.raises(PermissionDenied) as caught:
        stop(setup, keeper(created_by=ZONAL))
    said = str(caught.value)
    assert "'compute.instanceGroupManagers.update'" in said
    assert "deploy/iam-role-stop-kept.yaml" in said
    assert "gcloud compute instance-groups managed stop-instances trainers --instances trainer-x1" in said


@pytest.mark.parametrize(
    "refused",
    [google_error(503, "backendError"), json_answer({}), json_answer({"kind": "compute#operation", "id": "1"})],
    ids=["503", "empty", "of nothing"],
)
def test_an_answer_that_is_none_may_have_begun(connect: Connect, refused: Answer) -> None:
    """It is asked once; the executor repeats it under the same id."""
    changes: dict[str, Any] = {"refused": refused}
    if b'"id"' in refused.body:
        changes = {
            "operation": {"targetLink": f"{ROOT}/zones/us-central1-a/instanceGroupManagers/other", "targetId": "8"}
        }
    setup = connect(group_answers("zones/us-central1-a", **changes))
    with pytest.raises(CloudUnavailable):
        stop(setup, keeper(created_by=ZONAL))
    assert setup.server.paths().count("stopInstances") == 1


def service_answers(shown: dict[str, Any], begun: Answer | None = None) -> Callable[[Asked], Answer]:
    operation = {"name": "projects/demo/locations/us-central1-a/operations/operation-17-c1", "done": False}
    return lambda call: (begun or json_answer(operation)) if call.path.endswith(":stop") else json_answer(shown)


BOOK_SHOWN: dict[str, Any] = {"state": "ACTIVE", "gceSetup": {"instanceId": "1001", "machineType": "g2-standard-8"}}
DESK_SHOWN: dict[str, Any] = {
    "state": "STATE_RUNNING",
    "etag": "e-5",
    "runtimeHost": {"gceInstanceHost": {"id": "1001", "zone": "us-central1-a"}},
}


DESK_FAILED: dict[str, Any] = {
    "name": "projects/demo/locations/us-central1/operations/operation-17-c1",
    "done": True,
    "error": {"code": 13, "message": "The stop did not work out."},
}
GROUP_FAILED: dict[str, Any] = {
    "kind": "compute#operation",
    "id": "7001",
    "operationType": "compute.instanceGroupManagers.stopInstances",
    "status": "DONE",
    "error": {"errors": [{"code": "INTERNAL_ERROR", "message": "The stop did not work out."}]},
}


def book() -> Keeper:
    return keeper(BOOK, notebooks_api="PROD")


def test_a_workbench_instance_is_stopped_by_workbench(connect: Connect) -> None:
    """It is called by its own name, which is not the VM's."""
    setup = connect(service_answers(BOOK_SHOWN))
    assert stop(setup, book()) == "operation-17-c1"
    path = "/v2/projects/demo/locations/us-central1-a/instances/ana-book"
    assert [(request.path, request.body) for request in setup.server.requests] == [(path, None), (f"{path}:stop", {})]


def test_a_workstation_is_stopped_by_cloud_workstations(connect: Connect) -> None:
    """The ETag of the look goes with the stop."""
    setup = connect(service_answers(DESK_SHOWN))
    assert stop(setup, keeper(DESK)) == "operation-17-c1"
    path = "/v1/projects/demo/locations/us-central1/workstationClusters/dev/workstationConfigs/gpu/workstations/ana"
    assert [(request.path, request.body) for request in setup.server.requests] == [
        (path, None),
        (f"{path}:stop", {"etag": "e-5"}),
    ]


@pytest.mark.parametrize(
    ("kept", "shown", "error", "said"),
    [
        (book(), {**BOOK_SHOWN, "gceSetup": {"instanceId": "2"}}, KeptByAnother, "does not have this very VM"),
        (book(), {"state": "ACTIVE"}, KeptByAnother, "does not have this very VM"),
        (book(), {**BOOK_SHOWN, "state": "STOPPING"}, CloudUnavailable, "the state of Workbench instance ana-book is"),
        (keeper(DESK), {**DESK_SHOWN, "runtimeHost": {}}, KeptByAnother, "does not have this very VM"),
        (keeper(DESK), {**DESK_SHOWN, "state": "STATE_STOPPING"}, CloudUnavailable, "is STATE_STOPPING"),
    ],
)
def test_a_service_that_has_another_vm_or_stops_it_already_is_not_asked(
    connect: Connect, kept: Keeper, shown: dict[str, Any], error: type[CloudError], said: str
) -> None:
    """An instance that does not say which VM it has is refused too, as older ones do not."""
    setup = connect(service_answers(shown))
    with pytest.raises(error, match=said):
        stop(setup, kept)
    assert len(setup.server.requests) == 1


@pytest.mark.parametrize(
    ("begun", "error"),
    [
        (google_error(403, "forbidden"), PermissionDenied),
        (google_error(500, "backendError"), CloudUnavailable),
        (Answer(b"<html>"), CloudUnavailable),
        (json_answer({}), CloudUnavailable),
        (json_answer({"name": "operations/x", "done": True, "error": {"code": 9, "message": "No."}}), BadAnswer),
    ],
)
def test_a_services_refusals(connect: Connect, begun: Answer, error: type[CloudError]) -> None:
    """A stop is asked once; what is no answer may have begun."""
    setup = connect(service_answers(BOOK_SHOWN, begun))
    with pytest.raises(error):
        stop(setup, book())
    assert len(setup.server.requests) == 2


def test_a_keeper_without_a_stop_of_its_own_is_refused(connect: Connect) -> None:
    """The adapter asks nothing of Google, whatever was decided."""
    setup = connect(service_answers({}))
    with pytest.raises(KeptByAnother, match="GKE cluster train"):
        stop(setup, keeper({"goog-gke-node": "", "goog-k8s-cluster-name": "train"}, created_by=ZONAL))
    assert setup.server.requests == []


@pytest.mark.parametrize(
    ("kept", "path", "shown"),
    [
        (book(), "/v2/projects/demo/locations/us-central1-a/operations/operation-17-c1", DESK_FAILED),
        (keeper(DESK), "/v1/projects/demo/locations/us-central1/operations/operation-17-c1", DESK_FAILED),
        (keeper(created_by=ZONAL), "/compute/v1/projects/demo/zones/us-central1-a/operations/7001", GROUP_FAILED),
        (keeper(created_by=REGIONAL), "/compute/v1/projects/demo/regions/us-central1/operations/7001", GROUP_FAILED),
    ],
    ids=["Workbench", "Cloud Workstations", "zonal group", "regional group"],
)
def test_an_operation_that_failed_says_so_in_googles_words(
    connect: Connect, kept: Keeper, path: str, shown: dict[str, Any]
) -> None:
    """Long-running operations have one status (google.rpc.Status), those of Compute Engine a list of errors."""
    setup = connect(lambda _: json_answer(shown))
    answer = setup.cloud.kept_operation(kept, ADDRESS, path.rpartition("/")[2])
    assert [request.path for request in setup.server.requests] == [path]
    assert answer is not None
    assert (answer.is_done, answer.error_message) == (True, "The stop did not work out.")


def test_an_operation_that_google_forgot_is_none(connect: Connect) -> None:
    """Google keeps them for some days."""
    setup = connect(lambda _: google_error(404, "notFound"))
    assert setup.cloud.kept_operation(book(), ADDRESS, "operation-17-c1") is None
    assert setup.cloud.kept_operation(keeper(created_by=ZONAL), ADDRESS, "7001") is None


def test_a_runtimes_stop_that_is_refused_names_the_permission_that_google_wants(connect: Connect) -> None:
    """No page of Google's says which one it takes, so its own words have to be in the message, with the command."""
    wanted = "aiplatform.notebookRuntimes.stop"
    words = f"Permission '{wanted}' denied on resource '//aiplatform.googleapis.com/projects/demo/x/12'."

    def answer(request: Asked) -> Answer:
        if request.path.endswith(":stop"):
            return google_error(403, "forbidden", words)
        return json_answer({"name": "x/12", "runtimeState": "RUNNING"})

    kept = Keeper(KeeperKind.VERTEX, "12", "us-central1", product=COLAB_RUNTIME)
    address, gce_id = ("demo", "us-central1", "notes"), "vertex.notebookRuntimes.us-central1.12"
    with pytest.raises(PermissionDenied) as caught:
        connect(answer).cloud.stop_kept(kept, address, gce_id, REQUEST)
    assert wanted in str(caught.value)
    assert "gcloud colab runtimes stop 12" in str(caught.value)
