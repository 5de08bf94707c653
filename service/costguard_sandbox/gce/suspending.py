"""Which VMs Compute Engine does not suspend, or does not stop without a choice, and what it says."""

from __future__ import annotations

from costguard_sandbox.gce.errors import bad_request
from costguard_sandbox.gce.operations import Failure
from costguard_sandbox.gce.vm import VM, Status

_CODE = "UNSUPPORTED_OPERATION"
_MOST_MEMORY_MB = 208 << 10
# Words and code: Google, "Troubleshooting suspend and resume", "Invalid instance state".
_STATES = {
    Status.TERMINATED: "You cannot suspend an instance that is stopped or terminated.",
    Status.STOPPING: "You cannot suspend an instance that is stopped or terminated.",
    Status.REPAIRING: "You cannot suspend an instance that is being repaired.",
    Status.SUSPENDED: "You cannot suspend an already suspended instance.",
    Status.SUSPENDING: "You cannot suspend an already suspended instance.",
}


def refuse_without_choice(vm: VM, discards_local_ssd: bool | None) -> None:
    """A stop or suspend of a VM with local SSDs has to say what becomes of their data.

    Words and reason: skypilot-org/skypilot issue 2586, openshift/installer pull request 8649.
    """
    if vm.shape.local_ssd_gib and discards_local_ssd is None:
        raise bad_request(
            "VM has a Local SSD attached but an undefined value for `discard-local-ssd`. If using gcloud, please add"
            " `--discard-local-ssd=false` or `--discard-local-ssd=true` to your command.",
        )


def cannot_suspend(vm: VM) -> Failure | None:
    """Why the operation fails; None where the VM can be suspended.

    The limits are those of Google's "Suspend or resume a Compute Engine instance", "Limitations": no GPUs, no
    Confidential VM, 208 GB of memory at the most. Only the words about states are Google's; the others follow them.
    """
    if vm.status is not Status.RUNNING:
        said = _STATES.get(vm.status, "You can only suspend an instance that is running.")
        return Failure(_CODE, said, 400)
    if vm.shape.gpu_count:
        return Failure(_CODE, "You cannot suspend an instance that has GPUs attached.", 400)
    if vm.is_confidential:
        return Failure(_CODE, "You cannot suspend a Confidential VM instance.", 400)
    if vm.shape.memory_mb > _MOST_MEMORY_MB:
        return Failure(_CODE, "You cannot suspend an instance that has more than 208 GB of memory.", 400)
    return None
