"""Resources of Vertex AI become things of the ledger; what cannot be read is unknown, and never gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from requests.adapters import HTTPAdapter
from tests.gce.conftest import Waits

from costguard.errors import CloudError, CloudUnavailable, PermissionDenied
from costguard.gce.client import ComputeCloud
from costguard.gce.errors import NoAnswer
from costguard.gce.vertex.look import REGIONS, VertexRegions, regions_to_watch
from costguard.gce.vertex.resources import LISTS, VertexList, read_member
from costguard.keepers.reading import keeper_of
from costguard.model.instance import InstanceKey, InstanceKind, ProvisioningModel, SeenInstance, Status, is_id
from costguard.model.keeper import KeeperKind
from costguard.model.observation import VERTEX, Observation, Presence, scopes_of, vertex_scope
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vertex import ManagedThing
from costguard_sandbox.server import running
from costguard_sandbox.world import World

DISCOVERED: dict[str, Any] = json.loads((Path(__file__).parent / "data/aiplatform_v1.json").read_text("utf-8"))
START, PROJECT, REGION, OTHER = datetime(2026, 11, 20, 12, tzinfo=UTC), "demo", "us-central1", "europe-west4"
T4 = {"machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1}
H100 = {"machineType": "a3-highgpu-8g", "acceleratorType": "NVIDIA_H100_80GB", "acceleratorCount": 8}
CPU = {"machineType": "n1-highmem-8"}
BY_NAME = {one.collection: one for one in LISTS}


class Calls(HTTPAdapter):
    """Notes the paths that are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.paths.append(request.path_url.partition("?")[0])
        return super().send(request, *args, **kwargs)


@dataclass
class Watched:
    world: World
    cloud: ComputeCloud
    calls: Calls

    def look(self, since: datetime | None = None, *, minutes: int = 1) -> Observation:
        self.world.advance(timedelta(minutes=minutes))
        return self.cloud.observe(PROJECT, since)

    def all_lists(self, since: datetime | None = None) -> Observation:
        """The last of as many looks as there are lists: then each list was read."""
        for _ in LISTS[1:]:
            self.look(since)
        return self.look(since)

    @property
    def asked(self) -> list[str]:
        return [path for path in self.calls.paths if "/locations/" in path]


@pytest.fixture
def watched() -> Iterator[Watched]:
    clock, calls = ManualClock(START), Calls()
    world = World(clock)
    world.vertex.enabled.add(PROJECT)
    with (
        running(world) as url,
        closing(
            ComputeCloud(
                url,
                clock,
                wait=Waits(),
                monotonic=lambda: clock.now().timestamp(),
                adapter=calls,
                vertex=VertexRegions((REGION, OTHER)),
            )
        ) as cloud,
    ):
        yield Watched(world, cloud, calls)


def seen_of(observation: Observation) -> dict[str, SeenInstance]:
    return {one.name: one for one in observation.instances}


def job(*pools: tuple[dict[str, Any], int], **more: Any) -> dict[str, Any]:
    return {"workerPoolSpecs": [{"machineSpec": spec, "replicaCount": str(count)} for spec, count in pools], **more}


def raw_job(spec: dict[str, Any], state: str = "JOB_STATE_RUNNING", **more: Any) -> dict[str, Any]:
    return {
        "name": f"projects/123/locations/{REGION}/customJobs/4567",
        "displayName": "Fine-tune Löwe #3",
        "state": state,
        "createTime": "2026-11-20T11:00:00.123Z",
        "startTime": "2026-11-20T11:04:00Z",
        "labels": {"owner": "ana"},
        "jobSpec": spec,
        **more,
    }


def read(collection: str, raw: Any) -> list[SeenInstance]:
    return read_member(BY_NAME[collection], PROJECT, REGION, raw)


def test_a_job_is_one_thing_for_each_kind_of_machine() -> None:
    """Two GPU pools of one kind are one; parameter servers without a GPU are another; an empty pool is none."""
    spec = job((H100, 1), ({}, 0), (H100, 3), (CPU, 2), scheduling={"strategy": "SPOT"})
    first, second = read("customJobs", raw_job(spec))
    assert first.key == InstanceKey(PROJECT, "vertex.customJobs.us-central1.4567")
    assert second.key.gce_id == "vertex.customJobs.us-central1.4567.1"
    assert (first.key.kind, is_id(first.key.gce_id), is_id(second.key.gce_id)) == (InstanceKind.CUSTOM_JOB, True, True)
    assert (first.name, first.zone, first.region) == ("fine-tune-l-we-3", REGION, REGION)
    assert first.shape.machine_type == "4 x a3-highgpu-8g (Vertex training with fee, 100 GiB pd-ssd)"
    assert (first.shape.gpu_type, first.shape.gpu_count, first.shape.vcpus) == ("nvidia-h100-80gb", 32, 832)
    assert (second.shape.gpu_type, second.shape.vcpus, second.shape.family) == (None, 16, "n1")
    assert (first.provisioning_model, first.status) == (ProvisioningModel.SPOT, Status.RUNNING)
    assert first.last_started_at == datetime(2026, 11, 20, 11, 4, tzinfo=UTC)
    assert first.labels == {"owner": "ana"}


@pytest.mark.parametrize("state", DISCOVERED["schemas"]["CustomJob"]["state"])
def test_each_state_of_a_job_is_read(state: str) -> None:
    """Every word of Google's own list; what it does not list stays unknown."""
    raw = raw_job(job((T4, 1)), state, endTime="2026-11-20T11:30:00Z")
    (one,) = read("customJobs", raw)
    bills = state in ("JOB_STATE_RUNNING", "JOB_STATE_UPDATING", "JOB_STATE_CANCELLING")
    assert one.status.bills_machine is bills
    assert (one.status is Status.UNKNOWN) == (state == "JOB_STATE_UNSPECIFIED")


def test_a_job_on_a_persistent_resource_and_one_that_never_ran_bill_nothing() -> None:
    """The machines of the first are the resource's; the second was cancelled while it waited."""
    assert read("customJobs", raw_job(job((T4, 1), persistentResourceId="pool"))) == []
    raw = raw_job(job((T4, 1)), "JOB_STATE_CANCELLED")
    del raw["startTime"]
    assert read("customJobs", raw) == []


def test_a_reservation_that_is_named_pays_compute_engine_and_a_fee() -> None:
    """One that may use any reservation is taken for bought on demand."""
    named = {**H100, "reservationAffinity": {"reservationAffinityType": "SPECIFIC_RESERVATION", "values": ["r"]}}
    either = {**H100, "reservationAffinity": {"reservationAffinityType": "ANY_RESERVATION"}}
    (one,) = read("customJobs", raw_job(job((named, 1))))
    (other,) = read("customJobs", raw_job(job((either, 1))))
    assert one.shape.machine_type == "a3-highgpu-8g (Vertex training with fee, 100 GiB pd-ssd)"
    assert other.shape.machine_type == "a3-highgpu-8g (Vertex training, 100 GiB pd-ssd)"


def test_machines_that_google_chooses_are_of_an_unknown_type() -> None:
    """A model on automatic resources bills, at a price that nothing tells."""
    raw = {
        "name": f"projects/1/locations/{REGION}/endpoints/12",
        "displayName": "chat",
        "createTime": "2026-11-20T11:00:00Z",
        "deployedModels": [
            {"id": "34", "createTime": "2026-11-20T11:10:00Z", "automaticResources": {"minReplicaCount": 1}},
            {"id": "35", "createTime": "2026-11-20T11:10:00Z", "sharedResources": "projects/1/x"},
        ],
    }
    (one,) = read("endpoints", raw)
    assert (one.shape.machine_type, one.shape.is_known) == ("unknown (Vertex prediction)", False)
    assert one.key.gce_id == "vertex.endpoints.us-central1.12.34"


def test_every_kind_is_in_the_ledger_with_its_owner_and_its_way_out(watched: Watched) -> None:
    """A job, a tuning job's trials, a persistent resource, a deployed model and a runtime, each with its command."""
    vertex = watched.world.vertex
    vertex.custom_job(PROJECT, REGION, "Train", job((T4, 1)), owner="ana")
    vertex.tuning_job(PROJECT, OTHER, "tune", job((T4, 1)), trials=2)
    vertex.persistent_resource(PROJECT, REGION, "warm-pool", {"machineSpec": H100, "replicaCount": "2"})
    vertex.deploy(PROJECT, REGION, "chat", "llama", H100, 3)
    vertex.runtime(PROJECT, REGION, "Notes", "ben@example.com", T4)
    watched.world.advance(timedelta(minutes=30))
    observation = watched.all_lists()
    seen = seen_of(observation)
    assert observation.unread == ()
    assert seen.keys() == {"train", "tune-1", "tune-2", "warm-pool", "llama", "notes"}
    assert {one.status for one in seen.values()} == {Status.RUNNING}
    assert seen["llama"].shape.machine_type == "3 x a3-highgpu-8g (Vertex prediction)"
    assert seen["warm-pool"].shape.gpu_count == 16
    assert seen["notes"].shape.machine_type == "n1-standard-8 (Colab Enterprise)"
    assert [(one.kind, one.user) for one in observation.operations] == [("insert", "ben@example.com")]
    commands = {}
    for name, one in seen.items():
        keeper = keeper_of(one.labels, one.origin, one.zone)
        assert keeper is not None
        assert keeper.kind is KeeperKind.VERTEX
        commands[name] = keeper.instead(name, PROJECT)
        assert keeper.has_own_stop == (name != "warm-pool")
    ids = {name: one.key.gce_id.split(".")[3:] for name, one in seen.items()}
    assert commands["train"] == f"gcloud ai custom-jobs cancel {ids['train'][0]} --region {REGION} --project {PROJECT}"
    assert commands["notes"] == f"gcloud colab runtimes stop {ids['notes'][0]} --region {REGION} --project {PROJECT}"
    assert commands["llama"] == (
        f"gcloud ai endpoints undeploy-model {ids['llama'][0]} --deployed-model-id {ids['llama'][1]} "
        f"--region {REGION} --project {PROJECT}"
    )
    assert commands["warm-pool"].startswith("gcloud ai persistent-resources delete warm-pool")


def test_a_project_without_anything_costs_one_request_a_minute_and_region(watched: Watched) -> None:
    """However often it is looked at; each list has its turn."""
    for _ in range(36):
        watched.world.advance(timedelta(seconds=20))
        watched.cloud.observe(PROJECT, None)
    for region in (REGION, OTHER):
        asked = [path.rpartition("/")[2] for path in watched.asked if f"/{region}/" in path]
        assert asked == [one.collection for one in LISTS] * 2


def test_regions_that_nobody_named_are_learnt() -> None:
    """All of Google's are looked at; one where nothing has ever been is asked every five minutes once all was read."""
    clock, calls = ManualClock(START), Calls()
    world = World(clock)
    world.vertex.enabled.add(PROJECT)
    regions = regions_to_watch((), is_watched=True)
    assert regions == VertexRegions(REGIONS, are_learnt=True)
    learning = VertexRegions((REGION, OTHER), are_learnt=True)
    world.vertex.runtime(PROJECT, OTHER, "notes", "ben@example.com", T4)
    with (
        running(world) as url,
        closing(
            ComputeCloud(
                url, clock, wait=Waits(), monotonic=lambda: clock.now().timestamp(), adapter=calls, vertex=learning
            )
        ) as cloud,
    ):
        for _ in range(60):
            world.advance(timedelta(minutes=1))
            cloud.observe(PROJECT, None)
    empty = [path for path in calls.paths if f"/{REGION}/" in path]
    used = [path for path in calls.paths if f"/{OTHER}/" in path]
    assert len(empty) == len(LISTS) + (60 - len(LISTS)) // 5
    assert len(used) > 100  # the list of runtimes at each look, and another a minute


def test_a_project_without_the_api_has_none_and_is_asked_again_after_ten_minutes(watched: Watched) -> None:
    """Nothing is said of it: most projects do not use it."""
    watched.world.vertex.enabled.clear()
    for _ in range(20):
        assert watched.look().unread == ()
    assert len(watched.asked) == 2


def test_a_region_that_fails_leaves_the_others_as_they_are(watched: Watched) -> None:
    """What runs in it is unknown, and said to be; what runs elsewhere is seen."""
    vertex = watched.world.vertex
    vertex.custom_job(PROJECT, REGION, "here", job((T4, 1)))
    vertex.custom_job(PROJECT, OTHER, "there", job((T4, 1)))
    watched.look(minutes=20)
    vertex.refusing.add(OTHER)
    observation = watched.look()
    assert seen_of(observation).keys() == {"here"}
    (unread,) = observation.unread
    assert unread.scope == vertex_scope(OTHER)
    assert "What of Vertex AI runs in europe-west4 of demo is not known." in unread.reason
    (there,) = (one for one in vertex.ever if one.region == OTHER)
    key = InstanceKey(PROJECT, f"vertex.customJobs.{OTHER}.{there.id}")
    assert unread.scope in scopes_of(key, OTHER)
    assert watched.cloud.presence(key, OTHER, "there") is Presence.NOT_KNOWN


def test_losing_the_api_or_the_right_is_said_once_and_takes_nothing_away(watched: Watched) -> None:
    """One line for the project, not one for each region."""
    watched.world.vertex.custom_job(PROJECT, REGION, "here", job((T4, 1)))
    watched.look(minutes=20)
    watched.world.vertex.enabled.clear()
    (unread,) = watched.look().unread
    assert unread.scope == VERTEX
    assert "aiplatform.googleapis.com" in unread.reason


def _id(thing: ManagedThing) -> InstanceKey:
    parts = filter(None, ("vertex", thing.collection, thing.region, thing.id, thing.part))
    return InstanceKey(PROJECT, ".".join(parts))


def test_only_what_google_says_is_over_is_gone(watched: Watched) -> None:
    """A 404 alone proves nothing: the list that the resource would be in has to answer."""
    vertex = watched.world.vertex
    one = vertex.custom_job(PROJECT, REGION, "job", job((T4, 1)))
    model = vertex.deploy(PROJECT, REGION, "chat", "llama", T4)
    pool = vertex.persistent_resource(PROJECT, REGION, "pool", {"machineSpec": T4, "replicaCount": "1"})
    watched.world.advance(timedelta(minutes=20))

    def presences() -> list[Presence]:
        return [watched.cloud.presence(_id(thing), REGION, "any") for thing in (one, model, pool)]

    assert presences() == [Presence.THERE] * 3
    vertex.ask(PROJECT, REGION, "customJobs", one.id, "cancel", {})
    vertex.ask(PROJECT, REGION, "endpoints", model.id, "undeployModel", {"deployedModelId": model.part})
    vertex.ask(PROJECT, REGION, "persistentResources", pool.id, "delete", {})
    watched.world.advance(timedelta(minutes=20))
    watched.world.faults.add("server_error", code=404, path="/persistentResources")
    assert presences() == [Presence.GONE, Presence.GONE, Presence.NOT_KNOWN]
    watched.world.faults.clear(None)
    assert presences()[2] is Presence.GONE


def test_each_kind_is_stopped_by_its_own_request_and_its_end_is_read(watched: Watched) -> None:
    """A job is cancelled, a runtime stopped, a model undeployed; a second request is not made."""
    vertex = watched.world.vertex
    things = (
        vertex.custom_job(PROJECT, REGION, "job", job((T4, 1))),
        vertex.runtime(PROJECT, REGION, "notes", "ben@example.com", T4),
        vertex.deploy(PROJECT, REGION, "chat", "llama", T4),
    )
    watched.world.advance(timedelta(minutes=20))
    seen = {one.key: one for one in watched.all_lists().instances}
    for thing in things:
        one = seen[_id(thing)]
        keeper = keeper_of(one.labels, one.origin, one.zone)
        assert keeper is not None
        address = (PROJECT, REGION, one.name)
        operation = watched.cloud.stop_kept(keeper, address, one.key.gce_id, "request")
        progress = watched.cloud.kept_operation(keeper, address, operation)
        assert progress is not None
        assert not progress.is_done
        watched.world.advance(timedelta(minutes=5))
        progress = watched.cloud.kept_operation(keeper, address, operation)
        assert progress is not None
        assert progress.is_done
        assert thing.runs[-1].ended is not None
        with pytest.raises(NoAnswer):
            watched.cloud.stop_kept(keeper, address, one.key.gce_id, "request")
        with pytest.raises(CloudError, match="so Costguard does not stop it"):
            watched.cloud.stop_kept(keeper, address, "vertex.customJobs.us-central1.1", "request")


@pytest.mark.parametrize("refused", [403, 503])
def test_a_stop_that_is_refused_says_what_a_person_does(watched: Watched, refused: int) -> None:
    """A 403 names the command; a 503 may have begun."""
    watched.world.vertex.custom_job(PROJECT, REGION, "job", job((T4, 1)))
    (one,) = watched.look(minutes=20).instances
    keeper = keeper_of(one.labels, one.origin, one.zone)
    assert keeper is not None
    watched.world.faults.add("server_error", code=refused, path=":cancel")
    expected = PermissionDenied if refused == 403 else CloudUnavailable
    with pytest.raises(expected) as caught:
        watched.cloud.stop_kept(keeper, (PROJECT, REGION, one.name), one.key.gce_id, "request")
    if refused == 403:
        assert "gcloud ai custom-jobs cancel" in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        7,
        {},
        {"name": "x"},
        raw_job(job((T4, 1)), createTime="yesterday"),
        raw_job({"workerPoolSpecs": [{"machineSpec": T4, "replicaCount": "-1"}]}),
        raw_job({"workerPoolSpecs": 5}),
        raw_job(job((T4, 1)), name="projects/1/locations/x/customJobs/a b"),
    ],
    ids=["null", "number", "empty", "name", "time", "count", "pools", "id"],
)
def test_a_member_that_makes_no_sense_harms_no_other(watched: Watched, raw: Any) -> None:
    """It is said, and what is beside it is read."""
    watched.world.vertex.custom_job(PROJECT, REGION, "good", job((T4, 1)))
    watched.world.advance(timedelta(minutes=20))
    held = next(watched.world.vertex.listed(PROJECT, REGION, "customJobs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched.world.vertex, "listed", lambda *_: iter([raw, held]))
        patch.setattr("costguard_sandbox.gce.routes.vertex.matching", lambda _: lambda _: True)
        observation = watched.look()
    assert "good" in seen_of(observation)
    assert {part.scope for part in observation.unread} == {vertex_scope(REGION), vertex_scope(OTHER)}


def test_what_is_asked_for_and_read_is_what_google_describes() -> None:
    """Each list, request and field stands in Google's own description of the API."""
    for one in LISTS:
        method = DISCOVERED["methods"][f"{one.collection}.list"]
        assert method["path"] == f"v1/{{+parent}}/{one.collection}"
        assert ("filter" in method["parameters"]) or not one.filtered
        schema = {"CustomJob": "customJobs", "NotebookRuntime": "notebookRuntimes", "Endpoint": "endpoints"}
        schema |= {"PersistentResource": "persistentResources", "HyperparameterTuningJob": "hyperparameterTuningJobs"}
        schema |= {"DeploymentResourcePool": "deploymentResourcePools"}
        name = next(name for name, collection in schema.items() if collection == one.collection)
        _check_fields(one, name)
    for method in ("customJobs.cancel", "notebookRuntimes.stop", "endpoints.undeployModel"):
        assert DISCOVERED["methods"][method]["httpMethod"] == "POST"
    assert "deployedModelId" in DISCOVERED["schemas"]["UndeployModelRequest"]


def _check_fields(one: VertexList, schema: str) -> None:
    """Walks a field mask such as `name,jobSpec(scheduling/strategy,workerPoolSpecs(machineSpec))`."""

    def walk(mask: str, at: str) -> None:
        depth, start = 0, 0
        parts = []
        for place, letter in enumerate(f"{mask},"):
            depth += (letter == "(") - (letter == ")")
            if letter == "," and depth == 0:
                parts.append(mask[start:place])
                start = place + 1
        for part in parts:
            field, _, inner = part.partition("(")
            names = field.split("/")
            here = at
            for name in names:
                assert name in DISCOVERED["schemas"][here], (one.collection, here, name)
                kind = DISCOVERED["schemas"][here][name]
                here = kind if isinstance(kind, str) else here
            if inner:
                walk(inner.removesuffix(")"), here)

    walk(one.fields, schema)
