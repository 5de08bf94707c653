"""A VM to be made, in the words of google-cloud-compute."""

from __future__ import annotations

from typing import Any

from costguard.model.instance import ProvisioningModel
from costguard.model.launch import Recipe, VmRequest

_ADDRESS = {"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}


def vm_body(zone: str, vm: VmRequest, *, has_local_ssds: bool = False) -> dict[str, Any]:
    """What an insert call says. Every VM has its own end, which Google keeps whether the guard lives or not."""
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
        "scheduling": {
            "provisioning_model": "SPOT" if vm.provisioning_model is ProvisioningModel.SPOT else "STANDARD",
            "instance_termination_action": "STOP" if vm.keeps_disk else "DELETE",
            # VMs with GPUs cannot be moved; that one of them comes back is decided by the guard alone.
            "on_host_maintenance": "TERMINATE",
            "automatic_restart": False,
            "max_run_duration": {"seconds": int(vm.max_run.total_seconds())},
        },
        "labels": {**recipe.labels, **vm.labels},
        "metadata": {"items": [{"key": key, "value": value} for key, value in vm.metadata.items()]},
    }
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


def _network(zone: str, recipe: Recipe) -> dict[str, Any]:
    """A subnetwork's name alone means the one of that name in the VM's region; it says what its network is."""
    subnetwork = recipe.subnetwork
    if subnetwork and "/" not in subnetwork:
        subnetwork = f"regions/{zone.rpartition('-')[0]}/subnetworks/{subnetwork}"
    interface: dict[str, Any] = {"subnetwork": subnetwork} if subnetwork else {"network": recipe.network}
    if recipe.external_address:
        interface["access_configs"] = [_ADDRESS]
    return interface
