"""Reads resources of Vertex AI as things that bill: one for each kind of machine that each of them has.

Shapes and states: aiplatform.v1 of Google's API discovery, revision 20261106. What is over is shown once more, as
stopped, with when it ran: so a job that came and went between two looks is in the ledger to the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from costguard.gce.convert import fingerprinted
from costguard.gce.fields import UNREADABLE, Garbled, labels, last_part, moment, moment_or_none, said, short, word
from costguard.gce.vertex.machines import count_of, disks_of_runtime, idle_shutdown_of, model_of_strategy, shape_of
from costguard.model.instance import (
    AttachedDisk,
    InstanceKey,
    InstanceKind,
    ProvisioningModel,
    SeenInstance,
    Shape,
    Status,
    vertex_id,
)
from costguard.model.managed.machines import Seller
from costguard.model.managed.origin import VERTEX, VERTEX_IDLE, VERTEX_USER
from costguard.model.observation import OperationStatus, SeenOperation

# A job waits, and bills nothing, until its machines are up: "when the CustomJob for the first time entered the
# JOB_STATE_RUNNING state". One that is being cancelled or changed still has them.
_OF_JOB = {
    "JOB_STATE_QUEUED": Status.PENDING,
    "JOB_STATE_PENDING": Status.PROVISIONING,
    "JOB_STATE_RUNNING": Status.RUNNING,
    "JOB_STATE_UPDATING": Status.RUNNING,
    "JOB_STATE_CANCELLING": Status.PENDING_STOP,
    "JOB_STATE_PAUSED": Status.STOPPED,
    "JOB_STATE_SUCCEEDED": Status.STOPPED,
    "JOB_STATE_PARTIALLY_SUCCEEDED": Status.STOPPED,
    "JOB_STATE_FAILED": Status.STOPPED,
    "JOB_STATE_CANCELLED": Status.STOPPED,
    "JOB_STATE_EXPIRED": Status.STOPPED,
}
OVER = frozenset(
    f"JOB_STATE_{state}" for state in ("SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")
)
"""The states of a job that is over for good."""

# A persistent resource bills while it is there, whether a job uses it or not; one in ERROR "may be unusable".
_OF_PERSISTENT = {
    "PROVISIONING": Status.PROVISIONING,
    "RUNNING": Status.RUNNING,
    "UPDATING": Status.RUNNING,
    "REBOOTING": Status.RUNNING,
    "ERROR": Status.RUNNING,
    "STOPPING": Status.STOPPING,
}
_OF_RUNTIME = {
    "RUNNING": Status.RUNNING,
    "BEING_STARTED": Status.STAGING,
    "BEING_UPGRADED": Status.STAGING,
    "BEING_STOPPED": Status.STOPPING,
    "STOPPED": Status.STOPPED,
    "ERROR": Status.UNKNOWN,
    "INVALID": Status.STOPPED,
}
_OF_TRIAL = {"ACTIVE": Status.RUNNING, "STOPPING": Status.RUNNING}
_OVER_TRIAL = frozenset({"SUCCEEDED", "INFEASIBLE"})
_NOT_OF_A_NAME = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 63
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True, slots=True)
class _More:
    """Holds what some resources have, and others do not. `part` is billed by itself."""

    part: str = ""
    name: object = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    user: str = ""
    idle_shutdown: str = ""
    disks: tuple[AttachedDisk, ...] = ()


@dataclass(frozen=True, slots=True)
class _Resource:
    """Holds what all resources have; `raw` is as a list shows it."""

    project: str
    region: str
    kind: InstanceKind
    raw: Mapping[str, Any]

    @property
    def id(self) -> str:
        return _id(last_part(word(self.raw["name"])))

    def seen(self, shape: Shape, status: Status, model: ProvisioningModel, more: _More) -> SeenInstance:
        origin = {VERTEX: f"{self.kind.collection}/{self.id}{f'/{more.part}' if self._has_parts else ''}"}
        return fingerprinted(
            SeenInstance(
                key=InstanceKey(self.project, vertex_id(self.kind, self.region, self.id, more.part and _id(more.part))),
                name=_name(more.name or self.raw.get("displayName"), self.id),
                zone=self.region,
                status=status,
                created_at=more.created_at or moment(self.raw["createTime"]),
                shape=shape,
                provisioning_model=model,
                fingerprint="",
                last_started_at=more.started_at,
                last_stopped_at=more.stopped_at,
                labels=labels(self.raw.get("labels")),
                disks=more.disks,
                origin=origin
                | ({VERTEX_USER: more.user} if more.user else {})
                | ({VERTEX_IDLE: more.idle_shutdown} if more.idle_shutdown else {}),
            )
        )

    @property
    def _has_parts(self) -> bool:
        """Says whether requests name a part of it: a deployed model of an endpoint."""
        return self.kind is InstanceKind.DEPLOYED_MODEL


def _id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise Garbled(f"{short(text)} is not the id of a resource")
    return text


def _name(shown: object, fallback: str) -> str:
    """A display name as the name of a VM may be: people type it in commands. Its id where nothing of it is left."""
    name = _NOT_OF_A_NAME.sub("-", str(shown or "").lower()).strip("-")[:_LONGEST_NAME].rstrip("-")
    return name or fallback.lower()


def _job(one: _Resource) -> Iterator[SeenInstance]:
    yield from _of_spec(one, one.raw["jobSpec"], one.raw)


def _of_spec(one: _Resource, spec: Mapping[str, Any], times: Mapping[str, Any]) -> Iterator[SeenInstance]:
    """The machines of a job, those of one kind together; none of one that runs on a persistent resource's."""
    if spec.get("persistentResourceId"):
        return
    status = _OF_JOB.get(word(times["state"]), Status.UNKNOWN)
    started_at, ended_at = moment_or_none(times.get("startTime")), moment_or_none(times.get("endTime"))
    if status is Status.STOPPED and started_at is None:
        return  # it ended without any machine
    if status is Status.PENDING_STOP and started_at is None:
        status = Status.PROVISIONING  # it is cancelled before it had any
    model = model_of_strategy((spec.get("scheduling") or {}).get("strategy"))
    pools: dict[Shape, tuple[Any, int]] = {}
    for pool in spec.get("workerPoolSpecs") or ():
        count = count_of(pool.get("replicaCount"))
        if not count:
            continue  # an empty pool stands for one that is left out
        machine, disk = pool.get("machineSpec") or {}, pool.get("diskSpec") or {}
        alike = shape_of(Seller.TRAINING, machine, 1, model, disk)
        pools[alike] = (machine, disk), count + pools.get(alike, (None, 0))[1]
    for number, ((machine, disk), count) in enumerate(pools.values()):
        yield one.seen(
            shape_of(Seller.TRAINING, machine, count, model, disk),
            status,
            model,
            _More(str(number) if number else "", started_at=started_at, stopped_at=ended_at),
        )


def _tuning_job(one: _Resource) -> Iterator[SeenInstance]:
    """Each trial is a custom job of its own, by whose id it counts once, whichever list shows it."""
    for trial in one.raw.get("trials") or ():
        state = str(trial.get("state") or "")
        path = str(trial.get("customJob") or "")
        if (state not in _OF_TRIAL and state not in _OVER_TRIAL) or not path:
            continue
        times = {
            "state": "JOB_STATE_RUNNING" if state in _OF_TRIAL else "JOB_STATE_SUCCEEDED",
            "startTime": trial.get("startTime"),
            "endTime": trial.get("endTime"),
        }
        made = {**one.raw, "name": path, "displayName": f"{one.raw.get('displayName', '')} trial {trial.get('id', '')}"}
        yield from _of_spec(
            _Resource(one.project, one.region, InstanceKind.CUSTOM_JOB, made), one.raw["trialJobSpec"], times
        )


def _persistent(one: _Resource) -> Iterator[SeenInstance]:
    status = _OF_PERSISTENT.get(word(one.raw["state"]), Status.UNKNOWN)
    for number, pool in enumerate(one.raw.get("resourcePools") or ()):
        count = count_of(pool.get("replicaCount")) or count_of(pool.get("autoscalingSpec", {}).get("minReplicaCount"))
        machine, disk = pool.get("machineSpec") or {}, pool.get("diskSpec") or {}
        yield one.seen(
            shape_of(Seller.TRAINING, machine, count or 1, ProvisioningModel.STANDARD, disk),
            status,
            ProvisioningModel.STANDARD,
            _More(str(pool.get("id") or number) if number else "", started_at=moment_or_none(one.raw.get("startTime"))),
        )


def _runtime(one: _Resource) -> Iterator[SeenInstance]:
    yield one.seen(
        shape_of(Seller.COLAB, one.raw.get("machineSpec") or {}, 1, ProvisioningModel.STANDARD),
        _OF_RUNTIME.get(word(one.raw["runtimeState"]), Status.UNKNOWN),
        ProvisioningModel.STANDARD,
        _More(
            user=said(one.raw.get("runtimeUser")) or "",
            idle_shutdown=idle_shutdown_of(one.raw),
            disks=disks_of_runtime(one.raw),
        ),
    )


def _endpoint(one: _Resource) -> Iterator[SeenInstance]:
    """Each deployed model with machines of its own; one on shared resources is on a pool, which is a resource itself.

    "You pay for each model deployed to an endpoint, even if no prediction is made" (Google's page of prices).
    """
    for model in one.raw.get("deployedModels") or ():
        if model.get("sharedResources"):
            continue
        number = word(model["id"])
        dedicated = model.get("dedicatedResources") or {}
        shape, provisioning = _dedicated(dedicated, model.get("status") or {})
        created_at = moment(model.get("createTime") or one.raw["createTime"])
        yield one.seen(
            shape,
            Status.RUNNING,
            provisioning,
            _More(number, model.get("displayName"), created_at, created_at),
        )


def _dedicated(dedicated: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[Shape, ProvisioningModel]:
    """The replicas that are up by the status of the deployed model; else the least that is always up."""
    provisioning = ProvisioningModel.SPOT if dedicated.get("spot") is True else ProvisioningModel.STANDARD
    if dedicated.get("flexStart"):  # of v1beta1; v1 has no word for it
        provisioning = ProvisioningModel.FLEX_START
    count = count_of(status.get("availableReplicaCount")) or count_of(dedicated.get("minReplicaCount")) or 1
    return shape_of(Seller.PREDICTION, dedicated.get("machineSpec") or {}, count, provisioning), provisioning


def _pool(one: _Resource) -> Iterator[SeenInstance]:
    shape, provisioning = _dedicated(one.raw.get("dedicatedResources") or {}, {})
    created_at = moment(one.raw["createTime"])
    yield one.seen(shape, Status.RUNNING, provisioning, _More(name=one.id, started_at=created_at))


def operations_of(one: SeenInstance) -> Iterator[SeenOperation]:
    """Makes operations of what a list tells of a resource: who it is for, and its end."""
    if user := one.origin.get(VERTEX_USER):
        yield _operation(one, "insert", one.created_at, user)
    if one.status is Status.STOPPED and one.last_stopped_at is not None:
        yield _operation(one, "stop", one.last_stopped_at)


def _operation(one: SeenInstance, kind: str, at: datetime, user: str = "") -> SeenOperation:
    return SeenOperation(
        project=one.key.project,
        operation_id=f"{kind}.{one.key.gce_id}",
        kind=kind,
        target_id=one.key.gce_id,
        target_name=one.name,
        zone=one.zone,
        user=user,
        status=OperationStatus.DONE,
        inserted_at=at,
        started_at=at,
        ended_at=at,
    )


@dataclass(frozen=True, slots=True)
class VertexList:
    """A list of the API: whose members are things of `kind`. With `filtered` it is asked for what is not over, or new.

    `fields` are those that are read of its members. `parts` is the field whose items are read one by one, so that none
    that cannot be read hides the others.
    """

    collection: str
    kind: InstanceKind
    read: Callable[[_Resource], Iterator[SeenInstance]]
    fields: str
    filtered: bool = False
    parts: str = ""


_JOB_FIELDS = "name,displayName,state,createTime,startTime,endTime,labels"
_SPEC_FIELDS = "persistentResourceId,scheduling/strategy,workerPoolSpecs(machineSpec,replicaCount,diskSpec)"
_RESOURCES = "dedicatedResources(machineSpec,minReplicaCount,spot)"
LISTS = (
    VertexList("customJobs", InstanceKind.CUSTOM_JOB, _job, f"{_JOB_FIELDS},jobSpec({_SPEC_FIELDS})", filtered=True),
    VertexList(
        "endpoints",
        InstanceKind.DEPLOYED_MODEL,
        _endpoint,
        f"name,displayName,createTime,labels,deployedModels(id,displayName,createTime,sharedResources,{_RESOURCES},status)",
        parts="deployedModels",
    ),
    VertexList(
        "notebookRuntimes",
        InstanceKind.COLAB_RUNTIME,
        _runtime,
        "name,displayName,runtimeState,runtimeUser,createTime,labels,machineSpec,dataPersistentDiskSpec,idleShutdownConfig",
    ),
    VertexList(
        "persistentResources",
        InstanceKind.PERSISTENT_RESOURCE,
        _persistent,
        "name,displayName,state,createTime,startTime,labels,resourcePools",
    ),
    VertexList(
        "hyperparameterTuningJobs",
        InstanceKind.CUSTOM_JOB,
        _tuning_job,
        f"{_JOB_FIELDS},trialJobSpec({_SPEC_FIELDS}),trials(id,state,startTime,endTime,customJob)",
        filtered=True,
        parts="trials",
    ),
    VertexList("deploymentResourcePools", InstanceKind.DEPLOYMENT_POOL, _pool, f"name,createTime,{_RESOURCES}"),
)
"""The lists that hold what bills by the hour and has machines, the likeliest first."""


def parts_of(which: VertexList, raw: Any) -> Iterator[Any]:
    """Yields a member once for each of its parts that can be read by itself, or as it is."""
    parts = raw.get(which.parts) if isinstance(raw, dict) else None
    if isinstance(parts, list) and len(parts) > 1:
        yield from ({**raw, which.parts: [part]} for part in parts)
    else:
        yield raw


def read_member(which: VertexList, project: str, region: str, raw: Any) -> list[SeenInstance]:
    """Reads one member of a list: no, one or several things that bill. Raises Garbled."""
    try:
        return list(which.read(_Resource(project, region, which.kind, raw)))
    except Garbled as error:
        raise Garbled(f"{which.kind.in_words} {_shown(raw)}: {error}") from None
    except UNREADABLE as error:
        raise Garbled(f"{which.kind.in_words} {_shown(raw)}: {error!r}") from None


def _shown(raw: Any) -> str:
    return short(raw.get("name") if isinstance(raw, dict) else raw)
