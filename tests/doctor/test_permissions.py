"""The one list of permissions, compared with the calls that the adapters make and with the files of roles."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from requests.adapters import HTTPAdapter
from tests.gce.conftest import Waits
from tests.gce.test_buying import RESERVED
from tests.gce.test_launches import A100, SPOT, ZONE
from tests.sandbox.gce.test_reservations import calendar

from costguard.cli.app import app
from costguard.doctor.permissions import (
    DISCOVERY_ROLE,
    LAUNCH_ROLE,
    PERMISSIONS,
    READ_ROLE,
    ROLES,
    STOP_ROLE,
    Feature,
    GoogleRole,
    GrantedOn,
    held_by,
    needed,
)
from costguard.errors import NotFound
from costguard.gce.client import ComputeCloud
from costguard.gce.vertex.look import VertexRegions
from costguard.gce.vertex.resources import LISTS
from costguard.model.instance import InstanceKey, InstanceKind, ProvisioningModel, vertex_id
from costguard.model.launch import GroupAddress, ResizeRequest
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
REGION = "us-central1"
START = datetime(2026, 11, 2, 8, tzinfo=UTC)
CUSTOM = [role for role in ROLES if role.file]
# The section "IAM Permissions" of each method's page below
# https://docs.cloud.google.com/compute/docs/reference/rest/v1, and of projects.timeSeries.list of Cloud Monitoring.
_OF_VERTEX = "|".join((*(kind.collection for kind in InstanceKind if kind.collection), "hyperparameterTuningJobs"))
_P, _Z, _N = r"/compute/v1/projects/[^/]+", r"/zones/[^/]+", r"/[^/]+"
OF_GOOGLE: Mapping[str, tuple[str, ...]] = {
    rf"GET {_P}/aggregated/(instances|disks|addresses|reservations|futureReservations)": ("compute.{0}.list",),
    rf"GET {_P}/aggregated/operations": tuple(
        f"compute.{scope}Operations.list" for scope in ("zone", "region", "global")
    ),
    rf"GET {_P}/global/(snapshots|images)": ("compute.{0}.list",),
    rf"GET {_P}{_Z}/machineTypes{_N}": ("compute.machineTypes.get",),
    rf"GET {_P}{_Z}/instances{_N}": ("compute.instances.get",),
    rf"POST {_P}/regions{_N}/advice/(capacity|capacityHistory)": ("compute.advice.{0}",),
    rf"GET {_P}{_Z}/reservations{_N}": ("compute.reservations.get",),
    rf"GET {_P}{_Z}/futureReservations": ("compute.futureReservations.list",),
    rf"GET {_P}/regions{_N}/(subnetworks){_N}": ("compute.{0}.get",),
    rf"GET {_P}/regions{_N}/(routers)": ("compute.{0}.list",),
    rf"GET {_P}/regions{_N}/resourcePolicies{_N}": ("compute.resourcePolicies.get",),
    rf"POST {_P}/regions{_N}/resourcePolicies": ("compute.resourcePolicies.create",),
    rf"DELETE {_P}/regions{_N}/resourcePolicies{_N}": ("compute.resourcePolicies.delete",),
    rf"GET {_P}/regions{_N}": ("compute.regions.get",),
    rf"GET {_P}{_Z}/operations{_N}": ("compute.zoneOperations.get",),
    rf"POST {_P}{_Z}/instances{_N}/(start|stop)": ("compute.instances.{0}",),
    rf"DELETE {_P}{_Z}/instances{_N}": ("compute.instances.delete",),
    rf"POST {_P}/global/(instanceTemplates)": ("compute.{0}.create",),
    rf"GET {_P}/global/(instanceTemplates){_N}": ("compute.{0}.get",),
    rf"DELETE {_P}/global/(instanceTemplates){_N}": ("compute.{0}.delete",),
    rf"POST {_P}{_Z}/(instanceGroupManagers)": ("compute.{0}.create", "compute.instanceTemplates.useReadOnly"),
    rf"GET {_P}{_Z}/(instanceGroupManagers){_N}(?:/resizeRequests{_N})?": ("compute.{0}.get",),
    rf"DELETE {_P}{_Z}/(instanceGroupManagers){_N}": ("compute.{0}.delete",),
    rf"POST {_P}{_Z}/(instanceGroupManagers){_N}/(?:resizeRequests(?:{_N}/cancel)?|deleteInstances)": (
        "compute.{0}.update",
    ),
    # With what these inserts have or may have: a boot disk of an image, labels, metadata, an account, an address, a
    # placement policy.
    rf"POST {_P}{_Z}/instances": (
        *(f"compute.instances.{verb}" for verb in ("create", "setLabels", "setMetadata", "setServiceAccount")),
        *("compute.disks.create", "compute.images.useReadOnly"),
        *("compute.subnetworks.use", "compute.subnetworks.useExternalIp", "compute.resourcePolicies.use"),
    ),
    # docs.cloud.google.com/iam/docs/roles-permissions/tpu: queued resources have none of their own.
    rf"GET /v2/projects/[^/]+/locations{_N}/(?:nodes|queuedResources)": ("tpu.nodes.list",),
    rf"GET /v2/projects/[^/]+/locations{_N}/nodes{_N}": ("tpu.nodes.get",),
    rf"GET /v2/projects/[^/]+/locations{_N}/operations": ("tpu.operations.list",),
    rf"GET /v1/projects/[^/]+/locations{_N}/({_OF_VERTEX})": ("aiplatform.{}.list",),
    rf"GET /v1/projects/[^/]+/locations{_N}/({_OF_VERTEX}){_N}": ("aiplatform.{}.get",),
    rf"POST /v1/projects/[^/]+/locations{_N}/customJobs{_N}:cancel": ("aiplatform.customJobs.cancel",),
    rf"POST /v1/projects/[^/]+/locations{_N}/notebookRuntimes{_N}:stop": ("aiplatform.notebookRuntimes.update",),
    rf"POST /v1/projects/[^/]+/locations{_N}/endpoints{_N}:undeployModel": ("aiplatform.endpoints.undeploy",),
    r"GET /v3/projects/[^/]+/timeSeries": ("monitoring.timeSeries.list",),
}
# Asked by `costguard doctor`, whose own tests take each of them away.
OF_DOCTOR = {
    "compute.acceleratorTypes.get",
    "compute.images.get",
    "compute.images.getFromFamily",
    "compute.projects.get",
    "serviceusage.services.get",
}


@dataclass
class Calls(HTTPAdapter):
    """Carries requests as usual, and notes them."""

    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def send(self, request: Any, *args: Any, **more: Any) -> Any:
        self.made.append(f"{request.method} {request.path_url.partition('?')[0]}")
        return super().send(request, *args, **more)

    def permissions(self) -> set[str]:
        taken = set()
        for call in self.made:
            rules = [(match, wanted) for rule, wanted in OF_GOOGLE.items() if (match := re.fullmatch(rule, call))]
            assert len(rules) == 1, f"which permission does {call} take?"
            match, wanted = rules[0]
            taken |= {name.format(*match.groups()) for name in wanted}
        self.made.clear()
        return taken


@dataclass
class Asking:
    world: World
    cloud: ComputeCloud
    calls: Calls


@pytest.fixture
def asking() -> Iterator[Asking]:
    clock, calls = ManualClock(START), Calls()
    world = World(clock)
    with running(world) as url:
        cloud = ComputeCloud(
            url, clock, wait=Waits(), monotonic=lambda: clock.now().timestamp(), adapter=calls, tpu_nodes=True
        ).watch_vertex(VertexRegions((REGION,)))
        yield Asking(world, cloud, calls)
        cloud.close()


def _in_projects(*roles: GoogleRole) -> set[str]:
    return {one.name for one in PERMISSIONS if one.role in roles} - OF_DOCTOR


def test_reading_takes_what_the_role_for_reading_holds(asking: Asking) -> None:
    """A look, what is loose, utilisation, a VM's parts, preemptions and one VM: every reading call there is."""
    cloud = asking.cloud
    cloud.launcher.insert("demo", ZONE, SPOT, str(UUID(int=1)))
    asking.world.tpus.enabled.add("demo")
    asking.world.tpus.create("demo", ZONE, "tpu", {"acceleratorType": "v6e-8"})
    asking.world.vertex.enabled.add("demo")
    asking.world.advance(timedelta(minutes=5))
    asking.calls.made.clear()
    for _ in LISTS:  # of those of Vertex AI one a minute is read
        cloud.observe("demo", None)
        asking.world.advance(timedelta(minutes=2))
    for kind in InstanceKind:
        if kind.is_of_vertex:
            cloud.presence(InstanceKey("demo", vertex_id(kind, REGION, "1", "2")), REGION, "any")
    cloud.loose("demo")
    cloud.usage("demo", START, START + timedelta(hours=1))
    with suppress(NotFound):
        cloud.shape("demo", ZONE, "n9-unknown-8")  # of those that Costguard knows by rule it asks nothing
    cloud.preemption_rate("demo", ZONE, "a2-highgpu-1g")
    cloud.capacity_advice("demo", "us-central1", "a2-highgpu-1g", ProvisioningModel.FLEX_START)
    cloud.spot_prices("demo", "us-central1", "a2-highgpu-1g")
    cloud.presence(InstanceKey("demo", "1"), ZONE, SPOT.name)
    cloud.presence(InstanceKey("demo", "tpu.1"), ZONE, "tpu")
    assert asking.calls.permissions() == _in_projects(READ_ROLE)


def test_launching_and_stopping_take_what_their_roles_hold(asking: Asking) -> None:
    """The life of a job's VM, and a stop of anybody's."""
    launcher = asking.cloud.launcher
    operation = launcher.insert("demo", ZONE, SPOT, str(UUID(int=1)))
    asking.world.advance(timedelta(minutes=5))
    launcher.operation("demo", ZONE, operation)
    seen = launcher.look("demo", ZONE, SPOT.name)
    assert seen is not None
    launcher.quotas("demo", "us-central1")
    launcher.way_out("demo", "us-central1", "default", "")
    launcher.make_placement_policy("demo", "us-central1", "close", "", str(UUID(int=8)))
    asking.world.advance(timedelta(minutes=1))
    assert launcher.placement_policy("demo", "us-central1", "close") is not None
    launcher.delete_placement_policy("demo", "us-central1", "close", str(UUID(int=9)))
    launcher.stop("demo", ZONE, seen.gce_id, str(UUID(int=2)))
    asking.world.advance(timedelta(minutes=5))
    launcher.start("demo", ZONE, seen.gce_id, str(UUID(int=3)))
    asking.world.advance(timedelta(minutes=5))
    launcher.delete("demo", ZONE, seen.gce_id, str(UUID(int=4)))
    asking.world.advance(timedelta(minutes=5))
    calendar(asking.world, START + timedelta(days=1))
    launcher.insert("demo", ZONE, replace(RESERVED, name="reserved"), str(UUID(int=7)))
    _group_comes_and_goes(asking)
    assert asking.calls.permissions() == {one for one in _in_projects(LAUNCH_ROLE) if one.startswith("compute.")}
    asking.cloud.launcher.insert("demo", ZONE, SPOT, str(UUID(int=5)))
    asking.world.advance(timedelta(minutes=5))
    asking.calls.made.clear()
    asking.cloud.stop("demo", ZONE, SPOT.name, str(UUID(int=6)))
    assert asking.calls.permissions() == _in_projects(STOP_ROLE)


def _group_comes_and_goes(asking: Asking) -> None:
    """A gang on flex-start, from its template to its end."""
    groups, group = asking.cloud.launcher.groups, GroupAddress("demo", ZONE, "cg-j1-1-00000000")
    ids = (str(UUID(int=number)) for number in range(100, 120))
    asking.world.faults.add("flex_start", never=True)
    vm = replace(SPOT, recipe=A100, provisioning_model=ProvisioningModel.FLEX_START)
    changes: tuple[Callable[[], None], ...] = (
        lambda: groups.insert_template(group, vm, next(ids)),
        lambda: groups.insert_group(group, next(ids)),
        lambda: groups.resize(group, ResizeRequest("r1", ("cg-j1-1",), timedelta(hours=8)), next(ids)),
        lambda: groups.cancel(group, "r1", next(ids)),
        lambda: groups.delete_group(group, next(ids)),
        lambda: groups.delete_template(group, next(ids)),
    )
    for change in changes:
        change()
        asking.world.advance(timedelta(minutes=1))
        groups.parts(group)
        groups.resize_answer(group, "r1")


@pytest.mark.parametrize("role", CUSTOM, ids=lambda role: role.name)
def test_files_of_roles_hold_what_the_list_says(role: GoogleRole) -> None:
    """Each permission of the list, and no other; the file says how the role is made under its name."""
    text = (DEPLOY / role.file).read_text("utf-8")
    read: Any = yaml.safe_load(text)
    assert read == {
        "title": role.title,
        "description": role.description,
        "stage": "GA",
        "includedPermissions": held_by(role),
    }
    place = "--organization=NUMBER" if role is DISCOVERY_ROLE else "--project=PROJECT"
    assert f"gcloud iam roles create {role.name} {place} --file=deploy/{role.file}" in text


@pytest.mark.parametrize("role", CUSTOM, ids=lambda role: role.name)
def test_a_command_prints_the_same_roles(role: GoogleRole, capsys: pytest.CaptureFixture[str]) -> None:
    """A user who installed without a checkout has no folder deploy/."""
    app(["google-role", role.name], standalone_mode=False)
    assert yaml.safe_load(capsys.readouterr().out) == yaml.safe_load((DEPLOY / role.file).read_text("utf-8"))


def test_every_file_of_a_role_is_in_the_list() -> None:
    """No role in deploy/ that the list does not know."""
    assert {file.name for file in DEPLOY.glob("iam-role*.yaml")} == {role.file for role in CUSTOM}


def test_each_permission_has_a_reason_and_is_listed_once_a_feature_and_place() -> None:
    """A permission may serve two features; at one place it is asked about once."""
    keys = [(one.name, one.feature, one.place) for one in PERMISSIONS]
    assert len(keys) == len(set(keys))
    assert all(one.reason and re.fullmatch(r"[a-z]+\.[A-Za-z]+\.[A-Za-z]+", one.name) for one in PERMISSIONS)
    at_once = [one.name for one in needed(set(Feature), GrantedOn.PROJECT)]
    assert len(at_once) == len(set(at_once))
    assert len(at_once) <= 100  # of one call of testIamPermissions


def test_watching_changes_nothing() -> None:
    """The features that are not about stopping, launching or buckets only get, list and read advice."""
    watching = {Feature.WATCH, Feature.IDLE, Feature.LOOSE, Feature.TPU_NODES, Feature.VERTEX}
    names = [one.name for one in needed(watching, GrantedOn.PROJECT)]
    assert names
    assert all(re.fullmatch(r"[a-z]+\.[A-Za-z]+\.(get|list)", name) for name in names)
