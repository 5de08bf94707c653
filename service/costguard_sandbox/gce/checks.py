"""Checks that Compute Engine makes before it accepts a request: Refused means that no operation began."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from costguard_sandbox.gce.catalogue import disks, machine_types
from costguard_sandbox.gce.errors import Refused, bad_request, invalid, not_found
from costguard_sandbox.gce.operations import Failure
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.vm import VM, Disk, Status

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9_-]{0,63}")

_MOST_VALUE_CHARACTERS, _MOST_CHARACTERS = 256 << 10, 512 << 10
_MOST_LABELS = 64
_CHOICES: Mapping[str, Sequence[str]] = {
    "provisioningModel": ("STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND"),
    "instanceTerminationAction": ("STOP", "DELETE"),
    "onHostMaintenance": ("MIGRATE", "TERMINATE"),
}
_CONFIDENTIAL: Mapping[str, tuple[str, ...]] = {
    "SEV": ("n2d-", "c2d-", "c3d-", "c4d-"),
    "SEV_SNP": ("n2d-",),
    "TDX": ("c3-standard-", "a3-highgpu-1g"),
}
_COUNTS = (1, 2, 4, 8, 16)
_READ_ONLY = "READ_ONLY"
_MOST_MEMORY_MB = 208 << 10
# Words and code: Google, "Troubleshooting suspend and resume", "Invalid instance state".
_CANNOT_SUSPEND = {
    Status.TERMINATED: "You cannot suspend an instance that is stopped or terminated.",
    Status.STOPPING: "You cannot suspend an instance that is stopped or terminated.",
    Status.REPAIRING: "You cannot suspend an instance that is being repaired.",
    Status.SUSPENDED: "You cannot suspend an already suspended instance.",
    Status.SUSPENDING: "You cannot suspend an already suspended instance.",
}


def check_name(field: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise invalid(field, name, f"Must be a match of regex '{NAME.pattern}'")


def whole_number(field: str, value: object) -> int:
    """A size of at least 1."""
    try:
        size = int(str(value))
    except ValueError:
        raise invalid(field, value, "Must be a whole number.") from None
    if size < 1:
        raise invalid(field, value, "Must be at least 1.")
    return size


def check_labels(labels: Mapping[str, Any]) -> None:
    for key, value in labels.items():
        if not key or not key[0].isalpha() or not _LABEL.fullmatch(key) or not _LABEL.fullmatch(str(value)):
            raise invalid(
                "resource.labels",
                f"{key}={value}",
                "Only hyphens (-), underscores (_), lowercase characters, and numbers are allowed. "
                "Keys must start with a lowercase character, and neither may be longer than 63.",
            )


def check_body(zone: str, body: Mapping[str, Any]) -> None:
    """Every check that does not depend on the machine type."""
    link = str(body.get("machineType", ""))
    if "zones/" in link and f"zones/{zone}/" not in link:
        raise invalid("resource.machineType", link, f"The machine type must be one of zone {zone}.")
    labels = body.get("labels") or {}
    if len(labels) > _MOST_LABELS:
        raise invalid("resource.labels", f"{len(labels)} labels", f"At most {_MOST_LABELS} labels are allowed.")
    check_metadata((body.get("metadata") or {}).get("items") or [])
    if not body.get("networkInterfaces"):
        raise invalid("resource.networkInterfaces", "", "At least one network interface is required.")
    _check_confidential(body)
    for account in body.get("serviceAccounts") or ():
        if not account.get("scopes"):
            raise invalid("resource.serviceAccounts[0].scopes", "", "At least one scope is required.")


def check_stop_action(scheduling: Mapping[str, Any], *, has_local_ssds: bool) -> None:
    """`gcloud compute instances create --help`, --discard-local-ssds-at-termination-timestamp: when it must be true.

    Google's wording of the refusal is not public; this wording is ours.
    """
    discards = (scheduling.get("onInstanceStopAction") or {}).get("discardLocalSsd")
    is_limited = bool(scheduling.get("maxRunDuration") or scheduling.get("terminationTime"))
    is_stopped = scheduling.get("instanceTerminationAction") == "STOP"
    is_needed = has_local_ssds and is_limited and is_stopped
    if is_needed and discards is not True:
        why = "Must be true for an instance with local SSDs that is stopped at its termination time."
        raise invalid("resource.scheduling.onInstanceStopAction.discardLocalSsd", discards or "", why)
    if discards is not None and not is_needed:
        why = "Only for an instance with local SSDs that is stopped at its termination time."
        raise invalid("resource.scheduling.onInstanceStopAction.discardLocalSsd", discards, why)


def _check_confidential(body: Mapping[str, Any]) -> None:
    """Google, Confidential VM, "Supported configurations": which machine series have which technology.

    The field's form in the message is the one of os-autoinst-distri-opensuse pull request 21997; its reason is ours.
    """
    config: Mapping[str, Any] = body.get("confidentialInstanceConfig") or {}
    technology = str(config.get("confidentialInstanceType") or "")
    if not technology and config.get("enableConfidentialCompute"):
        technology = "SEV"
    if not technology:
        return
    machine = last_part(str(body.get("machineType", "")))
    if not machine.startswith(_CONFIDENTIAL.get(technology, ())):
        shown = json.dumps(dict(config), indent=2)
        why = f"Confidential Instance Config with {technology} is not supported on machine type {machine}."
        raise invalid("resource.confidentialInstanceConfig", shown, why)
    # An N2D VM with SEV may migrate; all others are stopped for maintenance.
    maintenance = (body.get("scheduling") or {}).get("onHostMaintenance")
    if maintenance != "TERMINATE" and not (technology == "SEV" and machine.startswith("n2d-")):
        raise bad_request("Confidential VM instances of this kind need onHostMaintenance=TERMINATE.")


def check_metadata(items: Sequence[Mapping[str, Any]]) -> None:
    keys = [str(item.get("key", "")) for item in items]
    if len(set(keys)) != len(keys):
        raise Refused(400, "invalid", "Metadata has duplicate keys.")
    sizes = [len(str(item.get("value", ""))) for item in items]
    for index, size in enumerate(sizes):
        if size > _MOST_VALUE_CHARACTERS:
            raise _too_large(f"resource.metadata.items[{index}].value", _MOST_VALUE_CHARACTERS, size)
    if sum(sizes) + sum(map(len, keys)) > _MOST_CHARACTERS:
        raise _too_large("resource.metadata", _MOST_CHARACTERS, sum(sizes) + sum(map(len, keys)))


def check_choices(scheduling: Mapping[str, Any]) -> None:
    for key, choices in _CHOICES.items():
        if scheduling.get(key) and scheduling[key] not in choices:
            raise invalid(f"resource.scheduling.{key}", scheduling[key], f"Must be one of {', '.join(choices)}.")


def check_model(scheduling: Mapping[str, Any], sold: Sequence[str]) -> None:
    """Checks that the machine type is sold in the requested provisioning model.

    No record of Google's wording was found; this one follows its refusal of onHostMaintenance, "Scheduling must have
    onHostMaintenance be one of the following valid types: [TERMINATE]. But was MIGRATE".
    """
    check_choices(scheduling)
    field = "provisioningModel"
    model = scheduling.get(field) or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    if model not in sold:
        valid = ", ".join(sold)
        text = f"Scheduling must have {field} be one of the following valid types: [{valid}]. But was {model}"
        raise invalid(f"resource.scheduling.{field}", model, text)


def check_preemption_notice(notice: Mapping[str, Any] | None, *, spot: bool) -> None:
    """Google's "Spot VMs", "Preemption process": the notice is 120 s or 0 s, and for Spot VMs alone.

    Google's wording of the refusal is not public; this wording is ours.
    """
    field = "resource.scheduling.preemptionNoticeDuration"
    if notice is None:
        return
    if not spot:
        raise invalid(field, dict(notice), "Only for an instance whose provisioningModel is SPOT.")
    if str(notice.get("seconds", 0)) not in ("0", "120") or int(notice.get("nanos", 0)):
        raise invalid(f"{field}.seconds", notice.get("seconds", 0), "Must be 0 or 120.")


def check_accelerator(project: str, zone: str, kind: str, count: int) -> None:
    if kind not in machine_types.ACCELERATOR_TYPES.get(zone, ()):
        raise not_found(f"projects/{project}/zones/{zone}/acceleratorTypes/{kind}")
    if count not in _COUNTS:
        counts = ", ".join(map(str, _COUNTS))
        raise invalid("resource.guestAccelerators[0].acceleratorCount", count, f"Must be one of {counts}.")


def check_disk_params(index: int, disk_type: str, source_image: str, size_gib: int | None) -> None:
    field = f"resource.disks[{index}].initializeParams"
    if disk_type and disks.find_disk_type(last_part(disk_type)) is None:
        raise invalid(f"{field}.diskType", disk_type, "The referenced diskType resource cannot be found.")
    check_image(field, "diskSizeGb", source_image, size_gib)


def check_image(field: str, size_key: str, source_image: str, size_gib: int | None) -> None:
    """Images of other projects are accepted as they are: their size is unknown."""
    smallest = disks.smallest_disk_gib(source_image)
    if smallest is None and "/family/" in source_image:
        raise not_found(source_image[source_image.index("projects/") :])
    if smallest is None:
        raise invalid(f"{field}.sourceImage", source_image, "The referenced image resource cannot be found.")
    if size_gib is not None and size_gib < smallest:
        raise bad_request(
            f"Invalid value for field '{field}.{size_key}': '{size_gib}'. Requested disk size cannot be smaller than"
            f" the image size ({smallest} GB)"
        )


def _too_large(field: str, most: int, size: int) -> Refused:
    text = f"Value for field '{field}' is too large: maximum size {most} character(s); actual size {size}."
    return Refused(413, "fieldSizeTooLarge", text)


def check_disk_is_free(disk: Disk, mode: object = None) -> None:
    """Refuses a disk that is attached, unless every VM only reads it.

    Google's words, as quoted in hashicorp/terraform-provider-google issue 2078.
    """
    held = [one for vm in disk.users for one in vm.attachments if one.disk is disk]
    if mode == _READ_ONLY and all(one.given.get("mode") == _READ_ONLY for one in held):
        return
    if disk.users:
        text = f"The disk resource '{disk.target.resource}' is already being used by"
        raise Refused(400, "resourceInUseByAnotherResource", f"{text} '{disk.users[0].target.resource}'")


def check_local_ssd_choice(vm: VM, discards_local_ssd: bool | None) -> None:
    """A stop or suspend of a VM with local SSDs must say whether to discard their data.

    Words and reason: skypilot-org/skypilot issue 2586, openshift/installer pull request 8649.
    """
    if vm.shape.local_ssd_gib and discards_local_ssd is None:
        raise bad_request(
            "VM has a Local SSD attached but an undefined value for `discard-local-ssd`. If using gcloud, please add"
            " `--discard-local-ssd=false` or `--discard-local-ssd=true` to your command.",
        )


def suspend_failure(vm: VM) -> Failure | None:
    """Explains why a suspend operation fails; None where the VM can be suspended.

    The limits are those of Google's "Suspend or resume a Compute Engine instance", "Limitations": no GPUs, no
    Confidential VM, at most 208 GB of memory. Only the words about states are Google's; the others follow them.
    """
    if vm.status is not Status.RUNNING:
        text = _CANNOT_SUSPEND.get(vm.status, "You can only suspend an instance that is running.")
    elif vm.shape.gpu_count:
        text = "You cannot suspend an instance that has GPUs attached."
    elif vm.is_confidential:
        text = "You cannot suspend a Confidential VM instance."
    elif vm.shape.memory_mb > _MOST_MEMORY_MB:
        text = "You cannot suspend an instance that has more than 208 GB of memory."
    else:
        return None
    return Failure("UNSUPPORTED_OPERATION", text, 400)
