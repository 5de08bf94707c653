"""Changes of one VM that take effect when the request is accepted, with the checks of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from costguard_sandbox.gce.catalogue import machine_types
from costguard_sandbox.gce.checks import check_labels, check_metadata, check_name
from costguard_sandbox.gce.disks import find_device
from costguard_sandbox.gce.errors import bad_request, condition_not_met
from costguard_sandbox.gce.insertion import read_scheduling, read_shape
from costguard_sandbox.gce.operations import Failure
from costguard_sandbox.gce.render import fingerprint
from costguard_sandbox.gce.vm import VM, Status

Change = Callable[[VM], Failure | None]
"""Raises Refused for the request, or returns why the operation of an accepted request fails."""


def labels(wanted: Mapping[str, Any], seen: str) -> Change:
    """Replaces all labels, if the fingerprint is that of the present ones."""

    def change(vm: VM) -> None:
        if seen != fingerprint(vm.given.get("labels") or {}):
            raise condition_not_met("Labels fingerprint either invalid or resource labels have changed")
        check_labels(wanted)
        vm.given["labels"] = dict(wanted)

    return change


def metadata(wanted: Mapping[str, Any]) -> Change:
    def change(vm: VM) -> None:
        present = (vm.given.get("metadata") or {}).get("items") or []
        if wanted.get("fingerprint") != fingerprint(present):
            raise condition_not_met("Supplied fingerprint does not match current metadata fingerprint.")
        items = wanted.get("items") or []
        check_metadata(items)
        vm.given["metadata"] = {"items": [dict(item) for item in items]}

    return change


def scheduling(wanted: Mapping[str, Any]) -> Change:
    """The run-time limit can only be changed while the VM is stopped."""

    def change(vm: VM) -> None:
        whole = read_scheduling({**vm.scheduling, **wanted}, has_gpu=vm.shape.gpu_count > 0)
        limits = ("maxRunDuration", "terminationTime")
        if vm.status is not Status.TERMINATED and any(whole.get(key) != vm.scheduling.get(key) for key in limits):
            raise bad_request("Instance must be stopped to change its maxRunDuration or terminationTime.")
        vm.given["scheduling"] = whole

    return change


def tags(wanted: Mapping[str, Any]) -> Change:
    """Replaces all network tags, if the fingerprint is that of the present ones."""

    def change(vm: VM) -> None:
        if wanted.get("fingerprint") != fingerprint((vm.given.get("tags") or {}).get("items") or []):
            raise condition_not_met("Supplied fingerprint does not match current tags fingerprint.")
        items = [str(item) for item in wanted.get("items") or []]
        for index, item in enumerate(items):
            check_name(f"resource.tags.items[{index}]", item)
        vm.given["tags"] = {"items": items}

    return change


def machine_type(wanted: Mapping[str, Any]) -> Change:
    """Changes the machine type, only of a stopped VM; for any other, the operation fails (libcloud, recorded 2016)."""

    def change(vm: VM) -> Failure | None:
        machine = str(wanted.get("machineType") or "")
        built_in = machine_types.find(vm.zone, vm.shape.machine_type)
        body = {**vm.given, "machineType": machine}
        if built_in is not None and built_in.accelerators:
            body.pop("guestAccelerators", None)
        shape, accelerators = read_shape(vm.project, vm.zone, body)
        if vm.status is not Status.TERMINATED:
            return Failure("RESOURCE_NOT_READY", f"The resource '{vm.target.resource}' is not ready", 400)
        read_scheduling(vm.scheduling, has_gpu=shape.gpu_count > 0)
        vm.shape = shape
        vm.given = {**body, "guestAccelerators": accelerators} if accelerators else body
        return None

    return change


def deletion_protection(*, on: bool) -> Change:
    def change(vm: VM) -> None:
        vm.given["deletionProtection"] = on

    return change


def disk_auto_delete(device_name: str, *, auto_delete: bool) -> Change:
    def change(vm: VM) -> None:
        held = find_device(vm, device_name)
        others = (one for one in vm.attachments if one is not held)
        kept = (*others, replace(held, auto_delete=auto_delete))
        vm.attachments = tuple(sorted(kept, key=lambda one: one.index))

    return change
