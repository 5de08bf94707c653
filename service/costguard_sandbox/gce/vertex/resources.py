"""The resources of Vertex AI: custom jobs, tuning jobs, persistent resources, endpoints, pools, and Colab runtimes.

Shapes and states: aiplatform.v1 of Google's API discovery (revision 20261106). No recording says how long anything
takes. A job bills from its first JOB_STATE_RUNNING to its end; an endpoint for each deployed model from its creation
on; a runtime while it is RUNNING; a persistent resource from its start until it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from costguard_sandbox.clock import zulu
from costguard_sandbox.gce.catalogue.machine_types import MACHINE_TYPES
from costguard_sandbox.gce.catalogue.regions import REGIONS, project_number, stable_id
from costguard_sandbox.gce.errors import Refused, service_disabled
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import Load, Run

TRAINING, PREDICTION, COLAB = "training", "prediction", "colab"
_BOOT_DISK, _DATA_DISK = (100, "pd-ssd"), (100, "pd-standard")  # of a runtime of Colab Enterprise
_OVER = ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED")


class Machines(NamedTuple):
    """`number` machines of one spec, sold by a service in a way: `""` is on demand, else SPOT or FLEX_START."""

    seller: str
    spec: dict[str, Any]
    number: int
    way: str = ""
    disk_gib: int = 0
    disk_type: str = ""

    @property
    def gpus(self) -> int:
        """Counts the GPUs of one machine."""
        built_in = sum(number for _, number in MACHINE_TYPES[self.spec["machineType"]].accelerators)
        return built_in or int(self.spec.get("acceleratorCount") or 0)


@dataclass(slots=True, eq=False)
class ManagedThing:
    """A thing that bills by itself: a job, a deployed model, a runtime. `shown` is what its list shows of it."""

    project: str
    region: str
    collection: str
    id: str
    shown: dict[str, Any]
    machines: list[Machines]
    runs: list[Run] = field(default_factory=list)
    part: str = ""  # of an endpoint: the deployed model
    disks: tuple[tuple[int, str], ...] = ()  # GiB and type of those that bill while it is there, running or not
    there: list[Run] = field(default_factory=list)
    loads: list[tuple[datetime, Load]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"projects/{self.project}/locations/{self.region}/{self.collection}/{self.id}"

    def load_at(self, moment: datetime) -> Load:
        return next((load for since, load in reversed(self.loads) if since <= moment), Load.BUSY)

    def begin(self, now: datetime) -> None:
        self.runs.append(Run(now))

    def delete(self, now: datetime) -> None:
        for run in self.there:
            run.ended = run.ended or now

    def end(self, now: datetime) -> None:
        if self.runs and self.runs[-1].ended is None:
            self.runs[-1].ended = now


@dataclass(eq=False)
class Vertex:
    """Callers hold the cloud's lock. Only projects in `enabled` have the API; `refusing` regions answer 503."""

    _timeline: Timeline
    _seed: int
    enabled: set[str] = field(default_factory=set, init=False)
    refusing: set[str] = field(default_factory=set, init=False)
    ever: list[ManagedThing] = field(default_factory=list, init=False)
    _lists: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = field(default_factory=dict, init=False)
    _things: dict[str, list[ManagedThing]] = field(default_factory=dict, init=False)
    _operations: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _count: int = field(default=0, init=False)

    def check(self, project: str, region: str) -> None:
        """Raises Refused: 403 where the project has not enabled the API, 404 for no region, 503 where it fails."""
        if project not in self.enabled:
            raise service_disabled(project_number(project), "Vertex AI API", "aiplatform.googleapis.com")
        if region not in REGIONS:
            raise Refused(404, "", f"Location {region} is not found.", status="NOT_FOUND")
        if region in self.refusing:
            raise Refused(503, "", "The service is currently unavailable.", status="UNAVAILABLE")

    def listed(self, project: str, region: str, collection: str) -> Iterator[dict[str, Any]]:
        """The newest first."""
        members = self._lists.get((project, region, collection), {})
        return iter(sorted(members.values(), key=lambda one: str(one["createTime"]), reverse=True))

    def get(self, project: str, region: str, collection: str, name: str) -> dict[str, Any]:
        member = self._lists.get((project, region, collection), {}).get(name)
        if member is None:
            raise Refused(404, "", f"The {collection[:-1]} {name} is not found.", status="NOT_FOUND")
        return member

    def custom_job(
        self,
        project: str,
        region: str,
        name: str,
        spec: dict[str, Any],
        *,
        lasts: timedelta | None = None,
        **labels: str,
    ) -> ManagedThing:
        """A job that runs until it is cancelled, or for as long as it `lasts` once its machines are up."""
        shown = {"displayName": name, "jobSpec": spec, "state": "JOB_STATE_PENDING", "labels": labels}
        thing = self._made(project, region, "customJobs", shown, _of_spec(spec))

        def run() -> None:
            if thing.shown["state"] != "JOB_STATE_PENDING":
                return
            now = self._timeline.now
            thing.shown |= {"state": "JOB_STATE_RUNNING", "startTime": zulu(now)}
            thing.begin(now)
            if lasts is not None:
                self._timeline.at(now + lasts, lambda: self._end_job(thing, "JOB_STATE_SUCCEEDED"))

        self._later("vertex start", thing.id, run)
        return thing

    def preempt(self, job: ManagedThing, waits: timedelta, *, is_lost: bool = False) -> None:
        """Takes a job's machines, which it has again once it has waited, or not at all: then it fails with `is_lost`.

        Google, "Use Spot VMs with training": a job that is preempted is restarted, up to six times, and the time in
        which it is preempted is not paid for. That it shows JOB_STATE_PENDING meanwhile is ours: no page says which.
        """
        if job.shown["state"] != "JOB_STATE_RUNNING":
            return
        job.shown["state"] = "JOB_STATE_PENDING"
        job.end(self._timeline.now)

        def again() -> None:
            if job.shown["state"] != "JOB_STATE_PENDING":
                return
            if is_lost:
                self._end_job(job, "JOB_STATE_FAILED")
                job.shown["error"] = {"code": 8, "message": "STOCKOUT"}
                return
            job.shown["state"] = "JOB_STATE_RUNNING"  # startTime stays that of the first time
            job.begin(self._timeline.now)

        self._timeline.at(self._timeline.now + waits, again)

    def tuning_job(self, project: str, region: str, name: str, spec: dict[str, Any], trials: int) -> list[ManagedThing]:
        """A job whose trials all run at once, each a custom job of its own."""
        jobs = [self.custom_job(project, region, f"{name}-{number}", spec) for number in range(1, trials + 1)]
        shown: dict[str, Any] = {"displayName": name, "trialJobSpec": spec, "state": "JOB_STATE_RUNNING", "trials": []}
        self._made(project, region, "hyperparameterTuningJobs", shown, [])

        def active() -> None:
            shown["trials"] = [
                {"id": str(number), "state": "ACTIVE", "startTime": job.shown.get("startTime"), "customJob": job.path}
                for number, job in enumerate(jobs, 1)
            ]

        self._later("vertex start", f"{name} trials", active, after=timedelta(seconds=600))
        return jobs

    def persistent_resource(self, project: str, region: str, name: str, pool: dict[str, Any]) -> ManagedThing:
        shown = {"displayName": name, "state": "PROVISIONING", "resourcePools": [pool]}
        machines = [_pool_machines(TRAINING, pool, "")]
        thing = self._made(project, region, "persistentResources", shown, machines, name)

        def up() -> None:
            thing.shown |= {"state": "RUNNING", "startTime": zulu(self._timeline.now)}
            thing.begin(self._timeline.now)

        self._later("vertex start", name, up)
        return thing

    def runtime(
        self,
        project: str,
        region: str,
        name: str,
        user: str,
        machine: dict[str, Any],
        disk: tuple[int, str] = _DATA_DISK,
    ) -> ManagedThing:
        """`disk`: GiB and type of its data disk; its boot disk is 100 GiB of pd-ssd. Both bill until it is deleted.

        Google, "Runtimes and runtime templates" of Colab Enterprise, "Runtime charges" (2026).
        """
        shown = {
            "displayName": name,
            "runtimeState": "RUNNING",
            "runtimeUser": user,
            "machineSpec": machine,
            "dataPersistentDiskSpec": {"diskSizeGb": str(disk[0]), "diskType": disk[1]},
        }
        thing = self._made(project, region, "notebookRuntimes", shown, [Machines(COLAB, machine, 1)])
        thing.begin(self._timeline.now)
        thing.disks, thing.there = (_BOOT_DISK, disk), [Run(self._timeline.now)]
        return thing

    def deploy(
        self, project: str, region: str, endpoint: str, model: str, machine: dict[str, Any], replicas: int = 1
    ) -> ManagedThing:
        """Deploys a model on an endpoint of this name, which is made where there is none."""
        same = [one for one in self.listed(project, region, "endpoints") if one["displayName"] == endpoint]
        shown = same[0] if same else self._made(project, region, "endpoints", {"displayName": endpoint}, []).shown
        number = stable_id(f"deployed/{project}/{endpoint}/{model}/{len(self.ever)}")
        dedicated = {"machineSpec": machine, "minReplicaCount": replicas, "maxReplicaCount": replicas}
        deployed = {
            "id": number,
            "displayName": model,
            "createTime": zulu(self._timeline.now),
            "dedicatedResources": dedicated,
            "status": {"availableReplicaCount": replicas},
        }
        shown.setdefault("deployedModels", []).append(deployed)
        machines = [Machines(PREDICTION, machine, replicas)]
        thing = ManagedThing(project, region, "endpoints", _id_of(shown), shown, machines, part=number)
        thing.begin(self._timeline.now)
        self.ever.append(thing)
        self._things.setdefault(thing.path, []).append(thing)
        return thing

    def ask(self, project: str, region: str, collection: str, name: str, verb: str, body: dict[str, Any]) -> Any:
        """A request that gives machines back: cancel, stop, undeployModel or delete. Raises Refused."""
        shown = self.get(project, region, collection, name)
        things = self._things.get(f"projects/{project}/locations/{region}/{collection}/{name}", [])
        if verb == "cancel":
            if shown["state"] not in _OVER:
                shown["state"] = "JOB_STATE_CANCELLING"
                for thing in things:
                    self._later("vertex stop", name, partial(self._end_job, thing, "JOB_STATE_CANCELLED"))
            return {}
        if verb == "stop":
            if shown["runtimeState"] != "RUNNING":
                raise Refused(400, "", f"Runtime {name} is not running.", status="FAILED_PRECONDITION")
            shown["runtimeState"] = "BEING_STOPPED"
            return self._operation(project, region, things, lambda: shown.update(runtimeState="STOPPED"))
        if verb == "undeployModel":
            number = str(body.get("deployedModelId") or "")
            gone = [thing for thing in things if thing.part == number]
            if not any(model["id"] == number for model in shown.get("deployedModels", ())):
                raise Refused(404, "", f"Deployed model {number} is not found.", status="NOT_FOUND")

            def undeploy() -> None:
                shown["deployedModels"] = [model for model in shown["deployedModels"] if model["id"] != number]

            return self._operation(project, region, gone, undeploy)
        members = self._lists[project, region, collection]

        def delete() -> None:
            members.pop(name, None)
            for thing in things:
                thing.delete(self._timeline.now)

        return self._operation(project, region, things, delete)

    def operation(self, project: str, region: str, name: str) -> dict[str, Any]:
        operation = self._operations.get(f"projects/{project}/locations/{region}/operations/{name}")
        if operation is None:
            raise Refused(404, "", f"Operation {name} is not found.", status="NOT_FOUND")
        return operation

    def _operation(self, project: str, region: str, things: list[ManagedThing], done: Any) -> dict[str, Any]:
        """Machines bill until the operation is done. Ours: no recording says when their billing ends."""
        number = stable_id(f"vertex operation/{project}/{len(self._operations)}")
        metadata = {"createTime": zulu(self._timeline.now), "updateTime": zulu(self._timeline.now)}
        operation: dict[str, Any] = {
            "name": f"projects/{project}/locations/{region}/operations/{number}",
            "metadata": {"genericMetadata": metadata},
        }
        self._operations[operation["name"]] = operation

        def finish() -> None:
            for thing in things:
                thing.end(self._timeline.now)
            done()
            metadata["updateTime"] = zulu(self._timeline.now)
            operation.update(done=True, response={})

        self._later("vertex stop", number, finish)
        return operation

    def _end_job(self, thing: ManagedThing, state: str) -> None:
        if thing.shown["state"] in _OVER:
            return
        now = self._timeline.now
        thing.shown |= {"state": state, "endTime": zulu(now), "updateTime": zulu(now)}
        thing.end(now)

    def _made(
        self,
        project: str,
        region: str,
        collection: str,
        shown: dict[str, Any],
        machines: list[Machines],
        name: str = "",
    ) -> ManagedThing:
        now = self._timeline.now
        self._count += 1
        number = name or stable_id(f"{collection}/{project}/{region}/{self._count}")
        path = f"projects/{project_number(project)}/locations/{region}/{collection}/{number}"
        shown |= {"name": path, "createTime": zulu(now), "updateTime": zulu(now)}
        shown.setdefault("labels", {})
        thing = ManagedThing(project, region, collection, number, shown, machines)
        self._lists.setdefault((project, region, collection), {})[number] = shown
        if machines:
            self.ever.append(thing)
            self._things[thing.path] = [thing]
        return thing

    def _later(self, what: str, key: str, act: Any, after: timedelta | None = None) -> None:
        wait = after if after is not None else draw_duration(self._seed, what, (key, self._timeline.now.isoformat()))
        self._timeline.at(self._timeline.now + wait, act)


def _id_of(shown: dict[str, Any]) -> str:
    return str(shown["name"]).rpartition("/")[2]


def _of_spec(spec: dict[str, Any]) -> list[Machines]:
    if spec.get("persistentResourceId"):
        return []
    strategy = (spec.get("scheduling") or {}).get("strategy", "")
    way = strategy if strategy in ("SPOT", "FLEX_START") else ""
    return [
        _pool_machines(TRAINING, pool, way) for pool in spec["workerPoolSpecs"] if int(pool.get("replicaCount") or 0)
    ]


def _pool_machines(seller: str, pool: dict[str, Any], way: str) -> Machines:
    disk = pool.get("diskSpec") or {}
    return Machines(
        seller,
        pool["machineSpec"],
        int(pool["replicaCount"]),
        way,
        int(disk.get("bootDiskSizeGb") or 100),
        disk.get("bootDiskType") or "pd-ssd",
    )
