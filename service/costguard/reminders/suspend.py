"""Which VMs Google suspends."""

from __future__ import annotations

from costguard.model.instance import Shape

_MOST_GIB = 208


def never_suspended(shape: Shape) -> str:
    """Why Google never suspends a VM of this shape; "" where it may. A guest that knows no sleep refuses all the same.

    Local SSDs would have to be given up or copied, which nobody is asked about.
    """
    if shape.gpu_count > 0:
        return "Google does not suspend VMs with GPUs"
    if shape.local_ssd_gib > 0:
        return "Google does not suspend VMs with local SSDs"
    if shape.memory_mib > _MOST_GIB * 1024:
        return f"Google does not suspend VMs with more than {_MOST_GIB} GB of memory"
    return "Google does not suspend bare metal machines" if shape.machine_type.endswith("-metal") else ""
