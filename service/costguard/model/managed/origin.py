"""The few metadata items of a VM that show its keeper, of perhaps 30 KB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

CREATED_BY = "created-by"
KUBE_LABELS = "kube-labels"
JOB_ID = "job_id"  # Dataflow's name for it, and perhaps a person's: see apache_beam/runners/dataflow gce_metadata_util
POOL_KEY = "cloud.google.com/gke-nodepool"
GKE_ITEMS = ("cluster-name", "cluster-location", "cluster-uid", KUBE_LABELS)
WORKBENCH_ITEMS = ("notebooks-api", "notebooks-api-version", "proxy-url")
DATAPROC_ITEMS = ("dataproc-cluster-name", "dataproc-cluster-uuid", "dataproc-region", "dataproc-role")
SLURM_ITEMS = ("slurm_cluster_name", "slurm_instance_role")
BATCH_ITEMS = ("cloudbatch-job-uid",)
TPU_NODE = "tpu.googleapis.com"  # no metadata item: the list of TPU nodes, of one host ("node") or several ("slice")
# No metadata item either: the lists of Vertex AI, by the end of the resource's name: `customJobs/4567`, and
# `endpoints/12/34` of a deployed model; whom a Colab Enterprise runtime is for, and after how long Colab stops it.
VERTEX = "aiplatform.googleapis.com"
VERTEX_USER = "aiplatform.googleapis.com/runtimeUser"
VERTEX_IDLE = "aiplatform.googleapis.com/idleShutdown"  # seconds without activity as text, or "off"

_ORIGIN = frozenset(
    {CREATED_BY, JOB_ID, *GKE_ITEMS, *WORKBENCH_ITEMS, *DATAPROC_ITEMS, *SLURM_ITEMS, *BATCH_ITEMS},
)
_LONGEST = 500
_IS_DATAFLOW_JOB = re.compile(r"\d{4}-\d\d-\d\d_\d\d_\d\d_\d\d-\d{6,}")


def origin_of(items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the metadata items that show a VM's keeper: a few short values.

    Of a GKE node's `kube-labels` it takes the node pool alone. Raises AttributeError or TypeError for values that are
    no items.
    """
    origin: dict[str, str] = {}
    for item in items:
        key, value = item.get("key"), item.get("value")
        if not isinstance(key, str) or key not in _ORIGIN:
            continue
        if not isinstance(value, str):
            if key == CREATED_BY:
                origin[key] = ""  # something made it, and does not say what
        elif key == KUBE_LABELS:
            pairs = (pair.partition("=") for pair in value.split(","))
            pool = next((pool for label, _, pool in pairs if label == POOL_KEY), "")
            origin[key] = f"{POOL_KEY}={pool[:_LONGEST]}"
        elif key != JOB_ID or _IS_DATAFLOW_JOB.fullmatch(value):
            origin[key] = value[-_LONGEST:]
    return origin


def is_of_origin(item: Mapping[str, Any]) -> bool:
    """Says whether `origin_of` takes anything from this metadata item."""
    key = item.get("key")
    return isinstance(key, str) and key in _ORIGIN
