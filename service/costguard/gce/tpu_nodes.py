"""Lists the nodes of the Cloud TPU API (tpu.v2), and the operations that tell when they ran.

Their VMs are in a project of Google's, so no list of Compute Engine has them (turbot/steampipe-plugin-gcp#744): nothing
is counted twice. Shapes: tpu.v2 of Google's API discovery, revision 20261001.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import prod
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer, CloudError
from costguard.gce.convert import fingerprinted
from costguard.gce.errors import TPU, ServiceOff, first_of, missing_resource
from costguard.gce.fields import (
    UNREADABLE,
    Garbled,
    identity,
    labels,
    last_part,
    moment,
    moment_or_none,
    said,
    short,
    word,
)
from costguard.gce.pages import list_of, pages_of
from costguard.gce.session import Deadline, Http
from costguard.model.instance import (
    CAPACITY_OPTIMIZED,
    TPU_NODE_ID,
    InstanceKey,
    ProvisioningModel,
    SeenInstance,
    Shape,
    Status,
)
from costguard.model.managed.origin import TPU_NODE
from costguard.model.observation import TPU_NODES, OperationStatus, Presence, SeenOperation, Unread

log = logging.getLogger(__name__)

_OFF_FOR_S = 600.0  # after which it is asked again whether a project has the API
_NODE = re.compile(r"projects/[^/]+/locations/(?P<zone>[^/]+)/nodes/(?P<name>[^/]+)")
_FIELDS = (
    "nextPageToken,unreachable,nodes(name,id,acceleratorType,acceleratorConfig,state,createTime,schedulingConfig,"
    "labels,networkEndpoints/ipAddress,protectionTier)"
)
_OPERATION_FIELDS = "nextPageToken,operations(name,done,error/code,error/message,metadata,response/id)"

# "Charges for Cloud TPU accrue while your TPU node is in a READY state" (cloud.google.com/tpu/pricing).
_STATUS = {
    "CREATING": Status.PROVISIONING,
    "READY": Status.RUNNING,
    "RESTARTING": Status.STAGING,
    "REIMAGING": Status.STAGING,
    "STARTING": Status.STAGING,
    "REPAIRING": Status.REPAIRING,
    "STOPPING": Status.STOPPING,
    "STOPPED": Status.STOPPED,
    "PREEMPTED": Status.STOPPED,
    "TERMINATED": Status.STOPPED,
    "DELETING": Status.DEPROVISIONING,
}
# The number in the name of an accelerator type counts TensorCores, of which these have two a chip: v4-8 is four chips,
# and so are v2-8, v3-8 and v5p-8. Of v5e and v6e it counts chips (cloud.google.com/tpu/docs/v2, /v4, /v5p, /v5e, /v6e).
_TYPE = re.compile(r"(v2|v3|v4|v5p|v5litepod|v6e)-(\d+)")
_COUNT_CORES = frozenset({"v2", "v3", "v4", "v5p"})
_CORES_PER_CHIP = 2
_GENERATIONS = {"v5litepod": "v5e", "V5LITE_POD": "v5e"}  # every other one is itself, in small letters
_KINDS = {"create": "insert", "delete": "delete", "start": "start", "stop": "stop"}
_AT_CREATION = timedelta(seconds=10)  # a node's `createTime` may be just before its operation's


@dataclass(slots=True)
class TpuMemory:
    """Holds what earlier looks at a project have shown. `nodes` holds all nodes of a path, the oldest first."""

    nodes: dict[str, list[tuple[str, datetime]]] = field(default_factory=dict)
    states: dict[str, tuple[str, Status]] = field(default_factory=dict)  # by id: the zone and the status
    is_settled: bool = False  # every operation was done at the last look
    is_off_until_s: float = 0.0  # of the monotonic clock


@dataclass(slots=True)
class TpuLook:
    nodes: list[SeenInstance] = field(default_factory=list)
    operations: list[SeenOperation] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


def members_of(
    http: Http, project: str, location: str, collection: str, fields: str, deadline: Deadline, problems: list[str]
) -> Iterator[Any]:
    """Yields the members of a list. `problems` gets the places that did not answer. Raises CloudError."""
    what = f"Listing TPU {collection}"
    params = {"prettyPrint": "false", "fields": fields}
    path = f"/v2/projects/{quote(project, safe=':')}/locations/{location}/{collection}"
    for answer in pages_of(http, path, params, project=project, what=what, deadline=deadline, service=TPU):
        problems += [f"{_last(place)} did not answer" for place in list_of(answer.get("unreachable"))]
        members = answer.get(collection) or ()
        if not isinstance(members, list | tuple):
            raise BadAnswer(f"{what} of project {project}: its {collection} are no list.")
        yield from members


def _last(place: Any) -> str:
    return place.rstrip("/").rpartition("/")[2] if isinstance(place, str) else short(place)


def look_at_nodes(http: Http, project: str, deadline: Deadline, memory: TpuMemory, now_s: float) -> TpuLook:
    """Never raises a CloudError. Nodes that are missing from it may be there all the same: see `presence`."""
    look = TpuLook()
    if now_s < memory.is_off_until_s:
        return look
    problems: list[str] = []
    try:
        for raw in members_of(http, project, "-", "nodes", _FIELDS, deadline, problems):
            try:
                node, path = _node(project, raw)
            except Garbled as error:
                problems.append(str(error))
                continue
            look.nodes.append(node)
            namesakes = memory.nodes.setdefault(path, [])
            if node.key.gce_id not in [gce_id for gce_id, _ in namesakes]:
                namesakes.append((node.key.gce_id, node.created_at))
    except ServiceOff as error:
        if not memory.states:
            if not memory.is_off_until_s:
                log.info("project %s has no TPU nodes: it has not enabled the Cloud TPU API", project)
            memory.is_off_until_s = now_s + _OFF_FOR_S
            return look
        look.unread.append(_unread(project, error))
    except CloudError as error:
        look.unread.append(_unread(project, error))
    if problems:
        why = f"The TPU nodes of project {project} could not all be read: {first_of(problems)}."
        look.unread.append(Unread(TPU_NODES, f"{why} Those missing are not taken for gone.", "bad_answer"))
    if not look.unread:
        _read_operations(http, project, deadline, memory, look)
    return look


def _unread(project: str, error: CloudError) -> Unread:
    return Unread(TPU_NODES, f"{error} TPU nodes of {project} are not known.", error.code)


def _node(project: str, raw: Any) -> tuple[SeenInstance, str]:
    """Reads a node, and its path without the project, which Google may number. Raises Garbled."""
    try:
        zone, name = _place(raw["name"])
        gce_id = identity(raw["id"])
        hosts = len(raw.get("networkEndpoints") or ())
        seen = fingerprinted(
            SeenInstance(
                key=InstanceKey(project, f"{TPU_NODE_ID}{gce_id}"),
                name=name,
                zone=zone,
                status=_STATUS.get(word(raw["state"]), Status.UNKNOWN),
                created_at=moment(raw["createTime"]),
                shape=_shape(raw),
                provisioning_model=_model(raw.get("schedulingConfig") or {}),
                fingerprint="",
                labels=labels(raw.get("labels")),
                origin={TPU_NODE: "slice" if hosts > 1 else "node"},
            )
        )
    except Garbled as error:
        raise Garbled(f"TPU node {short(raw.get('name'))}: {error}") from None
    except UNREADABLE as error:
        named = raw.get("name") if isinstance(raw, dict) else raw
        raise Garbled(f"TPU node {short(named)}: {error!r}") from None
    return seen, f"{zone}/{name}"


def _place(path: Any) -> tuple[str, str]:
    match = _NODE.fullmatch(word(path))
    if match is None:
        raise Garbled(f"{short(path)} is not the path of a node")
    return match["zone"], match["name"]


def _shape(raw: Mapping[str, Any]) -> Shape:
    """The accelerator type, and the chips where name and topology agree about them, as far as they say any."""
    config = raw.get("acceleratorConfig") or {}
    named = raw.get("acceleratorType") or "-".join(filter(None, (config.get("type"), config.get("topology"))))
    generation, chips = accelerators(named, config)
    tier = CAPACITY_OPTIMIZED if raw.get("protectionTier") == "CAPACITY_OPTIMIZED" else ""
    return Shape(f"{word(named)}{tier}", 0, 0, generation, chips)


def accelerators(accelerator_type: str, config: Mapping[str, Any]) -> tuple[str | None, int]:
    """The generation of a TPU slice (`v5e`) and its chips; None and 0 where its name and its topology contradict.

    A topology is "in chips": 2x2x1 of a v4-8 is four.
    """
    sources: set[tuple[str, int]] = set()
    if match := _TYPE.fullmatch(accelerator_type):
        count = int(match[2])
        chips, odd = divmod(count, _CORES_PER_CHIP) if match[1] in _COUNT_CORES else (count, 0)
        sources.add((_GENERATIONS.get(match[1], match[1]), 0 if odd else chips))
    kind, topology = config.get("type"), str(config.get("topology") or "")
    if kind and re.fullmatch(r"\d+(x\d+){1,2}", topology):
        sources.add((_GENERATIONS.get(kind, kind.lower()), prod(map(int, topology.split("x")))))
    return sources.pop() if len(sources) == 1 else (None, 0)


def _model(scheduling: Mapping[str, Any]) -> ProvisioningModel:
    if scheduling.get("spot") is True or scheduling.get("preemptible") is True:
        return ProvisioningModel.SPOT
    return ProvisioningModel.RESERVATION_BOUND if scheduling.get("reserved") is True else ProvisioningModel.STANDARD


def _read_operations(http: Http, project: str, deadline: Deadline, memory: TpuMemory, look: TpuLook) -> None:
    """Reads the operations of each zone with nodes, where something has changed since the last look."""
    states = {node.key.gce_id: (node.zone, node.status) for node in look.nodes}
    changed = states != memory.states or not memory.is_settled
    zones = sorted({zone for zone, _ in (*states.values(), *memory.states.values())}) if changed else []
    problems: list[str] = []
    answers: list[Any] = []
    for zone in zones:
        try:
            answers += members_of(http, project, zone, "operations", _OPERATION_FIELDS, deadline, problems)
        except CloudError as error:
            problems.append(str(error))
    # The oldest first: a creation says the id that the others of its node lack.
    for raw in sorted(answers, key=_asked_at):
        try:
            if (operation := _operation(project, raw, memory)) is not None:
                look.operations.append(operation)
        except UNREADABLE as error:
            problems.append(repr(error))
    if problems:
        why = f"The operations of the TPU nodes of {project} could not all be read ({first_of(problems)})."
        look.unread.append(Unread("TPU operations", f"{why} When nodes began and ended is estimated.", "bad_answer"))
    memory.states = states
    memory.is_settled = not problems and all(one.status is OperationStatus.DONE for one in look.operations)
    if memory.is_settled:  # nothing more will be heard of what is gone
        memory.nodes = {path: nodes for path, nodes in memory.nodes.items() if nodes[-1][0] in states}


def _asked_at(raw: Any) -> str:
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    return str(metadata.get("createTime")) if isinstance(metadata, dict) else ""


def _operation(project: str, raw: Mapping[str, Any], memory: TpuMemory) -> SeenOperation | None:
    """An operation on a node whose id is known; None for any other. Raises Garbled, KeyError or TypeError."""
    metadata = raw.get("metadata") or {}
    kind, target = _KINDS.get(str(metadata.get("verb"))), _NODE.search(str(metadata.get("target") or ""))
    if kind is None or target is None:
        return None
    inserted_at, ended_at = moment(metadata["createTime"]), moment_or_none(metadata.get("endTime"))
    gce_id = str((raw.get("response") or {}).get("id") or "")
    if gce_id.isdecimal():
        gce_id = f"{TPU_NODE_ID}{gce_id}"
        namesakes = memory.nodes.setdefault(f"{target['zone']}/{target['name']}", [])
        if gce_id not in [one for one, _ in namesakes]:
            namesakes[:] = sorted([*namesakes, (gce_id, inserted_at)], key=lambda one: one[1])
    else:
        since = inserted_at if kind == "insert" else None
        gce_id = _target(memory.nodes.get(f"{target['zone']}/{target['name']}", ()), inserted_at, since)
    if not gce_id:
        return None
    error = raw.get("error") or {}
    return SeenOperation(
        project=project,
        operation_id=last_part(word(raw["name"])),
        kind=kind,
        target_id=gce_id,
        target_name=target["name"],
        zone=target["zone"],
        user="",
        status=OperationStatus.DONE if raw.get("done") else OperationStatus.RUNNING,
        inserted_at=inserted_at,
        started_at=inserted_at,
        ended_at=ended_at,
        error_code=said(error.get("code")),
        error_message=said(error.get("message")),
    )


def _target(nodes: Any, at: datetime, since: datetime | None) -> str:
    """The id of the node that had this path at a moment: names are used again; "" where it is not known."""
    until = at + _AT_CREATION
    fitting = [
        gce_id for gce_id, made_at in nodes if made_at <= until and (since is None or made_at >= since - _AT_CREATION)
    ]
    return fitting[-1] if fitting else ""


def presence(http: Http, key: InstanceKey, zone: str, name: str, deadline: Deadline) -> Presence:
    """Asks for this one node and compares ids. Only Google's "was not found" makes it gone."""
    path = f"/v2/projects/{quote(key.project, safe=':')}/locations/{quote(zone)}/nodes/{quote(name)}"
    what = f"Reading TPU node {name} in {zone}"
    try:
        raw = http.get_json(path, {"fields": "name,id"}, project=key.project, what=what, deadline=deadline, service=TPU)
    except CloudError as error:
        if missing_resource(error.message).endswith(f"/locations/{zone}/nodes/{name}"):
            return Presence.GONE
        log.warning("whether TPU node %s in %s of %s is still there is not known: %s", name, zone, key.project, error)
        return Presence.NOT_KNOWN
    if not str(raw.get("id", "")).isdecimal():
        return Presence.NOT_KNOWN
    return Presence.THERE if f"{TPU_NODE_ID}{raw['id']}" == key.gce_id else Presence.GONE
