"""Google's own record of how often Spot VMs of a machine type were preempted in a zone: `advice.capacityHistory`.

https://docs.cloud.google.com/compute/docs/reference/rest/v1/advice/capacityHistory: a POST to the region; daily records
of the last 30 days, each the VMs that were preempted among those that stopped running. It knows no N1 with attached
GPUs, no custom types and no TPUs.
"""

from __future__ import annotations

from statistics import fmean

from costguard.gce.official import Official


def preemption_rate(official: Official, project: str, zone: str, machine_type: str) -> float | None:
    """Returns the rate from 0 to 1, the mean of the recorded days; None where Google has none. Raises CloudError."""
    answer = official.capacity_history(project, zone, machine_type)
    rates = [
        record.preemption_rate
        for record in answer.preemption_history
        if "preemption_rate" in record and 0 <= record.preemption_rate <= 1
    ]
    return fmean(rates) if rates else None
