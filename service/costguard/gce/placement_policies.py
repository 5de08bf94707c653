"""Compact placement policies, by the API `resourcePolicies` of compute v1: VMs that name one stand close together.

Without `maxDistance`, which v1 does not have, Google places them as close as it can and bounds nothing ("Placement
policies overview"). `vmCount` is left out, too: "Google does not recommend that you use this field" unless the policy
is to work with exactly so many VMs (discovery document, ResourcePolicyGroupPlacementPolicy), and jobs lose and grow
VMs.
"""

from __future__ import annotations

from typing import Any

from costguard.gce.errors import LAUNCHING
from costguard.gce.official import Official, must_be
from costguard.model.launch import PolicyAnswer

_CLIENT = "ResourcePoliciesClient"


def read(official: Official, project: str, region: str, name: str) -> PolicyAnswer | None:
    """Reads a policy; None where there is none of this name. Raises CloudError."""
    what, named = f"Reading placement policy {name} in {region}", {"project": project, "region": region}
    missing = f"/resourcePolicies/{name}"
    policy = official.call(_CLIENT, "get", what, project, LAUNCHING, missing, **named, resource_policy=name)
    if policy is None:
        return None
    must_be("resourcePolicy", policy, name, f"{what} of project {project}")
    return PolicyAnswer(policy.status, policy.description, policy.group_placement_policy.collocation == "COLLOCATED")


def make(official: Official, project: str, region: str, name: str, description: str, request_id: str) -> None:
    """Asks once for a compact policy. Raises CloudError, AlreadyExists where the name is taken."""
    body = {"name": name, "description": description, "group_placement_policy": {"collocation": "COLLOCATED"}}
    request = {"project": project, "region": region, "request_id": request_id, "resource_policy_resource": body}
    what = f"The insert of placement policy {name} in {region}"
    official.begun(_CLIENT, "insert", what, project, LAUNCHING, request, name)


def delete(official: Official, project: str, region: str, name: str, request_id: str) -> None:
    """Asks once to delete a policy. Raises CloudError: RequestRefused while a VM uses it."""
    request = {"project": project, "region": region, "request_id": request_id, "resource_policy": name}
    what = f"The delete of placement policy {name} in {region}"
    official.begun(_CLIENT, "delete", what, project, LAUNCHING, request, name)


def named_in(body: dict[str, Any], project: str, zone: str, name: str) -> None:
    """Has the body of an insert name the policy of its region; a VM may name one and no more."""
    body["resource_policies"] = [f"projects/{project}/regions/{zone.rpartition('-')[0]}/resourcePolicies/{name}"]
