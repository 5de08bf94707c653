"""Compute Engine as the executor's `Actuator` and `Launcher`: look at, create, start, stop and delete a VM."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from costguard.errors import BadAnswer, CloudError, RequestRefused
from costguard.gce import placement_policies
from costguard.gce.convert import status_of
from costguard.gce.errors import LAUNCHING
from costguard.gce.fields import Garbled, moment_or_none
from costguard.gce.machine_types import MachineTypes
from costguard.gce.networks import way_out
from costguard.gce.official import Official
from costguard.gce.reserved_model import is_bound
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import SHORTEST_WAIT, OperationAnswer, PolicyAnswer, Quota, Recipe, VmRequest, WayOut
from costguard.model.managed.origin import origin_of
from costguard.model.observation import Sighting
from costguard.model.ports import VmGroups

log = logging.getLogger(__name__)


class ComputeActuator:
    """Thread-safe. Nothing is repeated here: whether to ask again is for the caller to decide.

    CloudUnavailable means that it may have begun; after any other CloudError it has not.
    """

    def __init__(self, official: Official) -> None:
        self._official = official

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        """The VM that has this address now; None where there is none."""
        instance = self._official.instance(project, zone, name)
        if instance is None:
            return None
        try:
            started_at = moment_or_none(instance.last_start_timestamp)
        except Garbled as error:
            raise BadAnswer(
                f"Reading instance {name} in {zone} of project {project}: its last start {error}."
            ) from None
        items = ({"key": item.key, "value": item.value} for item in instance.metadata.items)
        status = status_of(instance.status)
        notice = timedelta(seconds=instance.scheduling.preemption_notice_duration.seconds)
        return Sighting(str(instance.id), status, started_at, dict(instance.labels), origin_of(items), notice)

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to stop it. The operation's id. By its numeric id, no other VM can be stopped instead."""
        return self._official.begin("stop", project, zone, instance, request_id)


_ADDRESS = {"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}


def vm_body(zone: str, vm: VmRequest, *, has_local_ssds: bool = False, is_bound: bool = False) -> dict[str, Any]:
    """Makes the body of an insert call. Every VM has its own end, which Google keeps whether the guard lives or not.

    `is_bound`: its reservation ends its VMs, as in calendar mode, or is dense (see `reservations`).
    """
    recipe = vm.recipe
    body: dict[str, Any] = {
        "name": vm.name,
        "machine_type": f"zones/{zone}/machineTypes/{recipe.machine_type}",
        "disks": [
            {
                "boot": True,
                "auto_delete": True,
                "initialize_params": {
                    "source_image": recipe.image,
                    "disk_size_gb": recipe.disk_gib,
                    "disk_type": f"zones/{zone}/diskTypes/{recipe.disk_type}",
                },
            }
        ],
        "network_interfaces": [_network(zone, recipe)],
        "scheduling": _scheduling(vm, is_bound=is_bound),
        "labels": {**recipe.labels, **vm.labels},
        "metadata": {"items": [{"key": key, "value": value} for key, value in vm.metadata.items()]},
    }
    if affinity := _affinity(vm):
        body["reservation_affinity"] = affinity
    if vm.provisioning_model is ProvisioningModel.FLEX_START and vm.wait >= SHORTEST_WAIT:
        body["params"] = {"request_valid_for_duration": {"seconds": int(vm.wait.total_seconds())}}
    if vm.notice:
        # Spot alone may have it: `gcloud compute instances create --help`, --preemption-notice-duration.
        body["scheduling"]["preemption_notice_duration"] = {"seconds": int(vm.notice.total_seconds())}
    if vm.keeps_disk and has_local_ssds:
        # Google demands this of VMs that have local SSDs, and refuses it for others: see the help of
        # `gcloud compute instances create --discard-local-ssds-at-termination-timestamp`.
        body["scheduling"]["on_instance_stop_action"] = {"discard_local_ssd": True}
    if recipe.attaches_gpus and recipe.gpu_count:
        kind = f"zones/{zone}/acceleratorTypes/{recipe.gpu_type}"
        body["guest_accelerators"] = [{"accelerator_type": kind, "accelerator_count": recipe.gpu_count}]
    if recipe.service_account:
        body["service_accounts"] = [{"email": recipe.service_account, "scopes": list(recipe.scopes)}]
    return body


def _scheduling(vm: VmRequest, *, is_bound: bool) -> dict[str, Any]:
    """Returns how Google provisions the VM, and how it ends it."""
    scheduling: dict[str, Any] = {
        "provisioning_model": _MODELS.get(vm.provisioning_model, "RESERVATION_BOUND" if is_bound else "STANDARD"),
        "instance_termination_action": "STOP" if vm.keeps_disk else "DELETE",
        # VMs with GPUs cannot be moved; that one of them comes back is decided by the guard alone.
        "on_host_maintenance": "TERMINATE",
        "automatic_restart": False,
    }
    if not is_bound:
        scheduling["max_run_duration"] = {"seconds": int(vm.max_run.total_seconds())}
    return scheduling


# What is reserved is bought as STANDARD from an ordinary reservation: RESERVATION_BOUND is "only" for one "with either
# a calendar reservation mode or a dense deployment type" (`gcloud compute instances create --help`,
# --provisioning-model), and its VM ends with the reservation: Google's requests give it no maxRunDuration, and until
# then it costs nothing that the reservation does not ("About instances that use the reservation-bound model").
_MODELS = {
    ProvisioningModel.STANDARD: "STANDARD",
    ProvisioningModel.SPOT: "SPOT",
    ProvisioningModel.FLEX_START: "FLEX_START",
}


def _affinity(vm: VmRequest) -> dict[str, Any]:
    """Returns which reservation the VM may use; empty is Google's default: any that fits and is open to all VMs."""
    if vm.provisioning_model is ProvisioningModel.FLEX_START:
        return {"consume_reservation_type": "NO_RESERVATION"}  # "About Flex-start VMs": they cannot use one
    if vm.provisioning_model is not ProvisioningModel.RESERVATION_BOUND:
        return {}
    return {
        "consume_reservation_type": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [vm.reservation],
    }


def _network(zone: str, recipe: Recipe) -> dict[str, Any]:
    """A subnetwork's name alone means the one of that name in the VM's region; it says what its network is."""
    subnetwork = recipe.subnetwork
    if subnetwork and "/" not in subnetwork:
        subnetwork = f"regions/{zone.rpartition('-')[0]}/subnetworks/{subnetwork}"
    interface: dict[str, Any] = {"subnetwork": subnetwork} if subnetwork else {"network": recipe.network}
    if recipe.external_address is not False:
        interface["access_configs"] = [_ADDRESS]
    return interface


class ComputeLauncher:
    """Thread-safe. Nothing is repeated here: whether to ask again is for the caller to decide.

    CloudUnavailable means that it may have begun; after any other CloudError it has not.
    """

    def __init__(self, official: Official, types: MachineTypes, groups: VmGroups) -> None:
        self._official = official
        self._types = types
        self._actuator = ComputeActuator(official)
        self._groups = groups

    @property
    def groups(self) -> VmGroups:
        """The groups by which VMs are requested all at once."""
        return self._groups

    def look(self, project: str, zone: str, name: str) -> Sighting | None:
        """The VM that has this address now; None where there is none."""
        return self._actuator.look(project, zone, name)

    def insert(self, project: str, zone: str, vm: VmRequest, request_id: str) -> str:
        """Begin to make it. The operation's id.

        RequestRefused as well where something that the request names, such as its image, is not there.
        """
        # A type that cannot be read is taken to have none: where that is wrong, Google refuses and says so.
        shape = self._types.shape(project, zone, vm.recipe.machine_type) if vm.keeps_disk else None
        has_local_ssds = shape is not None and shape.local_ssd_gib > 0
        is_bound = bool(vm.reservation) and self._is_bound(project, zone, vm.reservation)
        body = vm_body(zone, vm, has_local_ssds=has_local_ssds, is_bound=is_bound)
        if vm.placement_policy:
            placement_policies.named_in(body, project, zone, vm.placement_policy)
        return self._official.insert(project, zone, body, request_id)

    def _is_bound(self, project: str, zone: str, reservation: str) -> bool:
        """Where Google does not say it, it is taken to be an ordinary one: where that is wrong, Google refuses."""
        try:
            return is_bound(self._official, project, zone, reservation)
        except RequestRefused:
            raise
        except CloudError as error:
            log.warning("whether reservation %s in %s ends its VMs is not known: %s", reservation, zone, error)
            return False

    def start(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to start a VM that was stopped. The operation's id."""
        return self._official.begin("start", project, zone, instance, request_id, LAUNCHING)

    def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to stop it, its disks kept. The operation's id. By its numeric id, no other VM is stopped instead."""
        return self._official.begin("stop", project, zone, instance, request_id, LAUNCHING)

    def delete(self, project: str, zone: str, instance: str, request_id: str) -> str:
        """Begin to delete it. The operation's id. By its numeric id, no other VM can be deleted instead."""
        return self._official.begin("delete", project, zone, instance, request_id, LAUNCHING)

    def operation(self, project: str, zone: str, operation: str) -> OperationAnswer | None:
        """Returns the progress of an operation; None where Google does not know it (any more)."""
        body = self._official.operation(project, zone, operation)
        return None if body is None else answer_of(body)

    def quotas(self, project: str, region: str) -> Mapping[str, Quota]:
        """The region's, by metric, as Google counts them now."""
        read = self._official.region(project, region)
        return {quota.metric: Quota(quota.metric, quota.limit, quota.usage) for quota in read.quotas}

    def way_out(self, project: str, region: str, network: str, subnetwork: str) -> WayOut:
        """Returns how VMs without external addresses get out of this subnetwork; "" is the one Google would choose."""
        return way_out(self._official, project, region, network, subnetwork)

    def placement_policy(self, project: str, region: str, name: str) -> PolicyAnswer | None:
        """The placement policy of this name; None where there is none."""
        return placement_policies.read(self._official, project, region, name)

    def make_placement_policy(self, project: str, region: str, name: str, description: str, request_id: str) -> None:
        """Begin to make a compact one."""
        placement_policies.make(self._official, project, region, name, description, request_id)

    def delete_placement_policy(self, project: str, region: str, name: str, request_id: str) -> None:
        """Begin to delete it."""
        placement_policies.delete(self._official, project, region, name, request_id)


def answer_of(operation: Any) -> OperationAnswer:
    """Reads an operation as Google's client gives it."""
    error = next(iter(operation.error.errors), None)
    return OperationAnswer(
        is_done=operation.status == operation.Status.DONE,
        target_id=str(operation.target_id or ""),
        # Some failures have nothing but an HTTP status.
        error_code=error.code if error else str(operation.http_error_status_code or ""),
        error_message=(_said(error) if error else "") or operation.http_error_message,
        zones_available=_zones_available(error) if error else (),
    )


def _said(error: Any) -> str:
    """Google's words for people, where it has some; of a stockout, they alone say what is to be had elsewhere."""
    texts = (detail.localized_message.message for detail in error.error_details)
    return next((text for text in texts if text), None) or str(error.message)


def _zones_available(error: Any) -> tuple[str, ...]:
    """Returns the zones in which a stockout says that there is room.

    Compute writes `metadatas` where other APIs write `metadata`.
    """
    named = (detail.error_info.metadatas.get("zonesAvailable", "") for detail in error.error_details)
    zones = (zone.strip() for text in named for zone in text.split(","))
    return tuple(dict.fromkeys(zone for zone in zones if _ZONE.fullmatch(zone)))


_ZONE = re.compile(r"[a-z]+(-[a-z0-9]+)+")
