"""Lists the queued resources of the Cloud TPU API that are dead: they cost nothing, and hold quota until deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costguard.errors import CloudError
from costguard.gce.errors import ServiceOff, first_of
from costguard.gce.fields import UNREADABLE, Garbled, labels, last_part, moment, number, short, word
from costguard.gce.session import Deadline, Http
from costguard.gce.tpu_nodes import accelerators, members_of
from costguard.model.observation import LooseKind, LooseListing, LooseThing, UnreadList

_FIELDS = (
    "nextPageToken,unreachable,queuedResources(name,createTime,spot,state(state,failedData/error/message),"
    "tpu/nodeSpec(multisliceParams/nodeCount,node(acceleratorType,acceleratorConfig,labels)))"
)
# Such requests come to nothing more (cloud.google.com/tpu/docs/queued-resources), and their quota counts as used until
# a user deletes them: a list of 20,800 chips was full of them in marin-community/marin#87.
_DEAD = {"FAILED": "failed", "SUSPENDED": "suspended"}
_PERMISSION = "tpu.nodes.list"  # Google's index of permissions has none of queued resources
_LONGEST = 120  # characters of a reason


def with_tpus(http: Http, project: str, deadline: Deadline, listing: LooseListing) -> LooseListing:
    """Adds dead queued resources, and takes away the disks that TPU nodes use. Never raises a CloudError.

    A project that has not enabled the API has neither.
    """
    problems: list[str] = []
    things: list[LooseThing] = []
    disks: set[tuple[str, str]] = set()
    try:
        for raw in members_of(http, project, "-", "queuedResources", _FIELDS, deadline, problems):
            things += _dead(project, raw, problems)
        for raw in members_of(http, project, "-", "nodes", "nextPageToken,nodes(name,dataDisks)", deadline, problems):
            try:
                disks |= set(_disks(raw))
            except UNREADABLE as error:
                problems.append(f"the disks of TPU node {short(raw.get('name'))}: {error!r}")
    except ServiceOff:
        return listing
    except CloudError as error:
        problems.append(str(error))
    unread = [UnreadList(project, LooseKind.QUEUED_RESOURCE, _why(project, problems), _PERMISSION)] if problems else []
    free = (one for one in listing.things if (one.scope, one.name) not in disks or one.kind is not LooseKind.DISK)
    return replace(listing, things=(*free, *things), unread=(*listing.unread, *unread))


def _why(project: str, problems: Sequence[str]) -> str:
    return f"The queued resources of TPUs in project {project} could not all be read: {first_of(problems).rstrip('.')}."


def _dead(project: str, raw: Any, problems: list[str]) -> Iterator[LooseThing]:
    """A queued resource that will never run again; nothing for any other."""
    try:
        *_, zone, _, name = word(raw["name"]).split("/")
        state = raw.get("state") or {}
        if (how := _DEAD.get(word(state["state"]))) is None:
            return
        specs = (raw.get("tpu") or {}).get("nodeSpec") or ()
        why = str(((state.get("failedData") or {}).get("error") or {}).get("message") or "").rstrip(".")
        reason = f" ({why[:_LONGEST]})" if why else ""
        tier = "Spot " if "spot" in raw else ""
        yield LooseThing(
            kind=LooseKind.QUEUED_RESOURCE,
            project=project,
            scope=f"zones/{zone}",
            name=name,
            what=f"queued resource, {how}{reason}: holds the {tier}quota of {_chips(specs)}",
            created_at=moment(raw["createTime"]),
            labels=next(filter(None, (labels((spec.get("node") or {}).get("labels")) for spec in specs)), {}),
        )
    except Garbled as error:
        problems.append(str(error))
    except UNREADABLE as error:
        problems.append(f"queued resource {short(raw.get('name') if isinstance(raw, dict) else raw)}: {error!r}")


def _chips(specs: Any) -> str:
    """`16 v6e TPU chips`; of what is not known, its name, or "its TPUs"."""
    counts: Counter[str] = Counter()
    for spec in specs:
        node: Mapping[str, Any] = spec.get("node") or {}
        name, nodes = (
            str(node.get("acceleratorType") or ""),
            number((spec.get("multisliceParams") or {}).get("nodeCount") or 1),
        )
        kind, chips = accelerators(name, node.get("acceleratorConfig") or {})
        counts[f"{kind} TPU chips" if kind and chips else name or "unknown TPUs"] += nodes * (chips or 1)
    return " and ".join(f"{count} {what}" for what, count in counts.items()) or "its TPUs"


def _disks(node: Any) -> Iterator[tuple[str, str]]:
    """The scope and name of each data disk of a node: no VM of the project has it, and it is in use."""
    for disk in (node.get("dataDisks") if isinstance(node, dict) else None) or ():
        path = str(disk.get("sourceDisk") or "")
        if "/zones/" in path:
            yield f"zones/{path.split('/zones/')[1].split('/')[0]}", last_part(path)
