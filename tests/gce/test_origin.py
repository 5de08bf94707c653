"""The listing and a look at one VM show who keeps it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gce.bodies import cloud_of, instance, page
from tests.gce.conftest import Connect
from tests.gce.test_sandbox import ZONE, Sandbox, sandbox

from costguard.keepers.reading import keeper_of
from costguard.model.keeper import KeeperKind

__all__ = ["sandbox"]

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
