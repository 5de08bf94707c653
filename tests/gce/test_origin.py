"""The listing and a look at one VM show who keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.gce.bodies import cloud_of, instance, page
from tests.gce.conftest import Connect
from tests.gce.server import Answer, Asked, google_error, json_answer
from tests.gce.test_sandbox import ZONE, Sandbox, sandbox

from costguard.keepers.reading import keeper_of
from costguard.model.keeper import KeeperKind
from costguard_sandbox.gce import changes
from costguard_sandbox.gce.render import fingerprint

__all__ = ["sandbox"]

SHARED = Path(__file__).parents[3] / "shared"
GROUP = f"projects/1/zones/{ZONE}/instanceGroupManagers/gke-train-t4-82e0c046-grp"
ITEMS = [
    {"key": "created-by", "value": GROUP},
    {"key": "cluster-name", "value": "train"},
    {"key": "user-data", "value": "#cloud-config " * 900},
    {"key": "kube-labels", "value": "x=y,cloud.google.com/gke-nodepool=t4,z=1"},
]


def test_a_listing_says_which_group_made_a_vm(sandbox: Sandbox) -> None:
    """The group comes through the field mask of the simulated cloud, as Google applies it."""
    sandbox.insert("node", metadata={"items": ITEMS})
    sandbox.insert("alone")
    vms = {vm.name: vm for vm in sandbox.look().instances}
    assert vms["node"].origin == {
        "created-by": GROUP,
        "cluster-name": "train",
        "kube-labels": "cloud.google.com/gke-nodepool=t4",
    }
    keeper = keeper_of(vms["node"].labels, vms["node"].origin, ZONE)
    assert keeper is not None
    assert (keeper.kind, keeper.name, keeper.pool) == (KeeperKind.GKE, "train", "t4")
    assert vms["alone"].origin == {}


def test_a_look_at_one_vm_says_the_same(sandbox: Sandbox) -> None:
    """The look right before a stop goes by the official client."""
    sandbox.insert("node", metadata={"items": ITEMS})
    sighting = sandbox.cloud.look("demo", ZONE, "node")
    assert sighting is not None
    (listed,) = sandbox.look().instances
    assert sighting.origin == listed.origin != {}


def test_metadata_that_say_nothing_of_it_are_no_change(connect: Connect) -> None:
    """A VM with another start-up script is the same object again: it is not converted once more."""
    pages = [
        page("instances", {f"zones/{ZONE}": [instance(metadata={"items": [{"key": "startup-script", "value": text}]})]})
        for text in ("one", "two")
    ]
    made = connect(cloud_of(instances=pages))
    first, second = (made.cloud.observe("p", None).instances[0] for _ in range(2))
    assert first is second


@pytest.mark.parametrize("metadata", [{"items": "none"}, {"items": [7]}, "metadata"])
def test_a_vm_whose_metadata_are_garbled_is_not_taken_for_one_that_may_be_stopped(
    connect: Connect, metadata: Any
) -> None:
    """It is not recorded, and its zone counts as unread, where nothing is decided."""
    made = connect(cloud_of(instances=page("instances", {f"zones/{ZONE}": [instance(metadata=metadata)]})))
    look = made.cloud.observe("p", None)
    assert look.instances == ()
    assert look.unread_zones == {ZONE}


class _Fleet:
    """Answers as Google does: the mask decides whether a VM's metadata come whole, or with their fingerprint alone."""

    def __init__(self, **vms: tuple[str, str]) -> None:
        self.vms = vms  # a VM's name: its metadata's fingerprint, what made it
        self.singles: dict[str, Answer] = {}
        self.asked: list[str] = []

    def __call__(self, request: Asked) -> Answer:
        part, before = request.path.rsplit("/", 1)[-1], request.path.rsplit("/", 2)[-2]
        if part in ("disks", "operations"):
            return cloud_of()(request)
        is_whole = "items(key,value)" in request.query["fields"]
        if before == "instances":
            self.asked.append(f"VM {part}")
            return self.singles.get(part) or json_answer(self._vm(f"vm{part}", whole=True))
        self.asked.append("all metadata" if is_whole else "fingerprints")
        members = [self._vm(name, whole=is_whole) for name in self.vms]
        return json_answer(page("instances", {f"zones/{ZONE}": members}))

    def _vm(self, name: str, *, whole: bool) -> dict[str, Any]:
        fingerprint, made_by = self.vms[name]
        items = [{"key": "startup-script", "value": "x"}, {"key": "created-by", "value": made_by}]
        metadata = {"fingerprint": fingerprint} | ({"items": items} if whole else {})
        return instance(name, name.removeprefix("vm"), metadata=metadata)


def test_metadata_are_read_once(connect: Connect) -> None:
    """Later looks ask for fingerprints; a VM that changes otherwise keeps what its metadata said."""
    fleet = _Fleet(vm101=("a", GROUP), vm102=("b", "person"))
    cloud = connect(fleet).cloud
    first = {vm.name: vm for vm in cloud.observe("p", None).instances}
    second = {vm.name: vm for vm in cloud.observe("p", None).instances}
    assert fleet.asked == ["all metadata", "fingerprints"]
    # After the first answer with fingerprints alone each VM is the object that it was.
    assert all(second[name] is vm for name, vm in first.items())
    assert first["vm101"].origin == {"created-by": GROUP}


def test_a_vm_whose_labels_change_keeps_its_origin(sandbox: Sandbox) -> None:
    """A VM keeps what its metadata said, which is not read again."""
    sandbox.insert("node", metadata={"items": ITEMS})
    (before,) = sandbox.look().instances
    change = changes.labels({"purpose": "other"}, fingerprint({}))
    sandbox.world.change("setLabels", "demo", ZONE, "node", change)
    (after,) = sandbox.look().instances
    assert after.labels == {"purpose": "other"}
    assert after.origin == before.origin != {}


def test_new_metadata_are_asked_for_by_vm(connect: Connect) -> None:
    """A new VM, and one whose metadata changed, are read by themselves; the others are not."""
    fleet = _Fleet(vm101=("a", GROUP), vm102=("b", GROUP))
    cloud = connect(fleet).cloud
    cloud.observe("p", None)
    fleet.vms = {"vm101": ("a", GROUP), "vm102": ("b2", "other"), "vm103": ("c", "third")}
    look = {vm.name: vm.origin["created-by"] for vm in cloud.observe("p", None).instances}
    assert look == {"vm101": GROUP, "vm102": "other", "vm103": "third"}
    assert fleet.asked[1:] == ["fingerprints", "VM 103", "VM 102"]
    cloud.observe("p", None)
    assert fleet.asked[4:] == ["fingerprints"]


def test_many_new_vms_are_listed_with_their_metadata(connect: Connect) -> None:
    """The list is asked for again once more than 20 VMs are new: that is cheaper than a request for each."""
    fleet = _Fleet(vm101=("a", GROUP))
    cloud = connect(fleet).cloud
    cloud.observe("p", None)
    fleet.vms |= {f"vm{number}": (f"f{number}", GROUP) for number in range(200, 221)}
    look = cloud.observe("p", None)
    assert {vm.origin["created-by"] for vm in look.instances} == {GROUP}
    assert len(look.instances) == 22
    assert fleet.asked[1:] == ["fingerprints", "all metadata"]


@pytest.mark.parametrize(
    "single", [google_error(403, "forbidden"), google_error(404, "notFound"), json_answer({"id": "999"})]
)
def test_a_new_vm_that_cannot_be_read_by_itself_is_listed_with_its_metadata(connect: Connect, single: Answer) -> None:
    """It is never taken for a VM that nobody keeps."""
    fleet = _Fleet(vm101=("a", GROUP))
    cloud = connect(fleet).cloud
    cloud.observe("p", None)
    fleet.vms["vm102"] = ("b", GROUP)
    fleet.singles["102"] = single
    look = cloud.observe("p", None)
    assert {vm.name: vm.origin["created-by"] for vm in look.instances} == {"vm101": GROUP, "vm102": GROUP}
    assert fleet.asked[1:] == ["fingerprints", "VM 102", "all metadata"]


def test_a_vm_without_a_fingerprint_is_never_known_from_before(connect: Connect) -> None:
    """Where an answer has none, metadata may have changed."""
    fleet = _Fleet(vm101=("", GROUP))
    cloud = connect(fleet).cloud
    cloud.observe("p", None)
    fleet.vms["vm101"] = ("", "other")
    fleet.vms["vm102"] = ("", GROUP)
    look = {vm.name: vm.origin["created-by"] for vm in cloud.observe("p", None).instances}
    assert look == {"vm101": "other", "vm102": GROUP}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder with recorded answers of Google is not here")
def test_recorded_vms_have_a_fingerprint_of_their_metadata() -> None:
    """All that Google's API gave to others: each has one, so that asking for it alone tells every change."""
    read = [
        orjson.loads(file.read_bytes())
        for folder in ("gce-recorded", "outside/owners")
        for file in sorted((SHARED / folder).rglob("*.json"))
    ]
    vms = [one for value in read for one in _within(value) if one.get("kind") == "compute#instance"]
    assert len(vms) >= 50
    assert all(vm["metadata"]["fingerprint"] for vm in vms)


def _within(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _within(one)
