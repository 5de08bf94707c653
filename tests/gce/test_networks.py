"""Routers and subnetworks say whether VMs get out without external addresses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from costguard.errors import CloudError, PermissionDenied
from costguard.gce.client import ComputeCloud
from costguard.model.launch import WayOut
from costguard.model.ports import Launcher
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.server import running
from costguard_sandbox.world import World

REGION, HOST = "us-central1", "https://www.googleapis.com/compute/v1/"
NETWORK, SUBNET = "projects/demo/global/networks/default", f"projects/demo/regions/{REGION}/subnetworks/default"
NOTHING = WayOut(f"default of {REGION}")
# As `gcloud compute routers nats describe` prints one that was made in the console (a public runbook of 2026).
NAT = {
    "name": "nat",
    "natIpAllocateOption": "AUTO_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    "type": "PUBLIC",
}
LISTING = {**NAT, "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS"}


class Region:
    """The simulated cloud's us-central1."""

    def __init__(self, world: World, launcher: Launcher) -> None:
        self.world, self.launcher = world, launcher

    def add(self, kind: str, name: str, **fields: Any) -> None:
        self.world.belongings.append(Belonging(kind, "demo", REGION, name, self.world.timeline.now, fields))

    def router(self, *nats: dict[str, Any], network: str = HOST + NETWORK) -> None:
        self.add("router", "router", network=network, nats=list(nats))

    def way_out(self, subnetwork: str = "", network: str = "global/networks/default") -> WayOut:
        return self.launcher.way_out("demo", REGION, network, subnetwork)


@pytest.fixture
def region() -> Iterator[Region]:
    clock = ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC))
    world = World(clock)
    with running(world) as url:
        cloud = ComputeCloud(url, clock)
        yield Region(world, cloud.launcher)
        cloud.close()


def test_a_nat_of_the_whole_network_covers_its_subnetwork(region: Region) -> None:
    """The subnetwork is the one that Google chooses in the VM's region; NATs of other regions do not count."""
    assert region.way_out() == NOTHING
    region.router(NAT)
    assert region.way_out() == WayOut(f"default of {REGION}", "nat")
    assert region.launcher.way_out("demo", "us-east1", "global/networks/default", "").nat == ""


@pytest.mark.parametrize(
    ("nat", "covers"),
    [
        ({**NAT, "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES"}, True),
        ({**LISTING, "subnetworks": [{"name": HOST + SUBNET, "sourceIpRangesToNat": ["PRIMARY_IP_RANGE"]}]}, True),
        ({**LISTING, "subnetworks": [{"name": HOST + SUBNET, "sourceIpRangesToNat": ["ALL_IP_RANGES"]}]}, True),
        # VMs have addresses of the primary range; pods of GKE have those of secondary ones.
        (
            {
                **LISTING,
                "subnetworks": [{"name": HOST + SUBNET, "sourceIpRangesToNat": ["LIST_OF_SECONDARY_IP_RANGES"]}],
            },
            False,
        ),
        ({**LISTING, "subnetworks": [{"name": HOST + SUBNET + "-2", "sourceIpRangesToNat": ["ALL_IP_RANGES"]}]}, False),
        ({**NAT, "type": "PRIVATE"}, False),
        ({**NAT, "natIpAllocateOption": "MANUAL_ONLY"}, False),
        ({**NAT, "natIpAllocateOption": "MANUAL_ONLY", "natIps": [HOST + "projects/demo/regions/r/addresses/a"]}, True),
        ({**NAT, "endpointTypes": ["ENDPOINT_TYPE_SWG"]}, False),
        ({**NAT, "endpointTypes": ["ENDPOINT_TYPE_VM"]}, True),
    ],
)
def test_a_nat_counts_where_it_leads_vms_to_the_internet(region: Region, nat: dict[str, Any], covers: bool) -> None:
    """It has to translate the range of the VM's address, be public, be for VMs, and have addresses."""
    region.router(nat)
    assert bool(region.way_out().nat) is covers


def test_a_nat_of_another_network_does_not_count(region: Region) -> None:
    """Routers are listed by region, whatever their network."""
    region.router(NAT, network=HOST + NETWORK + "-2")
    assert region.way_out() == NOTHING


def test_a_named_subnetwork_is_looked_up(region: Region) -> None:
    """A name is looked up in the region, and a path as it is; both say whether it has Private Google Access."""
    region.add("subnetwork", "train", network=HOST + NETWORK + "-2", privateIpGoogleAccess=True)
    region.router(NAT, network=HOST + NETWORK + "-2")
    path = f"projects/demo/regions/{REGION}/subnetworks/train"
    assert region.way_out("train") == region.way_out(path) == WayOut(f"train of {REGION}", "nat", True)


def test_a_network_that_cannot_be_read_is_an_error(region: Region) -> None:
    """A network without a subnetwork of its name is an error, too: Google would ask for a subnetwork."""
    with pytest.raises(CloudError):
        region.way_out(network="projects/demo/global/networks/custom")
    region.world.faults.add("forbidden", project="demo")
    with pytest.raises(PermissionDenied):
        region.way_out()
