"""TPU nodes of the Cloud TPU API become VMs of the ledger; a project that cannot be read loses none of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import pytest
from tests.gce.conftest import Connect, Waits
from tests.gce.server import Answer, Asked, google_error, json_answer

from costguard.gce import tpu_nodes
from costguard.gce.client import ComputeCloud
from costguard.gce.tpu_nodes import accelerators
from costguard.keepers.reading import keeper_of
from costguard.model.instance import InstanceKey, InstanceKind, ProvisioningModel, SeenInstance, Status
from costguard.model.keeper import KeeperKind
from costguard.model.observation import TPU_NODES, Observation, Presence
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.tpus import SLICES
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
ZONE = "us-central1-a"
MINUTES = timedelta(minutes=10)


@contextmanager
def _watched(world: World) -> Iterator[ComputeCloud]:
    with running(world) as url, closing(ComputeCloud(url, world.clock, wait=Waits(), tpu_nodes=True)) as cloud:
        yield cloud


def _world(*, enabled: bool = True) -> World:
    world = World(ManualClock(START))
    if enabled:
        world.tpus.enabled.add("demo")
    return world


def _create(world: World, name: str, kind: str = "v5litepod-8", **body: Any) -> None:
    world.tpus.create("demo", ZONE, name, {"acceleratorType": kind, **body})
    world.advance(MINUTES)


def _nodes(seen: Observation) -> dict[str, SeenInstance]:
    return {one.name: one for one in seen.instances if one.key.kind is InstanceKind.TPU_NODE}


# cloud.google.com/tpu/docs/v5p ("Cores", "Chips"), /v4 ("v4-8" has 4 chips: two TensorCores a chip), /v5e, /v6e;
# tpu-vm list of marin-community/marin, infra/README.md: v6e-4 2x2, v6e-8 2x4, v6e-64 8x8; tpu-vm describe of
# vllm-project/vllm#16310: v5litepod-1 is V5LITE_POD 1x1.
@pytest.mark.parametrize(
    ("name", "version", "topology", "generation", "chips"),
    [
        ("v5p-8", "V5P", "2x2x1", "v5p", 4),
        ("v5p-16", "V5P", "2x2x2", "v5p", 8),
        ("v5p-64", "V5P", "2x4x4", "v5p", 32),
        ("v5p-12288", "V5P", "16x16x24", "v5p", 6144),
        ("v4-8", "V4", "2x2x1", "v4", 4),
        ("v3-8", "V3", "2x2", "v3", 4),
        ("v2-8", "V2", "2x2", "v2", 4),
        ("v5litepod-1", "V5LITE_POD", "1x1", "v5e", 1),
        ("v5litepod-8", "V5LITE_POD", "2x4", "v5e", 8),
        ("v5litepod-256", "V5LITE_POD", "16x16", "v5e", 256),
        ("v6e-4", "V6E", "2x2", "v6e", 4),
        ("v6e-8", "V6E", "2x4", "v6e", 8),
        ("v6e-64", "V6E", "8x8", "v6e", 64),
    ],
)
def test_names_and_topologies_that_google_publishes_say_the_same_chips(
    name: str, version: str, topology: str, generation: str, chips: int
) -> None:
    """Names count TensorCores up to v5p, of which a chip has two, and chips of v5e and v6e."""
    config = {"type": version, "topology": topology}
    assert accelerators(name, {}) == (generation, chips)
    assert accelerators("", config) == (generation, chips)
    assert accelerators(name, config) == (generation, chips)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("v9-8", {}),
        ("v4-7", {}),
        ("v5litepod-8", {"type": "V5LITE_POD", "topology": "4x4"}),
        ("v6e-8", {"type": "V5P", "topology": "2x4"}),
        ("", {"type": "V6E", "topology": "2xN"}),
    ],
)
def test_what_is_not_known_or_contradicts_itself_is_unknown(name: str, config: dict[str, str]) -> None:
    """Such a node has no price: nothing is guessed."""
    kind, chips = accelerators(name, config)
    assert kind is None or chips == 0


def test_a_node_is_listed_with_its_chips_way_of_buying_and_labels() -> None:
    """The id has a kind of its own, so that it is no VM's."""
    world = _world()
    _create(world, "train", labels={"owner": "ana"})
    _create(world, "spot", "v5p-16", schedulingConfig={"spot": True})
    _create(world, "held", "v4-8", schedulingConfig={"reserved": True})
    with _watched(world) as cloud:
        seen = cloud.observe("demo", None)
    nodes = _nodes(seen)
    train, spot, held = nodes["train"], nodes["spot"], nodes["held"]
    assert train.key.gce_id == f"tpu.{next(iter(world.tpus.ever)).id}"
    assert (train.status, train.zone, train.labels) == (Status.RUNNING, ZONE, {"owner": "ana"})
    assert (train.shape.machine_type, train.shape.gpu_type, train.shape.gpu_count) == ("v5litepod-8", "v5e", 8)
    assert (spot.shape.gpu_type, spot.shape.gpu_count) == ("v5p", 8)
    assert spot.provisioning_model is ProvisioningModel.SPOT
    assert held.provisioning_model is ProvisioningModel.RESERVATION_BOUND
    assert seen.unread == ()


@pytest.mark.parametrize(("kind", "verb"), [("v5litepod-8", "stop"), ("v5litepod-16", "delete")])
def test_a_node_is_kept_and_its_command_is_named(kind: str, verb: str) -> None:
    """A node of several hosts has no stop: only its deletion ends it."""
    world = _world()
    _create(world, "train", kind)
    with _watched(world) as cloud:
        node = _nodes(cloud.observe("demo", None))["train"]
    keeper = keeper_of(node.labels, node.origin, node.zone)
    assert keeper is not None
    assert keeper.kind is KeeperKind.TPU
    command = f"gcloud compute tpus tpu-vm {verb} train --zone {ZONE} --project demo"
    assert keeper.instead("train", "demo") == command
    assert command in keeper.refusal("train", "demo")
    assert not keeper.has_own_stop


def test_operations_say_when_a_node_was_ready_and_when_it_ended() -> None:
    """The list has neither; a node that is gone is known by the id that its creation gave."""
    world = _world()
    _create(world, "train")
    node = world.tpus.ever[0]
    with _watched(world) as cloud:
        first = cloud.observe("demo", None)
        world.tpus.ask("delete", node)
        world.advance(MINUTES)
        second = cloud.observe("demo", None)
        third = cloud.observe("demo", None)
    created = {one.kind: one for one in first.operations}["insert"]
    deleted = {one.kind: one for one in second.operations}["delete"]
    assert (created.target_id, created.ended_at) == (f"tpu.{node.id}", node.runs[0].began)
    assert (deleted.target_id, deleted.started_at) == (f"tpu.{node.id}", node.runs[0].ended)
    assert _nodes(second) == {}
    assert third.operations == ()


@pytest.mark.parametrize("torn", [{"metadata": "none"}, 5, {"metadata": {"verb": "create", "createTime": ""}}])
def test_one_operation_that_cannot_be_read_hides_no_other(torn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer operations are read all the same, and the look says that one is missing."""
    world = _world()
    _create(world, "train")
    if isinstance(torn, dict) and isinstance(torn["metadata"], dict):
        torn = {"metadata": {**torn["metadata"], "target": f"projects/demo/locations/{ZONE}/nodes/train"}}
    members = tpu_nodes.members_of

    def torn_first(http: Any, project: str, zone: str, collection: str, *more: Any) -> Iterator[Any]:
        if collection == "operations":
            yield torn
        yield from members(http, project, zone, collection, *more)

    monkeypatch.setattr(tpu_nodes, "members_of", torn_first)
    with _watched(world) as cloud:
        seen = cloud.observe("demo", None)
    assert [one.kind for one in seen.operations] == ["insert"]
    assert [one.scope for one in seen.unread] == ["TPU operations"]


def test_a_name_that_is_used_again_is_another_node() -> None:
    """The operations of both go to the node that had the name at their time."""
    world = _world()
    _create(world, "train")
    with _watched(world) as cloud:
        cloud.observe("demo", None)
        world.tpus.ask("delete", world.tpus.ever[0])
        world.advance(MINUTES)
        _create(world, "train", "v6e-4")
        seen = cloud.observe("demo", None)
    first, second = (f"tpu.{node.id}" for node in world.tpus.ever)
    targets = sorted((one.kind, one.target_id) for one in seen.operations)
    assert targets == sorted([("insert", first), ("delete", first), ("insert", second)])
    assert _nodes(seen)["train"].key.gce_id == second


def test_presence_of_a_node_is_asked_of_cloud_tpu() -> None:
    """Gone is only what Google does not find, or finds under another id."""
    world = _world()
    _create(world, "train")
    key = InstanceKey("demo", f"tpu.{world.tpus.ever[0].id}")
    with _watched(world) as cloud:
        assert cloud.presence(key, ZONE, "train") is Presence.THERE
        assert cloud.presence(InstanceKey("demo", "tpu.7"), ZONE, "train") is Presence.GONE
        assert cloud.presence(key, ZONE, "other") is Presence.GONE
        world.faults.add("forbidden", project="demo", path="/nodes/")
        assert cloud.presence(key, ZONE, "train") is Presence.NOT_KNOWN
        world.tpus.enabled.clear()
        assert cloud.presence(key, ZONE, "train") is Presence.NOT_KNOWN


@pytest.mark.parametrize("reason", ["accessNotConfigured", "forbidden"])
def test_a_project_without_the_api_is_read_as_before_and_asked_rarely(connect: Connect, reason: str) -> None:
    """It can have no nodes: nothing is unread, and the next looks leave the API alone."""
    world = _world(enabled=False)
    with _watched(world) as cloud:
        assert cloud.observe("demo", None).unread == ()
    paths: list[str] = []

    def answer(request: Asked) -> Answer:
        if "/locations/" in request.path:
            paths.append(request.path)
            message = "Cloud TPU API has not been used in project 7 before or it is disabled. Enable it by visiting x."
            return google_error(403, reason, message)
        kind = request.path.rsplit("/", 1)[-1].removesuffix("s")
        return json_answer({"kind": f"compute#{kind}AggregatedList"})

    setup = connect(answer, tpu_nodes=True)
    for _ in range(3):
        assert setup.cloud.observe("demo", None).unread == ()
    assert paths == ["/v2/projects/demo/locations/-/nodes"]


@pytest.mark.parametrize("status", [403, 500, 429])
def test_a_list_that_cannot_be_read_is_unknown_and_takes_nothing_else_down(connect: Connect, status: int) -> None:
    """The sentence says what to grant; the VMs of Compute Engine are read all the same."""
    message = "Permission 'tpu.nodes.list' denied on 'projects/demo/locations/-'"

    def answer(request: Asked) -> Answer:
        if "/locations/" in request.path:
            return google_error(status, "forbidden" if status == 403 else "backendError", message)
        kind = request.path.rsplit("/", 1)[-1].removesuffix("s")
        return json_answer({"kind": f"compute#{kind}AggregatedList"})

    seen = connect(answer, tpu_nodes=True).cloud.observe("demo", None)
    (part,) = seen.unread
    assert part.scope == TPU_NODES
    assert seen.instances_complete
    if status == 403:
        assert message in part.reason
        assert "Grant the role of deploy/iam-role.yaml, or roles/tpu.viewer" in part.reason


@pytest.mark.parametrize("garbled", [{"name": "x"}, {"id": "1"}, 7, None, {"name": "projects/p/locations/z/nodes/n"}])
def test_a_node_that_cannot_be_understood_is_named_and_the_others_are_read(connect: Connect, garbled: Any) -> None:
    """A garbled node costs no other."""
    good = {
        "name": f"projects/demo/locations/{ZONE}/nodes/good",
        "id": "12",
        "acceleratorType": "v6e-8",
        "state": "READY",
        "createTime": "2026-11-20T11:00:00.123456789Z",
    }

    def answer(request: Asked) -> Answer:
        if request.path.endswith("/nodes"):
            return json_answer({"nodes": [garbled, good]})
        if "/locations/" in request.path:
            return json_answer({})
        kind = request.path.rsplit("/", 1)[-1].removesuffix("s")
        return json_answer({"kind": f"compute#{kind}AggregatedList"})

    seen = connect(answer, tpu_nodes=True).cloud.observe("demo", None)
    assert list(_nodes(seen)) == ["good"]
    assert [part.scope for part in seen.unread] == [TPU_NODES]


def test_every_state_of_the_api_has_a_status_and_ready_alone_bills(connect: Connect) -> None:
    """The states are those of Google's own document."""
    document = json.loads(
        files("googleapiclient.discovery_cache.documents").joinpath("tpu.v2.json").read_text(encoding="utf-8")
    )
    states = document["schemas"]["Node"]["properties"]["state"]["enum"]
    nodes = [
        {
            "name": f"projects/demo/locations/{ZONE}/nodes/{state.lower()}",
            "id": str(number),
            "acceleratorType": "v6e-8",
            "state": state,
            "createTime": "2026-11-20T11:00:00Z",
        }
        for number, state in enumerate(states)
    ]

    def answer(request: Asked) -> Answer:
        if request.path.endswith("/nodes"):
            return json_answer({"nodes": nodes})
        if "/locations/" in request.path:
            return json_answer({})
        kind = request.path.rsplit("/", 1)[-1].removesuffix("s")
        return json_answer({"kind": f"compute#{kind}AggregatedList"})

    seen = _nodes(connect(answer, tpu_nodes=True).cloud.observe("demo", None))
    assert len(seen) == len(states)
    assert [name for name, node in seen.items() if node.status.bills_machine] == ["ready"]
    unknown = {name for name, node in seen.items() if node.status is Status.UNKNOWN}
    assert unknown == {"state_unspecified", "hiding", "hidden", "unhiding", "unknown"}


def test_the_simulated_slices_have_the_chips_of_their_topologies() -> None:
    """The sandbox's table and the reading agree with the topology, which is in chips."""
    for name, one in SLICES.items():
        assert accelerators(name, {"type": one.version, "topology": one.topology})[1] == one.chips, name
