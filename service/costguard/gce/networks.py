"""Reads how the VMs of a subnetwork get out without external addresses: its Cloud NAT, and Private Google Access.

Google's rules (docs.cloud.google.com/compute/docs/reference/rest/v1/routers and /subnetworks): a NAT belongs to a
router of one region and network, and covers all of its subnetworks or those it lists. A private NAT leads to other
networks, not to the internet; one with addresses given by hand translates nothing without any.
"""

from __future__ import annotations

import re
from typing import Any

from costguard.gce.errors import LAUNCHING
from costguard.gce.official import Official
from costguard.model.launch import WayOut

_PARTS = re.compile(
    r"(?:projects/(?P<project>[^/]+)/)?(?:global/networks|regions/(?P<region>[^/]+)/subnetworks)/(?P<name>[^/]+)$"
)
_WHOLE_NETWORK = frozenset({"ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES"})
_PRIMARY_RANGE = frozenset({"ALL_IP_RANGES", "PRIMARY_IP_RANGE"})


def way_out(official: Official, project: str, region: str, network: str, subnetwork: str) -> WayOut:
    """Reads the subnetwork that a VM lands in and the region's routers. Raises CloudError.

    Without a subnetwork it is the network's of the same name: Google asks for one where the network has none.
    """
    named = _PARTS.search(subnetwork or network)
    owner, name = (named["project"] or project, named["name"]) if named else (project, subnetwork or network)
    what = f"Reading subnetwork {name} of {region}"
    of_region = {"project": owner, "region": region}
    shown = official.call("SubnetworksClient", "get", what, owner, LAUNCHING, **of_region, subnetwork=name)
    routers = official.listed(
        "RoutersClient", "list", f"Reading the routers of {region}", owner, LAUNCHING, **of_region
    )
    subnet, its_network = _path(shown.self_link), _path(shown.network)
    nats = (nat for router in routers if _path(router.network) == its_network for nat in router.nats)
    nat = next((nat.name for nat in nats if _leads_out(nat) and _covers(nat, subnet)), "")
    return WayOut(f"{name} of {region}", nat, bool(shown.private_ip_google_access))


def _leads_out(nat: Any) -> bool:
    """Says whether VMs reach the internet by it. What is not set is public, for VMs, with addresses of Google's."""
    has_addresses = nat.nat_ip_allocate_option != "MANUAL_ONLY" or bool(nat.nat_ips)
    is_for_vms = not nat.endpoint_types or "ENDPOINT_TYPE_VM" in nat.endpoint_types
    return nat.type_ in ("", "PUBLIC") and has_addresses and is_for_vms


def _covers(nat: Any, subnet: str) -> bool:
    """Says whether it translates the primary range, which a VM's address is from."""
    if nat.source_subnetwork_ip_ranges_to_nat in _WHOLE_NETWORK:
        return True
    listed = (one for one in nat.subnetworks if _path(one.name) == subnet)
    return any(not _PRIMARY_RANGE.isdisjoint(one.source_ip_ranges_to_nat) for one in listed)


def _path(link: str) -> str:
    """A resource's address without its server: links name one of several."""
    return link[link.find("projects/") :]
