"""Holds what Asset Inventory knows of the simulated cloud: an index that lags behind the projects and their VMs.

Shapes by the discovery document of cloudasset v1 (`ResourceSearchResult`) and by recorded answers: `project` is always
the number; names of Compute Engine's resources have the project's id, those of TPU nodes its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.cloud import Cloud

INSTANCE = "compute.googleapis.com/Instance"
RESERVATION = "compute.googleapis.com/Reservation"
TPU_NODE = "tpu.googleapis.com/Node"
PROJECT = "cloudresourcemanager.googleapis.com/Project"
DISK = "compute.googleapis.com/Disk"
SUPPORTED = (INSTANCE, RESERVATION, TPU_NODE, PROJECT, DISK)


@dataclass
class AssetIndex:
    """`lag` is how long what is made stays unseen, and what is gone stays seen. Callers hold the cloud's lock.

    `folders` names the folder of projects; those that have none are right below the organisation. `hidden` projects
    are in no answer, whatever they hold. Projects in `nameless` are shown by number alone.
    """

    organization: str = "123456789012"
    folders: dict[str, str] = field(default_factory=dict)
    lag: timedelta = timedelta(minutes=2)
    hidden: set[str] = field(default_factory=set)
    nameless: set[str] = field(default_factory=set)

    def holds(self, place: str, project: str) -> bool:
        """Says whether a project is in `organizations/N` or `folders/N`."""
        kind, _, number = place.partition("/")
        return number == self.organization if kind == "organizations" else self.folders.get(project) == number

    def holds_in(self, place: str, project: str) -> bool:
        """The same for a project, too: `projects/P`."""
        kind, _, name = place.partition("/")
        return project == name if kind == "projects" else self.holds(place, project)

    def is_known(self, place: str) -> bool:
        kind, _, number = place.partition("/")
        return number == self.organization if kind == "organizations" else number in self.folders.values()

    def search(self, cloud: Cloud, place: str, kinds: frozenset[str]) -> list[dict[str, Any]]:
        """All results in one order, by name."""
        seen_until = cloud.timeline.now - self.lag
        results = [
            one
            for kind, project, name, at in _assets(cloud, seen_until)
            if kind in kinds and project not in self.hidden and self.holds(place, project)
            for one in (self._result(kind, project, name, at),)
        ]
        return sorted(results, key=lambda one: (str(one["name"]), str(one["assetType"])))

    def _result(self, kind: str, project: str, name: str, at: datetime | None) -> dict[str, Any]:
        number = project_number(project)
        shown = str(number) if project in self.nameless else project
        parent = f"//cloudresourcemanager.googleapis.com/projects/{shown}"
        folder = self.folders.get(project)
        above: Mapping[str, Any] = {"folders": [f"folders/{folder}"]} if folder else {}
        result: dict[str, Any] = {
            "name": name.replace("{id}", shown).replace("{number}", str(number)),
            "assetType": kind,
            "project": f"projects/{number}",
            "displayName": name.rpartition("/")[2].replace("{id}", project),
            **above,
            "organization": f"organizations/{self.organization}",
        }
        if kind == PROJECT:
            result["state"] = "ACTIVE"
            if project not in self.nameless:
                result["additionalAttributes"] = {"projectId": project}
        else:
            result |= {"parentFullResourceName": parent, "parentAssetType": PROJECT}
        if at is not None:
            result["createTime"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return result


def _assets(cloud: Cloud, seen_until: datetime) -> Iterator[tuple[str, str, str, datetime | None]]:
    """Kind, project, name and creation of all that the index shows. `{id}` and `{number}` stand for the project."""
    for project in cloud.projects:
        yield PROJECT, project, "//cloudresourcemanager.googleapis.com/projects/{id}", None
    for vm in cloud.every_vm():
        if vm.created_at <= seen_until and (vm.deleted_at is None or vm.deleted_at > seen_until):
            name = f"//compute.googleapis.com/projects/{{id}}/zones/{vm.zone}/instances/{vm.name}"
            yield INSTANCE, vm.project, name, vm.created_at
            yield DISK, vm.project, name.replace("/instances/", "/disks/"), vm.created_at
    for project in sorted(cloud.tpus.enabled):
        for node in cloud.tpus.nodes(project, "-"):
            if node.created_at <= seen_until:
                name = f"//tpu.googleapis.com/projects/{{number}}/locations/{node.zone}/nodes/{node.name}"
                yield TPU_NODE, project, name, node.created_at
    for one in cloud.belongings:
        if one.kind == "reservation" and one.created_at <= seen_until:
            name = f"//compute.googleapis.com/projects/{{id}}/zones/{one.place}/reservations/{one.name}"
            yield RESERVATION, one.project, name, one.created_at
