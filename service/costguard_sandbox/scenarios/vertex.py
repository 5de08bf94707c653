"""Reads a scenario's resources of Vertex AI: custom jobs, deployed models, Colab runtimes, persistent resources."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from costguard_sandbox.gce.catalogue.machine_types import MACHINE_TYPES
from costguard_sandbox.gce.catalogue.regions import REGIONS
from costguard_sandbox.gce.vertex import ManagedThing
from costguard_sandbox.gce.vm import Load
from costguard_sandbox.scenarios.keys import Keys
from costguard_sandbox.world import World

_JOB, _MODEL, _RUNTIME, _PERSISTENT = "custom_job", "deployed_model", "colab_runtime", "persistent_resource"
_KINDS = (_JOB, _MODEL, _RUNTIME, _PERSISTENT)
_STRATEGIES = ("STANDARD", "SPOT", "FLEX_START")


@dataclass(frozen=True, slots=True)
class ScenarioResource:
    """`machine` is a MachineSpec of the API. `user` has a runtime, and `endpoint` a model; "" of other kinds."""

    kind: str
    project: str
    region: str
    name: str
    machine: dict[str, Any]
    replicas: int
    made_ago: timedelta
    labels: dict[str, str]
    strategy: str = "STANDARD"
    user: str = ""
    endpoint: str = ""
    load: Load = Load.BUSY

    def make(self, world: World) -> None:
        """Makes it in a project that has enabled the API from then on."""
        world.vertex.enabled.add(self.project)
        thing = self._made(world)
        thing.shown["labels"] = dict(self.labels)
        thing.loads.append((world.now, self.load))

    def _made(self, world: World) -> ManagedThing:
        vertex, at = world.vertex, (self.project, self.region)
        pool = {"machineSpec": self.machine, "replicaCount": str(self.replicas)}
        if self.kind == _JOB:
            spec = {"workerPoolSpecs": [pool], "scheduling": {"strategy": self.strategy}}
            return vertex.custom_job(*at, self.name, spec)
        if self.kind == _MODEL:
            return vertex.deploy(*at, self.endpoint, self.name, self.machine, self.replicas)
        if self.kind == _RUNTIME:
            return vertex.runtime(*at, self.name, self.user, self.machine)
        return vertex.persistent_resource(*at, self.name, pool)


def read_resource(keys: Keys, projects: tuple[str, ...]) -> ScenarioResource:
    """Reads a table [[vertex]]."""
    kind, region, name = keys.choice("kind", _KINDS), keys.text("region"), keys.text("name")
    if region not in REGIONS:
        raise keys.wrong("region", f"a region of Google's such as us-central1, not {region!r}")
    labels = keys.labels("labels")
    if owner := keys.text("owner", ""):
        labels["owner"] = owner
    resource = ScenarioResource(
        kind,
        keys.choice("project", projects),
        region,
        name,
        _machine(keys),
        keys.whole("replicas", 1),
        keys.duration("made", ago=True),
        labels,
        keys.choice("strategy", _STRATEGIES, "STANDARD") if kind == _JOB else "STANDARD",
        keys.text("user") if kind == _RUNTIME else "",
        keys.text("endpoint", name) if kind == _MODEL else "",
        Load(keys.choice("load", tuple(Load), Load.BUSY)),
    )
    keys.done()
    return resource


def _machine(keys: Keys) -> dict[str, Any]:
    machine_type, gpu = keys.text("machine_type"), keys.text("gpu", "")
    if machine_type not in MACHINE_TYPES:
        raise keys.wrong("machine_type", f"a machine type of Google's such as g2-standard-4, not {machine_type!r}")
    gpus = keys.whole("gpus", 1 if gpu else 0)
    attached = {"acceleratorType": gpu.upper().replace("-", "_"), "acceleratorCount": gpus} if gpu else {}
    return {"machineType": machine_type, **attached}
