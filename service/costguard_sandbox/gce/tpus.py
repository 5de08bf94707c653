"""Cloud TPU (tpu.v2): nodes, whose VMs no list of Compute Engine has, and queued resources.

Shapes and states: tpu.v2 of Google's API discovery (revision 20261001). No recording says how long anything takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from costguard_sandbox.clock import zulu
from costguard_sandbox.gce.catalogue.regions import ZONES, project_number, stable_id
from costguard_sandbox.gce.errors import Refused, service_disabled
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import Run


class Slice(NamedTuple):
    """`chip` is what is billed, as machine types name it; "": this catalogue does not sell it."""

    version: str  # AcceleratorConfig.type
    topology: str
    chips: int
    hosts: int
    chip: str = ""


# cloud.google.com/tpu/docs/v2, /v3, /v4, /v5p-training, /v5e and /v6e: "single-slice shapes" and their hosts.
SLICES = {
    "v2-8": Slice("V2", "2x2", 4, 1),
    "v3-8": Slice("V3", "2x2", 4, 1),
    "v4-8": Slice("V4", "2x2x1", 4, 1),
    "v4-32": Slice("V4", "2x2x4", 16, 4),
    "v5p-8": Slice("V5P", "2x2x1", 4, 1, "ct5p"),
    "v5p-16": Slice("V5P", "2x2x2", 8, 2, "ct5p"),
    "v5litepod-1": Slice("V5LITE_POD", "1x1", 1, 1, "ct5lp"),
    "v5litepod-4": Slice("V5LITE_POD", "2x2", 4, 1, "ct5lp"),
    "v5litepod-8": Slice("V5LITE_POD", "2x4", 8, 1, "ct5lp"),
    "v5litepod-16": Slice("V5LITE_POD", "4x4", 16, 4, "ct5lp"),
    "v6e-1": Slice("V6E", "1x1", 1, 1, "ct6e"),
    "v6e-4": Slice("V6E", "2x2", 4, 1, "ct6e"),
    "v6e-8": Slice("V6E", "2x4", 8, 1, "ct6e"),
    "v6e-16": Slice("V6E", "4x4", 16, 4, "ct6e"),
}
_MAY = {"stop": ("READY",), "start": ("STOPPED",)}
_DEAD = ("ACCEPTED", "FAILED", "SUSPENDED")  # states in which a queued resource is deleted without force


@dataclass(slots=True, eq=False)
class TpuNode:
    project: str
    zone: str
    name: str
    id: int
    accelerator_type: str
    created_at: datetime
    labels: dict[str, str]
    scheduling: dict[str, bool]
    queued_resource: str = ""
    state: str = "CREATING"
    runs: list[Run] = field(default_factory=list)  # while READY: "charges accrue while your TPU node is in READY"

    @property
    def slice(self) -> Slice:
        return SLICES[self.accelerator_type]

    @property
    def path(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}/nodes/{self.name}"

    @property
    def is_spot(self) -> bool:
        return bool(self.scheduling.get("spot") or self.scheduling.get("preemptible"))

    def show(self, state: str, now: datetime) -> None:
        if self.state == "READY":
            self.runs[-1].ended = now
            self.runs[-1].preempted = state == "PREEMPTED"
        elif state == "READY":
            self.runs.append(Run(now))
        self.state = state

    def resource(self) -> dict[str, Any]:
        made = {
            "name": self.path,
            "id": str(self.id),
            "acceleratorType": self.accelerator_type,
            "acceleratorConfig": {"type": self.slice.version, "topology": self.slice.topology},
            "state": self.state,
            "createTime": zulu(self.created_at),
            "labels": self.labels,
            "schedulingConfig": self.scheduling,
            "networkEndpoints": [{"ipAddress": f"10.200.0.{2 + host}"} for host in range(self.slice.hosts)],
            "runtimeVersion": "tpu-ubuntu2204-base",
            "apiVersion": "V2",
        }
        return made | ({"queuedResource": self.queued_resource} if self.queued_resource else {})


@dataclass(slots=True, eq=False)
class QueuedResource:
    project: str
    zone: str
    name: str
    created_at: datetime
    spec: dict[str, Any]
    tier: dict[str, Any]
    state: str = "WAITING_FOR_RESOURCES"

    @property
    def path(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}/queuedResources/{self.name}"

    def resource(self) -> dict[str, Any]:
        shown = {"name": self.path, "createTime": zulu(self.created_at), "tpu": self.spec, **self.tier}
        failed = {"failedData": {"error": {"code": 8, "message": "There is no more capacity in the zone."}}}
        return shown | {"state": {"state": self.state, **(failed if self.state == "FAILED" else {})}}


@dataclass(eq=False)
class Tpus:
    """Callers hold the cloud's lock. Only projects in `enabled` have the API."""

    _timeline: Timeline
    _seed: int
    enabled: set[str] = field(default_factory=set, init=False)
    ever: list[TpuNode] = field(default_factory=list, init=False)
    _nodes: dict[tuple[str, str, str], TpuNode] = field(default_factory=dict, init=False)
    _queued: dict[tuple[str, str, str], QueuedResource] = field(default_factory=dict, init=False)
    _operations: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list, init=False)

    def check(self, project: str) -> None:
        """Raises Refused (403) where the project has not enabled the API."""
        if project not in self.enabled:
            raise service_disabled(project_number(project), "Cloud TPU API", "tpu.googleapis.com")

    def nodes(self, project: str, location: str) -> Iterator[TpuNode]:
        return (
            one for (owner, zone, _), one in sorted(self._nodes.items()) if owner == project and location in ("-", zone)
        )

    def queued(self, project: str, location: str) -> Iterator[QueuedResource]:
        listed = sorted(self._queued.items())
        return (one for (owner, zone, _), one in listed if owner == project and location in ("-", zone))

    def operations(self, project: str, location: str) -> list[dict[str, Any]]:
        """The newest first."""
        return [one for owner, zone, one in reversed(self._operations) if (owner, zone) == (project, location)]

    def node(self, project: str, zone: str, name: str) -> TpuNode:
        """Raises Refused (404) where there is none."""
        node = self._nodes.get((project, zone, name))
        if node is None:
            raise _not_found(f"projects/{project}/locations/{zone}/nodes/{name}")
        return node

    def queued_resource(self, project: str, zone: str, name: str) -> QueuedResource:
        queued = self._queued.get((project, zone, name))
        if queued is None:
            raise _not_found(f"projects/{project}/locations/{zone}/queuedResources/{name}")
        return queued

    def create(self, project: str, zone: str, name: str, body: dict[str, Any], queued: str = "") -> dict[str, Any]:
        """Begins to make a node. The operation. Raises Refused for what Google does not offer, or a taken name."""
        self.check(project)
        kind, now = str(body.get("acceleratorType", "")), self._timeline.now
        if zone not in ZONES or kind not in SLICES:
            raise Refused(400, "", f"accelerator type {kind!r} is not available in {zone}", status="INVALID_ARGUMENT")
        if (project, zone, name) in self._nodes:
            path = f"projects/{project}/locations/{zone}/nodes/{name}"
            raise Refused(409, "", f"Resource '{path}' already exists", status="ALREADY_EXISTS")
        number = int(stable_id(f"{project}/{zone}/{name}/{now.isoformat()}/tpu"))
        scheduling = dict(body.get("schedulingConfig") or {})
        node = TpuNode(project, zone, name, number, kind, now, dict(body.get("labels") or {}), scheduling, queued)
        self._nodes[project, zone, name] = node
        self.ever.append(node)
        return self._begin("create", node, lambda: node.show("READY", self._timeline.now))

    def ask(self, verb: str, node: TpuNode) -> dict[str, Any]:
        """Begins to stop, start or delete a node. The operation. Raises Refused where its state does not allow it."""
        if verb != "delete" and (node.state not in _MAY[verb] or node.slice.hosts > 1):
            words = f"{node.path} is {node.state} and has {node.slice.hosts} hosts: {verb} is not possible."
            raise Refused(400, "", words, status="FAILED_PRECONDITION")
        during, after = {"stop": ("STOPPING", "STOPPED"), "start": ("STARTING", "READY"), "delete": ("DELETING", "")}[
            verb
        ]
        node.show(during, self._timeline.now)
        return self._begin(verb, node, lambda: self._gone(node) if not after else node.show(after, self._timeline.now))

    def preempt(self, node: TpuNode) -> None:
        """Google takes a Spot node back: no operation tells of it, and its queued resource is suspended."""
        node.show("PREEMPTED", self._timeline.now)
        self._suspend(node)

    def _gone(self, node: TpuNode) -> None:
        del self._nodes[node.project, node.zone, node.name]
        self._suspend(node)

    def _suspend(self, node: TpuNode) -> None:
        """A queued resource without its nodes stays, SUSPENDED, until it is deleted."""
        for queued in self._queued.values():
            if queued.path == node.queued_resource and queued.state == "ACTIVE":
                queued.state = "SUSPENDED"

    def queue(self, project: str, zone: str, name: str, body: dict[str, Any], state: str = "") -> QueuedResource:
        """Queues a request for nodes, which is fulfilled after a while; with `state` it comes to that instead."""
        self.check(project)
        tier: dict[str, Any] = {key: body[key] for key in ("spot", "guaranteed") if key in body}
        queued = QueuedResource(project, zone, name, self._timeline.now, dict(body.get("tpu") or {}), tier)
        self._queued[project, zone, name] = queued
        self._after("tpu queue", queued.path, lambda: self._fulfil(queued, state or "ACTIVE"))
        return queued

    def _fulfil(self, queued: QueuedResource, state: str) -> None:
        queued.state = state
        if state != "ACTIVE":
            return
        for spec in queued.spec.get("nodeSpec") or ():
            body = dict(spec.get("node") or {})
            if "spot" in queued.tier:
                body["schedulingConfig"] = {"spot": True}
            self.create(queued.project, queued.zone, str(spec.get("nodeId") or queued.name), body, queued.path)

    def drop(self, queued: QueuedResource, *, force: bool) -> None:
        """Deletes a queued resource, with force its nodes first. Raises Refused."""
        mine = [node for node in self._nodes.values() if node.queued_resource == queued.path]
        if not force and mine and queued.state not in _DEAD:
            words = f"{queued.path} has nodes; delete them first, or use force."
            raise Refused(400, "", words, status="FAILED_PRECONDITION")
        for node in mine:
            self.ask("delete", node)
        del self._queued[queued.project, queued.zone, queued.name]

    def _begin(self, verb: str, node: TpuNode, act: Callable[[], None]) -> dict[str, Any]:
        now = self._timeline.now
        number = hashlib.sha256(f"{node.path}/{verb}/{now.isoformat()}".encode()).hexdigest()[:13]
        place = f"projects/{node.project}/locations/{node.zone}"
        operation: dict[str, Any] = {
            "name": f"{place}/operations/operation-{int(now.timestamp() * 1000)}-{number}",
            "metadata": {
                "@type": "type.googleapis.com/google.cloud.common.OperationMetadata",
                "createTime": zulu(now),
                "target": node.path,
                "verb": verb,
                "cancelRequested": False,
                "apiVersion": "v2",
            },
            "done": False,
        }
        self._operations.append((node.project, node.zone, operation))

        def done() -> None:
            act()
            operation["metadata"]["endTime"] = zulu(self._timeline.now)
            operation["done"] = True
            operation["response"] = node.resource() if verb != "delete" else {}

        self._after(f"tpu {verb}", node.path, done)
        return operation

    def _after(self, what: str, subject: str, act: Callable[[], None]) -> None:
        now = self._timeline.now
        self._timeline.at(now + draw_duration(self._seed, what, (subject, now.isoformat())), act)


def _not_found(path: str) -> Refused:
    """marin-community/marin#3404 has these words of Google's."""
    return Refused(404, "", f"Resource '{path}' was not found", status="NOT_FOUND")
