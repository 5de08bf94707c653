"""Scenario files may hold groups, node pools, notebooks and resources of Vertex AI, each with what keeps it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.sandbox.vms import HOUR, START

from costguard.keepers.reading import keeper_of
from costguard.model.keeper import Keeper, KeeperKind
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.vm import VM, Load, Status
from costguard_sandbox.gce.workbench import notebooks_agent
from costguard_sandbox.scenarios.keys import ScenarioError
from costguard_sandbox.scenarios.scenario import build, load, read
from costguard_sandbox.world import World

PROJECT = "acme-training"
HEAD = f'projects = ["{PROJECT}"]\n'
MACHINE = 'machine_type = "g2-standard-4"\nowner = "ana"\n'
GROUP = (
    f'[[group]]\nproject = "{PROJECT}"\nname = "trainers"\nplace = "us-central1"\nsize = 3\nmade = "2d ago"\n{MACHINE}'
)
POOL = (
    f'[[pool]]\nproject = "{PROJECT}"\ncluster = "train"\nname = "l4"\nzone = "us-central1-a"\nsize = 2\n'
    f'made = "2d ago"\nload = "idle"\n{MACHINE}'
)
VERTEX = (
    f'[[vertex]]\nproject = "{PROJECT}"\nregion = "us-central1"\nname = "thing"\nmade = "2d ago"\n{MACHINE}'
    'kind = "{kind}"\n{more}\n'
)
KINDS = {
    "custom_job": 'strategy = "SPOT"',
    "deployed_model": 'endpoint = "chat"',
    "colab_runtime": 'user = "ana@example.com"',
    "persistent_resource": "replicas = 2",
}
BOOK = f'[[notebook]]\nproject = "{PROJECT}"\nname = "ana-book"\nzone = "us-west1-a"\nstarted = "1h ago"\n{MACHINE}'


def play(text: str) -> World:
    return build(read(HEAD + text, Path("test.toml")), ManualClock(START))


def keeper(vm: VM) -> Keeper | None:
    """Reads the VM's keeper as the product does."""
    items = (vm.given.get("metadata") or {}).get("items") or ()
    origin = {item["key"]: item["value"] for item in items}
    return keeper_of(vm.given.get("labels") or {}, origin, vm.zone)


def test_a_group_has_lived_before_the_start_and_repairs_its_vms() -> None:
    """A regional group's VMs are spread over its zones; one that is stopped comes back on a fresh disk."""
    world = play(GROUP)
    (group,) = world.groups.of(PROJECT)
    assert len({vm.zone for vm in group.vms}) == 3
    first = group.vms[0]
    assert first.last_start is not None
    assert first.last_start < START - timedelta(days=1)
    assert {(one.kind, one.name) for vm in group.vms if (one := keeper(vm))} == {(KeeperKind.GROUP, "trainers")}
    world.stop(PROJECT, first.name)
    world.advance(HOUR)
    assert (first.status, world.groups.repairs) == (Status.RUNNING, 1)


def test_a_group_may_leave_its_vms_alone() -> None:
    """A VM that is stopped stays so without repairs."""
    world = play(f"{GROUP}repairs = false\n")
    (group,) = world.groups.of(PROJECT)
    world.stop(PROJECT, group.vms[0].name)
    world.advance(HOUR)
    assert (group.vms[0].status, world.groups.repairs) == (Status.TERMINATED, 0)


def test_a_pool_has_nodes_of_its_cluster_with_a_load() -> None:
    """They are labelled as recorded nodes are; without an autoscaler they stay."""
    world = play(POOL)
    (group,) = world.groups.of(PROJECT)
    world.advance(HOUR)
    assert [vm.status for vm in group.vms] == [Status.RUNNING] * 2
    assert {vm.load_at(world.now) for vm in group.vms} == {Load.IDLE}
    assert {one.where for vm in group.vms if (one := keeper(vm)) and one.kind is KeeperKind.GKE} == {"train/l4"}


def test_an_autoscaler_takes_away_idle_nodes() -> None:
    """Down to as many as the scenario says."""
    world = play(f"{POOL}smallest = 1\n")
    (group,) = world.groups.of(PROJECT)
    world.advance(HOUR)
    assert len([vm for vm in group.vms if vm.status is Status.RUNNING]) == 1


def test_a_notebook_is_an_instance_of_workbench() -> None:
    """Workbench makes its VM, and events may name it."""
    stop = f'[[event]]\nat = "5m"\ndo = "stop"\nproject = "{PROJECT}"\nname = "ana-book"\n'
    world = play(BOOK + stop)
    (book,) = world.workbench.of(PROJECT)
    assert (book.name, book.state, book.vm.given["labels"]["owner"]) == ("ana-book", "ACTIVE", "ana")
    assert next(iter(world.operations.of(PROJECT))).user == notebooks_agent(PROJECT)
    named = keeper(book.vm)
    assert named is not None
    assert (named.kind, named.has_own_stop) == (KeeperKind.WORKBENCH, True)
    world.advance(HOUR)
    assert world.workbench.is_orphan(book)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GROUP.replace("us-central1", "mars1"), "group[1].place: expected a zone or region"),
        (POOL.replace("us-central1-a", "mars1-a"), "pool[1].zone: expected a zone"),
        (POOL.replace("size = 2", 'size = "two"'), "pool[1].size: expected a whole number"),
        (GROUP.replace("g2-standard-4", "g9-standard-4"), "group[1].machine_type: expected a VM that Compute Engine"),
        (f"{POOL}repairs = true\n", "pool[1].repairs"),
        (VERTEX.format(kind="tpu", more=""), "vertex[1].kind: expected one of custom_job"),
        (VERTEX.format(kind="colab_runtime", more=""), "vertex[1].user: expected a text, but it is missing"),
        (VERTEX.format(kind="deployed_model", more='user = "a"'), "vertex[1].user"),
    ],
)
def test_an_invalid_key_is_named(text: str, said: str) -> None:
    """The error says which table of which kind, and what was expected."""
    with pytest.raises(ScenarioError) as caught:
        read(HEAD + text, Path("test.toml"))
    assert said in str(caught.value)


def test_resources_of_vertex_ai_have_lived_before_the_start() -> None:
    """Each of the four kinds bills since it was made, in a project that has the API; a runtime names its user."""
    world = play("".join(VERTEX.format(kind=kind, more=more) for kind, more in KINDS.items()))
    assert world.vertex.enabled == {PROJECT}
    things = {one.collection: one for one in world.vertex.ever}
    assert set(things) == {"customJobs", "endpoints", "notebookRuntimes", "persistentResources"}
    for thing in things.values():
        assert thing.shown["labels"] == {"owner": "ana"}
        assert timedelta(0) <= thing.runs[-1].began - (START - timedelta(days=2)) < HOUR
        assert thing.runs[-1].ended is None
    assert things["notebookRuntimes"].shown["runtimeUser"] == "ana@example.com"
    assert things["customJobs"].machines[0].way == "SPOT"


def test_the_demo_has_one_of_each_kind_of_vertex_ai() -> None:
    """They are there for the demo's reminders to find."""
    world = build(load("demo"), ManualClock(START))
    assert len({one.collection for one in world.vertex.ever if one.runs}) == 4


def test_the_demo_has_a_pool_that_idles_and_a_notebook() -> None:
    """Nothing of the demo takes them away."""
    world = build(load("demo"), ManualClock(START))
    world.advance(3 * HOUR)
    (pool,) = world.groups.of(PROJECT)
    assert {(vm.status, vm.load_at(world.now)) for vm in pool.vms} == {(Status.RUNNING, Load.IDLE)}
    (book,) = world.workbench.of("acme-research")
    assert book.state == "ACTIVE"
