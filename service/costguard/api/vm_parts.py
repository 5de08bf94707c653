"""Parts that several answers about VMs share: the VM that a path names, its keeper, its use, what was not read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated

from fastapi import Depends, Path
from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import Amount, Moment, Out, Text, one_of, read_from
from costguard.ledger import fleet_rows
from costguard.ledger.projects import ProjectLook
from costguard.model.keeper import KeeperKind
from costguard.model.mending import command_for
from costguard.model.utilisation import IdleState

Project = Annotated[Text, Path()]


def _named(deps: Given, project: Project, gce_id: Annotated[Text, Path(description="The id, or the name.")]) -> str:
    with deps.database.read() as connection:
        return fleet_rows.gce_id_of(connection, project, gce_id)


GceId = Annotated[str, Depends(_named)]  # also where the path has its name


class KeeperOut(Out):
    """The group, service, tool or job that keeps a VM or other resource, behind whose back nothing stops it."""

    kind: Annotated[str, one_of(KeeperKind)] = read_from(
        "kind",
        description="`nobody`: nothing keeps it; `unknown`: the evidence could not be read.",
    )
    name: str = read_from("name", description="The cluster, environment, job, notebook or group it is part of.")
    cluster: str
    pool: str = read_from("pool", description="The node pool of GKE, or the configuration of a workstation.")
    group: str = read_from("group", description="The path of the managed instance group that recreates it.")
    place: str = read_from("place", description="The zone or region of what keeps it.")
    product: str = read_from("product", description="The tool, or the kind of notebook.")
    evidence: Sequence[str] = read_from("evidence", description="The labels and metadata items that say so.")
    doubt: str = read_from("doubt", description="The doubt about this evidence, in a sentence; empty: there is none.")


def decimal_of(parts: int) -> BeforeValidator:
    """A decimal from a count of so many parts of one."""
    return BeforeValidator(lambda count: f"{(Decimal(count) / parts).normalize():f}")


class IdleOut(Out):
    state: Annotated[str, one_of(IdleState)] = Field(
        description="busy, idle or unknown. What was not measured is unknown, never idle."
    )
    since: Moment
    evidence: str = read_from("sentence", examples=["GPU under 5 % for 2 h 10 min (max 3 %)"])
    is_weak: bool = Field(
        description="True: a VM with GPUs is idle or busy by CPU and network alone, or busy by utilisation alone."
    )


class AddressOut(Out):
    """The external IPv4 address of a VM."""

    is_external: bool = Field(description="Whether the VM gets an external address.")
    why: str = Field(description="The reason, such as the Cloud NAT of its subnetwork.")


class UnusedReservationsOut(Out):
    """Reserved VMs that nobody uses, which bill next to the VMs of the fleet and are in none of its totals."""

    as_of: Moment | None = read_from(
        "oldest_at", description="The time at which Google was asked for the oldest answer; null: none came."
    )
    vms: int = read_from("unused_vms")
    rate_per_hour: Amount = read_from(
        "unused_burn", description="Their cost an hour; not complete where one has no price or was not read."
    )


class UnreadOut(Out):
    """A part of a project that the last read missed. Unread does not mean deleted."""

    project: str
    scope: str = Field(description="The part: a zone, instances, disks, operations, or project.")
    code: str
    reason: str
    command: str = Field(description="The shell command that fixes it; empty where no one command does.")
    last_complete_at: Moment | None = Field(description="The last read that covered every zone.")


def unread_parts(looks: Iterable[ProjectLook]) -> list[UnreadOut]:
    return [
        UnreadOut.read(
            part,
            project=look.project,
            command=command_for(look.project, part),
            last_complete_at=look.last_complete_at,
        )
        for look in looks
        for part in look.unread
    ]
