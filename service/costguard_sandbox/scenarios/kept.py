"""Reads the VMs of scenarios that something keeps: managed instance groups, node pools of GKE, Workbench."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from costguard_sandbox.gce.catalogue.regions import ZONES, zones_of
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.groups import Group
from costguard_sandbox.gce.pools import make_group, make_pool
from costguard_sandbox.gce.vm import Load
from costguard_sandbox.gce.workbench import notebooks_agent
from costguard_sandbox.scenarios.keys import Keys
from costguard_sandbox.scenarios.vms import ScenarioVM, read_load, read_template, read_vm
from costguard_sandbox.world import World


@dataclass(frozen=True, slots=True)
class ScenarioGroup:
    """A group, or with a cluster the node pool `name` of a zone. `smallest`: an autoscaler removes idle nodes."""

    project: str
    place: str  # a zone; of a group also a region
    name: str
    template: dict[str, Any]
    size: int
    made_ago: timedelta
    load: Load
    cluster: str = ""
    repairs: bool = True
    smallest: int | None = None

    def make(self, world: World) -> None:
        for vm in self._made(world).vms:
            with suppress(Refused):  # there may be no room for it
                world.set_load(self.project, vm.name, self.load)

    def _made(self, world: World) -> Group:
        if self.cluster:
            at = (self.project, self.place, self.cluster, self.name)
            return make_pool(world, *at, self.template, self.size, smallest=self.smallest)
        scope = f"{'zones' if self.place in ZONES else 'regions'}/{self.place}"
        return make_group(world, self.project, scope, self.name, self.template, self.size, repairs=self.repairs)


def read_group(keys: Keys, projects: tuple[str, ...]) -> ScenarioGroup:
    """Reads a table [[group]]: the keys of a VM, with a zone or region as its `place`."""
    place = keys.text("place")
    zones = (place,) if place in ZONES else zones_of(place)
    if not zones:
        raise keys.wrong("place", f"a zone or region of Google's such as us-central1, not {place!r}")
    repairs = keys.flag("repairs") if keys.has("repairs") else True
    return replace(_read(keys, projects, place, zones[0], keys.text("name")), repairs=repairs)


def read_pool(keys: Keys, projects: tuple[str, ...]) -> ScenarioGroup:
    """Reads a table [[pool]]: the keys of a VM, with its cluster; `smallest` has an autoscaler watch it."""
    zone, cluster = keys.text("zone"), keys.text("cluster")
    if zone not in ZONES:
        raise keys.wrong("zone", f"a zone of Google's such as us-central1-a, not {zone!r}")
    smallest = keys.whole("smallest") if keys.has("smallest") else None
    return replace(_read(keys, projects, zone, zone, keys.text("name")), cluster=cluster, smallest=smallest)


def _read(keys: Keys, projects: tuple[str, ...], place: str, zone: str, name: str) -> ScenarioGroup:
    group = ScenarioGroup(
        keys.choice("project", projects),
        place,
        name,
        read_template(keys, zone),
        keys.whole("size"),
        keys.duration("made", ago=True),
        read_load(keys) if keys.has("load") else Load.BUSY,
    )
    keys.done()
    return group


def read_notebook(keys: Keys, projects: tuple[str, ...]) -> ScenarioVM:
    """Reads a table [[notebook]]: a VM with the labels and metadata that Workbench gives it, made in its name."""
    vm = read_vm(keys, projects)
    labels = {"notebooks-product": "workbench-instances", "resource-name": vm.name, **vm.body["labels"]}
    metadata = {"items": [{"key": "notebooks-api", "value": "PROD"}]}
    return replace(vm, creator=notebooks_agent(vm.project), body={**vm.body, "labels": labels, "metadata": metadata})
