"""Workbench (notebooks.v2) and Cloud Workstations (workstations.v1), each with its own words.

Shapes and states: the discovery documents of notebooks v2 (revision 20261006) and workstations v1 (revision 20260923);
labels: docs.cloud.google.com/workstations/docs/label-resources. Of a stop by others Workbench learns nothing: its
instance stays ACTIVE, and its health turns to UNHEALTHY. What becomes of a stopped workstation's VM the document does
not say: here it stays, stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from costguard_sandbox.gce.catalogue.regions import project_number
from costguard_sandbox.gce.services import KeepingService, ServiceInstance, States
from costguard_sandbox.gce.vm import VM


def notebooks_agent(project: str) -> str:
    """Returns the account in whose name Workbench acts."""
    return f"service-{project_number(project)}@gcp-sa-notebooks.iam.gserviceaccount.com"


@dataclass(eq=False)
class Workbench(KeepingService):
    """Instances of Workbench, in the zones of their VMs."""

    def __post_init__(self) -> None:
        self.states = States("PROVISIONING", "ACTIVE", "STOPPING", "STOPPED", "STARTING")

    def path_of(self, vm: VM) -> str:
        labels = vm.given.get("labels") or {}
        if labels.get("notebooks-product") != "workbench-instances":
            return ""
        return f"projects/{vm.project}/locations/{vm.zone}/instances/{labels.get('resource-name') or vm.name}"

    def agent(self, project: str) -> str:
        return notebooks_agent(project)

    def find(self, project: str, location: str, name: str) -> ServiceInstance:
        """Raises Refused (404) where there is none."""
        return self.at(f"projects/{project}/locations/{location}/instances/{name}")


@dataclass(eq=False)
class Workstations(KeepingService):
    """Workstations of a configuration of a cluster, in a region."""

    def __post_init__(self) -> None:
        self.states = States("STATE_STARTING", "STATE_RUNNING", "STATE_STOPPING", "STATE_STOPPED", "STATE_STARTING")

    def path_of(self, vm: VM) -> str:
        labels = vm.given.get("labels") or {}
        named = [labels.get(f"workstation_{part}_id") for part in ("cluster", "config")] + [
            labels.get("workstation_id")
        ]
        if "goog-workstations" not in labels or not all(named):
            return ""
        location = labels.get("workstation_location") or vm.zone.rpartition("-")[0]
        cluster, config, name = named
        parent = f"projects/{vm.project}/locations/{location}/workstationClusters/{cluster}"
        return f"{parent}/workstationConfigs/{config}/workstations/{name}"

    def agent(self, project: str) -> str:
        return f"service-{project_number(project)}@gcp-sa-workstations.iam.gserviceaccount.com"
