"""Groups as people and GKE make them: with a template and a size. A node pool is a group for each of its zones.

Names, labels and metadata of nodes are those of recorded ones (GoogleCloudPlatform/gcpdiag): group and nodes are named
gke-CLUSTER-POOL-HASH.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from costguard_sandbox.gce.cloud import Cloud
from costguard_sandbox.gce.groups import Group


def make_group(
    cloud: Cloud, project: str, scope: str, name: str, template: Mapping[str, Any], size: int, *, repairs: bool = True
) -> Group:
    """Makes a group in `zones/Z` or `regions/R` with so many VMs; `template` is the body of an insert."""
    with cloud.settled():
        group = Group(project, scope, name, cloud.timeline.now, template, name, repairs)
        return _filled(cloud, group, size)


def make_pool(
    cloud: Cloud,
    project: str,
    zone: str,
    cluster: str,
    pool: str,
    template: Mapping[str, Any],
    size: int,
    *,
    smallest: int | None = None,
) -> Group:
    """Makes a node pool of one zone; with `smallest`, its autoscaler removes idle nodes down to that many."""
    hashed = hashlib.sha256(f"{project}/{zone}/{cluster}/{pool}".encode()).hexdigest()[:8]
    base = f"gke-{cluster}-{pool}-{hashed}"
    labels = {
        "goog-gke-node": "",
        "goog-k8s-cluster-name": cluster,
        "goog-k8s-cluster-location": zone,
        "goog-k8s-node-pool-name": pool,
        **(template.get("labels") or {}),
    }
    items = [
        {"key": "cluster-name", "value": cluster},
        {"key": "cluster-location", "value": zone},
        {
            "key": "kube-labels",
            "value": f"cloud.google.com/gke-nodepool={pool},cloud.google.com/gke-os-distribution=cos",
        },
    ]
    body = {**template, "labels": labels, "metadata": {"items": items}}
    with cloud.settled():
        name = f"{base}-grp"
        group = Group(project, f"zones/{zone}", name, cloud.timeline.now, body, base, smallest=smallest)
        _filled(cloud, group, size)
        if smallest is not None:
            cloud.group_requests.watch(group)
        return group


def _filled(cloud: Cloud, group: Group, size: int) -> Group:
    cloud.groups.declare(group)
    cloud.group_requests.to_size(group, size)
    return group
