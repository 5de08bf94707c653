"""Which VMs Google suspends."""

from __future__ import annotations

from costguard.model.instance import Shape
from costguard.reminders.suspend import never_suspended


def test_what_google_never_suspends() -> None:
    """By its GPUs, its local SSDs, its memory or its metal; 208 GB are not too much yet."""
    cases = (
        (Shape("n2-standard-4", 4, 16 * 1024), ""),
        (Shape("n1-highmem-32", 32, 208 * 1024), ""),
        (Shape("m1-megamem-96", 96, 1433 * 1024), "Google does not suspend VMs with more than 208 GB of memory"),
        (Shape("n1-standard-4", 4, 15 * 1024, "nvidia-tesla-t4", 1), "Google does not suspend VMs with GPUs"),
        (
            Shape("n2-standard-4", 4, 16 * 1024, local_ssd_gib=375),
            "Google does not suspend VMs with local SSDs",
        ),
        (Shape("c3-standard-192-metal", 192, 100 * 1024), "Google does not suspend bare metal machines"),
        (Shape("something-new", 0, 0), ""),
    )
    for shape, why in cases:
        assert never_suspended(shape) == why
