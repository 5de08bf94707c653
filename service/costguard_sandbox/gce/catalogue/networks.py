"""The default network of a project, in auto mode, with its subnetwork in every region.

The fields are those of subnetworks that `gcloud compute networks subnets list` printed in 2023; the ranges are Google's
for auto mode networks (VPC documentation, "IPv4 ranges for auto mode subnets"); libcloud's recorded
aggregated_subnetworks.json has four of them.
"""

from collections.abc import Mapping
from typing import Any

from costguard_sandbox.gce.catalogue.regions import REGIONS, stable_id

DEFAULT_NETWORK = "default"
_SINCE = "2024-03-05T09:13:20.104-08:00"
# The second number of each region's 10.x.0.0/20.
_SECOND: Mapping[str, int] = {
    "africa-south1": 218,
    "asia-east1": 140,
    "asia-east2": 170,
    "asia-northeast1": 146,
    "asia-northeast2": 174,
    "asia-northeast3": 178,
    "asia-south1": 160,
    "asia-south2": 190,
    "asia-southeast1": 148,
    "asia-southeast2": 184,
    "australia-southeast1": 152,
    "australia-southeast2": 192,
    "europe-central2": 186,
    "europe-north1": 166,
    "europe-north2": 226,
    "europe-southwest1": 204,
    "europe-west1": 132,
    "europe-west10": 214,
    "europe-west12": 210,
    "europe-west2": 154,
    "europe-west3": 156,
    "europe-west4": 164,
    "europe-west6": 172,
    "europe-west8": 198,
    "europe-west9": 200,
    "me-central1": 212,
    "me-central2": 216,
    "me-west1": 208,
    "northamerica-northeast1": 162,
    "northamerica-northeast2": 188,
    "northamerica-south1": 224,
    "southamerica-east1": 158,
    "southamerica-west1": 194,
    "us-central1": 128,
    "us-east1": 142,
    "us-east4": 150,
    "us-east5": 202,
    "us-south1": 206,
    "us-west1": 138,
    "us-west2": 168,
    "us-west3": 180,
    "us-west4": 182,
}


def network_resource(base_url: str, project: str, name: str) -> dict[str, Any]:
    """`networks.get`."""
    root = f"{base_url}/compute/v1/projects/{project}"
    return {
        "autoCreateSubnetworks": True,
        "creationTimestamp": _SINCE,
        "description": "Default network for the project",
        "id": stable_id(f"{project}/{name}"),
        "kind": "compute#network",
        "name": name,
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        "routingConfig": {"routingMode": "REGIONAL"},
        "selfLink": f"{root}/global/networks/{name}",
        "subnetworks": [f"{root}/regions/{region}/subnetworks/{name}" for region in REGIONS],
    }


def subnetwork_resource(base_url: str, project: str, region: str, name: str) -> dict[str, Any]:
    """`subnetworks.get`: the one of an auto mode network in that region, which has the network's name."""
    root = f"{base_url}/compute/v1/projects/{project}"
    return {
        "creationTimestamp": _SINCE,
        "fingerprint": "ZuIhWEGo_1o=",
        "gatewayAddress": f"10.{_SECOND[region]}.0.1",
        "id": stable_id(f"{project}/{region}/{name}"),
        "ipCidrRange": f"10.{_SECOND[region]}.0.0/20",
        "kind": "compute#subnetwork",
        "name": name,
        "network": f"{root}/global/networks/{name}",
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "purpose": "PRIVATE",
        "region": f"{root}/regions/{region}",
        "selfLink": f"{root}/regions/{region}/subnetworks/{name}",
        "stackType": "IPV4_ONLY",
    }
