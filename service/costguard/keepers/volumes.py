"""Recognises the disks that are volumes of a cluster. Pure."""

from __future__ import annotations

from collections.abc import Collection


def may_be_a_volume(name: str, labels: Collection[str] = (), description: str = "") -> bool:
    """Says whether a disk may be a volume of a cluster, which needs it though no VM has it at the moment.

    GKE's driver labels its volumes `goog-gke-volume`, and writes `kubernetes.io/created-for/...` into descriptions;
    volumes are named `pvc-...` by it, and `gke-...-pvc-...` by the older one.
    """
    return (
        "goog-gke-volume" in labels
        or "kubernetes.io/created-for/" in description
        or name.startswith("pvc-")
        or "-pvc-" in name
    )
