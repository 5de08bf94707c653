"""The keeper of a VM, as the API gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from costguard.api.fields import Out, one_of, read_from
from costguard.model.keeper import KeeperKind


class KeeperOut(Out):
    """The group, service, tool or job that keeps a VM, behind whose back nothing stops it."""

    kind: Annotated[str, one_of(KeeperKind)] = read_from(
        "kind",
        description="nobody: it was read, and nothing keeps it. unknown: what would say it could not be read.",
    )
    name: str = read_from("name", description="The cluster, environment, job, notebook or group it is part of.")
    cluster: str
    pool: str = read_from("pool", description="The node pool of GKE, or the configuration of a workstation.")
    group: str = read_from("group", description="The path of the managed instance group that recreates it.")
    place: str = read_from("place", description="The zone or region of what keeps it.")
    product: str = read_from("product", description="The tool, or the kind of notebook.")
    evidence: Sequence[str] = read_from("evidence", description="The labels and metadata items that say so.")
    doubt: str = read_from("doubt", description="A sentence where they prove less than they say; mostly empty.")
